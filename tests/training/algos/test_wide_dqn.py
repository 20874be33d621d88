"""DQN with a net so wide that silent units are left out: the same promises as with any other."""

from pathlib import Path
from typing import Any

import pytest
import torch

from rlclinic.config import Config
from rlclinic.runs.record import Run
from rlclinic.training.__main__ import train_runs
from rlclinic.training.fast import wide
from rlclinic.training.loops import off_policy
from tests.training.cohorts import REPLAY, Interrupted, assert_same_run, interrupt_at, make_config, table, train
from tests.training.replays import Bench, bench


@pytest.fixture(autouse=True)
def short_turns_count(monkeypatch: pytest.MonkeyPatch) -> None:
    """In a long turn what is rounded otherwise would have time to grow."""
    monkeypatch.setattr(wide, "LONG", 1)


def config_of(seed: int = 0, **algo: Any) -> Config:
    settings = {**REPLAY["dqn"], "batch_size": 64, "gradient_steps": 5, **algo}
    run = {"max_env_steps": 480, "eval_episodes": 0, "checkpoint_every_env_steps": 192}
    return make_config("dqn", {"max_episode_steps": 20}, seed, algo=settings, net={"hidden": [128, 128], "activation": "relu"}, run=run)


def ready(*seeds: int, **algo: Any) -> Bench:
    """A cohort that has learned for a while, so that some units have fallen silent."""
    at = bench([config_of(seed, learning_rate=1e-2, **algo) for seed in seeds])
    assert wide.pays(at.plan.nets["q"], at.plan.batch_rows, at.plan.updates_per_cycle), "otherwise nothing here is tested"
    while at.env_steps < 400:
        at.iterate()
    return at


@pytest.mark.parametrize("bound", [None, 1e-3])
def test_a_turn_is_its_updates_one_after_the_other(bound: float | None, monkeypatch: pytest.MonkeyPatch) -> None:
    found = []
    for _ in range(2):
        at = ready(0, 1, max_grad_norm=bound)
        at.learner = off_policy.copy_learner(at.learner)
        monkeypatch.setattr(at.plan.fast, "covers_updates", at.plan.fast.covers_updates if not found else lambda plan, batch: False)
        learner, readings = off_policy.learn(at.plan, at.learner, at.memory, at.numbers(), None, at.seed)
        found.append((learner, readings))
    (whole, one), (stepwise, other) = found
    for name in ("q", "target", "error", "norm"):
        assert torch.allclose(torch.stack(one[name]), torch.stack(other[name]), rtol=1e-4, atol=1e-5), name
    assert torch.allclose(whole.nets["q"], stepwise.nets["q"], atol=1e-5)
    for mine, its in zip(whole.optimizers["q"], stepwise.optimizers["q"], strict=True):
        assert torch.allclose(mine, its, rtol=1e-3, atol=1e-7)


def test_a_member_learns_the_same_bits_alone() -> None:
    together, alone = ready(0, 1, 2), ready(1)
    assert torch.equal(together.learner.nets["q"][1], alone.learner.nets["q"][0])
    for mine, its in zip(together.learner.optimizers["q"], alone.learner.optimizers["q"], strict=True):
        assert torch.equal(mine[1], its[0])


def test_a_resumed_run_is_one_that_never_stopped(tmp_path: Path) -> None:
    straight = train(tmp_path, [config_of()])[0]
    steps = [int(row["total_timesteps"]) for row in table(straight)]
    with pytest.raises(Interrupted):
        train(tmp_path, [config_of()], callback=interrupt_at(steps[-1]))
    broken = Run((straight.path.parent / "@last").resolve())
    assert 0 < broken.checkpoint("@last").step < steps[-1]
    assert train_runs([broken], resume=True)
    assert_same_run(broken, straight)

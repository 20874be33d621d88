"""The program that a CUDA graph is made of, run on a CPU: the same turns, the same learning as operation by operation."""

from pathlib import Path
from typing import Any

import pytest
import torch

from rlclinic.training.engines import captured_replay, select
from rlclinic.training.engines.captured_replay import CapturedReplay
from rlclinic.training.loops import off_policy
from tests.training.cohorts import TASKS, make_config, table, train
from tests.training.replays import of_kind

KINDS: dict[str, dict[str, Any]] = {
    "dqn": {"double": True, "n_step": 2, "learning_starts": 0},
    "td3": {"policy_delay": 3, "learning_starts": 0},
    "sac": {"target_update_interval": 2, "learning_starts": 0},
    "sac with a fixed temperature": {"learning_starts": 0},
}


@pytest.mark.parametrize("kind", KINDS)
def test_the_captured_program_does_what_the_eager_one_does(kind: str) -> None:
    eager, other = (of_kind(kind, algo=KINDS[kind]) for _ in range(2))
    engine, everyone = CapturedReplay(), torch.ones(2, 1, dtype=torch.bool)
    for _ in range(5):  # the replay is overwritten on the way
        transitions = eager.iterate()
        other.learner, taken = engine.iterate(
            other.plan, other.learner, other.env, other.position, other.memory, other.numbers(), everyone, other.seed, other.env_steps
        )
        other.env_steps = eager.env_steps
        assert torch.equal(taken.transitions.reward, transitions.reward)
        assert torch.equal(taken.transitions.obs, transitions.obs)
    assert other.memory.stored == eager.memory.stored
    assert torch.equal(other.memory.table, eager.memory.table)
    assert other.learner.updates == eager.learner.updates
    for name, flat in eager.learner.nets.items():
        assert torch.allclose(other.learner.nets[name], flat, atol=1e-5), name
    for name, flat in eager.learner.targets.items():
        assert torch.allclose(other.learner.targets[name], flat, atol=1e-5), name
    assert torch.equal(other.position.obs, eager.position.obs)


def test_a_frozen_member_stays_as_it_is() -> None:
    at = of_kind("sac", algo=KINDS["sac"])
    engine, active = CapturedReplay(), torch.tensor([[True], [False]])
    at.members[1].state = "stopped"
    before = off_policy.copy_learner(at.learner)
    after, _ = engine.iterate(at.plan, at.learner, at.env, at.position, at.memory, at.numbers(), active, at.seed, 0)
    for name, flat in before.nets.items():
        assert torch.equal(after.nets[name][1], flat[1])
        assert not torch.equal(after.nets[name][0], flat[0])


@pytest.mark.parametrize(
    ("kind", "changes", "fits"),
    [
        ("sac", {}, True),
        ("dqn", {}, True),
        ("dqn with everything", {}, False),
        ("dqn that saves memory", {}, False),
        ("ddpg", {}, False),
        ("sac", {"env": {"normalize_obs": True}}, False),
    ],
)
def test_what_the_program_does_not_cover_stays_eager(kind: str, changes: dict[str, Any], fits: bool) -> None:
    assert captured_replay.possible(of_kind(kind, **changes).plan) is fits


@pytest.mark.cuda
def test_on_a_gpu_the_graph_learns_what_the_cpu_learns(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    losses = []
    for device, engine, compiles in (("cpu", "eager", False), ("cuda", "captured", False), ("cuda", "captured", True)):
        monkeypatch.setattr(select, "compiles_replay", lambda *_, chosen=compiles: chosen)
        run = {"max_env_steps": 480, "device": device, "engine": engine}
        trained = train(tmp_path, [make_config("sac", TASKS["box"][0], algo={"train_freq": 1, "gradient_steps": 1}, run=run)])[0]
        losses.append(float(table(trained)[-1]["train/loss/critic"]))
    assert losses[1:] == [pytest.approx(losses[0], rel=0.05)] * 2

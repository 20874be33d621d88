"""The reference engine: what autograd makes of the losses is what the hand-written gradients say, and it keeps every promise of eager."""

from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file

from rlclinic.config import Config
from rlclinic.runs.record import Run
from rlclinic.training.__main__ import train_runs
from tests.training.cohorts import (
    ALGOS,
    REPLAY,
    STATES,
    TABLES,
    TASKS,
    Interrupted,
    assert_same_run,
    interrupt_at,
    make_config,
    table,
    task_of,
    train,
)

KINDS = [*ALGOS, *REPLAY, *TABLES]
EACH = ["ppo", "a2c", "reinforce", "dqn with everything", "td3", "ddpg", "sac", "q_learning"]
"""One of each algorithm: what is trained once more for its promises."""


def config_of(kind: str, engine: str, seed: int = 0, **run: Any) -> Config:
    task = "discrete" if kind in ALGOS else task_of(kind)
    settings = (STATES if task == "states" else TASKS[task])[0]
    usual = make_config(kind).run.model_dump()
    return make_config(kind, settings, seed, run={**usual, "checkpoint_every_env_steps": 40, "engine": engine, **run})


@pytest.mark.parametrize("kind", KINDS)
def test_reference_and_eager_agree_after_the_first_iteration_that_learns(tmp_path: Path, kind: str) -> None:
    steps = 100 if kind in REPLAY else make_config(kind).rollout_size
    one, other = (train(tmp_path, [config_of(kind, engine, max_env_steps=steps)])[0] for engine in ("reference", "eager"))
    assert Run(one.path).record["engine"]["kind"] == "reference"
    saved, expected = (load_file(run.checkpoint("@last").path / "policy.safetensors") for run in (one, other))
    assert saved.keys() == expected.keys()
    for name, tensor in expected.items():
        torch.testing.assert_close(saved[name], tensor, rtol=1e-3, atol=1e-4, msg=lambda text, name=name: f"{name}: {text}")
    rows, others = table(one), table(other)
    assert len(rows) == len(others) > 0
    for name, cell in rows[-1].items():
        if name.startswith(("train/loss", "train/metrics")) and cell:
            assert float(cell) == pytest.approx(float(others[-1][name]), rel=2e-3, abs=1e-4), name


@pytest.fixture(scope="module")
def trained(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], Run]:
    """A run by reference, alone and in one go: what the others are held against."""

    @cache
    def train_alone(kind: str) -> Run:
        return train(tmp_path_factory.mktemp("alone"), [config_of(kind, "reference")])[0]

    return train_alone


@pytest.mark.parametrize("kind", EACH)
def test_a_reference_run_resumes_as_if_it_had_never_stopped(trained: Callable[[str], Run], tmp_path: Path, kind: str) -> None:
    config, straight = config_of(kind, "reference"), trained(kind)
    last = int(table(straight)[-1]["total_timesteps"])
    broken: list[Run] = []

    def stop(row: dict[str, Any]) -> None:
        broken[:] = [row["run"]]
        interrupt_at(last // 2)(row)

    with pytest.raises(Interrupted):
        train(tmp_path, [config], callback=stop)
    assert train_runs(broken, resume=True)
    assert_same_run(broken[0], straight)


@pytest.mark.parametrize("kind", EACH)
def test_a_member_learns_by_reference_as_it_would_alone(trained: Callable[[str], Run], tmp_path: Path, kind: str) -> None:
    together = train(tmp_path, [config_of(kind, "reference", seed) for seed in (3, 0)])
    assert_same_run(together[1], trained(kind))

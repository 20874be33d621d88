"""Members that have left make room: the others go on as if nothing had happened, in a smaller cohort."""

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import torch

from rlclinic.config import Config
from rlclinic.runs import control
from rlclinic.runs.record import Run
from rlclinic.training import compaction
from rlclinic.training.__main__ import train_runs
from tests.training.cohorts import TASKS, Interrupted, assert_same_run, make_config, task_of, train

STOPPED = (0, 2, 3)


def config_of(kind: str, seed: int) -> Config:
    env = TASKS["discrete" if kind == "ppo" else task_of(kind)][0]
    steps = {"max_env_steps": 1_200, "checkpoint_every_env_steps": 400}
    return make_config(kind, env, seed=seed, run=steps)


class Leaving:
    """A callback that asks three of four members to stop at the first row after 300 env steps; and may raise later on."""

    def __init__(self, fails_at: int | None = None) -> None:
        self.runs: dict[int, Run] = {}
        self.fails_at = fails_at

    def __call__(self, row: dict[str, Any]) -> None:
        self.runs[row["run"].seed] = row["run"]
        if row["total_timesteps"] >= 300 and row["run"].seed in STOPPED:
            control.ask(row["run"].path, stop=True)
        if self.fails_at is not None and row["total_timesteps"] >= self.fails_at:
            raise Interrupted


@pytest.mark.parametrize("kind", ["ppo", "sac", "dqn with everything", "dqn that saves memory"])
def test_the_one_that_is_left_learns_as_it_would_alone(tmp_path: Path, kind: str) -> None:
    runs = train(tmp_path, [config_of(kind, seed) for seed in range(4)], callback=Leaving())
    assert [Run(run.path).status.state for run in runs] == ["stopped", "finished", "stopped", "stopped"]
    assert "3 of 4 runs have ended" in (runs[1].path / "run.log").read_text()
    alone = train(tmp_path, [config_of(kind, 1)])[0]
    assert_same_run(runs[1], alone)


def test_a_run_killed_after_the_move_resumes_as_if_never_stopped(tmp_path: Path) -> None:
    leaving = Leaving(fails_at=900)
    with pytest.raises(Interrupted):
        train(tmp_path, [config_of("ppo", seed) for seed in range(4)], callback=leaving)
    broken = leaving.runs[1]
    assert "3 of 4 runs have ended" in (broken.path / "run.log").read_text()
    assert train_runs([broken], resume=True)
    assert_same_run(broken, train(tmp_path, [config_of("ppo", 1)])[0])


def test_nobody_moves_while_more_than_half_are_there(tmp_path: Path) -> None:
    def one_leaves(row: dict[str, Any]) -> None:
        if row["total_timesteps"] >= 300 and row["run"].seed == 0:
            control.ask(row["run"].path, stop=True)

    runs = train(tmp_path, [config_of("ppo", seed) for seed in range(3)], callback=one_leaves)
    assert "have ended" not in (runs[1].path / "run.log").read_text()


def test_a_compiled_cohort_moves_only_where_that_saves_more_than_compiling_again() -> None:
    def cohort(kind: str, budget: int, device: str = "cpu") -> Any:
        config = make_config("ppo", run={"max_env_steps": budget}, algo={"batch_size": 32})
        plan: Any = SimpleNamespace(
            engine=kind,
            rollout_size=32,
            n_epochs=2,
            batch_rows=32,
            config=config.algo,
            policy=SimpleNamespace(layout=SimpleNamespace(width=9_000)),
        )
        return SimpleNamespace(plan=plan, config=config, members=[None] * 1_024, env_steps=0, device=torch.device(device))

    assert compaction.pays(cohort("eager", 1_000), 512)
    assert not compaction.pays(cohort("compiled", 1_000), 512)
    assert compaction.pays(cohort("compiled", 10_000_000), 512)
    assert not compaction.pays(cohort("captured", 100_000, "cuda"), 512)
    assert compaction.pays(cohort("captured", 10_000_000, "cuda"), 512)

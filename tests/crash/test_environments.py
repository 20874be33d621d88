"""An environment that breaks takes its own run with it, says what happened, and leaves the others alone."""

import multiprocessing
import os
import signal
from pathlib import Path
from typing import Any

import pytest

from rlclinic.config import Config
from rlclinic.runs.record import Run
from rlclinic.training.__main__ import train_runs
from tests.crash import cohorts
from tests.crash.user_envs import Copies, Walk

N_ENVS = 2


def config(**env: Any) -> Config:
    """Two members with two envs each; their copies are made member by member, then those for evaluation."""
    return cohorts.config(
        env={"id": "Walk", "n_envs": N_ENVS, "max_episode_steps": 20, **env},
        algo={"n_steps": 64, "batch_size": 64},
        run={"max_env_steps": 1280, "eval_every_env_steps": 256, "eval_episodes": 2, "checkpoint_every_env_steps": 256},
    )


@pytest.fixture(scope="module")
def healthy(tmp_path_factory: pytest.TempPathFactory) -> list[tuple[list[str], bytes]]:
    runs = cohorts.create(tmp_path_factory.mktemp("healthy"), config())
    assert train_runs(runs, factory=Copies())
    return [cohorts.result(run) for run in runs]


def check_only_the_second_failed(runs: list[Run], healthy: list[tuple[list[str], bytes]], *said: str) -> None:
    good, bad = runs
    cohorts.check_same([good], healthy[:1])
    assert bad.status.state == "failed"
    reason = bad.status.reason or ""
    for essential in [*said, f"rlclinic runs show {bad.id}"]:
        assert essential in reason
    assert all(line in bad.log for line in reason.splitlines())
    rows = cohorts.result(bad)[0]
    assert 1 < len(rows) < len(healthy[1][0]), "it had come some way, and not all the way"
    assert rows == healthy[1][0][: len(rows)], "what it wrote before is what it would have written anyway"
    assert all(checkpoint.valid for checkpoint in bad.checkpoints)
    assert bad.checkpoint("@last").step <= bad.status.env_steps


@pytest.mark.parametrize(
    ("harm", "said"),
    [
        ("raises", "raised RuntimeError in step() at step 300: the simulator lost its licence"),
        ("nan", "gave observation[1] = nan at step 300"),
        ("inf", "gave reward = inf at step 300"),
        ("shape", "an observation of shape (1,), but its observation_space has the shape (2,)"),
        ("exits", "raised SystemExit in step() at step 300: 3"),
        ("four values", "gave 4 values from step(), which must return (obs, reward, terminated, truncated, info)"),
        ("text for a flag", "gave terminated = 'False' from step(), which must be True or False"),
        ("list for info", "gave a list as info from step(), which must be a dict"),
        ("reward of two", "gave reward = array([1., 1.]) from step(), which must be a number"),
        ("another action space", "gave Discrete(5) as its action_space, which was Discrete(2) when training began"),
    ],
)
def test_an_env_that_breaks_ends_its_run_and_no_other(tmp_path: Path, healthy: list[tuple[list[str], bytes]], harm: str, said: str) -> None:
    runs = cohorts.create(tmp_path, config())
    assert not train_runs(runs, factory=Copies(harm, number=N_ENVS + 1, at=300))
    check_only_the_second_failed(runs, healthy, "env 1", said)


@pytest.mark.slow
def test_an_env_that_raises_at_its_ten_thousandth_step_ends_its_run_and_no_other(tmp_path: Path) -> None:
    made = cohorts.config(
        env={"id": "Walk", "n_envs": 1},
        algo={"n_steps": 1000, "batch_size": 500, "n_epochs": 1},
        run={"max_env_steps": 12_000, "eval_every_env_steps": None, "eval_episodes": 0, "checkpoint_every_env_steps": 2000},
    )
    whole = cohorts.create(tmp_path / "whole", made)
    assert train_runs(whole, factory=Copies())
    runs = cohorts.create(tmp_path / "broken", made)
    assert not train_runs(runs, factory=Copies("raises", number=1, at=10_000))
    check_only_the_second_failed(runs, [cohorts.result(run) for run in whole], "at step 10000", "the simulator lost its licence")
    assert runs[1].checkpoint("@last").step == 8000


def test_an_env_that_breaks_in_an_evaluation_ends_its_run_without_a_made_up_score(
    tmp_path: Path, healthy: list[tuple[list[str], bytes]]
) -> None:
    runs = cohorts.create(tmp_path, config())
    first_of_the_second = 2 * N_ENVS + 2
    assert not train_runs(runs, factory=Copies("raises", number=first_of_the_second, at=45))
    check_only_the_second_failed(runs, healthy, "env 0", "the simulator lost its licence")


@pytest.mark.slow
def test_a_killed_env_worker_ends_its_run_and_no_other(tmp_path: Path) -> None:
    made = config(workers=2)
    made = made.model_copy(update={"run": made.run.model_copy(update={"eval_episodes": 0})})
    whole, runs = (cohorts.create(tmp_path / name, made) for name in ("whole", "killed"))
    assert train_runs(whole, factory=Walk)
    seen: list[int] = []

    def kill_the_second_worker(row: dict[str, Any]) -> None:
        seen.append(row["total_timesteps"])
        if seen.count(256) == 2 and len(seen) == 4:
            workers = sorted(multiprocessing.active_children(), key=lambda process: process.name)
            os.kill(workers[1].pid or 0, signal.SIGKILL)

    assert not train_runs(runs, factory=Walk, callback=kill_the_second_worker)
    expected = [cohorts.result(run) for run in whole]
    check_only_the_second_failed(runs, expected, "worker process", "which stepped envs 0-1, was killed by SIGKILL", "env.workers")
    assert multiprocessing.active_children() == [], "no worker is left behind"

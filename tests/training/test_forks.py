"""What a run that goes on from another's checkpoint takes along of its replay, and what its log says about the rest."""

from pathlib import Path
from typing import Any

import pytest
import torch

from rlclinic.runs.record import Run
from rlclinic.runs.store import Store
from rlclinic.training import assembly
from tests.training.cohorts import make_config, train
from tests.training.tasks import Paying

ROWS = 300
"""Transitions that the parent remembers."""


@pytest.fixture(scope="module")
def parents(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Run]:
    """A run that keeps whole rows, one that saves memory and one that draws by priority, all in one store."""
    folder = tmp_path_factory.mktemp("parents")
    kinds: dict[str, dict[str, Any]] = {"plain": {}, "saving": {"optimize_memory_usage": True}, "ranked": {"prioritized": True}}
    return {name: train(folder, [config(algo=changes)])[0] for name, changes in kinds.items()}


def config(env: dict[str, Any] | None = None, **changes: Any) -> Any:
    algo = {"n_step": 3, "learning_starts": 40, **changes.pop("algo", {})}
    return make_config("dqn", {"id": "CartPole-v1", "max_episode_steps": 20, **(env or {})}, algo=algo, **changes)


def assemble(parent: Run, child: Any, start: str = "fork") -> tuple[assembly.Cohort, str]:
    """The child's cohort before its first step, and what its log says."""
    run = (
        Store(parent.path.parent)
        .create_group([child], parent=f"{parent.id}@{parent.checkpoint('@last').step}", extra={"start": start})
        .runs[0]
    )
    cohort = assembly.assemble([(run, assembly.load(run, resume=False))])
    for member in cohort.members:
        member.writer.close()
    cohort.env.close()
    return cohort, run.log


EXTENDED = {"max_env_steps": 960}


@pytest.mark.parametrize(
    ("kind", "env", "changes", "kept", "said"),
    [
        ("plain", {}, {"run": EXTENDED}, ROWS, None),
        ("plain", {"n_envs": 4}, {"run": EXTENDED}, ROWS, "takes over 300 transitions"),
        (
            "plain",
            {},
            {"run": EXTENDED, "algo": {"buffer_size": 100}},
            100,
            "takes over 100 transitions of the replay of {}, the newest of 300",
        ),
        ("plain", {"n_envs": 4}, {"run": EXTENDED, "algo": {"buffer_size": 90}}, 88, "the newest of 300"),
        ("plain", {}, {"run": EXTENDED, "algo": {"buffer_size": 1000}}, ROWS, None),
        ("saving", {}, {"run": EXTENDED, "algo": {"optimize_memory_usage": True, "buffer_size": 100}}, 100, "the newest of 300"),
        ("ranked", {"n_envs": 1}, {"run": EXTENDED, "algo": {"prioritized": True}}, ROWS, "takes over 300 transitions"),
        ("plain", {}, {"run": EXTENDED, "algo": {"prioritized": True}}, ROWS, None),
        ("ranked", {}, {"run": EXTENDED}, ROWS, None),
        ("saving", {"n_envs": 4}, {"run": EXTENDED, "algo": {"optimize_memory_usage": True}}, 0, "there were 2 instead of 4"),
        ("saving", {}, {"run": EXTENDED}, 0, "algo.optimize_memory_usage was another"),
        ("plain", {"clip_raw_reward": 0.5}, {"run": EXTENDED}, 0, "those of another env.clip_raw_reward (None)"),
    ],
)
def test_a_fork_takes_the_replay_along_as_far_as_it_means_the_same(
    parents: dict[str, Run], kind: str, env: dict[str, Any], changes: dict[str, Any], kept: int, said: str | None
) -> None:
    parent = parents[kind]
    cohort, log = assemble(parent, config(env, **changes))
    assert cohort.memory is not None
    assert cohort.memory.size == kept
    if said is None:
        assert "replay" not in log
    else:
        assert said.format(parent.id) in log
    assert (cohort.refill_until > cohort.env_steps) == (kept == 0)
    assert ("learning waits for" in log) == (kept == 0)
    if kept:
        batch = assembly.replay.gather(cohort.memory, torch.arange(kept).expand(1, -1), 3, torch.ones(1, 1))
        assert batch.reward.unique().tolist() in ([1.0, 2.0, 3.0], [2.0, 3.0])  # CartPole pays 1 a step


@pytest.mark.parametrize(
    ("bonus", "said"),
    [
        (None, "with what count paid at coefficient 0.5"),
        ({"kind": "rnd", "coef": 0.5}, "with what count paid at coefficient 0.5"),
        ({"kind": "count", "coef": 0.5}, None),
    ],
)
def test_a_fork_does_not_learn_from_what_another_bonus_paid(tmp_path: Path, bonus: dict[str, Any] | None, said: str | None) -> None:
    parent = train(tmp_path, [config(bonus={"kind": "count", "coef": 0.5})])[0]
    cohort, log = assemble(parent, config(run=EXTENDED, bonus=bonus))
    assert cohort.memory is not None
    assert (cohort.memory.size == 0) == (said is not None)
    assert said is None or said in log


def test_a_fork_with_another_number_of_environments_and_a_smaller_buffer_trains_to_its_end(parents: dict[str, Run]) -> None:
    parent = parents["plain"]
    child = config({"n_envs": 4}, run=EXTENDED, algo={"buffer_size": 100})
    run = train(parent.path.parents[1], [child], parent=f"{parent.id}@{parent.checkpoint('@last').step}", start="fork")[0]
    assert run.status.state == "finished"
    assert run.status.env_steps >= 960


@pytest.mark.parametrize("kind", ["ppo", "dqn"])
@pytest.mark.parametrize(
    ("before", "after"),
    [
        ({}, {"native": "never"}),
        ({"native": "never"}, {}),
        ({"frame_stack": 2}, {"frame_stack": 2, "native": "never"}),
        ({"native": "never"}, {"native": "never", "workers": 1}),
    ],
)
def test_a_fork_may_step_its_environments_in_another_way(tmp_path: Path, kind: str, before: dict[str, Any], after: dict[str, Any]) -> None:
    run = {"eval_episodes": 0}
    parent = train(tmp_path, [make_config(kind, before, run=run)])[0]
    budget = {"max_env_steps": 2 * parent.config.run.max_env_steps, "eval_episodes": 0}
    step = parent.checkpoint("@last").step
    child = train(tmp_path, [make_config(kind, after, run=budget)], parent=f"{parent.id}@{step}", start="fork")[0]
    assert child.status.state == "finished"
    assert f"fork from env step {step}, with environments started anew" in child.log


def test_weights_alone_come_with_the_replay_of_the_same_task_and_the_log_says_so(parents: dict[str, Run]) -> None:
    cohort, log = assemble(parents["plain"], config(), "init")
    assert cohort.memory is not None
    assert cohort.memory.size == ROWS
    assert f"init takes over 300 transitions of the replay of {parents['plain'].id}" in log
    assert cohort.env_steps == 0


def test_weights_for_another_reward_come_without_the_replay_and_the_log_says_why(parents: dict[str, Run]) -> None:
    cohort, log = assemble(parents["plain"], config({"clip_raw_reward": 0.5}), "init")
    assert cohort.memory is not None
    assert cohort.memory.size == 0
    assert "is not taken over: its rewards and observations are those of another env.clip_raw_reward" in log


def test_after_a_restart_of_the_environments_no_window_joins_two_episodes(tmp_path: Path) -> None:
    """Every step pays 1 and is cut after 50 steps; a resume starts new episodes at an arbitrary step of the old ones."""
    settings = make_config(
        "dqn", {"id": "Paying", "kwargs": {"length": 50}}, algo={"n_step": 3, "buffer_size": 2000}, run={"eval_episodes": 0}
    )
    parent = train(tmp_path, [settings], factory=Paying)[0]
    child = settings.model_copy(update={"run": settings.run.model_copy(update={"max_env_steps": 960})})
    run = train(tmp_path, [child], factory=Paying, parent=f"{parent.id}@480", start="extend")[0]
    saved = assembly.files.read(run.checkpoint("@last").path, replay=True).replay
    assert saved is not None
    table = saved.rows["table"]  # obs, next_obs, action, reward, terminated, truncated
    assert table[478:480, -1].tolist() == [1.0, 1.0]
    assert int(table[:, -1].sum()) == 2 * (240 // 50) + 2 + 2 * (240 // 50)

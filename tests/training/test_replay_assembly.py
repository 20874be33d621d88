"""What an algorithm with a replay needs of its environment and its machine; and acting with what it has learned."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from rlclinic.config import Config
from rlclinic.errors import ConfigError
from rlclinic.runs.record import Run
from rlclinic.runs.store import Store
from rlclinic.training import policy, replay_assembly
from rlclinic.training.__main__ import train_runs
from tests.training.cohorts import TASKS, make_config, task_of, train
from tests.training.replays import bench, of_kind
from tests.training.tasks import Signs


@pytest.mark.parametrize(
    ("kind", "task", "says"),
    [
        ("dqn", "box", r"dqn chooses one action of several, but Pendulum-v1(?s:.*)Try: rlclinic train Pendulum-v1:sac"),
        ("sac", "discrete", r"sac learns actions that are vectors(?s:.*)Try: rlclinic train CartPole-v1:dqn"),
        ("td3", "discrete", r"td3 learns actions that are vectors"),
        ("dqn", "multi_discrete", r"dqn chooses one action of several(?s:.*)Try: rlclinic train Signs:ppo"),
    ],
)
def test_an_algorithm_for_other_actions_is_refused_with_one_that_fits(kind: str, task: str, says: str) -> None:
    with pytest.raises(ConfigError, match=says):
        bench([make_config(kind, TASKS[task][0])], TASKS[task][1])


def test_actions_without_bounds_are_refused() -> None:
    import gymnasium as gym

    class Unbounded(Signs):
        def __init__(self, **_: Any) -> None:
            super().__init__("box")
            self.action_space = gym.spaces.Box(-np.inf, np.inf, (3,), np.float32)

    with pytest.raises(ConfigError, match="actions without bounds"):
        bench([make_config("sac", {"id": "Unbounded"})], Unbounded)


def test_a_replay_that_does_not_fit_is_refused_before_it_is_taken(monkeypatch: pytest.MonkeyPatch) -> None:
    at = of_kind("sac")
    needed = at.plan.memory.size_in_bytes(2)
    monkeypatch.setattr(replay_assembly, "_free", lambda device: needed)  # a fifth of it must stay free
    with pytest.raises(ConfigError, match=r"the replay of 300 transitions takes(?s:.*)Try: --set algo.buffer_size="):
        replay_assembly.memory_for(at.plan, 2, torch.device("cpu"))
    monkeypatch.setattr(replay_assembly, "_free", lambda device: 2 * needed)
    assert replay_assembly.memory_for(at.plan, 2, torch.device("cpu")).size == 0


@pytest.mark.parametrize("kind", ["dqn", "td3", "sac"])
def test_a_trained_policy_acts_and_is_evaluated(tmp_path: Path, kind: str) -> None:
    run = train(tmp_path, [make_config(kind, TASKS[task_of(kind)][0])])[0]
    learned = policy.load(run)
    obs = np.zeros(4 if task_of(kind) == "discrete" else 3, dtype=np.float32)
    action = learned.act(obs)
    assert np.array_equal(action, learned.act(obs))
    if task_of(kind) == "box":
        assert action.shape == (1,)
        assert abs(float(action[0])) <= 2.0
    sampled = [np.asarray(learned.act(obs, deterministic=False)).item() for _ in range(100)]
    assert (len(set(sampled)) > 1) == (kind != "td3")  # whose actor has no spread
    assert learned.evaluate(3).returns.shape == (1, 3)


def started_from(folder: Path, config: Config, parent: str) -> Run:
    run = Store(folder / "runs").create_group([config], parent=parent, extra={"start": "init"}).runs[0]
    assert train_runs([run])
    return run


def test_a_warm_start_takes_weights_and_what_is_remembered(tmp_path: Path) -> None:
    config = make_config("sac", TASKS["box"][0])
    first = train(tmp_path, [config])[0]
    step = first.checkpoint("@last").step
    warm = started_from(tmp_path, config, f"{first.id}@{step}")
    shares = warm.metrics["train/sentinel/buffer_share"]
    assert shares[0] == 1.0
    assert first.metrics["train/sentinel/buffer_share"][0] < 1.0
    assert warm.metrics["total_timesteps"][0] < step

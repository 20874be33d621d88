"""A checkpoint's replay as episodes: in order, whole, with both kinds of end."""

from pathlib import Path

import numpy as np
import pytest
import torch

import rlclinic
from rlclinic.datasets import Episode, read
from rlclinic.errors import NotFound, UsageError
from rlclinic.ops.data.collect import collect
from rlclinic.ops.data.requests import CollectRequest
from rlclinic.training.checkpoints import replay_episodes, replay_files
from rlclinic.training.data import replay
from rlclinic.training.data.replay import Shape

ENVS = 2


class Stepped:
    """Two environments that count: env 0 terminates after three steps, env 1 is cut after two. Actions are the number of the step."""

    def __init__(self, shape: Shape, rows: int) -> None:
        self.memory = replay.start(shape, 1, torch.device("cpu"))
        count = [0, 0]
        for t in range(rows):
            obs = torch.tensor([[[100.0 * env + count[env], 0.0] for env in range(ENVS)]])
            final = obs + torch.tensor([1.0, 0.0])
            ended = [count[0] == 2, False]
            cut = [False, count[1] == 1]
            count = [0 if ended[env] or cut[env] else count[env] + 1 for env in range(ENVS)]
            following = torch.tensor([[[100.0 * env + count[env], 0.0] for env in range(ENVS)]])
            self.obs, self.next_obs, self.following = obs[:, None], final[:, None], following[:, None]
            self.action, self.reward = torch.full((1, 1, ENVS, 1), float(t)), torch.full((1, 1, ENVS), 0.5)
            self.terminated, self.truncated = torch.tensor([[ended]]), torch.tensor([[cut]])
            self.valid = self.next_action_mask = None
            replay.add(self.memory, self)  # type: ignore[arg-type]

    def episodes(self) -> list[Episode]:
        saved = replay_files.take(self.memory, 0)
        return list(replay_episodes.split(saved, self.memory.shape, lambda action: action))


@pytest.mark.parametrize("once", [False, True])
def test_episodes_are_whole_and_end_as_they_did(once: bool) -> None:
    episodes = Stepped(Shape(64, ENVS, (2,), 1, once=once), 7).episodes()
    assert [(len(episode.rewards), episode.terminated, episode.truncated) for episode in episodes] == [
        (3, True, False),
        (3, True, False),
        (1, False, True),
        *[(2, False, True)] * 3,
        (1, False, True),
    ]
    first, cut = episodes[0], episodes[3]
    assert first.actions[:, 0].tolist() == [0.0, 1.0, 2.0]
    assert cut.observations[:, 0].tolist() == [100.0, 101.0, 102.0]
    assert first.final_known != once
    assert first.observations[:3, 0].tolist() == [0.0, 1.0, 2.0]
    assert all(episode.final_known for episode in episodes[2:])


@pytest.mark.parametrize("once", [False, True])
def test_an_episode_whose_beginning_is_overwritten_is_left_out(once: bool) -> None:
    episodes = Stepped(Shape(8, ENVS, (2,), 1, once=once), 9).episodes()  # rows of steps 5 to 8 are left
    assert [episode.actions[:, 0].tolist() for episode in episodes] == [[6.0, 7.0, 8.0], [6.0, 7.0], [8.0]]
    assert episodes[1].observations[:, 0].tolist() == [100.0, 101.0, 102.0]


def test_a_final_observation_that_is_lost_costs_the_step_that_led_to_it() -> None:
    stepped = Stepped(Shape(20, ENVS, (2,), 1, once=True), 7)
    saved = replay_files.take(stepped.memory, 0)
    saved.rest["once.cuts"] = torch.tensor([100])  # many more episodes were cut since
    cut = [each for each in replay_episodes.split(saved, stepped.memory.shape, lambda action: action) if each.observations[0, 0] == 100]
    assert [len(episode.rewards) for episode in cut] == [1, 1, 1, 1]
    assert cut[0].observations[:, 0].tolist() == [100.0, 101.0]


def test_a_run_that_learned_gives_its_replay_as_data(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    settings = ["run.max_env_steps=500", "run.eval_episodes=1", "algo.learning_starts=440", "run.eval_every_env_steps=450"]
    group = rlclinic.train("Pendulum-v1:sac", overrides=settings)
    written = collect(CollectRequest(selector=group.runs[0].id, replay=True, out=Path("d")))
    data = read("d")
    assert (written.transitions, data.lengths.tolist()) == (500, [200, 200, 100])
    assert data.truncated.all()
    assert 1.0 < np.abs(data.actions).max() <= 2.0  # in the environment's units
    rows = data.transitions(np.arange(len(data)))
    angle, speed = np.arctan2(rows.observations[:, 1], rows.observations[:, 0]), rows.observations[:, 2]
    np.testing.assert_allclose(rows.rewards, -(angle**2 + 0.1 * speed**2 + 0.001 * rows.actions[:, 0] ** 2), rtol=1e-3, atol=1e-3)
    with pytest.raises(UsageError, match="nobody acts"):
        collect(CollectRequest(selector=group.runs[0].id, replay=True, noise=0.1, out=Path("e")))
    other = rlclinic.train("CartPole-v1:ppo", overrides=["run.max_env_steps=512", "run.eval_episodes=1"])
    with pytest.raises(NotFound, match="holds no replay"):
        collect(CollectRequest(selector=other.runs[0].id, replay=True, out=Path("e")))
    assert not Path("e").exists()

"""What is promised of learning from recorded data, in small: four parts of it at random, one of an expert (the benchmark `offline` has
Pendulum)."""

from pathlib import Path
from typing import Any

import gymnasium
import numpy as np
import pytest

from rlclinic.config import load
from rlclinic.datasets import Episode, Space, folder
from rlclinic.runs.store import Store
from rlclinic.training.__main__ import train_runs

STEPS = 8


class Aim(gymnasium.Env[Any, Any]):
    """Say what the first of two numbers is: 1 a step, less twice the distance."""

    observation_space = gymnasium.spaces.Box(-1.0, 1.0, (2,), np.float32)
    action_space = gymnasium.spaces.Box(-1.0, 1.0, (1,), np.float32)

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Any, dict[str, Any]]:
        super().reset(seed=seed)
        self.steps = 0
        return self._observe(), {}

    def step(self, action: Any) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        reward = 1.0 - 2.0 * abs(float(action[0]) - float(self.seen[0]))
        self.steps += 1
        return self._observe(), reward, False, self.steps == STEPS, {}

    def _observe(self) -> Any:
        self.seen = self.np_random.uniform(-1.0, 1.0, 2).astype(np.float32)
        return self.seen


def play(draw: np.random.Generator, at_random: bool) -> Episode:
    env = Aim()
    seen, done, paid = [env.reset(seed=int(draw.integers(1 << 30)))[0]], [], []
    for _ in range(STEPS):
        action = draw.uniform(-1.0, 1.0, 1).astype(np.float32) if at_random else seen[-1][:1]
        obs, reward, *_ = env.step(action)
        seen, done, paid = [*seen, obs], [*done, action], [*paid, reward]
    return Episode(np.array(seen), np.array(done), np.array(paid, np.float32), False, True)


@pytest.fixture(scope="module")
def mixed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    draw, place = np.random.default_rng(0), tmp_path_factory.mktemp("promises") / "data"
    told = [play(draw, at_random=index % 5 > 0) for index in range(100)]
    box = Space("box", (1,), low=(-1.0,), high=(1.0,))
    folder.write(place, iter(told), Space("box", (2,), low=(-1.0,) * 2, high=(1.0,) * 2), box, env_id=f"{Path(__file__)}:Aim")
    return place


def earn(data: Path, home: Path, algorithm: str, *settings: str) -> float:
    """The last evaluation, mean of two seeds."""
    usual = ("net.hidden=[32,32]", "algo.batch_size=64", "algo.learning_rate=3e-3", "algo.gamma=0.5", "run.eval_episodes=20")
    budget = ("run.max_env_steps=400", "run.eval_every_env_steps=400", f"data.path={data}", "data.holdout=0", f"spec.threshold={STEPS}")
    config = load(f"{Path(__file__)}:Aim:{algorithm}", [*usual, *budget, *settings]).config
    group = Store(home / "runs").create_group([config.model_copy(update={"seed": seed}) for seed in (0, 1)])
    train_runs(group.runs)
    return float(np.mean([run.evaluations[1][-1] for run in group.runs]))


def test_rewards_tell_the_good_actions_of_a_mixture_from_the_others(mixed: Path, tmp_path: Path) -> None:
    imitated = earn(mixed, tmp_path, "bc")
    assert imitated < 0.5 * STEPS, "the mean of what was done is not good"
    for algorithm, *settings in (
        ("td3_bc", "algo.value_scale=spread", "algo.bc_alpha=20"),
        ("iql", "algo.expectile=0.8", "algo.beta=10"),
        ("cql", "algo.cql_alpha=0.1", "algo.cql_actions=4"),
    ):
        assert earn(mixed, tmp_path, algorithm, *settings) > imitated + 0.25 * STEPS, algorithm

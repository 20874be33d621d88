"""A store in a temporary folder, and groups whose runs look as if they had trained."""

from collections.abc import Callable, Sequence
from pathlib import Path

import pytest

from rlclinic.config import Config
from rlclinic.runs.record import Group
from rlclinic.runs.store import Store
from rlclinic.runs.writer import RunWriter

COLUMNS = (
    *("time", "total_timesteps", "train/roll/ep_rew_mean", "val/roll/ep_rew_mean", "val/roll/ep_rew_std"),
    *("time/fps", "time/env", "time/learn"),
)
MakeGroup = Callable[..., Group]


@pytest.fixture
def store(tmp_path: Path) -> Store:
    return Store(tmp_path / "runs")


@pytest.fixture
def make_config() -> Callable[..., Config]:
    def make(seed: int = 0, env: str = "CartPole-v1", threshold: float | None = 475.0, **run: object) -> Config:
        task = {"name": f"{env}:ppo", "env": {"id": env}, "spec": {"threshold": threshold}}
        return Config.model_validate({**task, "run": {"max_env_steps": 100_000, **run}, "seed": seed})

    return make


@pytest.fixture
def make_group(store: Store, make_config: Callable[..., Config]) -> MakeGroup:
    """Create a group and fill in its runs: `returns` has one list of evaluations per seed, 10,000 env steps apart."""

    def make(
        returns: Sequence[Sequence[float | None]] = ((),),
        states: Sequence[str] | None = None,
        env: str = "CartPole-v1",
        threshold: float | None = 475.0,
        evaluated: bool = True,
    ) -> Group:
        group = store.create_group([make_config(seed, env, threshold) for seed in range(len(returns))])
        for run, values, state in zip(group.runs, returns, states or ["finished"] * len(returns), strict=True):
            with RunWriter(run.path, COLUMNS) as writer:
                for step, value in enumerate(values, start=1):
                    seen = {"val/roll/ep_rew_mean": value, "val/roll/ep_rew_std": 1.0} if evaluated else {"train/roll/ep_rew_mean": value}
                    writer.row({"total_timesteps": step * 10_000, "time/fps": 1_000.0, "time/env": 3.0, "time/learn": 1.0, **seen})
                known = [value for value in values if value is not None]
                best = max(known) if known and evaluated else None
                writer.status(state, 10_000 * len(values), best_eval=best, max_env_steps=100_000)
        return group

    return make

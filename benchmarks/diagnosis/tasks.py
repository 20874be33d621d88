"""What the corpus is trained on: environments with settings that work, and who may learn from them.

Tasks of the split "fit" are used to fit the ranking; those of "test" are only ever measured on.
"""

from dataclasses import dataclass
from functools import cache
from typing import Literal

from rlclinic.config import Config, files
from rlclinic.config.overrides import set_values

Split = Literal["fit", "test"]


@dataclass(frozen=True)
class Task:
    """A base config that solves its environment within its budget."""

    id: str
    ref: str
    split: Split
    changes: tuple[str, ...] = ()
    own: bool = False
    """An environment that nobody knows: no YAML, no band."""
    fresh: bool = False
    """Recorded when rules and weights were final: nobody had seen its runs."""
    costly: bool = False
    """Stepped one by one on the CPU: fewer cells."""

    @property
    def config(self) -> Config:
        """The healthy config."""
        return _config(self)

    @property
    def continuous(self) -> bool:
        """Whether actions are a box."""
        return self.id.endswith(("pendulum", "mcc", "docking-continuous"))


@cache
def _config(task: Task) -> Config:
    return set_values(files.load(task.ref).config, list(task.changes))


def _steps(count: int, evaluations: int = 16) -> tuple[str, ...]:
    return (f"run.max_env_steps={count}", f"run.eval_every_env_steps={count // evaluations}")


_DOCKING = (
    "spec.threshold=9",
    "spec.return_range=none",
    "spec.max_episode_steps=150",
    "algo.n_steps=64",
    "algo.batch_size=128",
    "algo.n_epochs=8",
    "algo.gamma=0.99",
    "algo.gae_lambda=0.95",
    "algo.learning_rate=1e-3",
    "algo.clip_range=0.2",
    *_steps(80_000),
)

_BUOY = (
    "spec.threshold=170",
    "spec.return_range=none",
    "spec.max_episode_steps=200",
    "algo.n_steps=64",
    "algo.batch_size=256",
    "algo.n_epochs=6",
    "algo.gamma=0.98",
    "algo.gae_lambda=0.92",
    "algo.learning_rate=1.5e-3",
    "algo.clip_range=0.2",
    *_steps(60_000),
)

TASKS: tuple[Task, ...] = (
    Task("cartpole", "CartPole-v1:ppo_zoo", "fit", _steps(50_000)),
    Task(
        "cartpole-wide",
        "CartPole-v1:ppo_zoo",
        "fit",
        (
            "algo.n_steps=128",
            "algo.n_epochs=10",
            "algo.learning_rate=7e-4",
            "algo.clip_range=0.2",
            "algo.gamma=0.99",
            "algo.gae_lambda=0.95",
            *_steps(80_000),
        ),
    ),
    Task("cartpole-a2c", "CartPole-v1:a2c", "fit", _steps(160_000)),
    Task("acrobot", "Acrobot-v1:ppo", "fit", _steps(80_000)),
    Task("pendulum", "Pendulum-v1:ppo", "fit", _steps(80_000)),
    Task("mcc", "MountainCarContinuous-v0:ppo", "fit", _steps(50_000)),
    Task("lake", "FrozenLake-v1:ppo_deterministic", "fit", _steps(50_000)),
    Task("mountaincar", "MountainCar-v0:ppo", "test", _steps(160_000)),
    Task("docking", "CartPole-v1:ppo_zoo", "test", ("env.id=Docking-v0", *_DOCKING), own=True),
    Task("docking-continuous", "CartPole-v1:ppo_zoo", "test", ("env.id=DockingContinuous-v0", *_DOCKING), own=True),
    Task("buoy", "CartPole-v1:ppo_zoo", "test", ("env.id=Buoy-v0", *_BUOY), own=True, fresh=True),
    Task("lunar", "LunarLander-v3:ppo", "test", (*_steps(200_000, 10), "run.eval_episodes=8"), costly=True),
)

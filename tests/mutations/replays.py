"""The smallest learners with a replay: configs by name, one of each in memory, and short runs in a folder."""

from pathlib import Path
from tempfile import TemporaryDirectory
from types import SimpleNamespace
from typing import Any

import torch

from rlclinic.config import Config
from rlclinic.runs import history
from rlclinic.runs.history import History
from rlclinic.runs.store import Store
from rlclinic.training import assembly, envs, members, replay_assembly
from rlclinic.training.algos.hyperparameters import Hyperparameters
from rlclinic.training.data import replay
from rlclinic.training.loops import off_policy
from rlclinic.training.loops.on_policy import Position

CPU = torch.device("cpu")
_DQN = {"name": "dqn", "batch_size": 32, "learning_rate": 1e-3, "learning_starts": 200, "buffer_size": 4000, "train_freq": 2,
        "gradient_steps": 2, "target_update_interval": 130, "exploration_fraction": 0.3, "double": True}  # fmt: skip
_SAC = {"name": "sac", "batch_size": 32, "learning_rate": 1e-3, "learning_starts": 200, "buffer_size": 4000, "train_freq": 2,
        "gradient_steps": 2, "tau": 0.02}  # fmt: skip
LEARNERS: dict[str, tuple[str, dict[str, Any]]] = {
    "dqn": ("CartPole-v1", _DQN),
    "dqn-cut": ("CartPole-v1", _DQN),
    "dqn-steps": ("CartPole-v1", {**_DQN, "n_step": 3}),
    "dqn-prioritized": ("CartPole-v1", {**_DQN, "prioritized": True}),
    "sac": ("Pendulum-v1", _SAC),
}


def config(name: str, steps: int = 3000, **algo: Any) -> Config:
    """A learner by name; `algo` changes its settings."""
    env, settings = LEARNERS[name]
    limit = 25 if name == "dqn-cut" else {"CartPole-v1": 60, "Pendulum-v1": 50}[env]
    threshold = {"CartPole-v1": limit - 1.0, "Pendulum-v1": -10.0}[env]
    return Config.model_validate(
        {
            "spec": {"threshold": threshold},
            "env": {"id": env, "n_envs": 2, "max_episode_steps": limit},
            "algo": {**settings, **algo},
            "net": {"hidden": [32, 32], "activation": "relu"},
            "run": {"max_env_steps": steps, "eval_every_env_steps": steps // 6, "eval_episodes": 4},
        }
    )


class Learner:
    """Two members without folders, after some steps and updates."""

    def __init__(self, name: str = "dqn", turns: int = 220, **algo: Any) -> None:
        self.config = config(name, **algo)
        self.seed = torch.arange(2).view(-1, 1, 1)
        self.env = envs.make(self.config.env, [0, 1], 2)
        self.plan: Any = assembly.plan_for(self.config, self.env)
        self.state: Any = replay_assembly.fresh_learner(self.plan, [0, 1], 2)
        self.memory = replay_assembly.memory_for(self.plan, 2, CPU)
        self.position = Position(self.env.reset(), self.env.action_mask)
        self.members: Any = [SimpleNamespace(config=self.config, adapted={}, active=True)] * 2
        self.env_steps = 0
        self.readings: dict[str, list[Any]] = {}
        self.transitions: list[Any] = []
        for _ in range(turns // self.plan.cycles):
            self.iterate()

    def numbers(self) -> Hyperparameters:
        return members.replay_numbers(self.members, self.env_steps, self.plan.memory.action_size, CPU)

    def iterate(self) -> None:
        """What training does in an iteration, without its books."""
        hp, clock = self.numbers(), {"env": 0.0, "act": 0.0, "learn": 0.0}
        collector = off_policy.Collector(self.plan, self.env, self.seed, self.env_steps, clock)
        for _ in range(self.plan.cycles):
            self.state = collector.collect(self.state, self.position, self.memory, hp)
            before, now = collector.env_steps - self.plan.cycle_size, collector.env_steps
            off_policy.follow_targets(self.plan, self.state, hp, None, before, now)
            if collector.env_steps > self.plan.config.learning_starts:
                self.state, self.readings = off_policy.learn(self.plan, self.state, self.memory, hp, None, self.seed)
        self.env_steps = collector.env_steps
        self.transitions.append(collector.transitions())

    def rows(self, name: str) -> torch.Tensor:
        """A field of everything that is stored, [M, rows, width]."""
        return self.memory.table[:, : self.memory.size, self.memory.cells[name]]

    def drawn(self, index: torch.Tensor) -> replay.Batch:
        return replay.gather(self.memory, index, self.plan.config.n_step, self.numbers().gamma)


def short_run(name: str, seeds: int = 2, steps: int = 3000) -> list[History]:
    """Runs of a few seconds, and what they left behind."""
    from rlclinic.training.__main__ import train_runs

    with TemporaryDirectory() as folder:
        made = config(name, steps)
        group = Store(Path(folder)).create_group([made.model_copy(update={"seed": seed}) for seed in range(seeds)])
        train_runs(group.runs)
        return [history.of_run(run) for run in group.runs]

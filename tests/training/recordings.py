"""Recorded data of two tasks, small cohorts that learn from it, and their parts to look at one by one."""

from dataclasses import dataclass
from functools import cache
from pathlib import Path
from tempfile import mkdtemp
from typing import Any

import numpy as np
import torch

from rlclinic.config import Config
from rlclinic.datasets import Episode, Space, folder
from rlclinic.training import assembly, envs, members
from rlclinic.training.algos.hyperparameters import Hyperparameters
from rlclinic.training.data import recorded
from rlclinic.training.data.recorded import Recorded
from rlclinic.training.data.replay import Batch
from rlclinic.training.loops import off_policy, offline
from tests.training.cohorts import TASKS, member

CPU = torch.device("cpu")
_USUAL: dict[str, Any] = {"batch_size": 16, "learning_rate": 3e-3}
OFFLINE: dict[str, tuple[str, dict[str, Any]]] = {
    "bc": ("box", {"name": "bc", **_USUAL}),
    "bc of choices": ("discrete", {"name": "bc", "ent_coef": 1e-3, **_USUAL}),
    "bc by likelihood": ("box", {"name": "bc", "loss": "likelihood", **_USUAL}),
    "td3_bc": ("box", {"name": "td3_bc", **_USUAL}),
    "iql": ("box", {"name": "iql", **_USUAL}),
    "iql of choices": ("discrete", {"name": "iql", **_USUAL}),
    "awac": ("box", {"name": "awac", **_USUAL}),
    "awac of choices": ("discrete", {"name": "awac", **_USUAL}),
    "cql": ("box", {"name": "cql", "cql_actions": 3, "cql_lagrange": True, **_USUAL}),
    "cql of choices": ("discrete", {"name": "cql", **_USUAL}),
    "dt": ("box", {"name": "dt", "context": 3, "layers": 1, "width": 8, "heads": 2, **_USUAL}),
    "dt of choices": ("discrete", {"name": "dt", "context": 4, "layers": 2, "width": 8, **_USUAL}),
}
"""Algorithms that learn from recorded data, each with its task."""
ONLINE: dict[str, tuple[str, dict[str, Any]]] = {
    "cal_ql": ("box", {"name": "cal_ql", "cql_actions": 2, **_USUAL}),
    "cal_ql of choices": ("discrete", {"name": "cal_ql", **_USUAL}),
    "rlpd": ("box", {"name": "rlpd", "n_critics": 3, "policy_delay": 2, **_USUAL}),
}
"""Algorithms that go on in the environment, each with its task."""
SHAPES = {"discrete": (4, Space("discrete", n=2)), "box": (3, Space("box", (1,), low=(-2.0,), high=(2.0,)))}


def episodes(task: str, lengths: tuple[int, ...] = (20, 12, 20, 7, 20, 16, 20, 20, 9, 20, 14, 20)) -> list[Episode]:
    """Random walks whose actions follow the first number of the observation; every third one terminates."""
    size, action = SHAPES[task]
    found = []
    for index, steps in enumerate(lengths):
        draw = np.random.default_rng(index)
        observations = np.cumsum(draw.normal(0, 0.3, (steps + 1, size)), 0).astype(np.float32)
        lean = np.tanh(observations[:-1, 0] + 0.2 * draw.normal(size=steps))
        actions = (lean > 0).astype(np.int64) if action.kind == "discrete" else (2 * lean[:, None]).astype(np.float32)
        rewards = (1.0 - np.abs(observations[1:, 0])).astype(np.float32)
        found.append(Episode(observations, actions, rewards, index % 3 == 0, index % 3 != 0))
    return found


@cache
def data_of(task: str) -> str:
    """A dataset's folder, written once."""
    size, action = SHAPES[task]
    path = Path(mkdtemp(prefix="recorded")) / "data"
    folder.write(path, iter(episodes(task)), Space("box", (size,)), action, source="made up", env_id=TASKS[task][0]["id"])
    return str(path)


def make_config(kind: str = "bc", seed: int = 0, **changes: dict[str, Any]) -> Config:
    """A tiny net and three iterations, of which `ONLINE` acts in the last two; `changes` go into their sections."""
    task, algo = (OFFLINE | ONLINE)[kind]
    usual: dict[str, dict[str, Any]] = {
        "env": {**TASKS[task][0], "n_envs": 1, "normalize_obs": True},
        "algo": algo,
        "net": {"hidden": [8, 6], "activation": "relu"},
        "data": {"path": data_of(task), "holdout": 0.1, **({"then_online": True, "offline_steps": 100} if kind in ONLINE else {})},
        "run": {"max_env_steps": 300, "eval_episodes": 2, "checkpoint_every_env_steps": 100},
    }
    return Config(**{name: {**usual[name], **changes.get(name, {})} for name in usual}, seed=seed)


@dataclass
class Bench:
    """A cohort's parts without folders."""

    members: list[Any]
    plan: off_policy.Plan
    learner: off_policy.Learner
    data: Recorded
    seed: torch.Tensor

    def numbers(self) -> Hyperparameters:
        return members.replay_numbers(self.members, 0, self.plan.memory.action_size, CPU)

    def batch(self, rows: int = 16) -> Batch:
        """The data's first rows, as the networks see them."""
        which = torch.arange(rows).expand(len(self.members), -1)
        return offline.batch_of(self.plan, self.learner, self.data, which, self.numbers())

    def networks(self) -> off_policy.Networks:
        return off_policy.networks(self.plan, self.learner)

    def targets(self) -> off_policy.Networks:
        return off_policy.target_networks(self.plan, self.learner)


def bench(*configs: Config) -> Bench:
    config, seeds = configs[0], [config.seed for config in configs]
    env = envs.make(config.env, seeds, 1)
    plan = assembly.plan_for(config, env)
    plan = assembly.with_engine(plan, "reference")
    assert isinstance(plan, off_policy.Plan)
    learner = assembly.fresh_learner(plan, seeds, 1)
    assert isinstance(learner, off_policy.Learner)
    data = recorded.load(config, env, CPU)
    return Bench([member(each) for each in configs], plan, learner, data, torch.tensor(seeds).view(-1, 1, 1))

"""Small cohorts that train in a fraction of a second, and how two runs are compared."""

import csv
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import torch

from rlclinic.config import Config
from rlclinic.runs.record import Run
from rlclinic.runs.store import Store
from rlclinic.training import assembly, envs
from rlclinic.training import members as cohort
from rlclinic.training.__main__ import train_runs
from rlclinic.training.algos.hyperparameters import Hyperparameters
from rlclinic.training.loops import on_policy
from rlclinic.training.members import Member
from tests.training import tasks

ALGOS: dict[str, dict[str, Any]] = {
    "ppo": {"name": "ppo", "n_steps": 16, "batch_size": 16, "n_epochs": 2, "learning_rate": 3e-3},
    "a2c": {"name": "a2c", "n_steps": 5},
    "reinforce": {"name": "reinforce", "n_steps": 24},
    "a3c": {"name": "a3c", "n_actors": 0, "n_steps": 8},
    "impala": {"name": "impala", "n_actors": 0, "n_steps": 16},
    "appo": {"name": "appo", "n_actors": 0, "n_steps": 16, "batch_size": 16, "n_epochs": 2, "learning_rate": 3e-3},
    "reinforce without baseline": {"name": "reinforce", "n_steps": 24, "baseline": False},
}
_REPLAY = {"buffer_size": 300, "learning_starts": 40, "batch_size": 16, "learning_rate": 3e-3}
_DQN = {"name": "dqn", **_REPLAY, "train_freq": 8, "gradient_steps": 3, "target_update_interval": 24}
REPLAY: dict[str, dict[str, Any]] = {
    "dqn": _DQN,
    "dqn with everything": {
        **_DQN,
        "double": True,
        "dueling": True,
        "prioritized": True,
        "n_step": 3,
        "exploration": "boltzmann",
        "policy_average": 9,
    },
    "dqn that saves memory": {**_DQN, "n_step": 2, "optimize_memory_usage": True},
    "bootstrapped_dqn": {
        "name": "bootstrapped_dqn",
        **_REPLAY,
        "n_heads": 3,
        "train_freq": 8,
        "gradient_steps": 3,
        "target_update_interval": 24,
    },
    "bootstrapped_dqn with one trunk": {
        "name": "bootstrapped_dqn",
        **_REPLAY,
        "n_heads": 4,
        "shared_trunk": True,
        "double": False,
        "n_step": 2,
        "train_freq": 8,
        "optimize_memory_usage": True,
        "policy_average": 9,
        "target_update_interval": 24,
    },
    "td3": {"name": "td3", **_REPLAY, "train_freq": 8, "gradient_steps": 3},
    "ddpg": {"name": "ddpg", **_REPLAY, "train_freq": 8, "gradient_steps": 3, "action_noise": "ou", "optimize_memory_usage": True},
    "sac": {"name": "sac", **_REPLAY, "train_freq": 8, "gradient_steps": 3, "n_step": 2},
    "sac with a fixed temperature": {"name": "sac", **_REPLAY, "train_freq": 8, "gradient_steps": -1, "batch_size": 4, "ent_coef": 0.1},
}
"""Algorithms that learn from a replay; it is overwritten once in a run."""
TABLES: dict[str, dict[str, Any]] = {
    "q_learning": {"name": "q_learning"},
    "q_learning with ucb": {"name": "q_learning", "exploration": "ucb", "initial_value": 1.0, "train_freq": 4},
}
"""Algorithms that keep a table instead of a network; the replay is the step that has just been taken."""
TASKS: dict[str, tuple[dict[str, Any], Callable[..., Any] | None]] = {
    "discrete": ({"id": "CartPole-v1", "max_episode_steps": 20}, None),
    "box": ({"id": "Pendulum-v1", "max_episode_steps": 10}, None),
    "multi_discrete": ({"id": "Signs", "kwargs": {"kind": "multi_discrete"}}, tasks.Signs),
    "multi_binary": ({"id": "Signs", "kwargs": {"kind": "multi_binary"}}, tasks.Signs),
}
STATES: tuple[dict[str, Any], None] = ({"id": "FrozenLake-v1", "kwargs": {"is_slippery": True}, "max_episode_steps": 20}, None)
"""The task of tables: sixteen states."""
NATIVE = ("discrete", "box")
"""The tasks whose envs are restored bit for bit."""
SECTIONS = ("spec", "env", "algo", "net", "run")


def task_of(kind: str) -> str:
    """The task of a replay algorithm: states for tables, choices for DQN, vectors for the others."""
    if kind in TABLES:
        return "states"
    return "discrete" if REPLAY[kind]["name"] in ("dqn", "bootstrapped_dqn") else "box"


def make_config(kind: str = "ppo", env: dict[str, Any] | None = None, seed: int = 0, **changes: dict[str, Any]) -> Config:
    """Two envs and a tiny net, three iterations (A2C: more, as its iterations are short); `changes` go into their sections."""
    replay = kind in REPLAY or kind in TABLES
    usual: dict[str, dict[str, Any]] = {
        "spec": {},
        "env": {"id": "CartPole-v1", "n_envs": 2, **(env or {})},
        "algo": (ALGOS | REPLAY | TABLES)[kind],
        "net": {"hidden": [8, 6], "activation": "relu"} if replay else {"hidden": [8]},
        "run": {"max_env_steps": 480 if replay else 300 if kind == "a2c" else 144, "eval_episodes": 2},
    }
    more = {name: changes[name] for name in ("bonus", "curriculum") if name in changes}
    return Config(**{name: {**usual[name], **changes.get(name, {})} for name in SECTIONS}, **more, seed=seed)


def train(
    folder: Path,
    configs: Sequence[Config],
    *,
    factory: Callable[..., Any] | None = None,
    callback: Callable[[dict[str, Any]], bool | None] | None = None,
    parent: str | None = None,
    start: str | None = None,
) -> list[Run]:
    """New runs trained as one cohort, whether or not they differ in more than the seed."""
    store, extra = Store(folder / "runs"), {} if start is None else {"start": start}
    runs = [store.create_group([config], parent=parent, extra=extra).runs[0] for config in configs]
    train_runs(runs, factory=factory, callback=callback)
    return runs


class Interrupted(Exception):
    """What a test's callback raises in place of a kill."""


def interrupt_at(env_steps: int) -> Callable[[dict[str, Any]], None]:
    """A callback that ends the process's work when the row of this step (or the first after it) has been written."""

    def callback(row: dict[str, Any]) -> None:
        if row["total_timesteps"] >= env_steps:
            raise Interrupted

    return callback


# ── comparing ──


def table(run: Run, *, without: tuple[str, ...] = ()) -> list[dict[str, str]]:
    """The cells of metrics.csv as they were written, less the columns that depend on the clock."""
    with (run.path / "metrics.csv").open(newline="") as file:
        return [{name: cell for name, cell in row.items() if not name.startswith(("time", *without))} for row in csv.DictReader(file)]


def saved(run: Run, which: str = "@last") -> dict[str, bytes]:
    """The bytes of a checkpoint's tensors, and of the replay where there is one."""
    folder = run.checkpoint(which).path
    return {str(path.relative_to(folder)): path.read_bytes() for path in sorted(folder.rglob("*.safetensors"))}


def assert_same_run(one: Run, other: Run) -> None:
    """Every cell and every saved bit is equal."""
    rows, others = table(one), table(other)
    assert [row["total_timesteps"] for row in rows] == [row["total_timesteps"] for row in others]
    assert rows, "two runs without rows say nothing"
    for row, twin in zip(rows, others, strict=True):
        differing = {name: (cell, twin[name]) for name, cell in row.items() if cell != twin[name]}
        assert not differing, f"at env step {row['total_timesteps']}: {differing}"
    assert one.checkpoint("@last").step == other.checkpoint("@last").step
    assert saved(one) == saved(other)


# ── a workshop: one rollout of a cohort, and everything to learn from it ──


@dataclass(frozen=True)
class Workshop:
    """A cohort's parts without folders."""

    config: Config
    members: list[Member]
    env: Any
    plan: on_policy.Plan
    learner: on_policy.Learner
    position: on_policy.Position
    seed: torch.Tensor

    def numbers(self, env_steps: int = 0) -> Hyperparameters:
        return cohort.hyperparameters(self.members, env_steps, self.plan.policy, torch.device("cpu"))

    def collect(self, iteration: int = 0) -> Any:
        return on_policy.collect(self.plan, self.learner, self.env, self.position, self.seed, iteration, {"env": 0.0})

    def whole(self) -> Any:
        """The first rollout as one batch."""
        return on_policy.estimate_advantages(self.plan, self.learner, self.collect(), self.numbers())[0]

    def with_learner(self, **changes: Any) -> "Workshop":
        return replace(self, learner=replace(self.learner, **changes))


def member(config: Config) -> Member:
    """A member without a folder: for what only reads its config."""
    return Member(run=SimpleNamespace(id="none"), config=config, writer=None)  # type: ignore[arg-type]


def workshop(configs: Sequence[Config], factory: Callable[..., Any] | None = None) -> Workshop:
    config, seeds = configs[0], [config.seed for config in configs]
    env = envs.make(config.env, seeds, config.env.n_envs, factory=factory)
    plan = assembly.plan_for(config, env)
    learner = assembly.fresh_learner(plan, seeds, config.env.n_envs)
    position = on_policy.Position(env.reset(), env.action_mask)
    return Workshop(config, [member(each) for each in configs], env, plan, learner, position, torch.tensor(seeds).view(-1, 1, 1))

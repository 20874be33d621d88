"""The smallest cohorts that have everything: in memory, to look at one iteration, and in a folder, to look at what a run leaves."""

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import torch
from torch import Tensor

from rlclinic.config import Config
from rlclinic.runs.record import Run
from rlclinic.runs.store import Store
from rlclinic.training import assembly, envs, members
from rlclinic.training.data.rollouts import Batch, Rollout
from rlclinic.training.loops import on_policy
from rlclinic.training.loops.on_policy import Learner, Position

CPU = torch.device("cpu")


def config(env_id: str = "CartPole-v1", **parts: dict[str, Any]) -> Config:
    """PPO with two envs of 16 steps, two minibatches and two epochs; `parts` changes sections, another `name` replaces one."""
    settings: dict[str, dict[str, Any]] = {
        "env": {"id": env_id, "n_envs": 2},
        "algo": {"name": "ppo", "n_steps": 16, "batch_size": 16, "n_epochs": 2},
        "net": {"hidden": [8]},
        "run": {"max_env_steps": 192, "eval_every_env_steps": 64, "eval_episodes": 2},
    }
    changed = {name: part if "name" in part else {**settings[name], **part} for name, part in parts.items()}
    return Config.model_validate({**settings, **changed})


class Cohort:
    """Members of one shape, without folders: `iterate` does what a training iteration does and returns all of it."""

    def __init__(self, configs: Sequence[Config], seeds: Sequence[int] = (0, 1)) -> None:
        configs = list(configs) if len(configs) > 1 else [configs[0]] * len(seeds)
        self.config = configs[0]
        self.env = envs.make(self.config.env, list(seeds), self.config.env.n_envs)
        self.plan = assembly.plan_for(self.config, self.env)
        self.learner: Learner = assembly.fresh_learner(self.plan, list(seeds), self.config.env.n_envs)
        self.members: Any = [SimpleNamespace(config=each, adapted={}, active=True, numbers_key=repr(each.algo)) for each in configs]
        self.seed = torch.tensor(list(seeds)).view(-1, 1, 1)
        self.position = Position(self.env.reset(), self.env.action_mask)
        self.iteration = 0

    def numbers(self) -> SimpleNamespace:
        return members.hyperparameters(self.members, 0, self.plan.policy, CPU)

    def collect(self) -> Rollout:
        clock = {"env": 0.0}
        return on_policy.collect(self.plan, self.learner, self.env, self.position, self.seed, self.iteration, clock)

    def assess(self, rollout: Rollout) -> Batch:
        return on_policy.estimate_advantages(self.plan, self.learner, rollout, self.numbers())[0]

    def learn(self, whole: Batch, active: Tensor | None = None) -> tuple[Learner, dict[str, Tensor]]:
        return on_policy.learn(self.plan, self.learner, whole, self.numbers(), active, self.seed, self.iteration)[:2]

    def iterate(self) -> tuple[Rollout, Batch, dict[str, Tensor]]:
        rollout = self.collect()
        whole = self.assess(rollout)
        after, readings = self.learn(whole)
        everyone = torch.ones(len(self.members), 1, dtype=torch.bool)
        self.learner = on_policy.update_normalizers(self.plan, after, rollout, self.numbers(), everyone)
        self.iteration += 1
        return rollout, whole, readings

    def alone(self, index: int) -> "Cohort":
        """The same member in a cohort of its own, with the weights and statistics that it has here."""
        other = Cohort([self.members[index].config], [int(self.seed[index])])
        other.learner, other.iteration = _only(self.learner, index), self.iteration
        return other


def _only(learner: Learner, index: int) -> Learner:
    keep = slice(index, index + 1)
    stats: dict[str, Any] = {
        name: None if (part := getattr(learner, name)) is None else type(part)(*(tensor[keep] for tensor in part))
        for name in ("optimizer", "obs_stats", "reward_stats")
    }
    carry = None if learner.reward_carry is None else learner.reward_carry[keep]
    return replace(learner, flat=learner.flat[keep], reward_carry=carry, **stats)


def rows_of(batch: Batch, index: int) -> Batch:
    """One member's rows, as a batch of one member."""
    return Batch(*(None if field is None else field[index : index + 1] for field in batch))  # type: ignore[arg-type]


def folders(root: Path, made: Config, seeds: Sequence[int] = (0,)) -> list[Run]:
    """Run folders, ready to train."""
    return Store(root).create_group([made.model_copy(update={"seed": seed}) for seed in seeds]).runs


def rows_without_clock(run: Run) -> list[list[str]]:
    """metrics.csv as text, the columns that depend on the clock left out."""
    lines = [line.split(",") for line in (run.path / "metrics.csv").read_text().splitlines()]
    kept = [index for index, name in enumerate(lines[0]) if not name.startswith("time")]
    return [[line[index] for index in kept] for line in lines]


def last_policy(run: Run) -> bytes:
    return (run.checkpoint("@last").path / "policy.safetensors").read_bytes()

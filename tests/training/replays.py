"""Cohorts with a replay, without folders: to look at turns, batches and gradient steps one by one."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import torch

from rlclinic.config import Config
from rlclinic.training import assembly, envs, replay_assembly
from rlclinic.training import members as cohort
from rlclinic.training.algos.hyperparameters import Hyperparameters
from rlclinic.training.data import replay
from rlclinic.training.data.replay import Batch, Replay
from rlclinic.training.loops import off_policy
from rlclinic.training.loops.on_policy import Position
from tests.training.cohorts import TASKS, make_config, member, task_of

CPU = torch.device("cpu")


@dataclass
class Bench:
    """A cohort's parts; `turn` collects and learns as an iteration does."""

    config: Config
    members: list[Any]
    env: Any
    plan: off_policy.Plan
    learner: off_policy.Learner
    position: Position
    memory: Replay
    seed: torch.Tensor
    env_steps: int = 0
    readings: dict[str, list[torch.Tensor]] = field(default_factory=dict)

    def numbers(self) -> Hyperparameters:
        return cohort.replay_numbers(self.members, self.env_steps, self.plan.memory.action_size, CPU)

    def iterate(self, *, learn: bool = True) -> off_policy.Transitions:
        """One iteration; without learning, only its steps."""
        hp = self.numbers()
        collector = off_policy.Collector(self.plan, self.env, self.seed, self.env_steps, {"env": 0.0, "act": 0.0, "learn": 0.0})
        self.learner = off_policy.copy_learner(self.learner)
        for _ in range(self.plan.cycles):
            self.learner = collector.collect(self.learner, self.position, self.memory, hp)
            off_policy.follow_targets(self.plan, self.learner, hp, None, collector.env_steps - self.plan.cycle_size, collector.env_steps)
            if learn and collector.env_steps > self.plan.config.learning_starts:
                self.learner, self.readings = off_policy.learn(self.plan, self.learner, self.memory, hp, None, self.seed)
        self.env_steps = collector.env_steps
        return collector.transitions()

    def batch(self, size: int = 16) -> Batch:
        """A batch of what is remembered, as the networks see it."""
        index = replay.uniform(self.memory, self.seed, 10**6, 1, size)
        scale = off_policy.reward_scale(self.plan, self.learner)
        drawn = replay.gather(self.memory, index, self.plan.config.n_step, self.numbers().gamma, None, scale)
        return off_policy.prepare_batch(self.plan, self.learner, drawn)

    def noise(self, size: int) -> torch.Tensor | None:
        """The noise of a gradient step on such a batch."""
        drawn = off_policy.update_noise(self.plan, self.seed, 0, 1)
        return None if drawn is None else drawn[:, 0, ..., :size, :]


def bench(configs: Sequence[Config], factory: Callable[..., Any] | None = None) -> Bench:
    config, seeds = configs[0], [config.seed for config in configs]
    env = envs.make(config.env, seeds, config.env.n_envs, factory=factory)
    plan = assembly.plan_for(config, env)
    learner = assembly.fresh_learner(plan, seeds, config.env.n_envs)
    memory = replay_assembly.memory_for(plan, len(seeds), CPU)
    position = Position(env.reset(), env.action_mask)
    return Bench(config, [member(each) for each in configs], env, plan, learner, position, memory, torch.tensor(seeds).view(-1, 1, 1))


def of_kind(kind: str, seeds: Sequence[int] = (0, 1), env: dict[str, Any] | None = None, **changes: Any) -> Bench:
    """A bench of one of the tests' algorithms on its task, or on another env."""
    task = {**TASKS[task_of(kind)][0], **(env or {})} if "id" not in (env or {}) else env
    return bench([make_config(kind, task, seed, **changes) for seed in seeds])

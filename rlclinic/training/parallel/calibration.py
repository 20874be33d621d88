"""Whether ranks pay here: a few steps and gradients by one process alone, and by all ranks together, in environments of their own."""

from collections.abc import Callable
from dataclasses import replace
from time import perf_counter
from typing import Final, NamedTuple

from torch import Tensor

from rlclinic.config import numbers, value_at
from rlclinic.training import members
from rlclinic.training.algos.hyperparameters import Hyperparameters
from rlclinic.training.data.rollouts import Batch
from rlclinic.training.engines.cuda_graphs import products
from rlclinic.training.envs.base import VecEnv
from rlclinic.training.loops import on_policy
from rlclinic.training.loops.on_policy import Learner, Position, UpdateStep
from rlclinic.training.parallel.part import RankPart

STEPS: Final = 8
"""Env steps of a measurement."""
REPEATS: Final = 3
"""Of which the fastest counts: whatever else the machine does only takes time."""


class Speed(NamedTuple):
    """What an iteration takes, by what was measured of its parts."""

    alone_seconds: float
    together_seconds: float

    @property
    def speedup(self) -> float:
        """How many times as fast as one process."""
        return self.alone_seconds / self.together_seconds


def measure(part: RankPart) -> Speed:
    """Rank 0's side: alone, while the others wait, and then with them."""
    from rlclinic.training import assembly

    config = part.config
    env = assembly.make_own_env(config, part.seeds, str(part.ranks.device), None, [], slice(0, config.env.n_envs))
    try:
        alone = _time(part, env, 0, on_policy.update_step, lambda: None)
    finally:
        env.close()
    part.ranks.announce("calibrate")
    return Speed(alone, together(part))


def together(part: RankPart) -> float:
    """Seconds of an iteration by all ranks."""
    from rlclinic.training import assembly

    env = assembly.make_own_env(part.config, part.seeds, str(part.ranks.device), None, [], part.share)
    try:
        return _time(part, env, part.share.start, part.update_step, part.ranks.meet)
    finally:
        env.close()


def _time(part: RankPart, env: VecEnv, first_env: int, step: UpdateStep, meet: Callable[[], object]) -> float:
    """Seconds of an iteration: its env steps, its passes over the rollout and its gradient steps, each as measured."""
    from rlclinic.training import assembly

    config, plan, device = part.config, part.plan, part.ranks.device
    short = replace(plan, config=plan.config.model_copy(update={"n_steps": STEPS}))
    learner = assembly.fresh_learner(plan, part.seeds, config.env.n_envs, device)
    assert isinstance(learner, Learner)
    shares = step == part.update_step
    learner = part.share_out(learner) if shares else learner
    hp = _numbers(part)
    position = Position(env.reset(), env.action_mask)
    joined, played, learned, batch = [], [], [], None
    for _ in range(REPEATS):
        meet()
        started = perf_counter()
        playing = part.join_to_play(learner) if shares else learner
        joined.append(perf_counter() - started)
        started = perf_counter()
        rollout = on_policy.collect(short, playing, env, position, part.seed, 0, {"env": 0.0}, first_env=first_env)
        own, _ = on_policy.assess(short, playing, rollout, hp)
        played.append(perf_counter() - started)
        del playing
        batch = _fill(own, plan.batch_rows) if batch is None else batch
        meet()
        started = perf_counter()
        with products(tf32=plan.precision == "tf32"):  # alone, too: bits are not what ranks save
            step(plan, learner.flat, learner.optimizer, batch, hp, None)
        learned.append(perf_counter() - started)
    steps = plan.config.n_steps / STEPS
    updates = plan.n_epochs * plan.rollout_size / plan.batch_rows
    return min(joined) + steps * min(played) + updates * min(learned)


def _fill(batch: Batch, rows: int) -> Batch:
    """A minibatch of so many rows, out of fewer that come again and again."""

    def filled(field: Tensor) -> Tensor:
        return field.repeat(1, -(-rows // field.shape[1]), *(1,) * (field.dim() - 2))[:, :rows].contiguous()

    return Batch(*(None if field is None else filled(field) for field in batch))  # type: ignore[arg-type]


def _numbers(part: RankPart) -> Hyperparameters:
    config = part.config
    given = {
        name: None if number is None else value_at(number, 0, config.run.max_env_steps) for name, number in numbers(config.algo).items()
    }
    return members.from_numbers([given] * len(part.seeds), part.plan.policy, part.ranks.device)

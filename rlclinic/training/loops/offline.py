"""Gradient steps on recorded data: what remains of learning from a replay when nobody acts; and on batches of it and of a replay."""

from dataclasses import replace

import torch
from torch import Tensor

from rlclinic.training.algos.hyperparameters import Hyperparameters
from rlclinic.training.data import replay
from rlclinic.training.data.recorded import Recorded
from rlclinic.training.data.replay import Batch, Replay
from rlclinic.training.loops import off_policy
from rlclinic.training.loops.off_policy import Learner, Plan


def learn(
    plan: Plan, learner: Learner, data: Recorded, hp: Hyperparameters, active: Tensor | None, seed: Tensor, updates: int | None = None
) -> tuple[Learner, dict[str, Tensor]]:
    """An iteration's gradient steps, each on rows of its own; readings are [U, M, ...]. updates: a cycle's one each, unless given."""
    updates = plan.cycles if updates is None else updates
    rows = data.draw(seed, learner.updates, updates, plan.config.batch_size)
    noise = off_policy.update_noise(plan, seed, learner.updates, updates)
    return take_steps(plan, off_policy.copy_learner(learner), data, hp, active, rows, noise)


@torch.no_grad()
def take_steps(
    plan: Plan, learner: Learner, data: Recorded, hp: Hyperparameters, active: Tensor | None, rows: Tensor, noise: Tensor | None
) -> tuple[Learner, dict[str, Tensor]]:
    """Gradient steps on rows [M, U * B] with noise [M, U, ...], on a learner that is ours to edit."""
    size = plan.config.batch_size
    updates = rows.shape[1] // size
    together = batches_together(plan, updates)
    readings: dict[str, list[Tensor]] = {}
    for start in range(0, updates, together):
        count = min(together, updates - start)
        whole = batch_of(plan, learner, data, rows[:, start * size : (start + count) * size], hp)
        for place, batch in enumerate(whole.split(size)):
            found = plan.updates.update(plan, learner, batch, hp, active, None if noise is None else noise[:, start + place])
            learner = replace(learner, updates=learner.updates + 1)
            for name, reading in found.items():
                readings.setdefault(name, []).append(reading)
    return learner, {name: torch.stack(each) for name, each in readings.items()}


def batches_together(plan: Plan, updates: int) -> int:
    """As many batches as are worth gathering at once: by what one member gathers, so that all of a cohort go as each would alone."""
    return max(1, min(updates, off_policy.LARGEST_GATHER // (plan.config.batch_size * plan.memory.width)))


def batch_of(plan: Plan, learner: Learner, data: Recorded, rows: Tensor, hp: Hyperparameters) -> Batch:
    """Transitions at rows [M, K] as the networks see them; of an algorithm that sees more than a step, what lies before them."""
    if hasattr(plan.algo, "gather"):
        found: Batch = plan.algo.gather(plan, learner, data, rows)
        return found
    return off_policy.prepare_batch(plan, learner, data.gather(rows, hp.gamma, learner.reward_stats, plan.env.clip_reward))


@torch.no_grad()
def learn_mixed(
    plan: Plan,
    learner: Learner,
    data: Recorded,
    memory: Replay,
    recorded: int,
    hp: Hyperparameters,
    active: Tensor | None,
    seed: Tensor,
    noise: Tensor | None,
) -> tuple[Learner, dict[str, list[Tensor]]]:
    """A cycle's gradient steps, in place, on batches of so many recorded rows and of rows of the replay; noise is [M, U, ...]."""
    size, updates = plan.config.batch_size, plan.updates_per_cycle
    bits = replay.random_bits(seed, learner.updates, updates, size).unflatten(1, (updates, size))
    readings: dict[str, list[Tensor]] = {}
    for update in range(updates):
        batch = mixed_batch(plan, learner, data, memory, bits[:, update, :recorded], bits[:, update, recorded:], hp)
        found = plan.updates.update(plan, learner, batch, hp, active, None if noise is None else noise[:, update])
        learner = replace(learner, updates=learner.updates + 1)
        for name, reading in found.items():
            readings.setdefault(name, []).append(reading)
    return learner, readings


def mixed_batch(plan: Plan, learner: Learner, data: Recorded, memory: Replay, recorded: Tensor, new: Tensor, hp: Hyperparameters) -> Batch:
    """Recorded rows, then rows of the replay, drawn by random bits [M, K] each, as the networks see them."""
    chosen = recorded % data.size
    old = data.gather(chosen if data.chosen is None else data.chosen[chosen], hp.gamma, learner.reward_stats, plan.env.clip_reward)
    own = replay.gather(memory, new % memory.size, 1, hp.gamma, None, off_policy.reward_scale(plan, learner))
    own = own._replace(action=own.action.to(old.action.dtype))
    parts = (torch.cat([first, second], 1) for first, second in zip(old[:5], own[:5], strict=True))
    return off_policy.prepare_batch(plan, learner, Batch(*parts))


@torch.no_grad()
def summarize(plan: Plan, readings: dict[str, Tensor]) -> dict[str, Tensor]:
    """What a row is made of, [U, M] by column."""
    found = {"grad_norm/all": readings["norm"].squeeze(-1)}
    if "q" in readings:
        q = readings["q"]
        found |= {"metrics/q_mean": q.mean(-1), "metrics/q_min": q.amin(-1), "metrics/q_max": q.amax(-1)}
    return found | plan.algo.summarize(readings)

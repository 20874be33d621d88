"""Gradient steps on recorded data: what remains of learning from a replay when nobody acts."""

from dataclasses import replace

import torch
from torch import Tensor

from rlclinic.training.algos.hyperparameters import Hyperparameters
from rlclinic.training.data.recorded import Recorded
from rlclinic.training.data.replay import Batch
from rlclinic.training.loops import off_policy
from rlclinic.training.loops.off_policy import Learner, Plan


def learn(
    plan: Plan, learner: Learner, data: Recorded, hp: Hyperparameters, active: Tensor | None, seed: Tensor
) -> tuple[Learner, dict[str, Tensor]]:
    """An iteration's gradient steps, each on rows of its own; readings are [U, M, ...]."""
    rows = data.draw(seed, learner.updates, plan.cycles, plan.config.batch_size)
    noise = off_policy.update_noise(plan, seed, learner.updates, plan.cycles)
    return take_steps(plan, off_policy.copy_learner(learner), data, hp, active, rows, noise)


@torch.no_grad()
def take_steps(
    plan: Plan, learner: Learner, data: Recorded, hp: Hyperparameters, active: Tensor | None, rows: Tensor, noise: Tensor | None
) -> tuple[Learner, dict[str, Tensor]]:
    """Gradient steps on rows [M, U * B] with noise [M, U, ...], on a learner that is ours to edit."""
    size = plan.config.batch_size
    updates = rows.shape[1] // size
    # As many batches at once as are worth it: by what one member gathers, so that all of a cohort take the way that each would alone.
    together = max(1, min(updates, off_policy.LARGEST_GATHER // (size * plan.memory.width)))
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


def batch_of(plan: Plan, learner: Learner, data: Recorded, rows: Tensor, hp: Hyperparameters) -> Batch:
    """Transitions at rows [M, K] as the networks see them."""
    return off_policy.prepare_batch(plan, learner, data.gather(rows, hp.gamma, learner.reward_stats, plan.env.clip_reward))


@torch.no_grad()
def summarize(plan: Plan, readings: dict[str, Tensor]) -> dict[str, Tensor]:
    """What a row is made of, [U, M] by column."""
    found = {"grad_norm/all": readings["norm"].squeeze(-1)}
    if "q" in readings:
        q = readings["q"]
        found |= {"metrics/q_mean": q.mean(-1), "metrics/q_min": q.amin(-1), "metrics/q_max": q.amax(-1)}
    return found | plan.algo.summarize(readings)

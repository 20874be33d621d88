"""One iteration of a cohort that learns from recorded data: gradient steps, and what is said of them. Nothing is collected."""

import time
from dataclasses import replace
from typing import TYPE_CHECKING

import torch
from torch import Tensor

from rlclinic.training import failures, members
from rlclinic.training.algos.hyperparameters import Hyperparameters
from rlclinic.training.data.recorded import Recorded
from rlclinic.training.data.replay import Batch
from rlclinic.training.loops import off_policy
from rlclinic.training.loops.off_policy import Learner, Plan
from rlclinic.training.loops.off_policy_iteration import no_denormals
from rlclinic.training.sentinels import offline_sentinels

if TYPE_CHECKING:
    from rlclinic.training.assembly import Cohort
    from rlclinic.training.trainer import Session


def iterate(session: "Session", *, row_due: bool, costly: bool, testimony: bool = False) -> dict[str, Tensor]:
    """An iteration of every member; returns sentinels if a row is due."""
    cohort, clock = session.cohort, session.clock
    plan, before, data = parts(cohort)
    hp = members.replay_numbers(cohort.members, cohort.env_steps, plan.memory.action_size, cohort.device)
    mask = members.active_mask(cohort.members, cohort.device)
    session.numbers = hp.per_member
    started = time.perf_counter()
    with no_denormals():
        learner, readings = learn(plan, before, data, hp, None if hp.going is None else mask, cohort.seed)
    learner = failures.keep_finite_replay(cohort, before, learner, None, readings)
    session.waiting.append(summarize(plan, readings))
    learned = time.perf_counter()
    clock["learn"] += learned - started
    found: dict[str, Tensor] = {}
    if row_due:
        found = offline_sentinels.every_row(plan, before, learner, readings, hp)
    if row_due and costly:
        found |= offline_sentinels.now_and_then(plan, learner, data, hp)
    clock["sentinels"] += time.perf_counter() - learned
    cohort.learner = learner
    return found


def parts(cohort: "Cohort") -> tuple[Plan, Learner, Recorded]:
    """What belongs to recorded data of a cohort: plan, learner and data."""
    assert isinstance(cohort.plan, Plan)
    assert isinstance(cohort.learner, Learner)
    assert cohort.data is not None
    return cohort.plan, cohort.learner, cohort.data


@torch.no_grad()
def learn(
    plan: Plan, learner: Learner, data: Recorded, hp: Hyperparameters, active: Tensor | None, seed: Tensor
) -> tuple[Learner, dict[str, Tensor]]:
    """An iteration's gradient steps, each on rows of its own; readings are [U, M, ...]."""
    learner = off_policy.copy_learner(learner)
    size, updates, first = plan.config.batch_size, plan.cycles, learner.updates
    rows = data.draw(seed, first, updates, size)
    noise = off_policy.update_noise(plan, seed, first, updates)
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

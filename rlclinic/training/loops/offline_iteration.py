"""One iteration of a cohort that learns from recorded data: gradient steps, and what is said of them.

Nothing is collected, up to the step at which the config sends it to the environment (data.then_online). From there on it acts, remembers,
and learns from batches of both. Normalizers stay as the data made them: the networks know no other scale.
"""

import time
from dataclasses import replace
from typing import TYPE_CHECKING

from torch import Tensor

from rlclinic.training import failures, members
from rlclinic.training.algos.hyperparameters import Hyperparameters
from rlclinic.training.data.recorded import Recorded
from rlclinic.training.engines.captured_offline import CapturedOffline
from rlclinic.training.loops import off_policy, offline
from rlclinic.training.loops.off_policy import Learner, Plan
from rlclinic.training.loops.off_policy_iteration import no_denormals, stack_readings
from rlclinic.training.sentinels import off_policy_sentinels, offline_sentinels

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
    if is_online(cohort):
        return act_and_learn(session, hp, None if hp.going is None else mask, row_due=row_due, costly=costly)
    started = time.perf_counter()
    with no_denormals():
        if isinstance(cohort.engine, CapturedOffline):
            learner, readings = cohort.engine.learn(plan, before, data, hp, mask, cohort.seed)
        else:
            steps = cohort.config.rollout_size
            learner, readings = offline.learn(plan, before, data, hp, None if hp.going is None else mask, cohort.seed, steps)
    learner = failures.keep_finite_replay(cohort, before, learner, None, readings)
    session.waiting.append(offline.summarize(plan, readings))
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


def is_online(cohort: "Cohort") -> bool:
    """Whether the iteration that comes acts."""
    first = cohort.config.online_from
    return first is not None and cohort.env_steps >= first


def act_and_learn(session: "Session", hp: Hyperparameters, active: Tensor | None, *, row_due: bool, costly: bool) -> dict[str, Tensor]:
    """An iteration in the environment: cycles of acting, remembering, and learning from what is recorded and what is new."""
    cohort, clock = session.cohort, session.clock
    plan, before, data = parts(cohort)
    memory, settings = cohort.memory, cohort.config.data
    assert memory is not None
    assert settings is not None
    recorded = round(settings.recorded_share * plan.config.batch_size)
    learner = off_policy.copy_learner(before)
    collector = off_policy.Collector(plan, cohort.env, cohort.seed, cohort.env_steps, clock)
    updates = plan.updates_per_cycle
    noise = off_policy.update_noise(plan, cohort.seed, learner.updates, plan.cycles * updates)
    cycles: list[dict[str, list[Tensor]]] = []
    for cycle in range(plan.cycles):
        learner = collector.collect(learner, cohort.position, memory, hp)
        started = time.perf_counter()
        with no_denormals():
            own = None if noise is None else noise[:, cycle * updates : (cycle + 1) * updates]
            learner, found = offline.learn_mixed(plan, learner, data, memory, recorded, hp, active, cohort.seed, own)
        cycles.append(found)
        clock["learn"] += time.perf_counter() - started
    transitions, readings = collector.transitions(), stack_readings(cycles)
    learner = failures.keep_finite_replay(cohort, before, learner, transitions, readings)
    session.waiting.append(offline.summarize(plan, readings))
    cohort.episodes.add(transitions)  # type: ignore[arg-type]  # of a rollout it reads what both have
    started = time.perf_counter()
    learner = replace(learner, reward_bound=off_policy_sentinels.largest(plan, learner, transitions))
    sentinels: dict[str, Tensor] = {}
    if row_due:
        sentinels = offline_sentinels.every_row(plan, before, learner, readings, hp)
    if row_due and costly:
        sentinels |= offline_sentinels.now_and_then(plan, learner, data, hp)
    clock["sentinels"] += time.perf_counter() - started
    cohort.learner = learner
    failures.environments(cohort)
    return sentinels


def parts(cohort: "Cohort") -> tuple[Plan, Learner, Recorded]:
    """What belongs to recorded data of a cohort: plan, learner and data."""
    assert isinstance(cohort.plan, Plan)
    assert isinstance(cohort.learner, Learner)
    assert cohort.data is not None
    return cohort.plan, cohort.learner, cohort.data

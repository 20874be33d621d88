"""One iteration of a cohort that learns from recorded data: gradient steps, and what is said of them. Nothing is collected."""

import time
from typing import TYPE_CHECKING

from torch import Tensor

from rlclinic.training import failures, members
from rlclinic.training.data.recorded import Recorded
from rlclinic.training.engines.captured_offline import CapturedOffline
from rlclinic.training.loops import offline
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
        if isinstance(cohort.engine, CapturedOffline):
            learner, readings = cohort.engine.learn(plan, before, data, hp, mask, cohort.seed)
        else:
            learner, readings = offline.learn(plan, before, data, hp, None if hp.going is None else mask, cohort.seed)
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


def parts(cohort: "Cohort") -> tuple[Plan, Learner, Recorded]:
    """What belongs to recorded data of a cohort: plan, learner and data."""
    assert isinstance(cohort.plan, Plan)
    assert isinstance(cohort.learner, Learner)
    assert cohort.data is not None
    return cohort.plan, cohort.learner, cohort.data

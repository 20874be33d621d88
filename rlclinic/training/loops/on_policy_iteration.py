"""One iteration of a cohort that learns on-policy, with everything around the arithmetic: clocks, failures, sentinels, normalizers."""

import time
from typing import TYPE_CHECKING

from torch import Tensor

from rlclinic.training import failures, members
from rlclinic.training.actors.pool import Actors
from rlclinic.training.algos.hyperparameters import Hyperparameters
from rlclinic.training.curriculum import staged
from rlclinic.training.data.rollouts import Rollout
from rlclinic.training.engines import asynchronous
from rlclinic.training.engines.captured import Captured
from rlclinic.training.engines.eager import Engine
from rlclinic.training.loops import on_policy
from rlclinic.training.loops.on_policy import Iteration, Learner, Plan
from rlclinic.training.parallel import engine as parallel
from rlclinic.training.parallel.spread_env import SpreadEnv
from rlclinic.training.pending_row import CapturedOutcome
from rlclinic.training.recording import histograms
from rlclinic.training.sentinels import environment, on_policy_sentinels, terms
from rlclinic.training.sentinels.on_policy_sentinels import Seen

if TYPE_CHECKING:
    from rlclinic.training.assembly import Cohort
    from rlclinic.training.trainer import Session


def iterate(session: "Session", *, row_due: bool, costly: bool, testimony: bool = False) -> dict[str, Tensor]:
    """One iteration of every member; returns sentinels if a row is due."""
    cohort, clock = session.cohort, session.clock
    plan, learner = parts(cohort)
    hp = members.hyperparameters(cohort.members, cohort.env_steps, plan.policy, cohort.device)
    mask = cohort.mask()
    active = None if all(member.active for member in cohort.members) else mask
    session.numbers = hp.per_member

    engine: Engine = cohort.engine  # type: ignore[assignment]  # an on-policy plan's
    inputs = on_policy.IterationInputs(plan, learner, cohort.env, cohort.position, hp, active, cohort.seed, cohort.iteration, clock)
    iteration = engine.iterate(inputs)
    started = time.perf_counter()
    rollout, readings, after = iteration.rollout, iteration.readings, iteration.after
    session.waiting.append(readings)
    if iteration.alive is None:
        after = failures.keep_finite(cohort, iteration.before, after, rollout, iteration.whole, readings)
        elapsed = cohort.episodes.add(rollout, iteration.first_env)
    else:
        # The engine has taken back what was not finite. Nothing is read before a row is written, so that the GPU never waits for us.
        cohort.episodes.keep(rollout)
        if row_due:
            elapsed, ended = cohort.episodes.settle()
            session.outcome = CapturedOutcome(iteration.alive.clone(), ended)
    learned = time.perf_counter()
    clock["learn"] += learned - started
    sentinels = {}
    if row_due:
        estimates, last_minibatch = iteration.estimates, iteration.last_minibatch
        seen = Seen(iteration.before, after, rollout, iteration.whole, estimates, readings, last_minibatch, elapsed)
        sentinels = compute_sentinels(session, seen, hp, costly) | (iteration.bonus or {})
        if iteration.arrived is not None and isinstance(cohort.env, Actors):
            own = asynchronous.sentinels(plan, cohort.env, iteration.before, iteration.arrived)
            sentinels |= name_columns(own)
            for name in ("target_error", "target_error_ends") if plan.corrects_for_age else ():
                # V-trace's targets follow another recursion than the one these are held to, wherever data is older than the weights.
                sentinels.pop(on_policy_sentinels.PREFIX + name, None)
        if cohort.config.env.term_advantages:
            told = getattr(cohort.env, "step_info", ()), getattr(cohort.env, "term_factors", None)
            sentinels |= terms.share_advantages(plan, iteration.before, rollout, iteration.estimates.advantage, hp, *told)
        if testimony:
            sentinels |= environment.of_rollout(rollout, elapsed, cohort.env)
    clock["sentinels"] += time.perf_counter() - learned
    if session.histograms_due:
        histograms.record(session, histograms.of_rollout(plan, iteration, after))

    if (curriculum := staged.find(cohort.env)) is not None:
        curriculum.score(judge_values(iteration, plan))
    cohort.learner = on_policy.update_normalizers(plan, after, rollout, hp, mask, iteration.first_env)
    if row_due and isinstance(cohort.env, SpreadEnv):
        sentinels |= hear_ranks(session, cohort.env, rollout, costly)
    failures.environments(cohort)
    if "kl" in readings and members.adaptive(cohort.members):
        for member, kl in zip(cohort.members, last_tried(readings, "kl").tolist(), strict=True):
            members.adapt(member, kl)
    return sentinels


def judge_values(iteration: Iteration, plan: Plan) -> Tensor:
    """How wrong the task's own values were, [M, T*N]: what a bonus or a limit on costs adds to advantages says nothing of that."""
    if plan.bonus is None and plan.constraint is None:
        return iteration.estimates.advantage
    return iteration.whole.returns - iteration.whole.value


def hear_ranks(session: "Session", env: SpreadEnv, rollout: Rollout, costly: bool) -> dict[str, Tensor]:
    """Whether the ranks still agree, and what they wait for."""
    started = time.perf_counter()
    said = parallel.testify(env, parts(session.cohort)[1], rollout, costly=costly)
    session.clock["sentinels"] += time.perf_counter() - started
    return name_columns(said)


def name_columns(said: dict[str, Tensor]) -> dict[str, Tensor]:
    """Sentinels by column; what depends on the clock or the machine has its own."""
    return {name if name.startswith("time/") else on_policy_sentinels.PREFIX + name: number for name, number in said.items()}


def parts(cohort: "Cohort") -> tuple[Plan, Learner]:
    """What is on-policy of a cohort: plan and learner."""
    assert isinstance(cohort.plan, Plan)
    assert isinstance(cohort.learner, Learner)
    return cohort.plan, cohort.learner


def last_tried(readings: dict[str, Tensor], name: str) -> Tensor:
    """A reading [U, M] at the last gradient step that each member tried, [M]: the one that target_kl refused, or the last of all."""
    steps = readings["applied"].sum(0, keepdim=True).long().clamp(max=len(readings["applied"]) - 1)
    return readings[name].gather(0, steps).squeeze(0)


def compute_sentinels(session: "Session", seen: Seen, hp: Hyperparameters, costly: bool) -> dict[str, Tensor]:
    """The sentinels of this row."""
    cohort = session.cohort
    compute = cohort.engine.sentinels if isinstance(cohort.engine, Captured) else on_policy_sentinels.compute
    return compute(parts(cohort)[0], cohort.env, seen, hp, costly=costly)

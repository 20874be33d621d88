"""One iteration of a cohort that learns from a replay, with everything around the arithmetic: clocks, failures, sentinels."""

import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import TYPE_CHECKING

import torch
from torch import Tensor

from rlclinic.training import failures, members
from rlclinic.training.algos.hyperparameters import Hyperparameters
from rlclinic.training.data.replay import Replay
from rlclinic.training.engines.captured_replay import CapturedReplay
from rlclinic.training.envs.base import VecEnv
from rlclinic.training.envs.native.engine import NativeEnv
from rlclinic.training.loops import off_policy
from rlclinic.training.loops.off_policy import Learner, Plan
from rlclinic.training.recording import histograms
from rlclinic.training.sentinels import environment, off_policy_sentinels
from rlclinic.training.sentinels.off_policy_sentinels import Seen

if TYPE_CHECKING:
    from rlclinic.training.assembly import Cohort
    from rlclinic.training.trainer import Session


def iterate(session: "Session", *, row_due: bool, costly: bool, testimony: bool = False) -> dict[str, Tensor]:
    """One iteration of every member; returns sentinels if a row is due."""
    cohort, clock = session.cohort, session.clock
    plan, before, memory = parts(cohort)
    hp = members.replay_numbers(cohort.members, cohort.env_steps, plan.memory.action_size, cohort.device)
    mask = members.active_mask(cohort.members, cohort.device)
    session.numbers = hp.per_member
    bonus: dict[str, Tensor] = {}
    paid = None
    if isinstance(cohort.engine, CapturedReplay) and cohort.env_steps > max(plan.config.learning_starts, cohort.refill_until):
        assert isinstance(cohort.env, NativeEnv)
        started = time.perf_counter()
        given, before = before, off_policy.copy_learner(before)  # the graph edits what it has given out
        learner, taken = cohort.engine.iterate(plan, given, cohort.env, cohort.position, memory, hp, mask, cohort.seed, cohort.env_steps)
        transitions, readings = taken.transitions, taken.readings
        clock["learn"] += time.perf_counter() - started
    else:
        learner, collector, readings = collect_and_learn(session, memory, hp, None if hp.going is None else mask)
        transitions, bonus, paid = collector.transitions(), collector.bonus, collector.paid()
    started = time.perf_counter()
    learner = failures.keep_finite_replay(cohort, before, learner, transitions, readings)
    session.waiting.append(summarize(plan, readings))
    cohort.episodes.add(transitions)  # type: ignore[arg-type]  # of a rollout it reads what both have
    learned = time.perf_counter()
    clock["learn"] += learned - started
    learner = replace(learner, reward_bound=off_policy_sentinels.largest(plan, learner, transitions, paid))
    found = compute_sentinels(session, memory, Seen(before, learner, transitions, readings), costly) | bonus if row_due else {}
    if testimony:
        found |= environment.of_replay(plan, learner, memory, cohort.env)
    clock["sentinels"] += time.perf_counter() - learned
    if session.histograms_due:
        histograms.record(session, histograms.of_transitions(plan, transitions, before, learner))

    cohort.learner = off_policy.update_normalizers(plan, learner, transitions, hp, mask)
    failures.environments(cohort)
    return found


def parts(cohort: "Cohort") -> tuple[Plan, Learner, Replay]:
    """What is a replay's of a cohort: plan, learner and memory."""
    assert isinstance(cohort.plan, Plan)
    assert isinstance(cohort.learner, Learner)
    assert cohort.memory is not None
    return cohort.plan, cohort.learner, cohort.memory


def collect_and_learn(
    session: "Session", memory: Replay, hp: Hyperparameters, active: Tensor | None
) -> tuple[Learner, off_policy.Collector, dict[str, Tensor]]:
    """An iteration operation by operation: cycles of acting, remembering and learning."""
    cohort, clock = session.cohort, session.clock
    plan, learner, _ = parts(cohort)
    learner = off_policy.copy_learner(learner)
    collector = off_policy.Collector(plan, cohort.env, cohort.seed, cohort.env_steps, clock)
    draws = off_policy.Draws(plan, cohort.seed, learner.updates, plan.cycles * plan.updates_per_cycle)
    readings: list[dict[str, list[Tensor]]] = []
    renewed = 0
    with torch.inference_mode(needs_no_autograd(plan, cohort.env, cohort.device)):
        for _ in range(plan.cycles):
            kept = target_versions(learner)
            learner = collector.collect(learner, cohort.position, memory, hp)
            off_policy.follow_targets(plan, learner, hp, active, collector.env_steps - plan.cycle_size, collector.env_steps)
            if collector.env_steps > max(plan.config.learning_starts, cohort.refill_until):
                started = time.perf_counter()
                with no_denormals():
                    learner, found = off_policy.learn(plan, learner, memory, hp, active, cohort.seed, draws)
                    off_policy.average(plan, learner, active)
                readings.append(found)
                clock["learn"] += time.perf_counter() - started
            renewed += target_versions(learner) != kept
    together = stack_readings(readings)
    if together:
        together["renewed"] = torch.full(together["q"].shape[:2], renewed / plan.cycles, device=cohort.device)
    return learner, collector, together


def needs_no_autograd(plan: Plan, env: VecEnv, device: torch.device) -> bool:
    """Whether nothing in an iteration needs autograd's books, which take a fifth of a small operation's time.

    What is made without them can be read anywhere, but edited only there: so not where others keep tensors and write to them later.
    """
    by_hand = plan.fast is not None and plan.bonus is None and all(net.written_out for net in plan.nets.values())
    return by_hand and device.type == "cpu" and env.exact and not plan.memory.prioritized


def target_versions(learner: Learner) -> list[tuple[int, int]]:
    """Which tensors the targets are, and how often each has been written to: another answer is another target."""
    return [(id(flat), flat._version) for name, flat in learner.targets.items() if name != off_policy.AVERAGE]


@contextmanager
def no_denormals() -> Iterator[None]:
    """Squares of tiny gradients are numbers below 1e-38, with which a CPU takes ten times as long; here they are 0."""
    torch.set_flush_denormal(True)
    try:
        yield
    finally:
        torch.set_flush_denormal(False)


def stack_readings(readings: list[dict[str, list[Tensor]]]) -> dict[str, Tensor]:
    """Readings of all gradient steps of the iteration, [U, M, ...]; a name that not every step has keeps those that have it."""
    names = dict.fromkeys(name for cycle in readings for name in cycle)
    return {name: torch.stack([each for cycle in readings for each in cycle.get(name, [])]) for name in names}


@torch.no_grad()
def summarize(plan: Plan, readings: dict[str, Tensor]) -> dict[str, Tensor]:
    """What a row is made of, [U, M] by column; empty before the first gradient step."""
    if not readings:
        return {}
    q = readings["q"]
    found = {"metrics/q_mean": q.mean(-1), "metrics/q_min": q.amin(-1), "metrics/q_max": q.amax(-1)}
    if "renewed" in readings:
        found["sentinel/target_updates"] = readings["renewed"]
    return found | {"grad_norm/all": readings["norm"].squeeze(-1)} | plan.algo.summarize(readings)


def compute_sentinels(session: "Session", memory: Replay, seen: Seen, costly: bool) -> dict[str, Tensor]:
    """The sentinels of this row."""
    cohort = session.cohort
    plan = parts(cohort)[0]
    hp = members.replay_numbers(cohort.members, cohort.env_steps, plan.memory.action_size, cohort.device)
    found = off_policy_sentinels.every_row(plan, seen, cohort.env, memory, hp)
    if costly:
        found |= off_policy_sentinels.now_and_then(plan, seen, memory, hp)
    return found

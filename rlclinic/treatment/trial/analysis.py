"""What a trial's data say: at each look, whether to go on; at the end, verdicts, effects and intervals."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, NamedTuple

import numpy as np

from rlclinic import stats
from rlclinic.treatment.trial import outcomes, sequential
from rlclinic.treatment.trial.models import (
    CENSORED_OUTCOMES,
    ArmProgress,
    ArmResult,
    Effect,
    Look,
    Observation,
    Range,
    TrialPlan,
    Verdict,
    as_range,
)
from rlclinic.treatment.trial.sequential import Arrivals, Bounds, Call, Interval, Strata

LookData = Mapping[str, Sequence[Observation]]
"""Observations of one look by arm; an arm that was settled before is not in it."""
_VERDICTS: Final[dict[Call, Verdict]] = {
    "better": "adopt",
    "worse": "reject",
    "equivalent": "equivalent",
    "less reliable": "less reliable",
    "mixed": "mixed",
    "futile": "undecided",
}
NOBODY: Final = "no run of any arm reached the threshold: nothing tells the arms apart"
FUTILE: Final = "an effect that this trial sees in 9 of 10 cases would have shown by now; the rest was not trained"
ALL_TIED: Final = "all runs came out the same (at the first evaluation?): nothing tells the arms apart"


@dataclass
class Standing:
    """Where a trial stands after its looks so far."""

    plan: TrialPlan
    data: list[LookData] = field(default_factory=list)
    looks: list[Look] = field(default_factory=list)
    calls: dict[str, Call] = field(default_factory=dict)
    """Arms that are settled."""
    reason: str = ""
    ranked_together: bool = False
    """Whether the runs of all looks are ranked together, as those of one of several environments are; else each look by itself."""
    shares_means: bool = False
    """Whether mean log times are compared over several environments, of which this is one."""

    @property
    def active(self) -> list[str]:
        """Treatment arms that are still open."""
        return [arm.name for arm in self.plan.treatments if arm.name not in self.calls]

    @property
    def decided(self) -> bool:
        """Whether there is nothing left to train for."""
        better = "better" in self.calls.values()
        return bool(self.reason) or better or not self.active or len(self.looks) >= self.plan.last_look

    def add(self, data: LookData, seconds: float = 0.0) -> Look:
        """Look at one more batch of runs."""
        self.data.append(data)
        return self._judge(*self._weigh(len(self.data), {name: self.strata(name) for name in self.active}), seconds)

    def _judge(self, z: dict[str, float], bounds: dict[str, Bounds], pooled: Bounds, seconds: float, **more: Any) -> Look:
        """Settle what the statistics of a look settle, and write the look down; `more` are fields of it."""
        number = len(self.data)
        fresh: dict[str, Call] = {}
        for name in z:
            last = number >= self.plan.last_look
            called = self._call(name, z[name], bounds[name], last)
            if called is None and self._equivalent(name, self._equivalence_limit(number, pooled)):
                called = "equivalent"
            if called is None and not last and self._is_futile(name, number, z[name]):
                called = "futile"
            if called is not None:
                fresh[name] = called
        self.calls |= fresh
        self.reason = self._find_dead_end(list(z))
        if not self.reason and not self.active and set(self.calls.values()) == {"futile"}:
            self.reason = FUTILE
        strictest = Bounds(*(max(side) for side in zip(*bounds.values(), strict=True))) if bounds else pooled
        look = Look(
            number=number,
            seeds=sum(len(part[self.plan.control.name]) for part in self.data),
            z=z,
            bound=strictest.better,
            worse_bound=strictest.worse,
            pooled=None if number <= self.plan.looks else (pooled.better, pooled.worse),
            calls=dict(fresh),
            decided=False,
            seconds=seconds,
            **more,
        )
        self.looks.append(look)
        self.looks[-1] = look.model_copy(update={"decided": self.decided})
        return self.looks[-1]

    def _call(self, arm: str, z: float, bounds: Bounds, last: bool) -> Call | None:
        """What a look says about an arm by its statistic and its arrivals."""
        return sequential.call(z, bounds, self.arrivals(arm), self.plan.arrival_margin, last=last)

    def _weigh(self, number: int, treatments: Mapping[str, Strata]) -> tuple[dict[str, float], dict[str, Bounds], Bounds]:
        """Each arm's statistic and its bounds at a look, and the bounds by which intervals of all seeds are made."""
        control, rule = self.strata(self.plan.control.name), self.plan.sequential
        if number <= self.plan.looks:
            drawn = {name: self._values(name) for name in treatments} if self.scoring is not sequential.unchanged else treatments
            base = self._values(self.plan.control.name) if self.scoring is not sequential.unchanged else control
            shared = sequential.bound(base, drawn, rule, number, self.scoring)
            return {name: sequential.statistic(control, own) for name, own in treatments.items()}, dict.fromkeys(treatments, shared), shared
        # Seeds that were added later are tested by themselves, at what the seeds before have left of the extension's error.
        better, worse = rule.extension_levels(number - self.plan.looks)
        levels = (better / max(len(treatments), 1), worse / max(len(treatments), 1))
        z, bounds, stretch = {}, {}, 1.0
        if self.scoring is not sequential.unchanged:
            drawn = {name: self._values(name) for name in treatments}
            stretch = sequential.measure_stretch(self._values(self.plan.control.name), drawn, self.scoring)
        for name, own in treatments.items():
            before = sequential.statistic(control[: number - 1], own[:-1]) / stretch
            bounds[name] = sequential.extension_bound(before, levels)
            z[name] = sequential.statistic(control[number - 1 :], own[-1:]) / stretch
        return z, bounds, sequential.pooled_bound(levels).raised(stretch)

    @property
    def scoring(self) -> sequential.Scoring:
        """How scores come from what runs came to: a spread is measured from the middle of its arm."""
        return sequential.deviations if self.plan.outcome == "stability" else sequential.unchanged

    def _values(self, arm: str) -> list[sequential.Scores]:
        """Final returns, look by look; infinite where a run has none."""
        return [outcomes.finals(part[arm]) for part in self.data if arm in part]

    def arrivals(self, arm: str) -> Arrivals:
        """How many runs of the control, in the looks of an arm, and of the arm got there and stayed, or did not collapse."""
        theirs, ours = self.concurrent(arm), self.observations(arm)
        hits = [outcomes.count_arrived(side, theirs, self.plan.threshold) for side in (theirs, ours)]
        return Arrivals(np.asarray(hits[0]), len(theirs), np.asarray(hits[1]), len(ours))

    def strata(self, arm: str) -> list[sequential.Scores]:
        """Scores of an arm, look by look, as far as it was trained."""
        return [outcomes.scores(part[arm], self.plan.outcome) for part in self.data if arm in part]

    def finals(self, arm: str) -> list[sequential.Scores]:
        """The same by the final return, whatever the outcome is."""
        return [outcomes.scores(part[arm], "return") for part in self.data if arm in part]

    def sides(
        self, arm: str, looks: slice = slice(None), *, final: bool = False
    ) -> tuple[list[sequential.Scores], list[sequential.Scores]]:
        """Scores (or final returns) of the control and of an arm at some of its looks, in the strata in which they are ranked."""
        read = self.finals if final else self.strata
        treatment = read(arm)
        control = read(self.plan.control.name)[: len(treatment)][looks]
        treatment = treatment[looks]
        return ([np.concatenate(control)], [np.concatenate(treatment)]) if self.ranked_together else (control, treatment)

    def observations(self, arm: str) -> list[Observation]:
        """All runs of an arm."""
        return [seen for part in self.data for seen in part.get(arm, ())]

    def concurrent(self, arm: str) -> list[Observation]:
        """The control's runs of the looks in which an arm was trained."""
        return [seen for part in self.data if arm in part for seen in part[self.plan.control.name]]

    def _equivalence_limit(self, number: int, pooled: Bounds) -> float:
        """What refuses an effect as large as the margin at a look: raised where the bounds of "better" are, for several arms, few seeds or
        a spread."""
        rule = self.plan.sequential
        if number > self.plan.looks or rule.per_look < sequential.NORMAL_FROM:
            return pooled.better
        return rule.equivalence_bounds[number - 1] * max(pooled.better / rule.bounds[number - 1].better, 1.0)

    def _equivalent(self, arm: str, limit: float) -> bool:
        """Whether the effect is surely within the margin, on every scale on which a user could mean it.

        Ranks: effects of plus and minus the margin are both refused. Arrival: a drop by its margin is excluded. And the means (of log
        steps, returns, success rates) differ by less than the margin, since ranks say little about the few runs that fell behind.
        """
        test, margin = self._test(arm), self.margin
        if test is None or not math.isfinite(margin) or not sequential.refuses_both(test, margin, limit):
            return False
        return self._ends_alike(arm)

    def _ends_alike(self, arm: str) -> bool:
        """What ranks do not see of arms that are called equivalent: evaluations that are fine enough, arrivals, means."""
        if self._too_coarse(arm) or not sequential.excludes_a_drop(self.arrivals(arm), self.plan.arrival_margin):
            return False
        if self.plan.outcome == "stability" or (self.shares_means and self.relative):
            return True
        sides = self.means(arm)
        return bool(all(np.isfinite(side).all() for side in sides) and sequential.means_within(*sides, self.margin))

    def means(self, arm: str) -> tuple[sequential.Numbers, sequential.Numbers]:
        """Of the control and of an arm, what has a mean: scores, or the logs of times, in which a quarter of the runs that takes six
        times as long counts, while its ranks are those of the slowest quarter of any arm."""
        theirs, ours = (np.concatenate(self.strata(name)) for name in (self.plan.control.name, arm))
        theirs = theirs[: len(self.concurrent(arm))]
        if self.plan.outcome not in CENSORED_OUTCOMES:
            return theirs, ours
        horizon = self._horizon(arm)
        if math.isinf(horizon):
            horizon = float(max((time for time in (*theirs, *ours) if math.isfinite(time)), default=1.0))
        return sequential.log_times(theirs, horizon), sequential.log_times(ours, horizon)

    def _is_futile(self, arm: str, number: int, z: float) -> bool:
        """Whether an arm may be given up: "better" is very unlikely, and equivalence out of reach. No wrong "adopt" gets likelier by it."""
        if not self.plan.futility or number >= self.plan.looks:
            return False
        rule, fraction = self.plan.sequential, number / self.plan.looks
        if not sequential.is_futile(np.asarray(z), fraction, rule.bounds[-1]):
            return False
        test = self._test(arm)
        if test is None or not math.isfinite(self.margin):
            return True
        apart = sequential.tell_apart(test, self.margin)
        return bool(sequential.is_futile(np.asarray(z), fraction, rule.bounds[-1], apart, rule.equivalence_bounds[-1]))

    def _too_coarse(self, arm: str) -> bool:
        """Whether the runs differ by less than the spacing of evaluations: then equal steps show nothing."""
        if self.plan.outcome not in CENSORED_OUTCOMES:
            return False
        scores = np.concatenate([*self.strata(self.plan.control.name), *self.strata(arm)])
        return bool(sequential.is_too_coarse(scores, self._spacing()))

    def _test(self, arm: str) -> sequential.Test | None:
        control, treatment = self.sides(arm)
        if not self.relative:
            return sequential.shift_test(control, treatment)
        if self.plan.own_budgets and self.plan.outcome in CENSORED_OUTCOMES:
            return None
        return sequential.ratio_test(control, treatment, self._horizon(arm), self._spacing())

    def _find_dead_end(self, arms: Sequence[str]) -> str:
        """Why more seeds could not help; empty if they could. Giving up early never makes a wrong "adopt" likelier."""
        scores = np.concatenate([stratum for arm in (self.plan.control.name, *arms) for stratum in self.strata(arm)])
        seen = [observation for part in self.data for observations in part.values() for observation in observations]
        if all(each.state in outcomes.FAILED for each in seen):
            return f"every run of every arm failed: {(seen[0].reason or 'no reason was recorded').splitlines()[0]}"
        if np.isinf(scores).all():
            return NOBODY if self.plan.outcome in CENSORED_OUTCOMES else "no run of any arm left a number to compare"
        if np.all(scores == scores[0]) and len(self.data) > 1:
            return ALL_TIED
        return ""

    # ── effects ──

    @property
    def relative(self) -> bool:
        """Whether effects are ratios; else they are differences."""
        return self.plan.outcome in (*CENSORED_OUTCOMES, "stability")

    @property
    def margin(self) -> float:
        """The largest effect that counts as none, on the scale of `effect`; NaN if there is no scale."""
        if self.relative:
            return math.log1p(self.plan.margin)
        if self.plan.outcome == "success":
            return self.plan.margin
        finals = [seen.final for seen in self.observations(self.plan.control.name) if seen.final is not None]
        scale = abs(self.plan.threshold) if self.plan.threshold else abs(stats.iqm(finals)) if finals else 0.0
        return self.plan.margin * scale if scale > 0 else math.nan

    def effect(self, arm: str, limits: Bounds) -> Interval | None:
        """The effect on a scale where 0 is none: log ratio (negative is less), or gain. None where arms cannot be scaled."""
        if not self.relative:
            return sequential.shift(*self.sides(arm), limits)
        ratio = self.ratio(arm, limits)
        return None if ratio is None else as_logs(ratio)

    def ratio(self, arm: str, limits: Bounds) -> Interval | None:
        """Treatment over control; None where each arm has a budget of its own."""
        if self.plan.own_budgets and self.plan.outcome in CENSORED_OUTCOMES:
            return None
        return sequential.ratio(*self.sides(arm), limits, self._horizon(arm), self._spacing())

    def _horizon(self, arm: str) -> float:
        """Up to where every run of both arms was watched."""
        seen = [*self.concurrent(arm), *self.observations(arm)]
        if self.plan.outcome == "wall":
            return min((each.seconds for each in seen if each.reached_at is None and each.seconds is not None), default=math.inf)
        if self.plan.outcome != "steps":
            return math.inf
        # The last rollout may end a little after the budget, and its evaluation counts.
        reached = [float(each.reached_at) for each in seen if each.reached_at is not None]
        given = self.plan.budget or max((each.env_steps for each in seen), default=0)
        return max([float(given), *reached])

    def _spacing(self) -> float:
        """Env steps between two evaluations."""
        if self.plan.outcome != "steps":
            return 0.0
        config = self.plan.control.config
        if config is None:
            return outcomes.measure_spacing([seen for part in self.data for side in part.values() for seen in side])
        return float(config.run.eval_every_env_steps or 0)


def as_logs(ratio: Interval) -> Interval:
    """A ratio on the scale on which 0 is none; a value that is not known stays so."""
    return Interval(*(end if math.isnan(end) else math.log(end) if end > 0 else -math.inf for end in ratio))


def verdict(standing: Standing) -> tuple[Verdict, str | None]:
    """The trial's verdict, and the arm to keep if it is "adopt"."""
    better = [name for name, called in standing.calls.items() if called == "better"]
    if better:
        latest = standing.looks[-1].z
        return "adopt", max(better, key=lambda name: latest.get(name, -math.inf))
    calls = set(standing.calls.values())
    if "less reliable" in calls:
        return "less reliable", None
    if "mixed" in calls:
        return "mixed", None
    if standing.active or "futile" in calls:
        return "undecided", None
    return ("equivalent" if "equivalent" in calls else "reject"), None


class Judged(NamedTuple):
    """What the last look of an arm says of it: its statistic and bound, and the bounds by which its intervals are made."""

    z: float
    bound: float
    limits: Bounds
    called: Call | None
    alone: bool = False


def effects(standing: Standing) -> tuple[Effect, ...]:
    """One for each treatment arm, at the bound of the last look that it was part of."""
    return tuple(
        measure_effect(standing, arm.name, arm.changes, judge_arm(standing, arm.name))
        for arm in standing.plan.treatments
        if standing.strata(arm.name)
    )


def judge_arm(standing: Standing, arm: str) -> Judged:
    """What the last look of an arm says of it."""
    last = standing.looks[len(standing.strata(arm)) - 1]
    limits = Bounds(*(last.pooled or (last.bound, last.bound if last.worse_bound is None else last.worse_bound)))
    return Judged(last.z[arm], last.bound, limits, standing.calls.get(arm), last.pooled is not None)


def measure_effect(standing: Standing, arm: str, changes: tuple[str, ...], judged: Judged) -> Effect:
    """What an arm did against the control, with intervals."""
    plan, called, limits = standing.plan, judged.called, judged.limits
    interval = standing.effect(arm, limits)
    theirs, ours = standing.concurrent(arm), standing.observations(arm)
    open_still = called in (None, "futile") and interval is not None
    later = sequential.pooled_bound(plan.sequential.extension_levels(len(plan.extensions) + 1))
    needed = sequential.seeds_needed(interval, len(ours), standing.margin, limits, later) if open_still and interval is not None else None
    arrivals = standing.arrivals(arm)
    counts = int(arrivals.control), arrivals.n, int(arrivals.treatment), arrivals.m
    gain = None if standing.relative or interval is None or _contradicts(called, interval) else as_range(interval)
    effect = Effect(
        arm=arm,
        changes=changes,
        verdict=_VERDICTS[called] if called else "undecided",
        z=judged.z,
        bound=judged.bound,
        seeds=len(ours),
        alone=judged.alone,
        improvement=as_range(sequential.improvement(*standing.sides(arm), limits)),
        final_improvement=as_range(sequential.improvement(*standing.sides(arm, final=True), limits)),
        ratio=_optional(standing.ratio(arm, limits)) if standing.relative else None,
        gain=gain,
        reached=measure_reached(theirs, ours, limits.better) if plan.threshold is not None else None,
        arrived=as_range(sequential.proportions(counts[:2], counts[2:], stats.normal_quantile(0.975))),
        arrivals=counts,
        seeds_needed=needed,
        guardrails=outcomes.guardrails(theirs, ours, final_return=plan.whole_budget and plan.outcome != "return"),
    )
    return _end_at_no_effect(effect, called) if called in ("better", "worse") else effect


def _end_at_no_effect(effect: Effect, called: Call) -> Effect:
    """Intervals of an arm that was shown to be better or worse, by a test that sees more than they do: seeds of an extension by themselves,
    an earlier look, times beyond what both arms were watched for. "No effect" was refused, and what lies beyond it with it."""
    better = called == "better"
    chance = {"low": max(effect.improvement.low or 0.0, 0.5)} if better else {"high": min(_end(effect.improvement.high, 1.0), 0.5)}
    update: dict[str, Range | None] = {"improvement": effect.improvement.model_copy(update=chance)}
    if effect.ratio is not None:
        low, high, value = effect.ratio.low or 0.0, _end(effect.ratio.high, math.inf), effect.ratio.value
        agrees = low < 1.0 if better else high > 1.0
        if not agrees or (value is not None and (value > 1.0 if better else value < 1.0)):
            update["ratio"] = None
        else:
            update["ratio"] = effect.ratio.model_copy(update={"high": min(high, 1.0)} if better else {"low": max(low, 1.0)})
    if effect.gain is not None:
        ends = {"low": max(_end(effect.gain.low, 0.0), 0.0)} if better else {"high": min(_end(effect.gain.high, 0.0), 0.0)}
        update["gain"] = effect.gain.model_copy(update=ends)
    return effect.model_copy(update=update)


def _end(value: float | None, otherwise: float) -> float:
    return otherwise if value is None else value


def _contradicts(called: Call | None, gain: Interval) -> bool:
    """Whether a shift says nothing where ranks do: most runs tie at the highest return, and those that fell decide."""
    return (called == "better" and not gain.low > 0) or (called == "worse" and not gain.high < 0)


def _optional(interval: Interval | None) -> Range | None:
    return None if interval is None else as_range(interval)


def measure_reached(control: Sequence[Observation], treatment: Sequence[Observation], limit: float) -> Range:
    """The share of runs that reached the threshold: treatment minus control."""
    theirs, ours = ((sum(seen.reached_at is not None for seen in side), len(side)) for side in (control, treatment))
    return as_range(sequential.proportions(theirs, ours, limit))


def arm_progress(name: str, seen: Sequence[Observation], env_id: str | None = None) -> ArmProgress:
    """One arm of a look that is over."""
    finals = [each.final for each in seen if each.final is not None]
    return ArmProgress(
        name=name,
        runs=len(seen),
        ended=len(seen),
        solved=sum(each.reached_at is not None for each in seen),
        failed=sum(each.state in outcomes.FAILED for each in seen),
        env_steps=sum(each.env_steps for each in seen),
        max_env_steps=None,
        return_mean=float(stats.iqm(finals)) if finals else None,
        env_id=env_id,
    )


def arm_result(standing: Standing, arm: str, groups: Sequence[str]) -> ArmResult:
    """The numbers of one arm."""
    plan = standing.plan
    about = next(each for each in plan.arms if each.name == arm)
    seen = standing.observations(arm)
    finals = [each.final for each in seen if each.final is not None]
    rates = [each.seconds_per_100k for each in seen if each.seconds_per_100k is not None]
    wins = [each.success for each in seen if each.success is not None]
    return ArmResult(
        name=arm,
        changes=about.changes,
        command=about.command,
        config=about.config.model_dump(mode="json") if about.config is not None else None,
        groups=tuple(groups),
        runs=tuple(each.run for each in seen),
        n=len(seen),
        reached=sum(each.reached_at is not None for each in seen) if plan.threshold is not None else None,
        failed=sum(each.state in outcomes.FAILED for each in seen),
        evaluated=all(each.evaluated for each in seen),
        reason=next((each.reason for each in seen if each.reason), None),
        steps=_median_steps(seen) if plan.threshold is not None else None,
        final=_estimate(finals),
        success=_estimate(wins),
        seconds_per_100k=float(np.median(rates)) if rates else None,
        spread=float(np.subtract(*np.percentile(finals, [90, 10]))) if len(finals) > 1 else None,
        env_steps=sum(each.env_steps for each in seen),
    )


def _estimate(values: Sequence[float]) -> Range | None:
    if not values:
        return None
    found = stats.estimate(values)
    return Range(value=found.value, low=found.low, high=found.high)


def _median_steps(seen: Sequence[Observation]) -> Range:
    """Median env steps to the threshold; None for a median or an end that lies among runs that never got there."""
    times = np.array([math.inf if each.reached_at is None else float(each.reached_at) for each in seen])
    if not len(times):
        return as_range(Interval(math.nan, math.nan, math.nan))
    low, high = stats.median_interval(times) or (math.nan, math.nan)
    return as_range(Interval(float(np.sort(times)[(len(times) - 1) // 2]), low, high))

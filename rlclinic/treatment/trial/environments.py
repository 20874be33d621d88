"""Several environments in one trial: one statistic, one verdict, and what was shown in each environment.

An environment is a stratum. Its runs are ranked among themselves, so that its returns are never compared with another's, and each has the
same number of seeds an arm. **The statistic** adds the rank sums of the environments (van Elteren 1960): with equal seeds its weights are
those of the score test for one odds ratio of being better that all environments share (the stratified proportional-odds model), and what
it asks is whether the average over environments of P(a treated run does better) is one half. It has the bounds of any other trial.

An average can hide what it is made of. So the environments are also looked at one by one, each at bounds that hold for all of them
together (Bonferroni), for three things:

* **Helps here, hurts there** (`mixed`): in one environment the arm is shown to be better, in another to be worse; or the average is shown
  to be one, and an environment to be the other. Nothing is adopted then.
* **Harm.** While the runs of any environment speak of a worse arm, or of fewer arrivals, an arm that is better on average is not adopted:
  the trial goes on. How loud they must speak grows with their number (`harm_limit`, `sequential.drop_limit`): with eight seeds an
  environment that does not clearly point the right way is enough, since an arm that hurts there is then held in nearly all cases. That the
  average passed its bound is not forgotten: the bounds have paid for every look, so a later look may adopt as soon as nothing holds it.
* **Equal** are arms only where they are so in every environment.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from rlclinic import stats
from rlclinic.treatment.trial import analysis, outcomes, sequential
from rlclinic.treatment.trial.analysis import Judged, LookData, Standing
from rlclinic.treatment.trial.models import CENSORED_OUTCOMES, ArmResult, Effect, EnvironmentLook, EnvironmentResult, Guardrail, Look
from rlclinic.treatment.trial.sequential import (
    BETTER,
    LESS_RELIABLE,
    OPEN,
    WORSE,
    Arrivals,
    Bounds,
    Call,
    Interval,
    Numbers,
    Scores,
    Strata,
)

MIXED: Final = 3
_CALLS: Final[dict[int, Call]] = {BETTER: "better", WORSE: "worse", LESS_RELIABLE: "less reliable", MIXED: "mixed"}
_HARMS: Final = ((8, 16, 24, 32), (-0.5, 0.2, 0.8, 1.3), (0.4, 0.9, 1.3, 1.7))
"""Seeds an arm in an environment, and how far below 0 its statistic stands in the way of adopting: at a look after which more seeds come,
where holding costs nothing but time, and at the last, where it costs the verdict; chosen by `benchmarks.proof`."""
_EDGE: Final = 0.05
"""How far beyond the largest difference of two runs a shared gain is looked for."""
_BY_LOOK: Final = ("wall", "stability")
"""Outcomes that depend on the machine of the day, or on the other runs of the look: ranked look by look."""


class Each(NamedTuple):
    """The environments one by one, as `decide` asks of them."""

    tested: Sequence[Numbers]
    """Statistics that are held against `bounds`; of an extension, those of its seeds alone."""
    bounds: Sequence[Bounds]
    overall: Sequence[Numbers]
    """Statistics of all seeds so far."""
    arrivals: Sequence[Arrivals]


def measure_each(control: Sequence[Scores], treatment: Sequence[Scores], bounds: Bounds) -> Each:
    """The environments one by one from their scores [.., runs], infinite where a run did not arrive."""
    z = [sequential.statistics([theirs], [ours]) for theirs, ours in zip(control, treatment, strict=True)]
    arrivals = [
        Arrivals(np.isfinite(theirs).sum(-1), theirs.shape[-1], np.isfinite(ours).sum(-1), ours.shape[-1])
        for theirs, ours in zip(control, treatment, strict=True)
    ]
    return Each(z, [bounds] * len(z), z, arrivals)


def decide(
    z: Numbers, bounds: Bounds, each: Each, margin: float, *, last: bool, second: bool = True, passed: NDArray[np.bool_] | bool = False
) -> NDArray[np.int64]:
    """What a look says about an arm: BETTER, WORSE, LESS_RELIABLE, MIXED or OPEN; with any number of leading axes.

    `second`: whether arrival counts, as it does wherever runs can fail to arrive. `passed`: the average passed its bound at an earlier
    look and was held; that counts as long as the runs of now do not point the other way.
    """
    better, worse = (z > bounds.better) | (passed & (z > 0.0)), z < -bounds.worse
    pairs = list(zip(each.tested, each.bounds, strict=True))
    helps = np.logical_or.reduce([better, *(one > own.better for one, own in pairs)])
    hurts = np.logical_or.reduce([worse, *(one < -own.worse for one, own in pairs)])
    called = np.where(helps & hurts, MIXED, np.where(better, BETTER, np.where(worse, WORSE, OPEN)))
    dropped = certain = np.zeros(np.shape(z), dtype=bool)
    if second:
        limits = [_limit_drop(min(one.n, one.m), len(pairs), last=last) for one in each.arrivals]
        spoken = [sequential.speaks_of_a_drop(one, margin, limit) for one, limit in zip(each.arrivals, limits, strict=True)]
        dropped = np.logical_or.reduce([*spoken, speaks_of_a_drop(each.arrivals, margin)])
        shown = [sequential.drop_z(one) > own.worse for one, own in zip(each.arrivals, each.bounds, strict=True)]
        certain = np.logical_or.reduce([*shown, drop_z(each.arrivals) > bounds.worse])
    held = np.where(certain | last, LESS_RELIABLE, OPEN)
    harmed = np.logical_or.reduce(
        [one < -harm_limit(min(own.n, own.m), len(pairs), last=last) for one, own in zip(each.overall, each.arrivals, strict=True)]
    )
    return np.where(called != BETTER, called, np.where(dropped, held, np.where(harmed, OPEN, BETTER)))


def harm_limit(seeds: int, environments: int, *, last: bool) -> float:
    """How far below 0 the statistic of one of several environments with so many seeds an arm stands in the way of adopting."""
    limit = float(np.interp(seeds, _HARMS[0], _HARMS[2 if last else 1]))
    return _move_out(limit, environments) if last else limit


def _limit_drop(seeds: int, environments: int, *, last: bool) -> float:
    """The z of a drop in one environment that stands in the way."""
    limit = sequential.drop_limit(seeds)
    return _move_out(limit, environments) if last else limit


def _move_out(limit: float, environments: int) -> float:
    """A limit at the last look, where it costs the verdict: the more environments, the likelier one of them points the wrong way."""
    return stats.normal_quantile(1.0 - stats.normal_tail(limit) / math.sqrt(environments))


def drop_z(arrivals: Sequence[Arrivals]) -> Numbers:
    """How far all environments together speak of fewer arrivals: the differences in each, added up (Mantel and Haenszel 1959)."""
    drop: Numbers = np.zeros(())
    variance: Numbers = np.zeros(())
    for arrival in arrivals:
        share = (np.asarray(arrival.control) + np.asarray(arrival.treatment)) / (arrival.n + arrival.m)
        drop = drop + np.asarray(arrival.control) / arrival.n - np.asarray(arrival.treatment) / arrival.m
        variance = variance + share * (1.0 - share) * (1.0 / arrival.n + 1.0 / arrival.m)
    result: Numbers = drop / np.sqrt(np.where(variance > 0, variance, np.inf))
    return result


def pool(arrivals: Sequence[Arrivals]) -> Arrivals:
    """Arrivals of all environments: each has the same number of runs in both arms, so that their sum compares like with like."""
    return Arrivals(
        np.sum([arrival.control for arrival in arrivals], axis=0),
        sum(arrival.n for arrival in arrivals),
        np.sum([arrival.treatment for arrival in arrivals], axis=0),
        sum(arrival.m for arrival in arrivals),
    )


def speaks_of_a_drop(arrivals: Sequence[Arrivals], margin: float) -> NDArray[np.bool_]:
    """Whether fewer arrivals in all environments together stand in the way of adopting."""
    pooled = pool(arrivals)
    limit = sequential.drop_limit(min(pooled.n, pooled.m))
    result: NDArray[np.bool_] = (drop_z(arrivals) > limit) & ~sequential.excludes_a_drop(pooled, margin)
    return result


# ── a trial ──


@dataclass
class SeveralStanding(Standing):
    """Where a trial of several environments stands; `data` holds the runs of all of them by arm, `parts` each by itself."""

    parts: list[Standing] = field(default_factory=list)
    each: dict[str, Each] = field(default_factory=dict)
    """The environments at the last look of an arm."""
    passed: set[str] = field(default_factory=set)
    """Arms whose average has passed its bound at any look."""

    def __post_init__(self) -> None:
        together = self.plan.outcome not in _BY_LOOK
        self.parts = [Standing(part, ranked_together=together, shares_means=True) for part in self.plan.parts]

    def add_environments(self, data: Sequence[LookData], seconds: float = 0.0) -> Look:
        """Look at one more batch of runs of every environment."""
        active = self.active
        for part, own in zip(self.parts, data, strict=True):
            part.data.append(own)
        self.data.append({name: [seen for own in data for seen in own[name]] for name in (self.plan.control.name, *active)})
        self.each |= {name: self._look_into(name) for name in active}
        looks = tuple(
            EnvironmentLook(
                env_id=part.plan.env_id,
                z={name: float(self.each[name].tested[place]) for name in active},
                bounds={name: tuple(self.each[name].bounds[place]) for name in active},
            )
            for place, part in enumerate(self.parts)
        )
        look = self._judge(*self._weigh(len(self.data), {name: self.sides(name)[1] for name in active}), seconds, environments=looks)
        self.looks[-1] = look.model_copy(update={"seeds": sum(len(own[self.plan.control.name]) for own in self.parts[0].data)})
        return self.looks[-1]

    def _weigh(self, number: int, treatments: Mapping[str, Strata]) -> tuple[dict[str, float], dict[str, Bounds], Bounds]:
        rule, spread = self.plan.sequential, self.scoring is not sequential.unchanged
        control = self.sides(next(iter(treatments)))[0]
        drawn = {name: self._values(name) for name in treatments} if spread else dict(treatments)
        base = self._values(self.plan.control.name) if spread else control
        if number <= self.plan.looks:
            shared = sequential.bound(base, drawn, rule, number, self.scoring)
            return {name: sequential.statistic(control, own) for name, own in treatments.items()}, dict.fromkeys(treatments, shared), shared
        better, worse = rule.extension_levels(number - self.plan.looks)
        levels = (better / len(treatments), worse / len(treatments))
        stretch = sequential.measure_stretch(base, drawn, self.scoring) if spread else 1.0
        z, bounds = {}, {}
        for name in treatments:
            before = sequential.statistic(*self.sides(name, slice(number - 1))) / stretch
            bounds[name] = sequential.extension_bound(before, levels)
            z[name] = sequential.statistic(*self.sides(name, slice(number - 1, None))) / stretch
        return z, bounds, sequential.pooled_bound(levels).raised(stretch)

    def _look_into(self, arm: str) -> Each:
        """Each environment by itself, at bounds that hold for all of them."""
        number, rule, arms = len(self.data), self.plan.sequential, len(self.plan.treatments)
        tested, bounds, overall = [], [], []
        for part in self.parts:
            sides = part.sides(arm)
            stretch = self._stretch(part, arm)
            now = sequential.statistic(*sides)
            overall.append(np.asarray(now / stretch))
            if number <= self.plan.looks:
                own = rule.environment_bounds(arms)[number - 1].raised(stretch)
                tested.append(np.asarray(now))
                bounds.append(own.raised(float(sequential.stretch_by_ties(*sides))) if rule.per_look < sequential.NORMAL_FROM else own)
            else:
                before = sequential.statistic(*part.sides(arm, slice(number - 1))) / stretch
                tested.append(np.asarray(sequential.statistic(*part.sides(arm, slice(number - 1, None))) / stretch))
                bounds.append(sequential.extension_bound(before, rule.environment_extension_levels(number - self.plan.looks, arms)))
        return Each(tested, bounds, overall, [part.arrivals(arm) for part in self.parts])

    def _stretch(self, part: Standing, arm: str) -> float:
        if self.scoring is sequential.unchanged:
            return 1.0
        return sequential.measure_stretch(part._values(self.plan.control.name), {arm: part._values(arm)}, self.scoring)

    def _values(self, arm: str) -> list[sequential.Scores]:
        return [values for part in self.parts for values in part._values(arm)]

    def sides(
        self, arm: str, looks: slice = slice(None), *, final: bool = False
    ) -> tuple[list[sequential.Scores], list[sequential.Scores]]:
        """The strata of all environments."""
        pairs = [part.sides(arm, looks, final=final) for part in self.parts]
        return [side for control, _ in pairs for side in control], [side for _, treatment in pairs for side in treatment]

    def arrivals(self, arm: str) -> Arrivals:
        """Of all environments; each judges its runs by its own threshold."""
        return pool([part.arrivals(arm) for part in self.parts])

    def _call(self, arm: str, z: float, bounds: Bounds, last: bool) -> Call | None:
        if self._find_broken():
            return None
        called = decide(np.asarray(z), bounds, self.each[arm], self.plan.arrival_margin, last=last, passed=arm in self.passed)
        if z > bounds.better:
            self.passed.add(arm)
        return _CALLS.get(int(called))

    def _equivalent(self, arm: str, limit: float) -> bool:
        """Whether the effect that environments share is surely within the margin, and no environment speaks against it.

        Each must have its own estimate within its margin, and end alike: what one of them loses is not made up for by another.
        """
        test, margin = self._test(arm), self.margin
        if test is None or not math.isfinite(margin) or not sequential.refuses_both(test, margin, limit):
            return False
        for part in self.parts:
            own = part._test(arm)
            if own is None or not own(np.array(-part.margin)) < 0 < own(np.array(part.margin)) or not part._ends_alike(arm):
                return False
        if self.plan.outcome not in CENSORED_OUTCOMES:
            return True
        means = [part.means(arm) for part in self.parts]
        if any(abs(float(ours.mean() - theirs.mean())) > margin for theirs, ours in means):
            return False
        theirs, ours = [pair[0] for pair in means], [pair[1] for pair in means]
        return bool(sequential.shared_mean_within(theirs, ours, margin))

    def _is_futile(self, arm: str, number: int, z: float) -> bool:
        """As for one environment; and no environment may speak of a worse arm, which is worth knowing, nor may an arm be held only."""
        if arm in self.passed:
            return False
        limit = stats.normal_quantile(1.0 - stats.normal_tail(-sequential.MAY_BE_WORSE) / len(self.parts))
        return super()._is_futile(arm, number, z) and min(map(float, self.each[arm].overall)) > -limit

    def _find_dead_end(self, arms: Sequence[str]) -> str:
        if broken := self._find_broken():
            return broken
        reasons = [part._find_dead_end(arms) for part in self.parts]
        return reasons[0] if all(reasons) else ""

    def _find_broken(self) -> str:
        """An environment in which nothing could be trained, and why: what the others show is not what was asked."""
        for part in self.parts:
            seen = [one for own in part.data for side in own.values() for one in side]
            if all(one.state in outcomes.FAILED for one in seen):
                return f"{part.plan.env_id}: {part._find_dead_end(())}"
        return ""

    @property
    def margin(self) -> float:
        """The largest effect that counts as none: a log ratio, or a share of what each environment counts its margin by."""
        if self.relative:
            return math.log1p(self.plan.margin)
        return self.plan.margin if all(math.isfinite(part.margin) for part in self.parts) else math.nan

    def _test(self, arm: str) -> sequential.Test | None:
        if self.relative:
            if self.plan.own_budgets and self.plan.outcome in CENSORED_OUTCOMES:
                return None
            places = [sequential.ratio_placements(*part.sides(arm), part._horizon(arm), part._spacing()) for part in self.parts]
            return sequential.add_up(places, [1.0] * len(places), 1.0)
        shifts = [sequential.shift_placements(*part.sides(arm)) for part in self.parts]
        return sequential.add_up(shifts, self._units(), -1.0) if math.isfinite(self.margin) else None

    def _units(self) -> list[float]:
        """What an effect of 1 is in each environment, where effects are differences."""
        return [part.margin / self.plan.margin for part in self.parts]

    def effect(self, arm: str, limits: Bounds) -> Interval | None:
        """The effect that all environments share: a log ratio, or a gain in shares of what each counts its margin by."""
        test = self._test(arm)
        if test is None:
            return None
        if self.relative:
            return analysis.as_logs(sequential.invert_ratio(test, limits))
        gaps = []
        for part, unit in zip(self.parts, self._units(), strict=True):
            for theirs, ours in zip(*part.sides(arm), strict=True):
                gaps.append(np.subtract.outer(theirs[np.isfinite(theirs)], ours[np.isfinite(ours)]).ravel() / unit)
        known = np.concatenate(gaps)
        if not len(known):
            return Interval(math.nan, -math.inf, math.inf)
        return sequential.invert_shift(test, float(known.min()) - _EDGE, float(known.max()) + _EDGE, limits)

    def ratio(self, arm: str, limits: Bounds) -> Interval | None:
        """The ratio that all environments share."""
        shared = self.effect(arm, limits)
        return None if shared is None else Interval(*(math.exp(end) for end in shared))


# ── results ──


def effects(standing: SeveralStanding) -> tuple[Effect, ...]:
    """One for each treatment arm, over all environments; seeds are those of an arm in each."""
    found, count = [], len(standing.parts)
    whole = [part.plan.threshold is not None for part in standing.parts]
    for arm in standing.plan.treatments:
        if not standing.strata(arm.name):
            continue
        judged = analysis.judge_arm(standing, arm.name)
        made = analysis.measure_effect(standing, arm.name, arm.changes, judged)
        theirs, ours = standing.concurrent(arm.name), standing.observations(arm.name)
        guards = [
            guard.model_copy(update={"name": f"{guard.name} ({part.plan.env_id})"})
            for part in standing.parts
            for guard in _guard_environment(part, arm.name, count)
        ]
        update = {
            "seeds": made.seeds // count,
            "seeds_needed": None if made.seeds_needed is None else math.ceil(made.seeds_needed / count),
            # Returns of different environments have no unit in common; what each gained stands with the environment.
            "gain": made.gain if standing.plan.outcome == "success" else None,
            "reached": analysis.measure_reached(theirs, ours, judged.limits.better) if all(whole) else None,
            "guardrails": tuple(guards),
        }
        found.append(made.model_copy(update=update))
    return tuple(found)


def _guard_environment(part: Standing, arm: str, environments: int) -> tuple[Guardrail, ...]:
    """The guardrails of one environment, at a level that holds for those of all of them."""
    sides = part.concurrent(arm), part.observations(arm)
    final_return = part.plan.whole_budget and part.plan.outcome != "return"
    return outcomes.guardrails(*sides, final_return=final_return, environments=environments)


def arm_result(standing: SeveralStanding, arm: str, groups: Sequence[str]) -> ArmResult:
    """An arm over all environments: how many runs, arrived and failed; what has a unit stands with the environments."""
    seen = standing.observations(arm)
    known = all(part.plan.threshold is not None for part in standing.parts)
    update = {"reached": sum(each.reached_at is not None for each in seen) if known else None, "steps": None, "final": None, "spread": None}
    return analysis.arm_result(standing, arm, groups).model_copy(update=update)


def results(standing: SeveralStanding, groups: Sequence[Mapping[str, Sequence[str]]]) -> tuple[EnvironmentResult, ...]:
    """What came of each environment; `groups` of each by arm."""
    made = []
    for place, (part, own) in enumerate(zip(standing.parts, groups, strict=True)):
        made.append(
            EnvironmentResult(
                env_id=part.plan.env_id,
                threshold=part.plan.threshold,
                horizon=part.plan.budget,
                arms=tuple(analysis.arm_result(part, arm.name, own.get(arm.name, ())) for arm in part.plan.arms),
                effects=tuple(
                    analysis.measure_effect(part, arm.name, arm.changes, judge_environment(standing, place, arm.name)).model_copy(
                        update={"seeds_needed": None, "guardrails": _guard_environment(part, arm.name, len(standing.parts))}
                    )
                    for arm in part.plan.treatments
                    if part.strata(arm.name)
                ),
            )
        )
    return tuple(made)


def judge_environment(standing: SeveralStanding, place: int, arm: str) -> Judged:
    """What the last look of an arm says of one environment."""
    each, looks = standing.each[arm], len(standing.strata(arm))
    z, bounds = float(each.tested[place]), each.bounds[place]
    called: Call | None = "better" if z > bounds.better else "worse" if z < -bounds.worse else None
    if looks <= standing.plan.looks:
        return Judged(z, bounds.better, bounds, called)
    levels = standing.plan.sequential.environment_extension_levels(looks - standing.plan.looks, len(standing.plan.treatments))
    limits = sequential.pooled_bound(levels).raised(standing._stretch(standing.parts[place], arm))
    return Judged(z, bounds.better, limits, called, alone=True)

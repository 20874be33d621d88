"""Putting a comparison together."""

import math
from collections.abc import Mapping, Sequence
from itertools import combinations

from rlclinic import stats
from rlclinic.actions import Action
from rlclinic.comparison import configs, curves, outcomes, pairs, phases
from rlclinic.comparison.models import Compared, Pair, SideOutcome
from rlclinic.comparison.outcomes import Reading
from rlclinic.comparison.sides import Side, labelled
from rlclinic.comparison.trials import Recorded
from rlclinic.errors import UsageError
from rlclinic.runs.outcome import ReturnSource


def compare_sides(
    given: Sequence[Side], *, pairwise: bool = False, threshold: float | None = None, recorded: Sequence[Recorded] = ()
) -> Compared:
    """Compare the sides with the first one, or every two of them.

    threshold: the return that counts as solved, where the sides do not say. recorded: trials that changed a setting.
    """
    if len(given) < 2:
        raise UsageError(
            f"compare needs two sides or more; here is {len(given)}.\n  There is nothing to compare it with.\n  Type: ",
            Action("compare", "A", "B"),
            ", each a run, a group, a folder, a YAML file or ENV:VARIANT",
        )
    sides = labelled(given)
    trained = [side for side in sides if len(side)]
    envs = {side.env for side in sides if side.env is not None}
    measure = outcomes.measure_of(trained)
    comparable = len(envs) <= 1
    # The return that solves one environment says nothing of another.
    bar, notes = _threshold(trained, threshold) if comparable else (threshold, [])
    common = outcomes.common_steps(trained, measure) if measure is not None else None
    read: dict[str, list[Reading]] = {}
    if measure is not None and common is not None:
        read = {side.label: outcomes.readings(side, measure, common, bar) for side in trained}
    horizon = stats.shared_horizon(*(outcomes.times(found) for found in read.values())) if read and bar is not None else None
    return Compared(
        sides=[side.facts() for side in sides],
        env=next(iter(envs)) if len(envs) == 1 else None,
        measure=measure,
        threshold=bar,
        common_env_steps=common,
        horizon_env_steps=horizon,
        config=configs.diff(sides, recorded),
        curves=curves.bands(trained, measure) if measure is not None else [],
        outcomes=_outcomes(trained, read, bar, horizon),
        pairs=_pairs(read, horizon, pairwise) if comparable else [],
        phases=phases.rows(trained) if trained else [],
        losses=phases.losses(trained),
        notes=[*notes, *_notes(sides, trained, measure, common, read, comparable)],
    )


def _threshold(trained: Sequence[Side], given: float | None) -> tuple[float | None, list[str]]:
    if given is not None:
        return given, []
    known = {side.label: side.threshold for side in trained if side.threshold is not None}
    if not known:
        return None, []
    first = next(iter(known.values()))
    if len(set(known.values())) > 1:
        return first, [
            f"the sides name different thresholds; all are judged by {next(iter(known))}'s, {first:g} (give another to change it)"
        ]
    return first, []


def _outcomes(trained: Sequence[Side], read: Mapping[str, list[Reading]], bar: float | None, horizon: float | None) -> list[SideOutcome]:
    if not read:
        return []
    lowest = outcomes.lowest_return(list(read.values()))
    clocks = [clock for found in read.values() if bar is not None and (clock := outcomes.wall_times(found)) is not None]
    wall = stats.shared_horizon(*clocks) if clocks else None
    return [outcomes.outcome(side, read[side.label], lowest, bar, horizon or math.inf, wall) for side in trained]


def _pairs(read: Mapping[str, list[Reading]], horizon: float | None, pairwise: bool) -> list[Pair]:
    labels = list(read)
    wanted = list(combinations(labels, 2)) if pairwise else [(labels[0], other) for other in labels[1:]] if labels else []
    lowest = outcomes.lowest_return(list(read.values()))
    assessable = [(one, other) for one, other in wanted if min(len(read[one]), len(read[other])) > 1]
    # Of returns in every pair, and of steps where somebody arrived.
    timed = [pair for pair in assessable if horizon and any(outcomes.arrived(run, horizon) for label in pair for run in read[label])]
    questions = max(1, len(assessable) + len(timed))
    return pairs.decide([pairs.compare_pair((one, read[one]), (other, read[other]), lowest, horizon, questions) for one, other in wanted])


def _notes(
    sides: Sequence[Side],
    trained: Sequence[Side],
    measure: ReturnSource | None,
    common: float | None,
    read: Mapping[str, list[Reading]],
    comparable: bool,
) -> list[str]:
    notes = []
    if len(trained) < len(sides):
        untrained = ", ".join(side.label for side in sides if not len(side))
        notes.append(f"{untrained}: a config without runs, so only settings are compared with it")
    if trained and measure is None:
        notes.append("the sides have no return in common (one logged evaluations only, another training only, or one logged none)")
    if not comparable:
        notes.append("the sides are of different environments: their returns have different units, and no test is made")
    if measure == "training":
        notes.append("not every side was evaluated: training returns are compared, those of policies that explore and change")
    if common is not None:
        notes += [note for label, found in read.items() for note in _side_notes(label, found, common)]
    stopping = [side.label for side in trained if outcomes.stops_at_threshold(side)]
    if stopping:
        notes.append(f"{', '.join(stopping)}: runs stop at the threshold; their last return is held to the end of the budget")
    if len({side.source for side in trained}) > 1:
        notes.append("the sides were logged by different frameworks: seconds and losses may be measured differently")
    return notes


def _side_notes(label: str, found: Sequence[Reading], common: float) -> list[str]:
    notes = []
    if len(found) == 1:
        notes.append(f"{label}: n = 1, not assessable")
    empty = sum(each.common is None for each in found)
    if empty:
        notes.append(f"{label}: {empty} of {len(found)} runs have no return; they count as the lowest one, and are not dropped")
    longest = max((float(each.steps[-1]) for each in found if len(each.steps)), default=common)
    if longest > 1.05 * common:
        notes.append(f"{label} was trained for {longest:,.0f} env steps; returns are compared at {common:,.0f}, where all have one")
    running = sum(each.running for each in found)
    if running:
        notes.append(f"{label}: {running} of {len(found)} runs are still training; what they do later is not in here")
    failed = sum(each.failed for each in found)
    if failed:
        notes.append(f"{label}: {failed} of {len(found)} runs failed; each keeps its last return and never reaches the threshold after it")
    return notes

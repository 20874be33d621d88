"""`history ENV`: what was tried on an environment, how it went, and what separates what solved it from what did not."""

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Final

import numpy as np

from rlclinic import stats
from rlclinic.actions import Action, Argument
from rlclinic.diagnosis import columns
from rlclinic.diagnosis.case import Case, case_of, first_value
from rlclinic.diagnosis.lint.config.linter import derived
from rlclinic.errors import NotFound, nearest
from rlclinic.ops.diagnose.best_group import is_readable
from rlclinic.report.models import Result, ResultPart
from rlclinic.runs import history
from rlclinic.runs.history import History, group_by_config
from rlclinic.runs.outcome import arrived, measure_group
from rlclinic.runs.record import Group
from rlclinic.runs.store import Store

ALPHA: Final = 0.05
FEWEST: Final = 2
"""Groups that a side needs before any difference is spoken of."""
MOST_ROWS: Final = 40
_SKIPPED: Final = (
    "about.",  # what training recorded of the environment: nobody set it
    "name",
    "seed",
    "spec.",
    "run.device",
    "run.threads",
    "run.data_parallel",
    "run.shard_optimizer",
    "run.shard_weights",
    "run.allow_slower",
    "run.tensorboard",
    "run.film_every_env_steps",
    "run.histograms_every_env_steps",
    "run.save_replay",
    "env.workers",
    "env.id",
    "algo.name",
    "algo.extra",
)
_MEASURED: Final = {
    "measured KL per update": columns.KL,
    "measured clip fraction": columns.CLIP_FRACTION,
    "measured explained variance": columns.EXPLAINED_VARIANCE,
    "measured entropy, share of its maximum": columns.sentinel("entropy_relative"),
    "measured gradient norm": columns.GRAD_NORM,
}


class Tried(ResultPart):
    """One group: when, what, and how it went."""

    id: str
    source: str
    algo: str | None
    created: float | None
    """Unix seconds; None for folders of others."""
    seeds: int
    reached: int | None
    """Seeds that reached the return, the success rate or both that are required; None where nothing is."""
    solved: bool | None
    """More than half of the seeds reached the threshold; None without one, and while one is still training."""
    score: float | None
    """IQM over seeds of the last return."""
    steps_to_threshold: float | None
    """Median over the seeds that reached it."""
    env_steps: float | None
    """Mean over seeds."""
    changed: dict[str, Any]
    """Settings in which it differs from the best group."""


class Separation(ResultPart):
    """Whether a setting (or a number that follows from it) tells solved groups from failed ones."""

    name: str
    solved: str
    """Its values in solved groups: the middle and the range, or what there is."""
    failed: str
    n_solved: int
    n_failed: int
    superiority: float | None
    """P(a solved group has the larger value), a tie counting half: 0.5 says nothing, 0 and 1 separate."""
    p: float | None
    """Two-sided rank test, corrected by Holm over all rows; None where there are too few groups for any answer."""
    said: str


class EnvironmentHistory(Result):
    """Everything that was tried on one environment."""

    env: str
    groups: list[Tried]
    """Oldest first."""
    best: str | None
    worst: str | None
    n_solved: int
    n_failed: int
    separations: list[Separation]
    """The clearest first."""
    note: str
    """What the numbers can and cannot say."""


@dataclass(frozen=True)
class _Side:
    """A group of runs with what is compared."""

    tried: Tried
    numbers: Mapping[str, float]
    words: Mapping[str, str]
    settings: Mapping[str, Any]


def history_of(env: str, runs_dir: Path = Path("runs"), paths: Sequence[str] = (), *, threshold: float | None = None) -> EnvironmentHistory:
    """What was tried on an environment in the store, and in folders of other frameworks."""
    sides = [*_ours(env, runs_dir, threshold), *_foreign(env, paths, threshold)]
    if not sides:
        _nothing(env, runs_dir)
    ranked = sorted(sides, key=lambda side: _rank(side.tried))
    best = ranked[-1]
    compared = [side for side in sides if side.tried.solved is not None]
    solved, failed = [side for side in compared if side.tried.solved], [side for side in compared if not side.tried.solved]
    shown = [side.tried.model_copy(update={"changed": _changed(side.settings, best.settings)}) for side in sides]
    return EnvironmentHistory(
        env=env,
        groups=shown,
        best=best.tried.id if best.tried.score is not None else None,
        worst=ranked[0].tried.id if len(ranked) > 1 and ranked[0].tried.score is not None else None,
        n_solved=len(solved),
        n_failed=len(failed),
        separations=separations(solved, failed),
        note=_note(solved, failed, sides),
    )


# ── reading ──


def _ours(env: str, runs_dir: Path, threshold: float | None) -> Iterable[_Side]:
    for group in Store(runs_dir).groups():
        if is_readable(group) and group.env_id.lower() == env.lower() and group.runs:
            yield _side(group.id, [history.of_run(run) for run in group.runs], group, threshold)


def _foreign(env: str, paths: Sequence[str], threshold: float | None) -> Iterable[_Side]:
    if not paths:
        return
    from rlclinic import readers

    for path in paths:
        for together in group_by_config(readers.read(path, threshold=threshold)):
            if (together[0].env_id or env).lower() == env.lower():
                yield _side(together[0].id, together, None, threshold)


def _side(id: str, histories: Sequence[History], group: Group | None, threshold: float | None) -> _Side:
    cases = [case_of(each) for each in histories]
    limit = threshold if threshold is not None else histories[0].threshold
    outcomes = measure_group(histories, replace(histories[0].goal, threshold=limit), histories[0].source)
    reached = [outcome.reached_at for outcome in outcomes if outcome.reached_at is not None]
    goals = (outcome for outcome in outcomes if outcome.counts)
    judged = any(outcome.threshold is not None or outcome.required_success is not None for outcome in goals)
    finals = [case.progress.last for case in cases if case.progress is not None]
    trained = [case.trained for case in cases]
    going = any(history.state == "running" for history in histories)
    tried = Tried(
        id=id,
        source=histories[0].source,
        algo=histories[0].algo,
        created=group.created if group is not None else None,
        seeds=len(cases),
        reached=len(reached) if judged else None,
        solved=None if not judged or not finals or going else 2 * sum(map(arrived, outcomes)) > len(cases),
        score=stats.iqm(finals) if finals else None,
        steps_to_threshold=float(np.median(reached)) if reached else None,
        env_steps=float(np.mean(trained)) if trained else None,
        changed={},
    )
    settings = {key: value for key, value in histories[0].settings.items() if not key.startswith(_SKIPPED)}
    numbers, words = _sort_settings(settings)
    numbers |= {name: value for name, value in derived(cases[0]).items() if not name.startswith("learning_rate")}
    numbers |= {name: level for name, series in _MEASURED.items() if (level := _level(cases, series)) is not None}
    return _Side(tried, numbers, words, settings)


def _level(cases: Sequence[Case], series: str) -> float | None:
    """The median over runs of a series' median while it had something to learn."""
    known = [case.learning(series).median for case in cases if case.has(series)]
    return float(np.median(known)) if known else None


def _sort_settings(settings: Mapping[str, Any]) -> tuple[dict[str, float], dict[str, str]]:
    """Settings that can be ordered (a schedule by where it starts), and those that are words."""
    numbers: dict[str, float] = {}
    words: dict[str, str] = {}
    for key, value in settings.items():
        number = float(value) if isinstance(value, bool) else first_value(value)
        if number is not None:
            numbers[key] = number
        else:
            words[key] = "none" if value is None else str(value)
        if isinstance(value, Mapping) and "schedule" in value:
            words[f"{key}, schedule"] = str(value["schedule"])
    return numbers, words


# ── what separates ──


def separations(solved: Sequence[_Side], failed: Sequence[_Side]) -> list[Separation]:
    """Every setting and number that is not the same everywhere, the clearest first; p corrected over all of them."""
    everyone = [*solved, *failed]
    rows = [
        (name, [_value(side, name) for side in solved], [_value(side, name) for side in failed])
        for name in sorted({name for side in everyone for name in (*side.numbers, *side.words)})
        if len({_shown(side, name) for side in everyone}) > 1
    ]
    enough = min(len(solved), len(failed)) >= FEWEST
    tests = [_tested(ours, theirs) if enough else None for _, ours, theirs in rows]
    known = [test for test in tests if test is not None]
    corrected = iter(stats.holm([p for _, p in known]) if known else [])
    # Of so few groups even a perfect split would pass for luck, among this many questions.
    hopeless = 2 * len(known) / math.comb(len(everyone), len(solved)) > ALPHA
    made = [
        _separation(name, solved, failed, test, float(next(corrected)) if test is not None else None, hopeless)
        for (name, _, _), test in zip(rows, tests, strict=True)
    ]
    made.sort(key=lambda row: (row.p if row.p is not None else 2.0, -abs((row.superiority or 0.5) - 0.5), row.name))
    return made[:MOST_ROWS]


def _value(side: _Side, name: str) -> float | str | None:
    return side.numbers.get(name, side.words.get(name))


def _shown(side: _Side, name: str) -> str:
    value = _value(side, name)
    return f"{value:.3g}" if isinstance(value, float) else "not set" if value is None else value


def _tested(ours: Sequence[float | str | None], theirs: Sequence[float | str | None]) -> tuple[float, float] | None:
    """Superiority and p of a rank test. Words are ranked by whether they are what most solved groups have."""
    a, b = ([each for each in side if each is not None] for side in (ours, theirs))
    if min(len(a), len(b)) < FEWEST:
        return None
    if any(isinstance(each, str) for each in (*a, *b)):
        usual = max(sorted({str(each) for each in a}), key=[str(each) for each in a].count)
        ranked = [[float(str(each) == usual) for each in side] for side in (a, b)]
    else:
        ranked = [[float(each) for each in side] for side in (a, b)]
    return stats.probability_of_improvement(*ranked), stats.permutation(*_mid_ranks(*ranked)).p


def _mid_ranks(a: Sequence[float], b: Sequence[float]) -> tuple[list[float], list[float]]:
    """Ranks over both sides, ties sharing the middle of theirs: permuted, their difference is an exact Mann-Whitney test."""
    pooled = np.sort(np.array([*a, *b]))
    low, high = (np.searchsorted(pooled, [*a, *b], side) for side in ("left", "right"))
    ranks = ((low + high + 1) / 2).tolist()
    return ranks[: len(a)], ranks[len(a) :]


def _separation(
    name: str,
    solved: Sequence[_Side],
    failed: Sequence[_Side],
    test: tuple[float, float] | None,
    corrected: float | None,
    hopeless: bool,
) -> Separation:
    sides = [[_value(side, name) for side in group] for group in (solved, failed)]
    counts = [sum(each is not None for each in side) for side in sides]
    return Separation(
        name=name,
        solved=_summary(sides[0]),
        failed=_summary(sides[1]),
        n_solved=counts[0],
        n_failed=counts[1],
        superiority=None if test is None else test[0],
        p=corrected,
        said=f"n too small: {counts[0]} solved, {counts[1]} failed" if hopeless or test is None else _verdict(test[1], corrected),
    )


def _verdict(alone: float, corrected: float | None) -> str:
    if corrected is not None and corrected <= ALPHA:
        return "separates them"
    return "not shown" if alone > ALPHA else "not shown: by itself it might be, among so many it may be luck"


def _summary(values: Sequence[float | str | None]) -> str:
    known = [value for value in values if value is not None]
    numbers = [each for each in known if isinstance(each, float)]
    if not known:
        return "–"
    if len(numbers) == len(known):
        low, middle, high = min(numbers), float(np.median(numbers)), max(numbers)
        return f"{middle:.3g}" if low == high else f"{middle:.3g} ({low:.3g} to {high:.3g})"
    counted = sorted({str(each) for each in known}, key=lambda word: (-[str(each) for each in known].count(word), word))
    return ", ".join(counted[:3])


def _changed(here: Mapping[str, Any], best: Mapping[str, Any]) -> dict[str, Any]:
    return {key: here.get(key) for key in sorted(here.keys() | best.keys()) if here.get(key) != best.get(key)}


def _rank(tried: Tried) -> tuple[float, float, float]:
    share = (tried.reached or 0) / tried.seeds if tried.seeds else 0.0
    never = float("inf")
    return (
        share,
        -(tried.steps_to_threshold if tried.steps_to_threshold is not None else never),
        -never if tried.score is None else tried.score,
    )


def _note(solved: Sequence[_Side], failed: Sequence[_Side], sides: Sequence[_Side]) -> str:
    if not any(side.tried.solved is not None for side in sides):
        return "no threshold is known: give one to tell solved from failed"
    if min(len(solved), len(failed)) < FEWEST:
        return f"{len(solved)} solved and {len(failed)} failed groups: too few to say what separates them"
    return (
        f"rank tests over {len(solved)} solved and {len(failed)} failed groups (a group counts once), p corrected by Holm. "
        "What goes together with success need not be its reason: a trial tests that"
    )


def _nothing(env: str, runs_dir: Path) -> None:
    known = sorted({group.env_id for group in Store(runs_dir).groups() if is_readable(group)})
    offered = nearest(env, known) or known[:6]
    hint = f"\n  There are runs of: {', '.join(offered)}" if offered else ""
    raise NotFound(
        f"no run of {env} in {runs_dir}.{hint}\n  Train it: ",
        Action("train", f"{env}:ppo"),
        ", or give folders of others: ",
        Argument("path", "DIR"),
    )

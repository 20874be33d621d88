"""What to expect of runs that are training, and what to do about it: go on, stop, or change a number while they run."""

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from rlclinic.actions import Action
from rlclinic.diagnosis import engine
from rlclinic.diagnosis.case import Case
from rlclinic.diagnosis.causes import UNKNOWN
from rlclinic.diagnosis.findings import Cause, Remedy
from rlclinic.diagnosis.forecast import growth, model
from rlclinic.diagnosis.forecast.model import Forecast
from rlclinic.diagnosis.signals import detect, measures
from rlclinic.report.format import percent, short
from rlclinic.report.models import Outlook, SeedOutlook
from rlclinic.runs import history
from rlclinic.runs.history import History
from rlclinic.runs.record import Group, Run
from rlclinic.runs.status_file import Status
from rlclinic.runs.store import Store

HELP_BELOW = 0.5
"""A forecast at or below this is worth a change, if one is known."""
SURE = 0.5
FLOOR = 0.05


def assess(histories: Sequence[History], name: str, chart: growth.Chart | None = None) -> Outlook:
    """The outlook of runs that belong together. `name` is what commands call them; `chart` is where they are placed."""
    forecasts = model.forecasts(histories)
    whole = model.together(forecasts)
    live = [each for each, history in zip(forecasts, histories, strict=True) if history.state in ("running", "unknown")]
    doomed = [each.run for each in live if each.doomed]
    cause, remedy = _diagnosed(histories) if live and not all(forecast.reached_at is not None for forecast in forecasts) else (None, None)
    decision = _decision(forecasts, live, doomed, remedy if whole is None or whole[0] <= HELP_BELOW else None)
    place = _percentile(histories, chart)
    p, low, high = whole or (None, None, None)
    return Outlook(
        decision=decision,
        probability=None if p is None else round(p, 4),
        low=None if low is None else round(low, 4),
        high=None if high is None else round(high, 4),
        reason=_reason(decision, forecasts, live),
        seeds=[_seed(forecast) for forecast in forecasts],
        percentile=place,
        healthy_runs=chart.runs if chart is not None and place is not None else None,
        healthy_source=chart.source if chart is not None and place is not None else None,
        cause=None if cause is None else f"{cause.title} (p {cause.probability:.2f}) {' '.join(cause.rules[:1])}".rstrip(),
        watch=watch(histories) if live else None,
        command=_command(decision, name, histories, remedy),
    )


def _seed(forecast: Forecast) -> SeedOutlook:
    return SeedOutlook(
        run=forecast.run,
        probability=forecast.probability,
        low=forecast.low,
        high=forecast.high,
        reached_at=None if forecast.reached_at is None else int(forecast.reached_at),
        lost=forecast.lost,
        doomed=forecast.doomed,
        reason=forecast.reason,
    )


def _is_there(forecast: Forecast) -> bool:
    return forecast.reached_at is not None and not forecast.lost


def _decision(forecasts: Sequence[Forecast], live: Sequence[Forecast], doomed: Sequence[str], remedy: Remedy | None) -> str:
    if forecasts and all(_is_there(forecast) for forecast in forecasts):
        return "SOLVED"
    if not live:
        return "ENDED"
    waiting = [each for each in live if each.reached_at is None]
    if waiting and len(doomed) == len(waiting):
        return "STOP"
    if remedy is not None:
        return "ADJUST"
    return "CONTINUE" if any(each.probability is not None for each in live) else "UNKNOWN"


def _reason(decision: str, forecasts: Sequence[Forecast], live: Sequence[Forecast]) -> str:
    """Of the run that the decision rests on: the middle one of those that are not there yet."""
    if decision == "SOLVED":
        return "every seed reached the threshold"
    if decision == "ENDED":
        there = sum(map(_is_there, forecasts))
        reason = next(forecast.reason for forecast in forecasts if not _is_there(forecast))
        return f"{there} of {len(forecasts)} seeds got there; of another: {reason}" if there else reason
    waiting = sorted((each for each in live if each.reached_at is None), key=lambda each: each.probability or 0.0)
    return waiting[len(waiting) // 2].reason if waiting else "every seed that still runs has reached the threshold"


def _diagnosed(histories: Sequence[History]) -> tuple[Cause | None, Remedy | None]:
    """The likeliest cause, and its first remedy that a run can take while it trains."""
    first = engine.diagnose(histories).causes[0]
    if first.calm or first.id == UNKNOWN or first.probability < SURE:
        return None, None
    return first, next((remedy for remedy in first.remedies if _adjustable(remedy, histories[0])), None)


def _adjustable(remedy: Remedy, history: History) -> bool:
    from rlclinic.config import numbers
    from rlclinic.config.algorithms import ALGORITHMS

    kind = ALGORITHMS.get(history.algo or "")
    if kind is None or history.source != "rlclinic" or remedy.setting is None or not remedy.setting.startswith("algo."):
        return False
    plain = isinstance(remedy.value, int | float) and not isinstance(remedy.value, bool)
    return plain and remedy.setting.removeprefix("algo.") in numbers(kind())


def _command(decision: str, name: str, histories: Sequence[History], remedy: Remedy | None) -> Action | None:
    if not histories:
        return None
    if histories[0].source != "rlclinic":
        return _command_for_log(decision, name, histories)
    if decision == "CONTINUE":
        return _more_entropy(name, histories) if watch(histories) else None
    return {
        "STOP": Action("stop", name).then(Action("diagnose", name)),
        "ADJUST": Action("adjust", name, set=remedy.override) if remedy is not None else None,
        "ENDED": Action("diagnose", name),
        "SOLVED": Action("runs show", name),
    }.get(decision)


def _command_for_log(decision: str, name: str, histories: Sequence[History]) -> Action | None:
    """Another framework's runs are not ours to stop or adjust: what can be done is to find out more."""
    if decision in ("CONTINUE", "SOLVED"):
        return None
    given = {"threshold": histories[0].threshold, "budget": histories[0].max_env_steps}
    missing = {option: option.upper() for option, value in given.items() if value is None}
    return Action("status", name, **missing) if decision == "UNKNOWN" and missing else Action("diagnose", name)


def _more_entropy(name: str, histories: Sequence[History]) -> Action | None:
    """A bonus that slows the fall of the entropy: twice the present one, and at least a usual one."""
    coefficient = Case(histories[0]).number("ent_coef")
    return None if coefficient is None else Action("adjust", name, set=f"algo.ent_coef={max(0.01, 2 * coefficient):.3g}")


def _percentile(histories: Sequence[History], chart: growth.Chart | None) -> float | None:
    """The median over seeds of where each lies at its own env step."""
    if chart is None:
        return None
    percentiles = []
    for each in histories:
        curve = growth.returns(each)
        place = None if curve is None or not len(curve) else chart.percentile(float(curve.steps[-1]), float(curve.values[-1]))
        percentiles += [] if place is None else [place]
    return sorted(percentiles)[len(percentiles) // 2] if percentiles else None


def watch(histories: Sequence[History]) -> str | None:
    """What will go wrong if it goes on like this: randomness that runs out before the budget does."""
    for each in histories:
        case = Case(each)
        entropy = measures.relative_entropy(case)
        part = entropy.share(0.5)
        trend = detect.trend(part)
        if case.solved_at is not None or len(part) < detect.SHORTEST or not trend.falling or case.budget is None:
            continue
        level = part.values[-1]
        floor_at = part.steps[-1] + (level - FLOOR) / max(-trend.slope, 1e-12)
        if level <= FLOOR or floor_at < case.budget:
            near = "at its floor" if level <= FLOOR else f"falling; floor expected near {short(floor_at)}"
            return f"entropy {percent(float(level))} of maximum and {near}"
    return None


class Charts:
    """Growth charts by environment and algorithm, each made once: from solved runs in the store, else as shipped."""

    def __init__(self, runs_dir: Path, most: int = 40) -> None:
        self._root, self._most = runs_dir, most
        self._made: dict[str, growth.Chart | None] = {}

    def chart(self, env: str, algo: str, kwargs: Mapping[str, Any] | None = None, apart_from: str | None = None) -> growth.Chart | None:
        """None where neither the store nor the package has enough healthy runs. An environment made with other kwargs is another one."""
        key = json.dumps([env, algo, kwargs or {}], sort_keys=True, default=str)
        if key not in self._made:
            own = self._own(env, algo, kwargs or {}, apart_from)
            self._made[key] = own if own is not None or kwargs else growth.shipped(env, algo)
        return self._made[key]

    def _own(self, env: str, algo: str, kwargs: Mapping[str, Any], apart_from: str | None) -> growth.Chart | None:
        runs: list[Run] = []
        for group in reversed(Store(self._root).groups()):
            same = (group.env_id, group.algo, kwargs_of(group)) == (env, algo, kwargs)
            if same and group.id != apart_from and len(runs) < self._most:
                runs += [run for run in group.runs if _has_solved(run.status)]
        return None if len(runs) < growth.FEWEST else growth.of_runs(env, algo, [history.of_run(run) for run in runs[: self._most]])


def _has_solved(status: Status) -> bool:
    return status.state in ("finished", "stopped") and status.threshold_reached_at is not None and not status.lost


def kwargs_of(group: Group) -> Mapping[str, Any]:
    """What the environment of a group was made with."""
    kwargs = (group.record.get("env") or {}).get("kwargs")
    return kwargs if isinstance(kwargs, Mapping) else {}

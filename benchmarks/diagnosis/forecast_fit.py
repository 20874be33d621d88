"""Fitting the forecast: looks at recorded runs, logistic regression, and the level below which a run is doomed."""

import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from rlclinic.diagnosis.case import Case
from rlclinic.diagnosis.forecast.features import FEATURES, POLICY, features, prefix
from rlclinic.diagnosis.forecast.model import CALIBRATION, SHARED, THERE, Model, calibrators, is_doomed, lies_low, logit
from rlclinic.runs.history import History

Vector = NDArray[np.float64]
LOOKS: Final = tuple(round(0.05 * look, 2) for look in range(1, 20))
"""Shares of the budget at which a run is looked at, until it has reached its threshold."""
PENALTY: Final = 100.0
BLIND: Final = 0.3
"""Weight of a copy of every look without policy metrics: logs of others often have returns only."""
FOLDS: Final = 5
WRONG_STOPS: Final = 0.018
"""Doomed is set so that no more than this share of the runs that made it would have been stopped, on cells and on environments that
were left out."""
DOOMED_AFTER: Final = 0.15
GOOD: Final = frozenset(
    {"covered", "now", "evaluated", "best_episode", "projected", "projected_long", "eval_projected", "moved", "tau", "advice", "explained"}
)
BAD: Final = frozenset(
    {"used", "fell", "stale", "eval_stale", "low", "very_low", "flat", "lying", "tiny_step", "huge_step", "low_entropy", "slow"}
    | {"one_action", "dormant", "saturated", "off_ratio", "skipped", "no_reward", "dead_input", "same_input", "large_input"}
    | {"small_target", "at_bound", "no_rate", "short_reach", "few_rollouts"}
)
"""More of it cannot make a run less, or more, likely: a weight of the other sign would be an accident of the recorded environments."""
WITH_USED: Final = ("low", "very_low", "flat", "lying")
"""What matters more or less as the budget runs out."""


@dataclass(frozen=True)
class Looks:
    """A table with one row for each look at a run that was not there yet."""

    rows: Vector
    """[N, features]"""
    reached: Vector
    """1 if the run got there in the end."""
    used: Vector
    env: NDArray[Any]
    run: NDArray[Any]
    cell: NDArray[Any]
    constant_rate: Vector
    """Where a straight line from the start through now ends, in shares of the way to the threshold."""

    def __len__(self) -> int:
        return len(self.rows)

    def where(self, keep: NDArray[np.bool_]) -> "Looks":
        return Looks(**{name: value[keep] for name, value in vars(self).items()})


def looks(cells: Iterable[tuple[str, Sequence[History]]]) -> Looks:
    """Look at every run of every cell (its name and its runs)."""
    table: list[tuple[Any, ...]] = []
    for cell, runs in cells:
        for history in runs:
            table += _looks(cell, history)
    columns = list(zip(*table, strict=True))
    numbers = [np.array(column, dtype=np.float64) for column in (columns[0], columns[1], columns[2], columns[6])]
    env, run, group = (np.array(column) for column in columns[3:6])
    return Looks(numbers[0], numbers[1], numbers[2], env, run, group, numbers[3])


def _looks(cell: str, history: History) -> list[tuple[Any, ...]]:
    budget = history.max_env_steps
    with np.errstate(all="ignore"):
        reached = Case(history).solved_at
        found = []
        for used in LOOKS if budget else ():
            at = used * (budget or 0)
            if (reached is not None and reached <= at) or (history.env_steps or 0) < at:
                break
            known = features(Case(prefix(history, at)))
            if known is not None:
                row = [known[name] for name in FEATURES]
                straight = known["now"] / max(known["used"], 1e-9)
                found.append((row, reached is not None, used, history.env_id, f"{cell}/{history.id}", cell, straight))
    return found


# ── logistic regression ──


def fit(data: Looks) -> Model:
    """The model, fitted also without each environment, which calibrates it; doomed is set on cells that were left out."""
    mean, scale = _scales(data)
    blank = Model(mean, scale, np.zeros((1, 1 + 2 * len(FEATURES))), doomed_after=DOOMED_AFTER)
    environments = sorted(set(data.env))
    rows = [_weights(blank, data), *(_weights(blank, data.where(data.env != env)) for env in environments if len(environments) > 1)]
    model = replace(blank, weights=np.array(rows))
    odds = model.log_odds(data.rows)
    # Each look by the model that has not seen its environment.
    place = np.searchsorted(environments, data.env) + 1 if len(environments) > 1 else np.zeros(len(data), dtype=int)
    unseen = pool(data, odds[np.arange(len(data)), place])
    lies = low(data)
    parts = calibrators(unseen, lies, data.used)
    found = logistic(np.stack(list(parts.values()), axis=1), data.reached, balance(data), 1.0)
    model = replace(model, calibration=dict(zip(CALIBRATION, map(float, found), strict=True)))
    new = [chances(model.calibrated(each, lies, data.used)) for each in (unseen, pool(data, _by_cell(blank, data)))]
    levels = [doomed_level(data, lambda below, p=p: flagged(data, p, below, lies)) for p in new]  # type: ignore[misc]
    return replace(model, doomed_below=min(levels))


def _by_cell(blank: Model, data: Looks) -> Vector:
    """Log-odds of every look by a model that has not seen its cell."""
    cells, place = np.unique(data.cell, return_inverse=True)
    fold = np.random.default_rng(0).integers(FOLDS, size=len(cells))[place]
    found = np.zeros(len(data))
    for each in range(FOLDS):
        here = fold == each
        if here.any() and not here.all():
            found[here] = replace(blank, weights=_weights(blank, data.where(~here))[None]).log_odds(data.rows[here])[:, 0]
    return found


def probabilities(data: Looks, model: Model, *, alone: bool = False) -> Vector:
    """The forecast at every look, drawn towards the siblings' as `forecasts` does (or not)."""
    own = model.log_odds(data.rows)[:, 0]
    return chances(model.calibrated(own if alone else pool(data, own), low(data, alone=alone), data.used))


def chances(log_odds: Vector) -> Vector:
    return np.asarray(1 / (1 + np.exp(-log_odds)), dtype=np.float64)


def pool(data: Looks, odds: Vector) -> Vector:
    """Log-odds [N] drawn towards those of siblings at the same look; a sibling that is there by then has THERE."""
    others = siblings(data, odds, THERE, -THERE)
    return np.where(np.isnan(others), odds, (1 - SHARED) * odds + SHARED * others)


def low(data: Looks, *, alone: bool = False) -> NDArray[np.bool_]:
    """Which looks find a run that lies low, as `forecasts` sees it."""
    known = {name: data.rows[:, place] for place, name in enumerate(FEATURES)}
    nobody = np.full(len(data), np.nan)
    return np.asarray(lies_low(known, nobody if alone else siblings(data, known["covered"], 1.0, 0.0)), dtype=bool)


def siblings(data: Looks, values: Vector, there: float, failed: float) -> Vector:
    """The mean of a number [N] over each look's siblings at the same look; those that are there by then, or ended without, have theirs."""
    family: dict[str, set[str]] = {}
    at: dict[tuple[str, float], float] = {}
    end: dict[str, tuple[float, float]] = {}
    for cell, run, used, value, reached in zip(data.cell, data.run, data.used, values, data.reached, strict=True):
        family.setdefault(cell, set()).add(run)
        at[run, float(used)] = float(value)
        end[run] = (float(used), there if reached else failed)
    found = np.full(len(data), np.nan)
    for place, (cell, run, used) in enumerate(zip(data.cell, data.run, data.used, strict=True)):
        others = [at.get((each, float(used)), end[each][1] if end[each][0] < used else math.nan) for each in family[cell] - {run}]
        known = [each for each in others if each == each]
        found[place] = np.mean(known) if known else math.nan
    return found


def _scales(data: Looks) -> tuple[Vector, Vector]:
    known = ~np.isnan(data.rows)
    count = np.maximum(known.sum(0), 1)
    mean = np.where(known, data.rows, 0).sum(0) / count
    deviation = np.sqrt((np.where(known, data.rows - mean, 0) ** 2).sum(0) / count)
    return mean, np.maximum(deviation, 1e-6)


def _weights(blank: Model, data: Looks) -> Vector:
    """Weights whose signs make sense: what comes out with the wrong one is left out, and the rest fitted again."""
    hidden = data.rows.copy()
    hidden[:, [place for place, name in enumerate(FEATURES) if name in POLICY]] = np.nan
    design = np.vstack([blank.design(data.rows), blank.design(hidden)])
    target, weight = np.tile(data.reached, 2), np.concatenate([balance(data), BLIND * balance(data)])
    count = len(FEATURES)
    kept = [0, *range(1, 1 + count), *(1 + count + FEATURES.index(name) for name in WITH_USED)]
    while True:
        found = logistic(design[:, kept], target, weight, PENALTY)
        wrong = [place for place, value in zip(kept, found, strict=True) if 1 <= place <= count and _is_wrong(FEATURES[place - 1], value)]
        if not wrong:
            weights = np.zeros(1 + 2 * count)
            weights[kept] = found
            return weights
        kept = [place for place in kept if place not in wrong]


def _is_wrong(name: str, weight: float) -> bool:
    return (name in GOOD and weight < 0) or (name in BAD and weight > 0)


def balance(data: Looks) -> Vector:
    """Weights that make environments count the same."""
    _, env = np.unique(data.env, return_inverse=True)
    return np.asarray(1_000.0 / np.bincount(env)[env], dtype=np.float64)


def logistic(design: Vector, target: Vector, weight: Vector, penalty: float) -> Vector:
    """Weighted logistic regression with a ridge, by Newton's method; the intercept is free."""
    ridge = penalty * np.eye(design.shape[1])
    ridge[0, 0] = 1e-6
    found = np.zeros(design.shape[1])
    for _ in range(60):
        p = 1 / (1 + np.exp(-np.clip(design @ found, -30, 30)))
        slope = design.T @ (weight * (target - p)) - ridge @ found
        curvature = (design * (weight * p * (1 - p) + 1e-9)[:, None]).T @ design + ridge
        step = np.linalg.solve(curvature, slope)
        found += step
        if np.abs(step).max() < 1e-8:
            break
    return found


# ── doomed ──


def flagged(data: Looks, p: Vector, below: float, lies: NDArray[np.bool_] | None = None) -> dict[str, float]:
    """By run, the share of the budget at which it was first called doomed. `lies`: the looks that find it low, if they are known."""
    found: dict[str, float] = {}
    bad = is_doomed(logit(p), low(data) if lies is None else lies, data.used, below, DOOMED_AFTER)
    for run, used in zip(data.run[bad], data.used[bad], strict=True):
        found.setdefault(run, float(used))
    return found


def doomed_level(data: Looks, flags: Callable[[float], dict[str, float]]) -> float:
    """The highest of a grid of levels that stops few enough runs that made it."""
    made_it = set(data.run[data.reached == 1])
    level = 0.005
    for below in np.round(np.arange(0.01, 0.305, 0.005), 3):
        if sum(run in made_it for run in flags(float(below))) > WRONG_STOPS * len(made_it):
            break
        level = float(below)
    return level


def record(model: Model, data: Looks, environments: Sequence[str]) -> dict[str, Any]:
    """What forecast.json holds."""
    count = len(FEATURES)

    def named(values: Vector) -> dict[str, float]:
        return {name: float(f"{value:.5g}") for name, value in zip(FEATURES, values, strict=True) if value}

    def row(weights: Vector) -> dict[str, Any]:
        return {"intercept": float(f"{weights[0]:.5g}"), "level": named(weights[1 : 1 + count]), "with_used": named(weights[1 + count :])}

    return {
        "about": "Logistic model of rlclinic.diagnosis.forecast.model; written by python -m benchmarks.diagnosis.forecast --fit",
        "fitted_on": {"runs": len(set(data.run)), "looks": len(data), "environments": list(environments)},
        "mean": {name: float(f"{value:.5g}") for name, value in zip(FEATURES, model.mean, strict=True)},
        "scale": {name: float(f"{value:.5g}") for name, value in zip(FEATURES, model.scale, strict=True)},
        "weights": row(model.weights[0]),
        "left_out": {env: row(weights) for env, weights in zip(environments, model.weights[1:], strict=True)},
        "calibration": {name: float(f"{value:.5g}") for name, value in model.calibration.items()},
        "doomed": {"below": model.doomed_below, "after": model.doomed_after},
    }

"""Will a run reach its threshold within its budget? A probability with an interval and a reason, from what it logged so far.

A logistic model over numbers without units (see `forecast_features`), fitted offline on recorded runs, healthy and broken
(`python -m benchmarks.diagnosis.forecast --fit`); forecast.json holds its weights. Each feature has two: one as it is, one
times the share of the budget that is used. What was not logged counts as average. Seeds of one config share their fate more
often than not, so each run's log-odds are drawn towards its siblings'. Then they are set right on environments that were left
out, those that lie low apart from the rest: near the start a run says little early, and more the longer it lies. The interval is
a jackknife over environments: the model fitted again without each of them, so that it is wide where the recorded environments
disagree.
"""

import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from importlib.resources import files
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from rlclinic.diagnosis import columns
from rlclinic.diagnosis.case import Case
from rlclinic.diagnosis.findings import DiagnosisPart
from rlclinic.diagnosis.forecast.features import FEATURES, features
from rlclinic.diagnosis.registry import percent, say
from rlclinic.diagnosis.signals import off_policy
from rlclinic.runs.history import History
from rlclinic.runs.outcome import measure_history

Vector = NDArray[np.float64]
_FAR: Final = 4.0
"""Standardized features are cut here: a log may hold anything."""
_NORMAL_95: Final = 1.96
_SURE: Final = 8.0
"""Log-odds are cut here: no log makes anything surer than that."""
THERE: Final = 3.0
"""Log-odds that a sibling stands for that got there; minus that, if it ended without."""
SHARED: Final = 0.7
"""How far a run is drawn towards its siblings."""
LOW: Final = 0.3
"""A run lies low that was never this share of the way to its threshold, is on average with siblings that were not either, ..."""
AWAY: Final = 0.5
"""... and at its recent rate does not get this far, ..."""
APART: Final = 0.15
"""... or whose training is ahead of its evaluations by this share: what it learns does not count."""
TOO_EARLY_FOR_A_RATE: Final = 0.85
"""Share of the budget that is left while a rate says nothing about where a run ends."""
FEWEST_TO_CALL_STILL: Final = 5
"""Returns without which nobody can say that they have not moved."""
NO_RATE: Final = 0.01
"""Share of the way to the threshold: a projection that brings no more is no rate."""
UNMOVED: Final = "the return has not moved"
SETTLED: Final = 0.3
"""Share of the budget by which most runs that get there have begun to rise."""
EARLY: Final = 5.0
LATE: Final = 4.0
"""What lies low before that must look worse to be doomed, and also what does later: the less is left, the less there is to save.
By so much in log-odds, per budget."""


CALIBRATION: Final = ("add", "times", "low", "low_early", "low_late")


def calibrators(log_odds: Any, low: Any, used: Any) -> dict[str, Any]:
    """What calibrated log-odds are made of, by name: CALIBRATION."""
    lies = np.asarray(low, dtype=np.float64)
    parts = (np.ones_like(log_odds), log_odds, lies, lies * np.maximum(SETTLED - used, 0.0), lies * np.maximum(used - SETTLED, 0.0))
    return dict(zip(CALIBRATION, parts, strict=True))


@dataclass(frozen=True)
class Model:
    """Weights, what features are scaled by, and when a forecast is bad enough to stop."""

    mean: Vector
    scale: Vector
    weights: Vector
    """[1 + environments, 1 + 2 x features]: intercept, features, features times the share of the budget used minus a half.

    The first row is fitted on everything, each other one without one environment.
    """
    calibration: Mapping[str, float] = field(default_factory=lambda: {"times": 1.0})
    """By name, CALIBRATION: what sets log-odds right; fitted on environments that were left out."""
    doomed_below: float = 0.0
    doomed_after: float = 0.15
    """Share of the budget before which no run is called doomed."""

    @classmethod
    def read(cls, record: Mapping[str, Any]) -> "Model":
        """From forecast.json's content."""

        def row(weights: Mapping[str, Any]) -> list[float]:
            parts = ([weights[part].get(name, 0.0) for name in FEATURES] for part in ("level", "with_used"))
            return [weights["intercept"], *(value for part in parts for value in part)]

        return cls(
            mean=np.array([record["mean"][name] for name in FEATURES]),
            scale=np.array([record["scale"][name] for name in FEATURES]),
            weights=np.array([row(each) for each in (record["weights"], *record["left_out"].values())]),
            calibration={name: float(record["calibration"][name]) for name in CALIBRATION},
            doomed_below=float(record["doomed"]["below"]),
            doomed_after=float(record["doomed"]["after"]),
        )

    def design(self, rows: Vector) -> Vector:
        """Rows of features [N, features] as the weights take them: [N, 1 + 2 x features]."""
        scaled = np.nan_to_num((rows - self.mean) / self.scale).clip(-_FAR, _FAR)
        used = np.nan_to_num(rows[:, [FEATURES.index("used")]]) - 0.5
        return np.hstack([np.ones((len(rows), 1)), scaled, scaled * used])

    def log_odds(self, rows: Vector) -> Vector:
        """[N, 1 + environments] for rows of features: by the model itself, and by each that misses an environment."""
        return np.asarray((self.design(rows) @ self.weights.T).clip(-_SURE, _SURE), dtype=np.float64)

    def calibrated(self, log_odds: Vector, low: Any, used: Any) -> Vector:
        """Log-odds that can be believed, of a run (or of each of many) that lies low or not, at a share of its budget."""
        parts = calibrators(log_odds, low, used)
        return np.asarray(sum(self.calibration.get(name, 0.0) * part for name, part in parts.items()), dtype=np.float64)


@cache
def shipped() -> Model:
    """The model in forecast.json."""
    return Model.read(json.loads((files("rlclinic.diagnosis.forecast") / "forecast.json").read_text("utf-8")))


class Forecast(DiagnosisPart):
    """What is to be expected of one run."""

    run: str
    probability: float | None
    """Of reaching the threshold within the budget; None if it cannot be told."""
    low: float | None = None
    high: float | None = None
    """95 %: how much the forecast depends on which environments the model was fitted on."""
    reached_at: float | None = None
    """Env step at which it got there, if it did."""
    lost: bool = False
    """It got there, and fell clearly below again."""
    used: float | None = None
    """Share of the budget."""
    doomed: bool = False
    """Almost certainly in vain: stopping it costs nothing."""
    reason: str
    """What the forecast rests on."""


@dataclass(frozen=True)
class _Open:
    """A run that may still get there."""

    case: Case
    known: Mapping[str, float]
    own: Vector
    """Log-odds by its own log, [1 + environments]."""


def forecasts(histories: Sequence[History], model: Model | None = None) -> list[Forecast]:
    """What is to be expected of runs that differ only in their seed, from what they have logged. Runs that ended get 0 or 1."""
    with np.errstate(all="ignore"):
        model = model or shipped()
        standing = [_standing(Case(history), model) for history in histories]
        return [each if isinstance(each, Forecast) else _predicted(place, standing, model) for place, each in enumerate(standing)]


def forecast(history: History, model: Model | None = None) -> Forecast:
    """What is to be expected of one run by itself."""
    return forecasts([history], model)[0]


def _standing(case: Case, model: Model) -> Forecast | _Open:
    history = case.history
    used = min(case.trained / case.budget, 1.0) if case.budget else None
    came = measure_history(history)
    if came.reached_at is not None:
        reason = f"it reached {say(case.threshold or 0.0)} at {say(came.reached_at)} env steps"
        reason += f", and lost it again: its last return is {say(came.last or 0.0)}" if came.lost else ""
        sure = {"probability": 1.0, "low": 1.0, "high": 1.0, "reached_at": came.reached_at, "lost": came.lost}
        return Forecast(run=history.id, used=used, reason=reason, **sure)
    if history.state in ("finished", "stopped") and not came.counts and case.solved_at is not None:
        return Forecast(
            run=history.id, probability=None, used=used, reason="its training returns passed the threshold, and no evaluation was made"
        )
    if history.state in ("finished", "stopped", "failed"):
        return Forecast(run=history.id, probability=0.0, low=0.0, high=0.0, used=used, reason=_ended(case))
    if broken := _broken(case):
        return Forecast(run=history.id, probability=0.0, low=0.0, high=0.05, used=used, doomed=True, reason=broken)
    if gamed := _gamed(case):
        return Forecast(run=history.id, probability=None, used=used, reason=gamed)
    known = features(case)
    if known is None or used is None:
        return Forecast(run=history.id, probability=None, used=used, reason=_unknown(case))
    return _Open(case, known, model.log_odds(np.array([[known[name] for name in FEATURES]]))[0])


def pooled(own: Vector, others: Sequence[Vector | float]) -> Vector:
    """A run's log-odds drawn towards its siblings'."""
    return own if not others else (1 - SHARED) * own + SHARED * np.mean([np.broadcast_to(other, own.shape) for other in others], axis=0)


def _others(place: int, standing: Sequence[Forecast | _Open]) -> list[Vector | float]:
    """The siblings' log-odds; those that got there, or ended without, are sure."""
    peers: list[Vector | float] = []
    for each in (*standing[:place], *standing[place + 1 :]):
        if isinstance(each, _Open):
            peers.append(each.own)
        elif each.probability is not None:
            peers.append(THERE if each.reached_at is not None else -THERE)
    return peers


def _covered(place: int, standing: Sequence[Forecast | _Open]) -> float:
    """How far siblings ever came, on average; NaN without any."""
    shares = [
        each.known["covered"] if isinstance(each, _Open) else float(each.reached_at is not None)
        for each in (*standing[:place], *standing[place + 1 :])
        if isinstance(each, _Open) or each.probability is not None
    ]
    return float(np.mean(shares)) if shares else math.nan


def lies_low(known: Mapping[str, Any], siblings: Any) -> Any:
    """Whether a run (or each of many) is still near its start, as its siblings are, and not about to leave; see LOW, AWAY and APART."""
    stays = (known["now"] < LOW) & (np.maximum(known["projected"], known["projected_long"]) < AWAY)
    elsewhere = known["now"] - known["evaluated"] > APART
    # Without siblings (NaN) there is nothing to compare.
    return (known["covered"] < LOW) & ~(siblings >= LOW) & (stays | elsewhere)


def is_doomed(log_odds: Any, low: Any, used: Any, below: float, after: float) -> Any:
    """Whether a run (or each of many) is almost certainly in vain: it lies low, had time, and its calibrated log-odds are bad enough."""
    doubt = EARLY * np.maximum(SETTLED - used, 0.0) + LATE * np.maximum(used - SETTLED, 0.0)
    return np.asarray(low, dtype=bool) & (used >= after - 1e-9) & (log_odds <= logit(below) - doubt)


def logit(p: Any) -> Any:
    """Log-odds of a probability."""
    inside = np.clip(p, 1e-12, 1 - 1e-12)
    return np.log(inside / (1 - inside))


def _predicted(place: int, standing: Sequence[Forecast | _Open], model: Model) -> Forecast:
    run = standing[place]
    assert isinstance(run, _Open)
    used = run.known["used"]
    low = bool(lies_low(run.known, _covered(place, standing)))
    odds = model.calibrated(pooled(run.own, _others(place, standing)), low, used)
    middle, rest, count = float(odds[0]), odds[1:], len(odds) - 1
    # The jackknife's deviation: what each environment's absence changes, added up.
    deviation = math.sqrt((count - 1) / count * float(np.sum((rest - rest.mean()) ** 2))) if count > 1 else 1.0
    p, least, most = (_logistic(middle + shift * _NORMAL_95 * deviation) for shift in (0, -1, 1))
    # Fitted on runs without a replay: those with one learn late, and then at once, so that nothing is given up on.
    hopeless = bool(is_doomed(middle, low, used, model.doomed_below, model.doomed_after))
    return Forecast(
        run=run.case.id,
        probability=round(p, 4),
        low=round(least, 4),
        high=round(most, 4),
        used=round(used, 4),
        doomed=hopeless and run.case.algo not in off_policy.OFF_POLICY,
        reason=explain(run.case, run.known),
    )


def together(forecasts: Sequence[Forecast]) -> tuple[float, float, float] | None:
    """Mean probability over the seeds of a group with its interval: the share of them that should get there. None if unknown."""
    known = [each for each in forecasts if each.probability is not None]
    if not known:
        return None
    rows = np.array([[each.probability, each.low, each.high] for each in known], dtype=np.float64)
    p, low, high = rows.mean(0)
    return float(p), float(low), float(high)


# ── words ──


def explain(case: Case, known: Mapping[str, float]) -> str:
    """The two or three things that matter most about the run so far, in words."""
    left = 1 - known["used"]
    parts = [f"{percent(known['now'])} of the way to {say(case.threshold or 0.0)} with {percent(left)} of the budget left"]
    signs = _signs(known)
    if len(case.returns) < FEWEST_TO_CALL_STILL:
        signs = [sign for sign in signs if sign != UNMOVED]
    parts += signs
    rate, rises = known["projected"], known["tau"] > 0.3 and UNMOVED not in signs
    if rate >= 1:
        parts.append("at the recent rate it gets there")
    elif rises and left > TOO_EARLY_FOR_A_RATE:
        parts.append("still rising; too early to say where it ends")
    elif rises and rate <= known["now"] + NO_RATE:
        parts.append("still rising; where it ends cannot be said")
    elif rises:
        parts.append(f"still rising; at the recent rate it ends at {percent(rate)}")
    elif known["stale"] > 0.5:
        parts.append(f"no better for {percent(known['stale'])} of its steps")
    return "; ".join(parts[:3])


def _signs(known: Mapping[str, float]) -> list[str]:
    """What keeps a policy from getting better, the hardest sign first."""
    signs = {
        "there is no reward to learn from": known["no_reward"] > 0.5,
        "the learning rate has run out": known["no_rate"] > 1.0,
        "the weights hardly change": known["slow"] > 1.0,
        "updates hardly move the policy": known["tiny_step"] > 1.5,
        "most updates are skipped": known["skipped"] > 0.7,
        "updates throw the policy about": known["huge_step"] > 0.5,
        "the policy takes one action only": known["one_action"] > 0.08,
        "most units are saturated": known["saturated"] > 0.7,
        "hardly any randomness is left to explore with": known["low_entropy"] > 0.15,
        "all episodes end alike: nothing to learn from": known["episode_spread"] < -2.9,
        UNMOVED: known["moved"] < -2.0,
        "the critic explains nothing": known["explained"] < 0.0,
    }
    return [text for text, seen in signs.items() if seen][:2]


def _ended(case: Case) -> str:
    history = case.history
    if history.state == "failed":
        return f"it failed: {history.reason or 'no reason was recorded'}".splitlines()[0]
    if history.stopped_because is not None:
        return f"it stopped: {history.stopped_because}"
    if case.required_success is not None:
        goal = "" if history.threshold is None else "the threshold and "
        return f"it ended without {goal}{percent(case.required_success)} success"
    return "it ended without reaching the threshold" if history.threshold is not None else "it has ended; there is no threshold"


def _broken(case: Case) -> str | None:
    """Numbers that are no numbers do not heal."""
    for name in (columns.POLICY_LOSS, columns.VALUE_LOSS, columns.TOTAL_LOSS):
        series = case.history.series.get(name)
        if series is not None and len(series.broken) and (not len(series.steps) or series.broken[-1] >= series.steps[-1]):
            return f"{name} is NaN or infinite since {say(float(series.broken[0]))} env steps"
    return None


def _gamed(case: Case) -> str | None:
    """A return that passed its threshold without the success that is required: how returns go on says nothing of that."""
    success, returns = case.signal(columns.SUCCESS), case.signal(columns.RETURN)
    if case.threshold is None or case.required_success is None or min(len(success), len(returns)) < FEWEST_TO_CALL_STILL:
        return None
    ended = success.share(0.7).median
    if returns.share(0.7).median < case.threshold or ended >= 0.5 * case.required_success:
        return None
    return f"its return passed {say(case.threshold)} while {percent(ended)} of episodes succeed: something else than the task may be paid"


def _unknown(case: Case) -> str:
    if case.progress is None:
        return "no return was logged yet"
    if case.threshold is None:
        return "there is no threshold to reach: give one"
    if not case.budget:
        return "the budget is unknown: give it"
    return "it starts at or above the threshold; no evaluation confirmed it yet"


def _logistic(x: float) -> float:
    return 1 / (1 + math.exp(-min(max(x, -30.0), 30.0)))

"""Doses of the learning rate, its schedule and its optimizer."""

import math
from collections.abc import Mapping
from typing import Any, Final

from rlclinic.diagnosis import columns
from rlclinic.diagnosis.signals import off_policy
from rlclinic.diagnosis.signals.off_policy import ACTORS, OFF_POLICY
from rlclinic.plain_text import figure
from rlclinic.treatment.prescription.doses import Dose, dose
from rlclinic.treatment.prescription.group_numbers import Chart

USUAL_STEP: Final = 0.5
"""What is aimed at, in usual updates: half of what the clip range allows leaves room for noise."""
RATE_STEPS: Final = 0.08
"""Learning rate times gradient steps per rollout that moves a small network by about half a usual update: between 0.02 and 0.35 in
settings that are known to work."""
SAFE_RATE_STEPS: Final = 0.15
MOST_RATE_STEPS: Final = 0.2
EARLY_SPIKE: Final = 5.0
"""How much larger the first updates must be than the others for a warm-up to be the answer."""
RATES: Final = (1e-6, 1e-2)
"""Lowest and highest learning rate that is ever prescribed."""
HIGHEST: Final = {"a2c": 1e-3, "reinforce": 1e-2}
"""For algorithms that take one step on a rollout, whose length alone says little."""
WALK: Final = 0.15
"""Learning rate times the root of all gradient steps, for learners with a replay: how far Adam lets a weight wander. Between 0.07
and 1 in settings that are known to work, from CartPole's 10,000 steps to Atari's millions."""
REPLAY_RATES: Final = (3e-5, 2e-3)
LARGEST_FACTOR: Final = 1000.0


# ── the learning rate ──


def rounded(value: float, digits: int = 1) -> float:
    """A number as a person would write it."""
    return float(f"{value:.{digits}g}")


def falling(value: float) -> dict[str, Any]:
    """A rate that falls to 0 over the budget: late updates only polish."""
    return {"start": value, "end": 0.0, "schedule": "linear"}


def _scaled(new: float, rate: float) -> str:
    """ "3x of 0.001, falling to 0", "1/30 of 0.1, falling to 0"."""
    factor = max(new / rate, rate / new)
    digits = f"{factor:.0f}" if factor >= 10 else f"{factor:.2g}"
    return f"{f'{digits}x' if new >= rate else f'1/{digits}'} of {figure(rate)}, falling to 0"


def _replay_rate(chart: Chart, rate: float) -> Dose | None:
    """For learners with a replay, which have no KL: a rate that suits all the gradient steps of the run."""
    steps = chart.of(off_policy.gradient_steps)
    known = steps == steps and steps >= 1
    low, high = REPLAY_RATES
    new = rounded(min(max(WALK / math.sqrt(steps if known else 1e5), low), high / 2 if chart.algo in ACTORS else high))
    if new == rate:
        return None
    seen = f"a weight may wander by rate x √steps = {rate * math.sqrt(steps):.2g} in {steps:,.0f} gradient steps, where {WALK:g} is usual"
    why = f"{seen if known else 'no gradient steps are known, so 100,000 are assumed'}: {_scaled(new, rate)}"
    return Dose({"algo.learning_rate": falling(new)}, why, "slower first steps" if new < rate else "watch that Q-values stay bounded")


@dose
def shorter_steps(chart: Chart) -> Dose | None:
    """A learning rate that shrinks the update to half a usual one: KL grows with its square."""
    rate, size = chart.real("algo.learning_rate") or chart.rate, chart.step_size
    if not rate or chart.setting("algo.optimizer") == "sgd":
        return None
    if chart.algo in OFF_POLICY:
        suited = _replay_rate(chart, rate)
        return suited if suited is not None and suited.changes["algo.learning_rate"]["start"] < 0.7 * rate else None
    long = size == size and size > USUAL_STEP
    wanted = rate * math.sqrt(USUAL_STEP / size) if long else rate / 2
    # A policy that is already certain hardly moves in KL, however long its steps are: rate x steps must be plausible too.
    most = _most(chart, SAFE_RATE_STEPS)
    new = rounded(min(max(min(wanted, most), RATES[0]), rate / 2))
    shown = (
        f"KL {figure(chart.kl, 2)} per update is {figure(size, 2)}x a usual step, and grows with the square of the rate: " if long else ""
    )
    plausible = f" ({chart.updates} gradient steps per rollout allow {figure(most, 2)})" if most < wanted else ""
    return Dose(
        {"algo.learning_rate": falling(new)},
        f"{shown}{_scaled(new, rate)}{plausible}",
        "slower first steps",
    )


@dose
def shorter_still(chart: Chart) -> Dose | None:
    """A quarter of that again, should it not be enough: KL says little about a policy that is already lost."""
    first = shorter_steps(chart)
    if first is None:
        return None
    new = rounded(max(first.changes["algo.learning_rate"]["start"] / 4, RATES[0]))
    return Dose({"algo.learning_rate": falling(new)}, "should the rate above not be low enough: a quarter of it", "slow")


@dose
def longer_steps(chart: Chart) -> Dose | None:
    """A learning rate that grows the update to half a usual one."""
    rate, size = chart.real("algo.learning_rate") or chart.rate, chart.step_size
    if not rate:
        return None
    if chart.algo == "q_learning":
        usual = {"start": 0.5, "end": 0.05, "schedule": "linear"}
        return Dose({"algo.learning_rate": usual}, f"a table learns at 0.1 to 1, falling; not at {figure(rate)}") if rate < 0.1 else None
    if chart.algo in OFF_POLICY:
        suited = _replay_rate(chart, rate)
        return suited if suited is not None and suited.changes["algo.learning_rate"]["start"] > 1.4 * rate else None
    travels = rate * chart.updates
    if size == size:
        factor = min(math.sqrt(USUAL_STEP / max(size, 1e-9)), LARGEST_FACTOR)
    else:
        # Without KL, rate x steps says how far the policy can have come at all.
        factor = min(RATE_STEPS / max(travels, 1e-12), LARGEST_FACTOR) if chart.algo == "ppo" else 10.0
    most = _most(chart, MOST_RATE_STEPS)
    # A KL near the rounding of its own estimator cannot say how far to go; rate x steps can.
    least = 0.3 * RATE_STEPS / chart.updates if chart.algo == "ppo" and factor > 10 else 0.0
    new = rounded(min(max(rate * max(factor, 1.0), least), most))
    if new < 1.4 * rate:
        return None
    shown = f"KL {figure(chart.kl, 2)} per update is {figure(size, 2)} of a usual step; KL grows with the square of the rate"
    if size != size:
        shown = "no KL is known, and how far to go is a guess"
        if chart.algo == "ppo":
            shown = f"no KL is known; rate x gradient steps per rollout is {figure(travels, 2)}, where {RATE_STEPS:g} is usual"
    why = f"{shown}: {_scaled(new, rate)}"
    return Dose({"algo.learning_rate": falling(new)}, why, "watch that KL stays below 0.03")


@dose
def longer_still(chart: Chart) -> Dose | None:
    """Three times that again, should it not be enough; a third of it with a replay, where the first dose is a high one."""
    first = longer_steps(chart)
    if first is None or chart.algo == "q_learning":
        return None
    if chart.algo in OFF_POLICY:
        new = rounded(first.changes["algo.learning_rate"]["start"] / 3)
        return Dose({"algo.learning_rate": falling(new)}, "should the rate above be too high: a third of it", "slower")
    new = rounded(min(3 * first.changes["algo.learning_rate"]["start"], 2 * _most(chart, MOST_RATE_STEPS), RATES[1]))
    return Dose({"algo.learning_rate": falling(new)}, "should the rate above not be high enough: three times it", first.risk)


def _most(chart: Chart, rate_steps: float) -> float:
    """The highest rate that is plausible: for PPO by its gradient steps per rollout."""
    return min(rate_steps / chart.updates, RATES[1]) if chart.algo == "ppo" else HIGHEST.get(chart.algo, RATES[1])


@dose
def shorter_steps_if_long(chart: Chart) -> Dose | None:
    """Shorter steps where they are longer than usual."""
    return shorter_steps(chart) if chart.step_size > 1.2 else None


@dose
def longer_steps_if_short(chart: Chart) -> Dose | None:
    """Longer steps where they are shorter than usual: by KL, or without it by a rate that cannot take the policy anywhere."""
    rate = chart.real("algo.learning_rate")
    if chart.step_size != chart.step_size and chart.algo == "ppo" and rate and chart.setting("algo.optimizer") != "sgd":
        return longer_steps(chart) if rate * chart.updates < RATE_STEPS / 10 else None
    return longer_steps(chart) if chart.step_size < 0.1 else None


@dose
def whole_schedule(chart: Chart) -> Dose | None:
    """The same learning rate, falling over the whole budget."""
    applied = chart.of(
        lambda case: case.signal(columns.applied("learning_rate")).top if case.has(columns.applied("learning_rate")) else math.nan
    )
    rate = applied if applied == applied else chart.real("algo.learning_rate")
    if not rate or rate <= 0:
        return None
    return Dose({"algo.learning_rate": falling(rounded(rate, 2))}, f"{figure(rate, 2)} at first, and 0 only when the budget is used up")


@dose
def careful_rate(chart: Chart) -> Dose | None:
    """Half the learning rate, falling, where it is plausible; else one that suits the gradient steps per rollout."""
    rate = chart.real("algo.learning_rate")
    if not rate or chart.setting("algo.optimizer") == "sgd":
        return None
    if chart.algo in OFF_POLICY:
        return shorter_steps(chart)
    usual = min(RATE_STEPS / chart.updates, RATES[1]) if chart.algo == "ppo" else 0.5 * HIGHEST.get(chart.algo, RATES[1])
    plausible = usual / 4 <= rate <= 4 * usual
    new = rounded(rate / 2, 2) if plausible else rounded(usual)
    why = f"half the rate of {figure(rate)}" if plausible else f"a rate that suits {chart.updates} gradient steps per rollout"
    return Dose({"algo.learning_rate": falling(new)}, f"{why}, falling to 0", "slower first steps")


@dose
def steady_rate(chart: Chart) -> Dose | None:
    """A learning rate that does not fall at all."""
    whole = whole_schedule(chart)
    if whole is None:
        return None
    new = whole.changes["algo.learning_rate"]["start"]
    return Dose({"algo.learning_rate": new}, f"{figure(new)} all the way, so that no schedule can end it")


@dose
def cosine_to_a_tenth(chart: Chart) -> Dose | None:
    """A rate that stays near its start for longer, and never ends: for runs that a straight fall to 0 stopped while they still rose."""
    whole = whole_schedule(chart)
    if whole is None:
        return None
    new = whole.changes["algo.learning_rate"]["start"]
    value = {"start": new, "end": rounded(new / 10), "schedule": "cosine"}
    return Dose(
        {"algo.learning_rate": value},
        f"a cosine stays above half of {figure(new)} for half of the run, and {figure(value['end'])} is left to learn with",
    )


@dose
def warm_up(chart: Chart) -> Dose | None:
    """Short steps at first, where only the first updates are too long: Adam's moments and the critic are not worth much yet."""
    rate, early, later = chart.real("algo.learning_rate"), chart.early_kl, chart.later_kl
    if not rate or not (early > EARLY_SPIKE * later and early > chart.step_scale):
        return None
    value = {**falling(rate), "warmup": 0.1}
    why = f"KL {figure(early, 2)} in the first tenth of the run and {figure(later, 2)} after it: only the first steps are too long"
    return Dose({"algo.learning_rate": value}, why, "slower first steps")


@dose
def let_it_fall(chart: Chart) -> Dose | None:
    """A constant learning rate begins to fall."""
    rate, setting = chart.real("algo.learning_rate"), chart.setting("algo.learning_rate")
    if not rate or isinstance(setting, Mapping) or all(case.standing == "stuck" for case in chart.cases):
        return None  # nor is there anything to keep where nothing was learned
    return Dose({"algo.learning_rate": falling(rate)}, "a rate that falls to 0 keeps what was learned", "slower at the end")


@dose
def adam(chart: Chart) -> Dose | None:
    """Adam, at a rate that suits it."""
    rate = chart.real("algo.learning_rate") or 1e-3
    most = min(RATE_STEPS / chart.updates, RATES[1]) if chart.algo == "ppo" else 1e-3
    if chart.setting("algo.optimizer") == "adam":
        return None
    changes: dict[str, Any] = {"algo.optimizer": "adam"}
    if not most / 20 <= rate <= 2 * most:
        changes["algo.learning_rate"] = falling(rounded(most))
    return Dose(changes, "Adam scales each weight's step by its own gradients: plain SGD's are as short as the gradient")


@dose
def adam_at_a_third(chart: Chart) -> Dose | None:
    """Adam at a third of the rate that is thought to suit it."""
    first = adam(chart)
    if first is None:
        return None
    rate = first.changes.get("algo.learning_rate", {}).get("start") or chart.real("algo.learning_rate") or 1e-3
    new = rounded(rate / 3)
    return Dose(
        {"algo.optimizer": "adam", "algo.learning_rate": falling(new)}, f"Adam again, at {figure(new)}: should its steps be too long"
    )


@dose
def stop_at_kl(chart: Chart) -> Dose | None:
    """Ends a rollout's epochs when the policy has moved by a usual step."""
    if chart.algo != "ppo":
        return None
    usual = chart.step_scale if chart.step_scale == chart.step_scale else 0.02
    value = rounded(min(max(usual, 0.01), 0.03))
    return Dose({"algo.target_kl": value}, f"ends a rollout's epochs once the policy has moved {1.5 * value:g} in KL", "may waste data")

"""Doses: how much of a setting, computed from the run's own numbers.

A formula looks at a Chart and gives the new values of one or two settings with the reason, or None where it has nothing to
say. cures.json names them by cause. No formula looks at a shipped variant.
"""

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Final

from rlclinic.diagnosis import names
from rlclinic.treatment.chart import Chart

USUAL_STEP: Final = 0.5
"""What is aimed at, in usual updates: half of what the clip range allows leaves room for noise."""
RATE_STEPS: Final = 0.08
"""Learning rate times gradient steps per rollout that moves a small network by about half a usual update: between 0.02 and 0.35 in
settings that are known to work."""
SAFE_RATE_STEPS: Final = 0.15
MOST_RATE_STEPS: Final = 0.2
RATES: Final = (1e-6, 1e-2)
"""Lowest and highest learning rate that is ever prescribed."""
HIGHEST: Final = {"a2c": 1e-3, "reinforce": 1e-2}
"""For algorithms that take one step on a rollout, whose length alone says little."""
LARGEST_FACTOR: Final = 1000.0
ROLLOUTS: Final = 128
"""Rollouts in a budget: fewer leave PPO too few policies, many more leave each too little data."""
GRADIENT_STEPS: Final = 3000
"""Over a whole run; settings that are known to work on small tasks take 2,000 to 10,000."""
FEWEST_ROWS: Final = 32
FEWEST_ROWS_ONCE: Final = 16
"""Where each rollout is passed over only once or twice, its minibatches must do the work of the passes."""


@dataclass(frozen=True)
class Dose:
    """New values by dotted setting, and why these."""

    changes: Mapping[str, Any]
    text: str
    risk: str = ""


Formula = Callable[[Chart], Dose | None]
FORMULAS: dict[str, Formula] = {}


def formula(check: Formula) -> Formula:
    """Register a formula under its function's name, with dashes."""
    FORMULAS[check.__name__.replace("_", "-")] = check
    return check


# ── the learning rate ──


def rounded(value: float, digits: int = 1) -> float:
    """A number as a person would write it."""
    return float(f"{value:.{digits}g}")


def falling(value: float) -> dict[str, Any]:
    """A rate that falls to 0 over the budget: late updates only polish."""
    return {"start": value, "end": 0.0, "schedule": "linear"}


def _times(factor: float) -> str:
    def said(value: float) -> str:
        return f"{value:.0f}" if value >= 10 else f"{value:.2g}"

    return f"{said(factor)}x" if factor >= 1 else f"1/{said(1 / factor)}"


@formula
def shorter_steps(chart: Chart) -> Dose | None:
    """A learning rate that shrinks the update to half a usual one: KL grows with its square."""
    rate, size = chart.real("algo.learning_rate") or chart.rate, chart.step_size
    if not rate or chart.setting("algo.optimizer") == "sgd":
        return None
    long = size == size and size > USUAL_STEP
    wanted = rate * math.sqrt(USUAL_STEP / size) if long else rate / 2
    # A policy that is already certain hardly moves in KL, however long its steps are: rate x steps must be plausible too.
    most = _most(chart, SAFE_RATE_STEPS)
    new = rounded(min(max(min(wanted, most), RATES[0]), rate / 2))
    shown = f"KL {chart.kl:.2g} per update is {size:.2g}x a usual step, and grows with the square of the rate: " if long else ""
    plausible = f" ({chart.updates} gradient steps per rollout allow {most:.2g})" if most < wanted else ""
    return Dose(
        {"algo.learning_rate": falling(new)}, f"{shown}{_times(new / rate)} of {rate:g}, falling to 0{plausible}", "slower first steps"
    )


@formula
def shorter_still(chart: Chart) -> Dose | None:
    """A quarter of that again, should it not be enough: KL says little about a policy that is already lost."""
    first = shorter_steps(chart)
    if first is None:
        return None
    new = rounded(max(first.changes["algo.learning_rate"]["start"] / 4, RATES[0]))
    return Dose({"algo.learning_rate": falling(new)}, "should the rate above not be low enough: a quarter of it", "slow")


@formula
def longer_steps(chart: Chart) -> Dose | None:
    """A learning rate that grows the update to half a usual one."""
    rate, size = chart.real("algo.learning_rate") or chart.rate, chart.step_size
    if not rate:
        return None
    factor = min(math.sqrt(USUAL_STEP / max(size, 1e-9)), LARGEST_FACTOR) if size == size else 10.0
    most = _most(chart, MOST_RATE_STEPS)
    # A KL near the rounding of its own estimator cannot say how far to go; rate x steps can.
    least = 0.3 * RATE_STEPS / chart.updates if chart.algo == "ppo" and factor > 10 else 0.0
    new = rounded(min(max(rate * max(factor, 1.0), least), most))
    if new < 1.4 * rate:
        return None
    shown = f"KL {chart.kl:.2g} per update is {size:.2g} of a usual step; " if size == size else ""
    why = f"{shown}KL grows with the square of the rate: {_times(new / rate)} of {rate:g}, falling to 0"
    return Dose({"algo.learning_rate": falling(new)}, why, "watch that KL stays below 0.03")


@formula
def longer_still(chart: Chart) -> Dose | None:
    """Three times that again, should it not be enough."""
    first = longer_steps(chart)
    if first is None:
        return None
    new = rounded(min(3 * first.changes["algo.learning_rate"]["start"], 2 * _most(chart, MOST_RATE_STEPS), RATES[1]))
    return Dose(
        {"algo.learning_rate": falling(new)}, "should the rate above not be high enough: three times it", "watch that KL stays below 0.03"
    )


def _most(chart: Chart, rate_steps: float) -> float:
    """The highest rate that is plausible: for PPO by its gradient steps per rollout."""
    return min(rate_steps / chart.updates, RATES[1]) if chart.algo == "ppo" else HIGHEST.get(chart.algo, RATES[1])


@formula
def shorter_steps_if_long(chart: Chart) -> Dose | None:
    """Shorter steps where they are longer than usual."""
    return shorter_steps(chart) if chart.step_size > 1.2 else None


@formula
def longer_steps_if_short(chart: Chart) -> Dose | None:
    """Longer steps where they are shorter than usual."""
    return longer_steps(chart) if chart.step_size < 0.1 else None


@formula
def whole_schedule(chart: Chart) -> Dose | None:
    """The same learning rate, falling over the whole budget."""
    applied = chart.of(
        lambda case: case.signal(names.applied("learning_rate")).top if case.has(names.applied("learning_rate")) else math.nan
    )
    rate = applied if applied == applied else chart.real("algo.learning_rate")
    if not rate or rate <= 0:
        return None
    return Dose({"algo.learning_rate": falling(rounded(rate, 2))}, f"{rate:.2g} at first, and 0 only when the budget is used up")


@formula
def careful_rate(chart: Chart) -> Dose | None:
    """Half the learning rate, falling, where it is plausible; else one that suits the gradient steps per rollout."""
    rate = chart.real("algo.learning_rate")
    if not rate or chart.setting("algo.optimizer") == "sgd":
        return None
    usual = min(RATE_STEPS / chart.updates, RATES[1]) if chart.algo == "ppo" else 0.5 * HIGHEST.get(chart.algo, RATES[1])
    plausible = usual / 4 <= rate <= 4 * usual
    new = rounded(rate / 2 if plausible else usual)
    why = f"half the rate of {rate:g}" if plausible else f"a rate that suits {chart.updates} gradient steps per rollout"
    return Dose({"algo.learning_rate": falling(new)}, f"{why}, falling to 0", "slower first steps")


@formula
def steady_rate(chart: Chart) -> Dose | None:
    """A learning rate that does not fall at all."""
    whole = whole_schedule(chart)
    if whole is None:
        return None
    new = whole.changes["algo.learning_rate"]["start"]
    return Dose({"algo.learning_rate": new}, f"{new:g} all the way, so that no schedule can end it")


@formula
def let_it_fall(chart: Chart) -> Dose | None:
    """A constant learning rate begins to fall."""
    rate, setting = chart.real("algo.learning_rate"), chart.setting("algo.learning_rate")
    if not rate or isinstance(setting, Mapping):
        return None
    return Dose({"algo.learning_rate": falling(rate)}, "a rate that falls to 0 keeps what was learned", "slower at the end")


@formula
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


@formula
def adam_at_a_third(chart: Chart) -> Dose | None:
    """Adam at a third of the rate that is thought to suit it."""
    first = adam(chart)
    if first is None:
        return None
    rate = first.changes.get("algo.learning_rate", {}).get("start") or chart.real("algo.learning_rate") or 1e-3
    new = rounded(rate / 3)
    return Dose({"algo.optimizer": "adam", "algo.learning_rate": falling(new)}, f"Adam again, at {new:g}: should its steps be too long")


@formula
def stop_at_kl(chart: Chart) -> Dose | None:
    """Ends a rollout's epochs when the policy has moved by a usual step."""
    if chart.algo != "ppo":
        return None
    usual = chart.step_scale if chart.step_scale == chart.step_scale else 0.02
    value = rounded(min(max(usual, 0.01), 0.03))
    return Dose({"algo.target_kl": value}, f"ends a rollout's epochs once the policy has moved {1.5 * value:g} in KL", "may waste data")


# ── epochs, rollouts, minibatches ──


@formula
def fewer_epochs(chart: Chart) -> Dose | None:
    """So many passes as the learning rate allows."""
    epochs, rate = chart.count("algo.n_epochs"), chart.real("algo.learning_rate")
    if chart.algo != "ppo" or not epochs:
        return None
    per_epoch = max(chart.updates // epochs, 1)
    allowed = MOST_RATE_STEPS / (rate * per_epoch) if rate else 10.0
    new = int(min(max(allowed, 3), 10, epochs - 1))
    if new < 1:
        return None
    why = f"{epochs} passes push the policy away from the data it was collected with; {new} leave rate x steps at a usual size"
    return Dose({"algo.n_epochs": new}, why, "uses each rollout less")


@formula
def more_updates(chart: Chart) -> Dose | None:
    """Rollouts and minibatches that fit the budget: 128 policies or more, and some thousand gradient steps."""
    budget, envs = chart.budget, chart.n_envs
    if not budget or not chart.rollout:
        return None
    rollout = 1 << int(math.log2(min(max(budget / ROLLOUTS, 256), 2048)))
    rollout = min(rollout, chart.rollout)
    n_steps = max(rollout // envs, 5 if chart.algo == "a2c" else 16)
    rollout = n_steps * envs
    changes: dict[str, Any] = {} if n_steps == chart.count("algo.n_steps") else {"algo.n_steps": n_steps}
    if chart.algo == "ppo":
        rows = _rows(rollout, math.ceil(budget / rollout), chart.count("algo.n_epochs") or 10)
        changes |= {} if rows == chart.batch_rows and not changes else {"algo.batch_size": rows}
    before, after = math.ceil(budget / chart.rollout), math.ceil(budget / rollout)
    why = f"{after} rollouts in the budget instead of {before}" if after != before else f"{after} rollouts in the budget"
    steps = math.ceil(budget / rollout) * (chart.count("algo.n_epochs") or 1) * (rollout // changes.get("algo.batch_size", rollout))
    return Dose(changes, f"{why}, about {steps} gradient steps", "noisier updates") if changes else None


@formula
def more_updates_if_few(chart: Chart) -> Dose | None:
    """More and shorter rollouts where the budget holds only a few."""
    few = chart.budget and chart.rollout and chart.budget / chart.rollout < ROLLOUTS / 4
    return more_updates(chart) if few else None


def _rows(rollout: int, rollouts: int, epochs: int) -> int:
    """Minibatch rows that give the wanted number of gradient steps, and that divide the rollout."""
    fewest = FEWEST_ROWS if epochs > 2 else FEWEST_ROWS_ONCE
    pieces = 1
    while rollout % (2 * pieces) == 0 and rollout // (2 * pieces) >= fewest and pieces * rollouts * epochs < GRADIENT_STEPS:
        pieces *= 2
    return rollout // pieces


@formula
def minibatches(chart: Chart) -> Dose | None:
    """The same rollouts, each used ten times in small minibatches."""
    rollout, epochs, budget = chart.rollout, chart.count("algo.n_epochs"), chart.budget
    if chart.algo != "ppo" or not rollout or not budget or not epochs or epochs >= 10:
        return None
    rows = _divisor(rollout, max(rollout * math.ceil(budget / rollout) * 10 // (2 * GRADIENT_STEPS), 64))
    return Dose(
        {"algo.batch_size": rows, "algo.n_epochs": 10}, f"{10 * (rollout // rows)} gradient steps on each rollout", "larger steps: watch KL"
    )


@formula
def more_epochs(chart: Chart) -> Dose | None:
    """Each rollout used ten times."""
    epochs = chart.count("algo.n_epochs")
    if chart.algo != "ppo" or not epochs or epochs >= 10:
        return None
    return Dose({"algo.n_epochs": 10}, f"uses each rollout 10 times instead of {epochs}", "larger steps: watch KL")


@formula
def longer_rollouts(chart: Chart) -> Dose | None:
    """256 transitions and more between updates, with as many gradient steps on them as before."""
    if not chart.rollout:
        return None
    rollout = max(256, chart.rollout)
    n_steps = math.ceil(rollout / chart.n_envs)
    if n_steps == chart.count("algo.n_steps"):
        return None
    changes: dict[str, Any] = {"algo.n_steps": n_steps}
    if chart.algo == "ppo" and chart.batch_rows:
        changes["algo.batch_size"] = _divisor(n_steps * chart.n_envs, max(n_steps * chart.n_envs // 4, FEWEST_ROWS))
    return Dose(changes, f"{n_steps * chart.n_envs} transitions per update instead of {chart.rollout}", "fewer updates")


@formula
def more_copies(chart: Chart) -> Dose | None:
    """Longer rollouts by more copies of the environment, in four minibatches."""
    steps, envs = chart.count("algo.n_steps"), chart.n_envs
    if chart.algo != "ppo" or not steps or envs >= 8 or steps * envs >= 256:
        return None
    new = 8 * math.ceil(256 / (8 * steps))
    changes = {"env.n_envs": new, "algo.batch_size": _divisor(new * steps, max(new * steps // 4, FEWEST_ROWS))}
    return Dose(changes, f"{new * steps} transitions per update, from {new} places at once", "fewer updates")


@formula
def more_data(chart: Chart) -> Dose | None:
    """Four times as much data per update: noise averages out."""
    steps, budget = chart.count("algo.n_steps"), chart.budget
    if not steps or (budget and 4 * steps * chart.n_envs > budget / 20):
        return None
    changes: dict[str, Any] = {"algo.n_steps": 4 * steps}
    if chart.algo == "ppo" and chart.batch_rows and (chart.real("algo.batch_size") or 0) > 1:
        changes["algo.batch_size"] = 4 * chart.batch_rows
    return Dose(
        changes, f"{4 * steps * chart.n_envs} transitions per update: a quarter of the noise's variance", "a quarter of the updates"
    )


def _divisor(rollout: int, wanted: int) -> int:
    """The divisor of a rollout that lies nearest."""
    return min((rows for rows in range(1, rollout + 1) if rollout % rows == 0), key=lambda rows: (abs(rows - wanted), -rows))


@formula
def more_envs(chart: Chart) -> Dose | None:
    """The same rollout from more copies: a step of many costs little more than a step of one."""
    steps, envs = chart.count("algo.n_steps"), chart.n_envs
    waiting = chart.share_of_time("env", "act")
    factor = 4 if steps and steps % 4 == 0 and steps >= 64 else 2
    if not steps or steps % factor or steps < 32 or envs > 16 or not waiting > 0.5:
        return None
    changes = {"env.n_envs": factor * envs, "algo.n_steps": steps // factor}
    return Dose(changes, f"stepping and acting take {100 * waiting:.0f} % of the time; the same rollout from {factor * envs} copies",
                "shorter pieces of each episode")  # fmt: skip

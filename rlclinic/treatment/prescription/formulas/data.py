"""Doses of how much data an update sees, and how often: epochs, rollouts, minibatches, copies of the environment."""

import math
from typing import Any, Final

from rlclinic.treatment.prescription.doses import Dose, dose
from rlclinic.treatment.prescription.formulas.learning_rate import MOST_RATE_STEPS
from rlclinic.treatment.prescription.group_numbers import Chart

ROLLOUTS: Final = 128
"""Rollouts in a budget: fewer leave PPO too few policies, many more leave each too little data."""
GRADIENT_STEPS: Final = 3000
"""Over a whole run; settings that are known to work on small tasks take 2,000 to 10,000."""
MOST_DATA: Final = 8
"""Times as much data per gradient step as before, at most: updates become as many times fewer."""
FEWEST_ROWS: Final = 32
FEWEST_ROWS_ONCE: Final = 16
"""Where each rollout is passed over only once or twice, its minibatches must do the work of the passes."""


@dose
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


@dose
def fewer_actors(chart: Chart) -> Dose | None:
    """Half as many actors: a rollout is as many updates old as there are of them."""
    actors = chart.count("algo.n_actors")
    if not actors:
        return None
    new = actors // 2
    how = (
        "the learner plays by itself, and nothing is older than its weights"
        if new == 0
        else f"rollouts are {new} updates old, not {actors}"
    )
    return Dose({"algo.n_actors": new}, how, "environments are waited for longer")


@dose
def correct_for_age(chart: Chart) -> Dose | None:
    """V-trace where ages are ignored."""
    if chart.algo in ("impala", "appo") and chart.setting("algo.advantage") == "gae":
        return Dose({"algo.advantage": "vtrace"}, "V-trace weighs each step by how likely the present policy would take it")
    return None


@dose
def more_updates(chart: Chart) -> Dose | None:
    """Rollouts and minibatches that fit the budget: 128 policies or more, and some thousand gradient steps."""
    budget, envs = chart.budget, chart.n_envs
    if not budget or not chart.rollout:
        return None
    rollout = 1 << int(math.log2(min(max(budget / ROLLOUTS, 256), 2048)))
    rollout = min(rollout, chart.rollout)
    n_steps = max(rollout // envs, 5 if chart.algo == "a2c" else 16)
    n_steps = min(n_steps, chart.count("algo.n_steps") or n_steps)  # few steps of many copies are no long rollout
    rollout = n_steps * envs
    changes: dict[str, Any] = {} if n_steps == chart.count("algo.n_steps") else {"algo.n_steps": n_steps}
    rows = rollout
    if chart.algo == "ppo":
        rows = _rows(rollout, math.ceil(budget / rollout), chart.count("algo.n_epochs") or 10)
        # A share of the rollout shrinks with it; a number of rows stays.
        is_kept = rows == chart.batch_rows and (not changes or rows == chart.count("algo.batch_size"))
        changes |= {} if is_kept else {"algo.batch_size": rows}
    before, after = math.ceil(budget / chart.rollout), math.ceil(budget / rollout)
    why = f"{after} rollouts in the budget instead of {before}" if after != before else f"{after} rollouts in the budget"
    steps = math.ceil(budget / rollout) * (chart.count("algo.n_epochs") or 1) * (rollout // rows)
    return Dose(changes, f"{why}, about {steps} gradient steps", "noisier updates") if changes else None


@dose
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


@dose
def minibatches(chart: Chart) -> Dose | None:
    """The same rollouts, each used ten times in small minibatches."""
    rollout, epochs, budget = chart.rollout, chart.count("algo.n_epochs"), chart.budget
    if chart.algo != "ppo" or not rollout or not budget or not epochs or epochs >= 10:
        return None
    rows = _divisor(rollout, max(rollout * math.ceil(budget / rollout) * 10 // (2 * GRADIENT_STEPS), 64))
    return Dose(
        {"algo.batch_size": rows, "algo.n_epochs": 10}, f"{10 * (rollout // rows)} gradient steps on each rollout", "larger steps: watch KL"
    )


@dose
def more_epochs(chart: Chart) -> Dose | None:
    """Each rollout used ten times."""
    epochs = chart.count("algo.n_epochs")
    if chart.algo != "ppo" or not epochs or epochs >= 10:
        return None
    return Dose({"algo.n_epochs": 10}, f"uses each rollout 10 times instead of {epochs}", "larger steps: watch KL")


@dose
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


@dose
def more_copies(chart: Chart) -> Dose | None:
    """Longer rollouts by more copies of the environment, in four minibatches."""
    steps, envs = chart.count("algo.n_steps"), chart.n_envs
    if chart.algo != "ppo" or not steps or envs >= 8 or steps * envs >= 256:
        return None
    new = 8 * math.ceil(256 / (8 * steps))
    changes = {"env.n_envs": new, "algo.batch_size": _divisor(new * steps, max(new * steps // 4, FEWEST_ROWS))}
    return Dose(changes, f"{new * steps} transitions per update, from {new} places at once", "fewer updates")


@dose
def more_data(chart: Chart) -> Dose | None:
    """As much data per gradient step as its noise asks for, at most eight times; four times where the noise is not known."""
    steps, budget = chart.count("algo.n_steps"), chart.budget
    if not steps:
        return None
    rows, noise = chart.batch_rows if chart.algo == "ppo" and chart.batch_rows else steps * chart.n_envs, chart.noise_rows
    factor = 4 if noise != noise else min(1 << max(math.ceil(math.log2(min(noise, 1e9) / rows)), 0), MOST_DATA) if noise > 0 else 1
    while factor > 1 and budget and factor * steps * chart.n_envs > budget / 20:
        factor //= 2
    if factor < 2 or (noise != noise and factor < 4):
        return None
    changes: dict[str, Any] = {"algo.n_steps": factor * steps}
    if chart.algo == "ppo" and chart.batch_rows and (chart.real("algo.batch_size") or 0) > 1:
        changes["algo.batch_size"] = factor * chart.batch_rows
    seen = f"the gradient is half noise at {noise:,.0f} rows, and a step has {rows}: " if noise < 1e9 else ""
    seen = f"no gradient is seen through the noise of {rows} rows: " if math.isinf(noise) else seen
    why = f"{seen}{factor * steps * chart.n_envs} transitions per update, 1/{factor} of the noise's variance"
    return Dose(changes, why, f"1/{factor} of the updates")


@dose
def larger_minibatches(chart: Chart) -> Dose | None:
    """Minibatches as large as the noise of the gradient asks for, out of the same rollouts."""
    rows, rollout, noise = chart.batch_rows, chart.rollout, chart.noise_rows
    if chart.algo != "ppo" or not rows or not rollout or not noise > 1.5 * rows or rows >= rollout:
        return None
    new = _divisor(rollout, int(min(noise, rollout)))
    if new <= rows:
        return None
    seen = f"is half noise at {noise:,.0f} rows" if noise < 1e9 else "cannot be seen through its noise"
    return Dose({"algo.batch_size": new}, f"the gradient {seen}; {new} in place of {rows} rows average it out", "fewer gradient steps")


def _divisor(rollout: int, wanted: int) -> int:
    """The divisor of a rollout that lies nearest."""
    return min((rows for rows in range(1, rollout + 1) if rollout % rows == 0), key=lambda rows: (abs(rows - wanted), -rows))


@dose
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

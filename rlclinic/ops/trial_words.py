"""What a trial says, in words: the same in the terminal, in Markdown and in HTML."""

import math
from collections.abc import Sequence
from typing import NamedTuple

from rlclinic.ops.wording import BLANK, count, duration, number, plural, short
from rlclinic.treatment.trial_models import CENSORED_OUTCOMES, ArmResult, Effect, Look, Power, Range, Trial, TrialPlan

_LESS = {"steps": "fewer steps", "wall": "less time", "stability": "less spread"}
_MORE = {"steps": "more steps", "wall": "more time", "stability": "more spread"}


class Row(NamedTuple):
    """One measure of two arms and its effect."""

    label: str
    control: str
    treatment: str
    effect: str


# ── before ──


def plan_lines(plan: TrialPlan, power: Power, described: str) -> list[tuple[str, str]]:
    """Arms, rule, where runs end, and what the trial can see."""
    lines = [
        ("arms", f"{plan.control.name} = {described} · {_treatments(plan)} · {_freshness(plan)}"),
        ("rule", rule_text(plan)),
    ]
    if plan.outcome in CENSORED_OUTCOMES and plan.source != "command":
        end = f"at its first evaluation at or above {number(plan.threshold, 4)}"
        more = "--whole-budget trains on and guards the final return"
        lines.append(("ends", "every run uses its whole budget" if plan.whole_budget else f"a run ends {end} · {more}"))
    lines.append(("can see", power_text(plan, power)))
    return lines


def _treatments(plan: TrialPlan) -> str:
    if plan.source == "command":
        return " · ".join(f"{arm.name} = {arm.title}" for arm in plan.treatments)
    said = [_against(arm.name, plan.control.name, len(arm.changes)) for arm in plan.treatments]
    return " · ".join(said[:4]) + (f" · and {len(said) - 4} more" if len(said) > 4 else "")


def _against(arm: str, control: str, changes: int) -> str:
    return f"{arm} = {control} + {plural(changes, 'change')}" if changes else f"{arm} = {control} again"


def _freshness(plan: TrialPlan) -> str:
    return "fresh seeds: the diagnosed runs are not counted" if plan.above_seed >= 0 else "fresh seeds"


def rule_text(plan: TrialPlan) -> str:
    """8 seeds an arm per look, at most 4 looks · a wrong "adopt" in ≤ 5 % over all looks."""
    arms = f" and {len(plan.treatments)} arms (max-T)" if len(plan.treatments) > 1 else ""
    looks = f"at most {plural(plan.looks, 'look')}" if plan.looks > 1 else "one look"
    kind = "" if plan.rule == "pocock" else " (O'Brien-Fleming)"
    return f'{plan.per_look} seeds an arm per look, {looks}{kind} · a wrong "adopt" in ≤ {100 * plan.alpha:g} % over all looks{arms}'


def power_text(plan: TrialPlan, power: Power) -> str:
    """50 % fewer steps with power 1.00 · 30 %: 0.79 · 10 %: 0.13."""
    if power.kind == "shift":
        sizes, what, basis = [f"{size} SD" for size in power.by_effect], "(over seeds) more", ""
    else:
        sizes, what = [f"{100 * float(share):.0f} %" for share in power.by_effect], _LESS.get(plan.outcome, "less")
        basis = "; assuming a usual spread" if power.assumed else f"; with these runs' spread, sigma {power.sigma:.2f}"
        basis = basis if power.kind == "time" else ""
    first, *rest = zip(sizes, power.by_effect.values(), strict=True)
    said = " · ".join([f"{first[0]} {what} with power {first[1]:.2f}", *(f"{size}: {chance:.2f}" for size, chance in rest)])
    return f"{said} ({sizes[-1]} takes {power.seeds_for_small:,} seeds{basis})"


def cost_text(max_env_steps: int | None, seconds: float | None, likely: float | None, cores: int) -> str:
    """≤ 6.4M env steps, ≤ 4 min on 2 cores, likely 45 s."""
    steps = "as many env steps as your command takes" if max_env_steps is None else f"≤ {short(max_env_steps)} env steps"
    where = f"on {plural(cores, 'core')}"
    time = (
        f"≤ {duration(seconds)} {where}, likely {duration(likely)} or less"
        if seconds is not None
        else f"{where}; not timed on this task yet"
    )
    return f"{steps}, {time}"


# ── while it runs ──


def look_lines(trial_arms: Sequence[tuple[str, int, int, int, float | None]], look: Look, looks: int, threshold: float | None) -> list[str]:
    """A look in two lines: arms as (name, runs, solved, failed, return), then what the statistic says."""
    shown = " · ".join(arm_bar(*arm, threshold=threshold) for arm in trial_arms)
    return [f"{shown}   {duration(look.seconds)}", decision_text(look, looks)]


def arm_bar(name: str, runs: int, solved: int, failed: int, mean: float | None, *, threshold: float | None) -> str:
    """control ░░░░░░░░ 0/8 solved, return 203."""
    said = [f"{solved}/{runs} solved"] if threshold is not None else [f"{runs} runs"]
    said += [f"return {number(mean)}"] if mean is not None else []
    said += [f"{failed} failed"] if failed else []
    bar = "█" * solved + "░" * (runs - solved) if runs <= 16 else f"{solved / max(runs, 1):.0%}"
    return f"{name} {bar} {', '.join(said)}"


def decision_text(look: Look, looks: int) -> str:
    """z 3.6 > bound 2.36: decided, looks 2-4 not needed."""
    parts = []
    for name, z in look.z.items():
        side = "−" if z < 0 else ""
        # A negative z is beyond its bound when it is smaller.
        sign = ">" if (abs(z) > look.bound) == (z >= 0) else "<"
        called = f" ({look.calls[name]})" if name in look.calls and len(look.z) > 1 else ""
        shown = "z" if len(look.z) == 1 else f"{name} z"
        parts.append(f"{shown} {side}{abs(z):.2f} {sign} bound {side}{look.bound:.2f}{called}")
    left = looks - look.number
    rest = {0: "", 1: f", look {looks} not needed"}.get(left, f", looks {look.number + 1}–{looks} not needed")
    done = "decided" if look.calls else "nothing tells the arms apart"
    ending = f"{done}{rest}" if look.decided and left else "the last look" if not left else "not decided yet"
    return " · ".join(parts) + f": {ending}"


# ── afterwards ──


def headline(trial: Trial) -> str:
    """ADOPT rx1, or why not."""
    effect = trial.leading
    if trial.verdict is None or effect is None:
        return f"{trial.state.upper()} after {plural(len(trial.looks), 'look')}"
    name = trial.winner or effect.arm
    if trial.verdict == "adopt":
        return f"ADOPT {name}"
    if trial.verdict == "reject":
        return f"REJECT {', '.join(each.arm for each in trial.effects)}: {trial.control.name} was better"
    if trial.verdict == "equivalent":
        as_good = f"{effect.arm} is as good as {trial.control.name}, {effect_text(trial, effect)}"
        return f"EQUIVALENT within ±{100 * trial.plan.margin:g} %: {as_good}"
    return f"UNDECIDED after {effect.seeds} seeds: {trial.reason or undecided_text(trial, effect)}"


def undecided_text(trial: Trial, effect: Effect) -> str:
    """8 % fewer [−9, +23]; about 190 more seeds an arm settle ±10 %."""
    said = effect_text(trial, effect)
    more = effect.seeds_needed - effect.seeds if effect.seeds_needed is not None else None
    margin = f"±{100 * trial.plan.margin:g} %"
    if more is None:
        return f"{said}; how many seeds would settle it cannot be told yet"
    return f"{said}; about {max(more, 1):,} more seeds an arm settle {margin}"


def effect_text(trial: Trial, effect: Effect) -> str:
    """The effect on the outcome that was asked about."""
    if effect.ratio is not None:
        return ratio_text(effect.ratio, trial.outcome)
    if effect.gain is not None:
        return gain_text(effect.gain, points=trial.outcome == "success")
    return probability_text(effect.improvement)


def ratio_text(ratio: Range, outcome: str = "steps") -> str:
    """30 % fewer steps [12, 45]; 2.9x fewer [2.4x, 3.5x]; at least 2.4x fewer."""
    less, more = _LESS.get(outcome, "less"), _MORE.get(outcome, "more")
    low, high = ratio.low or 0.0, math.inf if ratio.high is None else ratio.high
    if ratio.value is None:
        if high < 1:
            return f"at least {_times(1 / high)} {less}"
        if low > 1:
            return f"at least {_times(low)} {more}"
        return "no run to compare steps with"
    if ratio.value <= 0.5:
        return f"{_times(1 / ratio.value)} {less} [{_times(1 / high)}, {_times(1 / low if low > 0 else math.inf)}]"
    if ratio.value >= 2:
        return f"{_times(ratio.value)} {more} [{_times(low)}, {_times(high)}]"
    if ratio.value <= 1:
        return f"{100 * (1 - ratio.value):.0f} % {less} [{_signed(100 * (1 - high))}, {_signed(100 * (1 - low))}]"
    return f"{100 * (ratio.value - 1):.0f} % {more} [{_signed(100 * (low - 1))}, {_signed(100 * (high - 1))}]"


def _times(factor: float) -> str:
    """1.04x, 2.4x, 11x."""
    if math.isinf(factor):
        return "∞"
    return f"{factor:.0f}x" if factor >= 9.95 else f"{factor:.1f}x" if factor >= 1.15 else f"{factor:.2f}x"


def _signed(value: float) -> str:
    return ("+∞" if value > 0 else "−∞") if math.isinf(value) else f"{value:+.0f}".replace("-", "−")


def gain_text(gain: Range, *, points: bool) -> str:
    """+120 [+80, +160], or in points for a share."""
    if gain.value is None:
        return "no run to compare returns with"
    low, high = (-math.inf if gain.low is None else gain.low), (math.inf if gain.high is None else gain.high)
    if points:
        return f"{_signed(100 * gain.value)} points [{_signed(100 * low)}, {_signed(100 * high)}]"
    return f"{_plus(gain.value)} [{_plus(low)}, {_plus(high)}]"


def _plus(value: float) -> str:
    sign = "+" if value >= 0 else "−"
    return f"{sign}∞" if math.isinf(value) else f"{sign}{number(abs(value))}"


def probability_text(improvement: Range) -> str:
    """P(improvement) 1.00 [0.80, 1.00]."""
    if improvement.value is None:
        return BLANK
    low, high = improvement.low or 0.0, 1.0 if improvement.high is None else improvement.high
    return f"P(improvement) {improvement.value:.2f} [{low:.2f}, {high:.2f}]"


def rows(trial: Trial, effect: Effect) -> list[Row]:
    """The measures of one treatment arm beside the control's."""
    control = trial.control
    treated = next(arm for arm in trial.arms if arm.name == effect.arm)
    found = _threshold_rows(trial, effect, control, treated)
    gain = gain_text(effect.gain, points=False) if trial.outcome == "return" and effect.gain is not None else ""
    chance = probability_text(effect.final_improvement) if effect.final_improvement is not None else ""
    said = " · ".join(part for part in (gain, chance) if part)
    found.append(Row("final return, IQM", range_text(control.final), range_text(treated.final), said))
    if treated.success is not None and control.success is not None:
        said = gain_text(effect.gain, points=True) if trial.outcome == "success" and effect.gain is not None else ""
        found.append(Row("success rate", range_text(control.success), range_text(treated.success), said))
    if trial.outcome == "stability" and effect.ratio is not None:
        found.append(Row("10-90 % range", number(control.spread), number(treated.spread), ratio_text(effect.ratio, "stability")))
    if control.seconds_per_100k is not None and treated.seconds_per_100k is not None:
        slower = any(guard.name == "throughput" and guard.worse for guard in effect.guardrails)
        said = "slower" if slower else "no difference that matters"
        found.append(Row("s per 100k steps", number(control.seconds_per_100k), number(treated.seconds_per_100k), said))
    return found


def _threshold_rows(trial: Trial, effect: Effect, control: ArmResult, treated: ArmResult) -> list[Row]:
    if trial.threshold is None or effect.reached is None:
        return []
    at = number(trial.threshold, 4)
    said = ratio_text(effect.ratio, trial.outcome) if trial.outcome in CENSORED_OUTCOMES and effect.ratio is not None else ""
    return [
        Row(f"reached {at}", _reached(control), _reached(treated), gain_text(effect.reached, points=True)),
        Row(f"steps to {at}", steps_text(trial, control), steps_text(trial, treated), said),
    ]


def _reached(arm: ArmResult) -> str:
    failed = f", {arm.failed} failed" if arm.failed else ""
    return f"{arm.reached} of {arm.n}{failed}"


def steps_text(trial: Trial, arm: ArmResult) -> str:
    """34k [30k, 41k], or > 100k, 8 censored."""
    if arm.steps is None or arm.n == 0:
        return BLANK
    censored = arm.n - (arm.reached or 0)
    tail = f", {censored} censored" if censored else ""
    if arm.steps.value is None:
        return f"> {short(trial.horizon or arm.env_steps / arm.n)}{tail}"
    high = f"> {short(trial.horizon)}" if arm.steps.high is None else short(arm.steps.high)
    band = f" [{short(arm.steps.low)}, {high}]" if arm.steps.low is not None else ""
    return f"{short(arm.steps.value)}{band}{tail}"


def range_text(found: Range | None) -> str:
    """203 [150, 260]."""
    if found is None or found.value is None:
        return BLANK
    band = f" [{number(found.low)}, {number(found.high)}]" if found.low is not None and found.high is not None else ""
    return f"{number(found.value)}{band}"


def guardrail_text(effect: Effect) -> str:
    """KL, entropy, explained variance, clip fraction: none worse."""
    if not effect.guardrails:
        return "none could be measured"
    worse = [guard for guard in effect.guardrails if guard.worse]
    if not worse:
        return f"{', '.join(guard.name for guard in effect.guardrails)}: none worse"
    said = ", ".join(f"{guard.name} {number(guard.control)} → {number(guard.treatment)}" for guard in worse)
    return f"WORSE: {said}"


def forecast_text(trial: Trial, effect: Effect) -> str | None:
    """What was expected of a prescription, whether it held, and that the outcome counts from now on."""
    cause = (trial.context.get("causes") or {}).get(effect.arm)
    if not cause or trial.verdict is None:
        return None
    expected = (trial.context.get("forecasts") or {}).get(effect.arm)
    if not isinstance(expected, dict):
        return f"there was none; recorded as the first trial of this change for {cause}"
    in_steps = expected.get("measure") == "steps"
    seen = _ratio_seen(effect) if in_steps else _gap_closed(trial, effect)
    said = _forecast(expected["value"], expected["low"], expected["high"], in_steps)
    ending = f"recorded as trial {expected['trials'] + 1} of this change for {cause}"
    if seen is None:
        return f'"{said}": cannot be told from this outcome; {ending}'
    held = "held" if expected["low"] <= seen <= expected["high"] else "missed"
    return f'"{said}": {held} ({f"{seen:.2g}x" if in_steps else f"{100 * seen:.0f} %"}); {ending}'


def _forecast(value: float, low: float, high: float, in_steps: bool) -> str:
    if in_steps:
        return f"{value:.2g}x the steps [{low:.2g}, {high:.2g}]"
    return f"{100 * value:.0f} % of the gap closed [{100 * low:.0f}, {100 * high:.0f}]"


def _ratio_seen(effect: Effect) -> float | None:
    return None if effect.ratio is None else effect.ratio.value if effect.ratio.value is not None else effect.ratio.high


def _gap_closed(trial: Trial, effect: Effect) -> float | None:
    """The share of the way from the control's final return to the threshold; None without a threshold above it."""
    before, after = (arm.final.value if arm is not None and arm.final is not None else None for arm in (trial.control, _arm(trial, effect)))
    if before is None or after is None or trial.threshold is None or trial.threshold <= before:
        return None
    return (after - before) / (trial.threshold - before)


def _arm(trial: Trial, effect: Effect) -> ArmResult | None:
    return next((arm for arm in trial.arms if arm.name == effect.arm), None)


def used_text(trial: Trial) -> str:
    """1.07M of 6.4M env steps, 16 runs."""
    most = f" of {short(trial.max_env_steps)}" if trial.max_env_steps else ""
    runs = sum(arm.n for arm in trial.arms)
    return f"{short(trial.used_env_steps)}{most} env steps, {plural(runs, 'run')}, {duration(trial.seconds)}"


def not_shown(trial: Trial) -> list[str]:
    """What the trial says nothing about."""
    said = ["other environments"]
    if not all(arm.evaluated for arm in trial.arms):
        said.append("evaluations: the logs have none, so returns of training were compared")
    if trial.outcome in CENSORED_OUTCOMES and not trial.plan.whole_budget and trial.source != "command":
        said.append(f"what happens after {number(trial.threshold, 4)} (--whole-budget)")
    if trial.source == "translated":
        said.append("your own script (--run 'python train.py --seed {seed} …')")
    return said


def repeat(trial: Trial) -> str:
    """The command that makes the same trial again, with the same seeds."""
    asked = trial.context.get("typed") or f"rlclinic trial … --looks {trial.plan.looks} --per-look {trial.plan.per_look}"
    return f"{asked} --seed0 {trial.seed0}"


def seeds_text(trial: Trial) -> str:
    """Seeds that were used, for a comment."""
    used = trial.plan.n_seeds
    return f"{trial.control.n} seeds an arm from {trial.seed0} (of {count(used)} reserved)"

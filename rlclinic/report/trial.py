"""A trial in words, and as report.md and report.html: the arms' curves, the effects as a forest, and the looks."""

import math
from collections.abc import Sequence
from html import escape
from pathlib import Path
from string import ascii_lowercase
from typing import NamedTuple

from rlclinic.actions import Action, Argument
from rlclinic.comparison.curves import make_band
from rlclinic.comparison.models import Band
from rlclinic.config import StepUnit
from rlclinic.report import charts
from rlclinic.report.charts import Scale
from rlclinic.report.document import (
    COLOURS,
    Block,
    Code,
    Commands,
    Figure,
    Gap,
    Heading,
    Points,
    Rows,
    Table,
    Text,
    Tone,
    Verdict,
    render_markdown,
    render_page,
)
from rlclinic.report.format import BLANK, clip, count, duration, number, percent, plural, short
from rlclinic.report.profile import profile
from rlclinic.runs import outcome, trials
from rlclinic.runs.goal import Goal
from rlclinic.runs.record import Run
from rlclinic.runs.store import Store
from rlclinic.treatment.prescription.prescription import gap_closed
from rlclinic.treatment.trial import sequential
from rlclinic.treatment.trial.models import (
    CENSORED_OUTCOMES,
    ArmResult,
    Effect,
    Environment,
    EnvironmentLook,
    Guardrail,
    Look,
    PlanRow,
    Power,
    Range,
    Trial,
    TrialPlan,
)
from rlclinic.treatment.trial.outcomes import THROUGHPUT

_LESS = {"steps": "fewer steps", "wall": "less time", "stability": "less spread"}
_FASTER = {"steps": "FASTER", "wall": "FASTER", "return": "HIGHER", "success": "HIGHER", "stability": "STEADIER"}
_MORE = {"steps": "more steps", "wall": "more time", "stability": "more spread"}


class Row(NamedTuple):
    """One measure of two arms and its effect."""

    label: str
    control: str
    treatment: str
    effect: str


# ── before ──


def describe_plan(question: str, plan: TrialPlan, power: Power, control: str, cost: str, warnings: Sequence[str] = ()) -> list[Block]:
    """The question, arms, rule, where runs end, what the trial can see and what it costs."""
    rows = [("note", warning) for warning in warnings]
    rows.append(("arms", f"{plan.control.name} = {control} · {_treatments(plan)} · {_freshness(plan)}"))
    if plan.environments:
        rows.append(("in", " · ".join(_place_text(plan, environment) for environment in plan.environments)))
    rows.append(("rule", rule_text(plan)))
    if plan.outcome in CENSORED_OUTCOMES and plan.source != "command":
        end = f"at its first evaluation at or above {'its threshold' if plan.environments else number(plan.threshold, 4)}"
        more = "with its whole budget it trains on, and the final return is guarded"
        rows.append(("ends", "every run uses its whole budget" if plan.whole_budget else f"a run ends {end} · {more}"))
    rows += [("can see", power_text(plan, power)), ("cost", cost)]
    return [Verdict("TRIAL", question), Rows(rows, 9, 2)]


def describe_power(plan: TrialPlan, power: Power, table: Sequence[PlanRow]) -> list[Block]:
    """Seeds and time against the effect that would be seen, as a table and as curves."""
    named = [f"{effect} SD" if power.kind == "shift" else f"{100 * float(effect):.0f} %" for effect in table[0].power]
    sizes = {effect: f"{letter}: {size}" for effect, letter, size in zip(table[0].power, ascii_lowercase, named, strict=False)}
    heads = [">seeds an arm", *(f">{size}" for size in sizes.values()), f">{plan.step_unit}, most", ">time, most"]
    rows = [
        [str(row.seeds), *(f"{row.power[effect]:.2f}" for effect in sizes), short(row.max_env_steps), duration(row.max_seconds)]
        for row in table
    ]
    what = "more (deviations over seeds)" if power.kind == "shift" else _LESS.get(plan.outcome, "less")
    bands = [
        Band(label=size, axis="seeds an arm", x=[float(row.seeds) for row in table], center=line, low=line, high=line, runs=0)
        for effect, size in sizes.items()
        for line in [[row.power[effect] for row in table]]
    ]
    names = list(sizes.values())
    text = f"Power against seeds an arm, for {', '.join(named)} {what}; dashes: 0.8."
    drawing = charts.BandsDrawing(bands, 0.8, "power")
    figure = Figure(lambda: charts.add_names(charts.bands_svg(bands, names, 0.8, "power", "power"), names), text, None, drawing)
    note = f"power to be adopted with {what}; a trial stops as soon as it is decided, mostly long before its last seed"
    return [Table(heads, rows, "What more seeds would see", note=note), figure]


def _treatments(plan: TrialPlan) -> str:
    if plan.source == "command":
        return " · ".join(f"{arm.name} = {arm.title}" for arm in plan.treatments)
    control = plan.control.name
    arms = [
        f"{arm.name} = {control} + {plural(len(arm.changes), 'change')}" if arm.changes else f"{arm.name} = {control} again"
        for arm in plan.treatments
    ]
    return " · ".join(arms[:4]) + (f" · and {len(arms) - 4} more" if len(arms) > 4 else "")


def _place_text(plan: TrialPlan, environment: Environment) -> str:
    """CartPole-v1 (to 475, 100k env steps a run)."""
    goal = "" if environment.threshold is None or plan.outcome not in CENSORED_OUTCOMES else f"to {number(environment.threshold, 4)}, "
    return f"{environment.env_id} ({goal}{short(environment.budget)} {plan.step_unit} a run)"


def _freshness(plan: TrialPlan) -> str:
    return "fresh seeds: the diagnosed runs are not counted" if plan.above_seed >= 0 else "fresh seeds"


def rule_text(plan: TrialPlan) -> str:
    """8 seeds an arm per look, at most 4 looks · a wrong "adopt" in ≤ 5 % over all looks."""
    arms = f" and {len(plan.treatments)} arms (max-T)" if len(plan.treatments) > 1 else ""
    looks = f"at most {plural(plan.looks, 'look')}" if plan.looks > 1 else "one look"
    kind = {"pocock": " (Pocock)", "obrien-fleming": " (O'Brien-Fleming)"}.get(plan.rule, "")
    adopt = f'a wrong "adopt" in ≤ {100 * sequential.BETTER_SHARE * plan.alpha:.2g} %'
    wrong = f"{adopt}, any wrong verdict in ≤ {100 * plan.alpha:.2g} %, over all looks{arms}"
    where = " in each environment" if plan.environments else ""
    return f"{plan.per_look} seeds an arm per look{where}, {looks}{kind} · {wrong}"


def power_text(plan: TrialPlan, power: Power) -> str:
    """50 % fewer steps with power 1.00 · 30 %: 0.79 · 10 %: 0.13."""
    if power.kind == "shift":
        sizes, what, basis = [f"{size} SD" for size in power.by_effect], "(over seeds) more", ""
    else:
        sizes, what = [f"{100 * float(share):.0f} %" for share in power.by_effect], _LESS.get(plan.outcome, "less")
        basis = "; assuming a usual spread" if power.assumed else f"; with these runs' spread, sigma {power.sigma:.2f}"
        basis = basis if power.kind == "time" else ""
    chances = [f"{chance:.2f}{_range_text(power, effect)}" for effect, chance in power.by_effect.items()]
    first, *rest = zip(sizes, chances, strict=True)
    said = " · ".join([f"{first[0]} {what} with power {first[1]}", *(f"{size}: {chance}" for size, chance in rest)])
    return f"{said} ({sizes[-1]} takes {power.seeds_for_small:,} seeds{basis})"


def _range_text(power: Power, effect: str) -> str:
    """(0.4-0.6), where too few runs were measured for one number."""
    ends = power.range_by_effect.get(effect)
    return "" if ends is None else f" ({ends[0]:.2f}–{ends[1]:.2f})"


def cost_text(max_env_steps: int | None, unit: str, seconds: float | None, likely: float | None, cores: int) -> str:
    """≤ 6.4M env steps, ≤ 4 min on 2 cores, likely 45 s."""
    steps = f"as many {unit} as your command takes" if max_env_steps is None else f"≤ {short(max_env_steps)} {unit}"
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
    each = [", ".join(f"{z:.1f}" for z in own.z.values()) + f" in {own.env_id}" for own in look.environments]
    for name, z in look.z.items():
        side = "−" if z < 0 else ""
        # A negative z is beyond its bound when it is smaller.
        limit = look.worse_bound if z < 0 and look.worse_bound is not None else look.bound
        sign = ">" if (abs(z) > limit) == (z >= 0) else "<"
        called = f" ({look.calls[name]})" if name in look.calls and (len(look.z) > 1 or look.calls[name] != "better") else ""
        if look.calls.get(name) == "better" and z <= look.bound:
            called = " (better: passed at an earlier look, and not held any more)"
        shown = "z" if len(look.z) == 1 else f"{name} z"
        alone = " of the added seeds" if look.pooled is not None else ""
        parts.append(f"{shown}{alone} {side}{abs(z):.2f} {sign} bound {side}{limit:.2f}{called}")
    left = looks - look.number
    rest = {0: "", 1: f", look {looks} not needed"}.get(left, f", looks {look.number + 1}–{looks} not needed")
    futile = look.calls and set(look.calls.values()) == {"futile"}
    done = "given up" if futile else "decided" if look.calls else "nothing tells the arms apart"
    ending = f"{done}{rest}" if look.decided and left > 0 else "the last look" if left <= 0 else "not decided yet"
    return " · ".join(parts) + (f" ({', '.join(each)})" if each else "") + f": {ending}"


# ── afterwards ──


def headline(trial: Trial) -> str:
    """ADOPT rx1, or why not."""
    effect = trial.leading
    if trial.verdict is None or effect is None:
        return f"{trial.state.upper()} after {plural(len(trial.looks), 'look')}"
    name = trial.winner or effect.arm
    if trial.verdict == "adopt":
        return f"ADOPT {name}" + (f" in all {len(trial.environments)} environments" if trial.environments else "")
    if trial.verdict == "mixed":
        named = next((each for each in trial.effects if each.verdict == "mixed"), effect)
        return f"HELPS HERE, HURTS THERE: {mixed_text(trial, named)}"
    if trial.verdict == "less reliable":
        named = next((each for each in trial.effects if each.verdict == "less reliable"), effect)
        where = f" ({worst})" if (worst := _where_it_drops(trial, named)) else ""
        return f"{_FASTER[trial.outcome]} BUT LESS RELIABLE: {named.arm} {effect_text(trial, named)}, but {drop_text(trial, named)}{where}"
    if trial.verdict == "reject":
        return f"REJECT {', '.join(each.arm for each in trial.effects)}: {trial.control.name} was better"
    if trial.verdict == "equivalent":
        effect = next((each for each in trial.effects if each.verdict == "equivalent"), effect)
        as_good = f"{effect.arm} is as good as {trial.control.name}, {effect_text(trial, effect)}"
        return f"EQUIVALENT within {margin_text(trial)}: {as_good}"
    held = "" if trial.reason else _held_text(trial, effect)
    where = " in each environment" if trial.environments else ""
    return f"UNDECIDED after {effect.seeds} seeds{where}: {trial.reason or held or undecided_text(trial, effect)}"


def by_environment(trial: Trial, arm: str) -> list[tuple[Trial, Effect]]:
    """What an arm did in each environment, where there are several."""
    return [(part, effect) for part in (trial.parts if trial.environments else ()) for effect in part.effects if effect.arm == arm]


def mixed_text(trial: Trial, effect: Effect) -> str:
    """rx1 helps in CartPole-v1 (2.0x fewer steps), hurts in Acrobot-v1 (30 % more steps)."""
    each = sorted(by_environment(trial, effect.arm), key=lambda pair: -pair[1].z)
    helped = [pair for pair in each if pair[1].verdict == "adopt"] or each[:1]
    hurt = [pair for pair in each if pair[1].verdict == "reject"] or each[-1:]
    named = [", ".join(f"{part.env_id} ({effect_text(part, own)})" for part, own in side) for side in (helped, hurt)]
    return f"{effect.arm} helps in {named[0]}, hurts in {named[1]}"


def _where_it_drops(trial: Trial, effect: Effect) -> str:
    """Acrobot-v1: 5 of 8 runs got there, of control's 8 of 8: the environment in which arrival falls most."""
    drops = [(own.arrivals[0] - own.arrivals[2], part, own) for part, own in by_environment(trial, effect.arm) if own.arrivals is not None]
    if not drops:
        return ""
    _, part, own = max(drops, key=lambda each: each[0])
    return f"{part.env_id}: {drop_text(part, own)}"


def _held_text(trial: Trial, effect: Effect) -> str:
    """Why an arm that is better on average was not adopted: an environment speaks of a worse one."""
    each = by_environment(trial, effect.arm)
    if not each or effect.z <= 0 or not any(look.z.get(effect.arm, -math.inf) > look.bound for look in trial.looks):
        return ""
    part, own = min(each, key=lambda pair: pair[1].z)
    return f"{effect.arm} is better on average ({effect_text(trial, effect)}), but may be worse in {part.env_id}, {effect_text(part, own)}"


def margin_text(trial: Trial) -> str:
    """Effects that count as none: ±10 %, or x0.70 to x1.43 where effects are ratios."""
    margin = trial.plan.margin
    return f"±{100 * margin:g} %" if trial.outcome in ("return", "success") else f"x{1 / (1 + margin):.2f} to x{1 + margin:.2f}"


def drop_text(trial: Trial, effect: Effect) -> str:
    """24 of 32 runs got there, of control's 32 of 32."""
    if effect.arrivals is None:
        return "fewer of its runs got there"
    theirs, n, ours, m = effect.arrivals
    what = "got there" if all(part.threshold is not None for part in trial.parts) else "did not collapse"
    return f"{ours} of {m} runs {what}, of {trial.control.name}'s {theirs} of {n}"


def reliability_text(trial: Trial, effect: Effect) -> str:
    """What so few seeds cannot exclude about the share of runs that get there."""
    if effect.arrived is None or effect.arrivals is None or effect.arrived.low is None:
        return ""
    if effect.arrived.low > 0:
        return f"{drop_text(trial, effect)}: a drop is excluded (95 %)"
    return f"{drop_text(trial, effect)}; a drop of up to {-100 * effect.arrived.low:.0f} points is not excluded (95 %)"


def undecided_text(trial: Trial, effect: Effect) -> str:
    """8 % fewer [−9, +23]; about 40 more seeds an arm settle x0.70 to x1.43 in 4 of 5 cases."""
    said = effect_text(trial, effect)
    for word in ("helps", "hurts"):
        shown = [part.env_id for part, own in by_environment(trial, effect.arm) if _SHOWN.get(own.verdict) == word]
        said += f", {word} in {', '.join(shown)}" if shown else ""
    more = effect.seeds_needed - effect.seeds if effect.seeds_needed is not None else None
    if more is None:
        return f"{said}; how many seeds would settle it cannot be told yet"
    where = " in each environment" if trial.environments else ""
    size = max(more, 1)
    seeds = "1 more seed an arm" if size == 1 else f"{size:,} more seeds an arm"
    return f"{said}; about {seeds}{where} {'settles' if size == 1 else 'settle'} {margin_text(trial)} in 4 of 5 cases"


def effect_text(trial: Trial, effect: Effect) -> str:
    """The effect on the outcome that was asked about."""
    if effect.ratio is not None:
        return ratio_text(effect.ratio, trial.outcome)
    if effect.gain is not None:
        return gain_text(effect.gain, points=trial.outcome == "success")
    return probability_text(effect.improvement)


def ratio_text(ratio: Range, outcome: str = "steps") -> str:
    """30 % fewer steps [12, 45]; 2.9x fewer [2.4x, 3.5x]; 10 % fewer [4.0x fewer to 3.1x more]; at least 2.4x fewer."""
    less, more = _LESS.get(outcome, "less"), _MORE.get(outcome, "more")
    low, high = ratio.low or 0.0, math.inf if ratio.high is None else ratio.high
    if ratio.value is None:
        if high < 1:
            return f"at least {_times(1 / high)} {less}"
        if low > 1:
            return f"at least {_times(low)} {more}"
        return "no run to compare steps with"
    if low < 0.5 and high > 2:
        return f"{_size_text(ratio.value, less, more)} [{_wide_text(low, high, less.split()[0])}]"
    if ratio.value <= 0.5:
        return f"{_times(1 / ratio.value)} {less} [{_times(1 / high)}, {_times(1 / low if low > 0 else math.inf)}]"
    if ratio.value >= 2:
        return f"{_times(ratio.value)} {more} [{_times(low)}, {_times(high)}]"
    if ratio.value <= 1:
        return f"{100 * (1 - ratio.value):.0f} % {less} [{_signed(100 * (1 - high))}, {_signed(100 * (1 - low))}]"
    return f"{100 * (ratio.value - 1):.0f} % {more} [{_signed(100 * (low - 1))}, {_signed(100 * (high - 1))}]"


def _size_text(ratio: float, less: str, more: str) -> str:
    """30 % fewer steps, 2.9x more steps."""
    word, factor = (less, 1 / ratio) if ratio <= 1 else (more, ratio)
    return f"{_times(factor)} {word}" if factor >= 2 else f"{100 * abs(1 - ratio):.0f} % {word}"


def _wide_text(low: float, high: float, less: str) -> str:
    """4.0x fewer to 3.1x more, of an interval of ratios that says little."""
    if low <= 0 and math.isinf(high):
        return "no bounds"
    return f"{f'{_times(1 / low)} {less}' if low > 0 else 'no bound'} to {'no bound' if math.isinf(high) else f'{_times(high)} more'}"


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
        slower = any(guard.name == THROUGHPUT and guard.worse for guard in effect.guardrails)
        said = "slower" if slower else "not shown to be slower"
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
        budget = trial.horizon or arm.env_steps / arm.n
        return f"> {short(budget)}{tail}" if budget else BLANK
    high = f"> {short(trial.horizon)}" if arm.steps.high is None else short(arm.steps.high)
    band = f" [{short(arm.steps.low)}, {high}]" if arm.steps.low is not None else ""
    return f"{short(arm.steps.value)}{band}{tail}"


def range_text(found: Range | None) -> str:
    """203 [150, 260]."""
    if found is None or found.value is None:
        return BLANK
    band = f" [{number(found.low)}, {number(found.high)}]" if found.low is not None and found.high is not None else ""
    return f"{number(found.value)}{band}"


def guardrail_text(effect: Effect, unit: StepUnit = "env steps") -> str:
    """KL, entropy, explained variance, clip fraction: none worse."""
    if not effect.guardrails:
        return "none could be measured"
    worse = [guard for guard in effect.guardrails if guard.worse]
    if not worse:
        # Over several environments each has its own; their names are said once.
        names = dict.fromkeys(guard.name.partition(" (")[0] for guard in effect.guardrails)
        return f"{', '.join(names)}: none worse"
    return f"WORSE: {', '.join(_say_guardrail(guard, unit) for guard in worse)}"


def _say_guardrail(guard: Guardrail, unit: str) -> str:
    """Throughput is kept as seconds for 100,000 steps, and said as steps a second: less is worse, as people expect."""
    sides = (guard.control, guard.treatment)
    if guard.name.partition(" (")[0] == THROUGHPUT:
        before, after = (number(1e5 / side) if side else BLANK for side in sides)
        return f"{guard.name} {before} → {after} {unit}/s"
    before, after = map(number, sides)
    return f"{guard.name} {before} → {after}"


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
    ending = f"recorded as own trial {expected['trials'] - expected.get('cells', 0) + 1} of this change for {cause}"
    if not expected.get("has_threshold", True):
        return f"there was none: this task has no threshold to count by; {ending}"
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
    return gap_closed(before, after, trial.threshold)


def _arm(trial: Trial, effect: Effect) -> ArmResult | None:
    return next((arm for arm in trial.arms if arm.name == effect.arm), None)


def used_text(trial: Trial) -> str:
    """1.07M of 6.4M env steps, 16 runs."""
    most = f" of {short(trial.max_env_steps)}" if trial.max_env_steps else ""
    runs = sum(arm.n for arm in trial.arms)
    return f"{short(trial.used_env_steps)}{most} {trial.plan.step_unit}, {plural(runs, 'run')}, {duration(trial.seconds)}"


def not_shown(trial: Trial) -> list[str]:
    """What the trial says nothing about."""
    said = ["environments that are not among these" if trial.environments else "other environments"]
    if not all(arm.evaluated for arm in trial.arms):
        said.append("evaluations: the logs have none, so returns of training were compared")
    if trial.outcome in CENSORED_OUTCOMES and not trial.plan.whole_budget and trial.source != "command":
        said.append(f"what happens after {'the threshold' if trial.environments else number(trial.threshold, 4)} (takes the whole budget)")
    if trial.source == "translated":
        said.append("your own script, which a trial can train as a command with a place for the {seed}")
    return said


def repeat(trial: Trial) -> str:
    """The command that makes the same trial again, with the same seeds."""
    asked = trial.context.get("typed") or Action("trial", "…", looks=trial.plan.looks, per_look=trial.plan.per_look)
    return f"{asked} {Argument('seed0', trial.seed0)}"


def seeds_text(trial: Trial) -> str:
    """Seeds that were used, for a comment."""
    used = trial.plan.n_seeds
    where = f" in {len(trial.environments)} environments" if trial.environments else ""
    return f"{trial.control.n} seeds an arm{where} from {trial.seed0} (of {count(used)} reserved)"


def careful_text(effect: Effect) -> str:
    """What got worse, and whether that stands beside a better outcome."""
    better = " while the outcome got better" if effect.verdict in ("adopt", "less reliable") else ""
    return f"{', '.join(effect.worse)} got worse{better}" if effect.worse else ""


# ── documents ──


def describe_result(trial: Trial, listing: str = "") -> list[Block]:
    """The verdict with its evidence, and what is not shown. `listing`: the command that lists the trial's runs."""
    answer = Verdict(headline(trial), "", _TONES.get(trial.verdict or "", "plain"))
    leading = trial.leading
    rows = []
    if leading is not None:
        rows.append(("reliability", reliability_text(trial, leading)))
        rows += [("guardrails", guardrail_text(leading, trial.plan.step_unit)), ("forecast", forecast_text(trial, leading) or "")]
        rows.append(("careful", careful_text(leading)))
    for effect in trial.effects:
        if effect is not leading:
            rows.append((effect.arm, f"{effect.verdict}: {effect_text(trial, effect)} · {guardrail_text(effect, trial.plan.step_unit)}"))
    for arm in trial.arms:
        if arm.failed:
            reason = (arm.reason or "no reason was recorded").splitlines()[0]
            rows.append(("failed", f"{arm.name}: {arm.failed} of {arm.n} runs, the first because: {reason}"))
    rows.append(("used", used_text(trial) + (f" ({listing})" if listing else "")))
    blocks: list[Block] = [answer if leading is None else _effect_table(trial, leading, answer)]
    blocks.append(Rows([row for row in rows if row[1]], 19, 2))
    return [*blocks, Points(not_shown(trial), "Not shown")] if trial.verdict is not None else blocks


def ending(trial: Trial, commands: Sequence[str], files: Sequence[str]) -> list[Block]:
    """What to type next, and where the report is."""
    labels = {"adopt": "keep it", "trial": "go on"}
    rows = [(labels[command.split()[1]], command) for command in commands if command.split()[1] in labels]
    report = next((file for file in files if file.endswith(".html")), None)
    rows += [("report", f"{report}      repeat: {repeat(trial)}")] if report is not None else []
    return [Gap(), Commands(rows)]


def _effect_table(trial: Trial, effect: Effect, answer: Verdict | None = None) -> Table:
    level = percent(1 - trial.plan.alpha)
    if trial.environments:
        return _environment_table(trial, effect, level, answer)
    heads = ["measure", trial.control.name, effect.arm, f"effect ({level}, valid after stopping early)"]
    return Table(heads, [list(row) for row in rows(trial, effect)], verdict=answer)


_SHOWN = {"adopt": "helps", "reject": "hurts"}


def _environment_table(trial: Trial, effect: Effect, level: str, answer: Verdict | None) -> Table:
    """An arm in each environment, and over all of them."""
    heads = ["environment", trial.control.name, effect.arm, f"effect ({level} in all at once, valid after stopping early)", "shown"]
    lines = []
    for part, own in by_environment(trial, effect.arm):
        treated = next(arm for arm in part.arms if arm.name == effect.arm)
        lines.append(
            [part.env_id, _came_to(part, part.control), _came_to(part, treated), effect_text(part, own), _SHOWN.get(own.verdict, "nothing")]
        )
    treated = next(arm for arm in trial.arms if arm.name == effect.arm)
    sides = [_reached(arm) if trial.outcome in CENSORED_OUTCOMES else plural(arm.n, "run") for arm in (trial.control, treated)]
    chance = (
        f"{effect_text(trial, effect)} · {probability_text(effect.improvement)}"
        if effect.ratio or effect.gain
        else effect_text(trial, effect)
    )
    return Table(heads, [*lines, ["all of them", *sides, chance, effect.verdict]], verdict=answer)


def _came_to(part: Trial, arm: ArmResult) -> str:
    """8 of 8, 34k [30k, 41k]; or the return, or the success rate."""
    if part.outcome in CENSORED_OUTCOMES:
        return f"{_reached(arm)}, {steps_text(part, arm)}"
    return range_text(arm.success if part.outcome == "success" else arm.final)


MAX_POINTS = 120
_TONES: dict[str, Tone] = {
    "adopt": "good",
    "reject": "bad",
    "equivalent": "warn",
    "less reliable": "bad",
    "mixed": "bad",
    "undecided": "warn",
}
_WIDTH, _ROW, _LEFT, _RIGHT = 760, 34, 150, 190


def write(store: Store, trial: Trial) -> list[Path]:
    """Replace the trial's report.md and report.html."""
    blocks = document(store, trial)
    title = f"Trial {trial.id} · {headline(trial)}"
    page = render_page(trial.question, blocks, (trial.verdict or trial.state).upper(), _TONES.get(trial.verdict or "", "plain"))
    return [
        trials.write_report(store, trial.id, "report.md", render_markdown([Heading(title, 1), *blocks])),
        trials.write_report(store, trial.id, "report.html", page),
    ]


def document(store: Store, trial: Trial) -> list[Block]:
    """Everything that the report says."""
    blocks: list[Block] = [Text(trial.question), Text(f"**{headline(trial)}** · {used_text(trial)}")]
    blocks += [Text(note) for note in trial.notes]
    if trial.environments:
        blocks += [*_forest(trial), *_profile(store, trial)]
        blocks += [block for part in trial.parts for block in (Heading(part.env_id), *_curves(store, part))]
    else:
        blocks += [*_curves(store, trial), *_forest(trial)]
    for effect in trial.effects:
        forecast = forecast_text(trial, effect)
        chance = f"{probability_text(effect.improvement)}; z {effect.z:.2f}, bound {effect.bound:.2f}, {effect.seeds} seeds an arm"
        remarks = [
            f"reliability: {reliability_text(trial, effect)}",
            f"guardrails: {guardrail_text(effect, trial.plan.step_unit)}",
            chance,
            *([f"forecast {forecast}"] if forecast else []),
        ]
        blocks += [Heading(f"{effect.arm}: {effect.verdict}"), _effect_table(trial, effect), Points(remarks)]
    looks = []
    for look in trial.looks:
        z = ", ".join(f"{name} {value:.2f}" for name, value in look.z.items())
        called = ", ".join(f"{name} {word}" for name, word in look.calls.items()) or "nothing yet"
        bounds = f"{look.bound:.2f}" if look.worse_bound is None else f"{look.bound:.2f}, −{look.worse_bound:.2f}"
        looks.append([str(look.number), str(look.seeds), z, bounds, called, number(look.seconds)])
        looks += [["", f"in {own.env_id}", *_look_text(own), "", ""] for own in look.environments]
    arms = []
    for arm in trial.arms:
        change = arm.command or " ".join(f"`{change}`" for change in arm.changes) or "–"
        arms.append([arm.name, change, str(arm.n), ", ".join(arm.groups)])
    return [
        *blocks,
        Heading("Looks"),
        Table(["look", "seeds an arm", "z", "bound", "called", "seconds"], looks),
        Text(f"Rule: {rule_text(trial.plan)}.", quiet=True),
        Heading("Arms"),
        Table(["arm", "change", "runs", "groups"], arms),
        Heading("Not shown"),
        Points(not_shown(trial)),
        Heading("Again"),
        Code(f"{Action('runs list', trial=trial.id)}\n{repeat(trial)}"),
    ]


def _look_text(look: EnvironmentLook) -> list[str]:
    """The statistics of one environment and what they had to pass."""
    bounds = [f"{better:.2f}, −{worse:.2f}" for better, worse in look.bounds.values()]
    return [", ".join(f"{name} {z:.2f}" for name, z in look.z.items()), "; ".join(dict.fromkeys(bounds))]


# ── pictures ──


def _profile(store: Store, trial: Trial) -> list[Block]:
    bands = profile(store, trial)
    if not bands:
        return []
    order = [arm.name for arm in trial.arms]
    what = (
        "that had arrived by then"
        if trial.outcome in CENSORED_OUTCOMES
        else "at or above a level from its environment's lowest run to the highest"
    )
    text = f"Performance profile: share of runs {what}, each environment counting the same, with its 95 % band (runs redrawn within each)."
    return [Figure(lambda: charts.add_names(charts.bands_svg(bands, order, None), order), text)]


def _curves(store: Store, trial: Trial) -> list[Block]:
    unit = trial.plan.step_unit
    bands = [band for arm in trial.arms if (band := _band(store, arm, unit)) is not None]
    if not bands:
        return []
    order = [arm.name for arm in trial.arms]
    text = f"Return against {unit}: interquartile mean over seeds and its 95 % interval (below 8 seeds their range). "
    text += "A run that ended keeps its last value."
    return [Figure(lambda: charts.add_names(charts.bands_svg(bands, order, trial.threshold), order), text)]


def _band(store: Store, arm: ArmResult, unit: StepUnit) -> Band | None:
    curves = []
    for name in arm.runs:
        table = Run(store.root / name).metrics
        came = outcome.measure_log(table, Goal(), outcome.choose_source([table]))
        if len(came.returns):
            curves.append((came.steps, came.returns))
    return make_band(arm.name, unit, curves, MAX_POINTS) if curves else None


class _Axis:
    """Where a value lies in a forest: ratios on a log axis, shares on a plain one; what is beyond the edge is drawn at it."""

    def __init__(self, ratios: bool) -> None:
        self.edges = (1 / 8, 8.0) if ratios else (0.0, 1.0)
        self.middle = 1.0 if ratios else 0.5
        self.ticks = (0.125, 0.25, 0.5, 1.0, 2.0, 4.0, 8.0) if ratios else (0.0, 0.25, 0.5, 0.75, 1.0)
        self._ratios = ratios
        self._scale = Scale(self._inside(self.edges[0]), self._inside(self.edges[1]), _LEFT, _WIDTH - _RIGHT)

    def __call__(self, value: float | None, otherwise: float) -> float:
        return self._scale(self._inside(otherwise if value is None else value))

    def _inside(self, value: float) -> float:
        kept = min(max(value, self.edges[0]), self.edges[1])
        return math.log2(kept) if self._ratios else kept


def _forest(trial: Trial) -> list[Block]:
    """Effects with their intervals under each other: ratios, or P(improvement) where there are none."""
    if not trial.effects:
        return []
    lines = [(effect.arm, trial, effect) for effect in trial.effects]
    if trial.environments:
        several = len(trial.effects) > 1
        lines = []
        for effect in trial.effects:
            lines += [
                (f"{effect.arm}, {part.env_id}" if several else part.env_id, part, own) for part, own in by_environment(trial, effect.arm)
            ]
            lines.append((f"{effect.arm}, all" if several else "all of them", trial, effect))
    ratios = all(effect.ratio is not None for _, _, effect in lines)
    axis, height = _Axis(ratios), _ROW * len(lines) + 50
    parts = [f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {_WIDTH} {height}" role="img" aria-label="effects" font-size="12">']
    at = axis(axis.middle, axis.middle)
    parts.append(f'<line x1="{at:.1f}" x2="{at:.1f}" y1="10" y2="{height - 30}" stroke="#888" stroke-dasharray="4 3"/>')
    for place, (label, owner, effect) in enumerate(lines):
        found = effect.ratio if ratios and effect.ratio is not None else effect.improvement
        parts += _forest_row(label, effect, found, axis, 28 + _ROW * place, effect_text(owner, effect))
    parts += [f'<text x="{axis(tick, tick):.1f}" y="{height - 12}" text-anchor="middle" fill="#777">{tick:g}</text>' for tick in axis.ticks]
    what = "treatment over control, below 1 is better" if ratios else "P(improvement), above 0.5 is better"
    said = "; ".join(f"{label}: {effect_text(owner, effect)}" for label, owner, effect in lines)
    level = percent(1 - trial.plan.alpha)
    drawn = "\n".join([*parts, "</svg>"])
    together = " and in all environments at once" if trial.environments else ""
    return [Figure(lambda: drawn, f"Effects with {level} intervals that hold after an early stop{together} ({what}). {said}.")]


def _forest_row(label: str, effect: Effect, found: Range, axis: _Axis, y: int, said: str) -> list[str]:
    ink = COLOURS[_TONES[effect.verdict]] if effect.verdict in ("adopt", "reject", "less reliable", "mixed") else COLOURS["plain"]
    left, right = axis(found.low, axis.edges[0]), axis(found.high, axis.edges[1])
    parts = [
        f'<text x="{_LEFT - 12}" y="{y}" dy="4" text-anchor="end" fill="#777">{escape(clip(label, 24))}</text>',
        f'<line x1="{left:.1f}" x2="{right:.1f}" y1="{y}" y2="{y}" stroke="{ink}" stroke-width="3"/>',
        f'<text x="{_WIDTH - _RIGHT + 12}" y="{y}" dy="4" fill="#777">{escape(said)}</text>',
    ]
    if found.value is not None:
        parts.append(f'<circle cx="{axis(found.value, axis.middle):.1f}" cy="{y}" r="5" fill="{ink}"/>')
    return parts

"""What `regress` returns and says: whether a candidate got worse, by which rule, and what it would take to know."""

from typing import Any, Final, Literal

from pydantic import Field

from rlclinic.actions import Action
from rlclinic.comparison.models import Interval
from rlclinic.comparison.regression import FEWEST_TO_PASS, Baseline, Decision, GateOutcome, Look, Power
from rlclinic.report.comparison import points, signed, times
from rlclinic.report.document import Block, Rows, Tone, Verdict
from rlclinic.report.format import listed, number, percent, plural
from rlclinic.report.models import Result, ResultPart

LOSS_NAMES: Final = {"steps": "more env steps", "wall": "more seconds", "return": "less return", "success": "fewer successes"}
TONES: Final[dict[str, Tone]] = {"passed": "good", "regression": "bad"}


class Rule(ResultPart):
    """How the candidate is judged."""

    outcome: GateOutcome
    margin: float
    alpha: float
    looks: int
    per_look: int
    bounds: list[float]
    tolerates: bool = True
    """A loss that is shown to be within the margin is no regression."""


class Needed(ResultPart):
    """Seeds that would settle it, if what was seen holds."""

    candidate: int
    baseline: int


class Regression(Result):
    """Whether a candidate got worse."""

    baseline: str
    candidate: str
    env: str | None
    decision: Decision
    rule: Rule
    threshold: float | None
    baseline_seeds: int
    candidate_seeds: int
    looks: list[Look]
    power: list[Power]
    needed: Needed | None
    """For an undecided end; None where it is out of reach."""
    groups: list[str]
    """What was trained for it."""
    signal: str | None
    """SIGINT or SIGTERM, if that ended it before its time."""
    notes: list[str]
    id: str | None = Field(None, exclude_if=lambda id: id is None)
    """Of the gate, where the candidate was trained for it: it can be gone on with."""


class GateRecord(Result):
    """A gate whose candidate is trained: what it judges by, and how far it is. Stored as gate.json."""

    id: str
    created: float
    state: Literal["running", "finished"]
    target: str
    """The candidate, as it was named."""
    env_id: str
    algo: str
    baseline: str
    kept: Baseline
    config: dict[str, Any]
    """Of the candidate, without its seeds."""
    rule: Rule
    first_seed: int | None
    """None: fresh ones, once it begins."""
    result: Regression | None = None
    """As it stood after the last look."""

    @property
    def max_env_steps(self) -> int:
        """What it costs if it takes all looks and no run ends early."""
        return self.rule.looks * self.rule.per_look * int(self.config["run"]["max_env_steps"])


class BaselineSaved(Result):
    """A baseline that was written."""

    file: str
    baseline: Baseline


# ── in words ──


def describe(result: Regression) -> list[Block]:
    """The sides, the rule, what it can see, each look, the decision."""
    baseline = f"baseline {result.baseline} ({plural(result.baseline_seeds, 'seed')})"
    env = result.env or "environment not recorded"
    sides = f"{env} · {baseline} · candidate {result.candidate} ({plural(result.candidate_seeds, 'seed')})"
    looks = [(f"look {look.look}", text) for look, text in zip(result.looks, look_lines(result), strict=True)]
    rows = [("note", note) for note in result.notes]
    if result.groups:
        each = f" · {result.rule.per_look} seeds each" if len(result.groups) > 1 else ""
        rows.append(("trained", listed(result.groups) + each))
    if result.id is not None and result.signal is not None:
        rows.append(("go on", Action("regress", resume=result.id)))
    decision = Verdict(result.decision.upper(), decision_line(result), TONES.get(result.decision, "warn"))
    return [Verdict("REGRESS", sides), Rows([*rule_lines(result), *looks], 9, 2), decision, Rows(rows)]


def describe_saved(result: BaselineSaved) -> list[Block]:
    """A baseline that was kept, and how to use it."""
    kept = result.baseline
    reached = sum(seed.reached is not None for seed in kept.seeds)
    bar = "" if kept.threshold is None else f", {reached} reached {number(kept.threshold, 4)}"
    rows = [("kept", f"{kept.name} · {kept.env} · {plural(len(kept.seeds), 'seed')}{bar} · settings {kept.fingerprint}")]
    return [Rows([*rows, ("file", result.file), ("judge", Action("regress", result.file, "CANDIDATE"))])]


def rule_lines(result: Regression) -> list[tuple[str, str]]:
    """What is judged and how, and what the gate can see."""
    rule = result.rule
    what = {
        "steps": f"env steps to {number(result.threshold, 4)}",
        "wall": f"seconds to {number(result.threshold, 4)}",
        "return": "return at the end",
        "success": "success rate",
    }[rule.outcome]
    over = f"over {plural(rule.looks, 'look')}" + (" (O'Brien-Fleming)" if rule.looks > 1 else "")
    over += f"; intervals are {percent(1 - 2 * rule.alpha)} ones, over all looks"
    tolerated = "" if rule.tolerates else ", unless it is shown"
    lines = [("judged", f"{what} · a loss of up to {percent(rule.margin)} may pass{tolerated}")]
    lines.append(("errors", f"false alarms ≤ {percent(rule.alpha)}, wrong passes ≤ {percent(rule.alpha)}, {over}"))
    seen = [each for each in result.power if each.loss > 0]
    if seen:
        said = " · ".join(f"{percent(each.loss)}: {each.alarm:.2f}" for each in seen)
        same = next((each for each in result.power if each.loss == 0), None)
        calm = "" if same is None else f" · none: {same.alarm:.3f}, passing {same.passed:.2f}"
        lines.append(("can see", f"{LOSS_NAMES[rule.outcome]}, share of alarms (simulated from the baseline): {said}{calm}"))
    return lines


def look_lines(result: Regression) -> list[str]:
    """One line for each look."""
    said = []
    for look in result.looks:
        scores = [f"{name} z {number(z, 3)}" for name, z in (("worse", look.alarm), ("within the margin", look.passing)) if z is not None]
        failed = [f"{look.failed[1]} failed"] if look.failed is not None and any(look.failed) else []
        parts = [plural(look.seeds, "seed"), effect(result, look.effect), *failed, *scores, f"bound {number(look.bound, 3)}", look.decision]
        said.append(" · ".join(parts))
    return said


def effect(result: Regression, value: Interval) -> str:
    """How the candidate differs: 1.3x the env steps [1.1, 1.6]; -20 return."""
    if value.value is None:
        return "no return to compare"
    if result.rule.outcome in ("steps", "wall"):
        return f"{times(value)} the {'env steps' if result.rule.outcome == 'steps' else 'seconds'}"
    return f"return {signed(value)}" if result.rule.outcome == "return" else f"success {points(value)}"


def decision_line(result: Regression) -> str:
    """The decision in a sentence."""
    if not result.looks:
        return "ended before the first look"
    shown = effect(result, result.looks[-1].effect)
    if min(result.baseline_seeds, result.candidate_seeds) < 2:
        return f"n = 1, not assessable: {shown}; train more seeds, such as 8"
    look, margin = result.looks[-1], percent(result.rule.margin)
    failures = describe_failures(result, look)
    if result.decision == "passed":
        return "; ".join([f"not worse by {margin} or more: {shown}", *failures])
    if result.decision == "regression":
        return "; ".join([f"worse than the baseline: {shown}", *failures])
    worse, within = ((z or 0.0) > look.bound for z in (look.alarm, look.passing))
    if worse and within:
        return f"worse than the baseline, by less than {margin}: {shown}"
    if within and look.failed is not None and failed_share(result, look) > 0:
        return "; ".join([f"within {margin} where the runs did not fail, but more of them failed: {shown}", *failures])
    if within:
        few = f"{plural(look.seeds, 'seed')} of {max(FEWEST_TO_PASS, min(16, result.rule.looks * result.rule.per_look))} that a pass takes"
        return f"within {margin} so far, after {few}: {shown}"
    if result.needed is None:
        more = "no number of seeds worth training is in sight"
    else:
        more = f"about {plural(result.needed.candidate, 'seed')} of the candidate"
        more += f" and {result.needed.baseline} of the baseline" if result.needed.baseline > result.baseline_seeds else ""
        more += " would settle it in 8 of 10 cases"
    return "; ".join([f"neither worse nor within {margin} is shown: {shown}", *failures, more])


def failed_share(result: Regression, look: Look) -> float:
    """How much larger the share of failed runs of the candidate is."""
    before, after = look.failed or (0, 0)
    return after / look.seeds - before / max(result.baseline_seeds, 1)


def describe_failures(result: Regression, look: Look) -> list[str]:
    """How many runs failed, and the share that so few seeds cannot exclude."""
    if look.failed is None or look.could_fail is None:
        return []
    failed = "never arrived, or lost it again" if result.rule.outcome in ("steps", "wall") else "collapsed"
    before, after = look.failed
    seen = f"{after or 'none'} of {look.seeds} {failed}"
    seen += f" (baseline: {before} of {result.baseline_seeds})" if before or after else ""
    return [f"{seen}, and up to {percent(look.could_fail)} could"]

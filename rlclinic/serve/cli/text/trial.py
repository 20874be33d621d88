"""A trial as text for people: what it asks and costs, how it goes, how it ended."""

import sys
from typing import TYPE_CHECKING

from rlclinic.report import trial as trial_words
from rlclinic.report.format import ago, percent, short
from rlclinic.serve.cli import console
from rlclinic.serve.cli.text import results

if TYPE_CHECKING:
    from rich.live import Live

    from rlclinic.ops.treat.adopt import Adopted
    from rlclinic.ops.treat.trial import Preview, TrialList, TrialResult
    from rlclinic.treatment.trial.models import ArmProgress, Effect, Event, Trial, TrialPlan

STYLES = {"adopt": "bold green", "reject": "bold red", "equivalent": "bold yellow", "undecided": "bold yellow"}
PLAIN_SECONDS = 10.0
_LABEL = 9
_TITLE = 19
"""A verdict up to this length stands before the heads of the table, a longer one above."""


def print_preview(preview: "Preview", *, to_results: bool = False) -> None:
    """Question, arms, rule, power and cost."""
    out = console.results() if to_results else console.progress()
    out.print(f"TRIAL  {preview.question}", soft_wrap=True, style="bold")
    for warning in preview.warnings:
        out.print(f"  {'note':<{_LABEL}}{warning}", soft_wrap=True, style="yellow")
    for label, text in trial_words.plan_lines(preview.plan, preview.power, preview.control):
        out.print(f"  {label:<{_LABEL}}{text}", soft_wrap=True)
    cost = trial_words.cost_text(preview.max_env_steps, preview.max_seconds, preview.likely_seconds, preview.cores)
    out.print(f"  {'cost':<{_LABEL}}{cost}", soft_wrap=True)


def ask_to_start() -> bool:
    """start? [Y/n] on the terminal; without one the answer is yes: whoever typed it in a script meant it."""
    if not console.is_attended():
        return True
    sys.stderr.write("start? [Y/n] ")
    sys.stderr.flush()
    return sys.stdin.readline().strip().lower() in ("", "y", "yes")


class View:
    """Progress on stderr: one line per arm that is redrawn on a terminal, a line now and then elsewhere, and every look."""

    def __init__(self, plan: "TrialPlan", quiet: bool) -> None:
        self._plan = plan
        self._quiet, self._console = quiet, console.progress()
        self._live: Live | None = None
        self._shown = -PLAIN_SECONDS

    def __enter__(self) -> "View":
        if self._console.is_terminal and not self._quiet:
            from rich.live import Live

            self._live = Live(console=self._console, auto_refresh=False, transient=True)
            self._live.__enter__()
        return self

    def __exit__(self, *_: object) -> None:
        if self._live is not None:
            self._live.__exit__(None, None, None)

    def __call__(self, event: "Event") -> None:
        """Show one event."""
        if self._quiet:
            return
        if event.kind == "started":
            self._say(f"  {'started':<{_LABEL}}{event.trial}; interrupted, it goes on with: rlclinic trial --resume {event.trial}")
        elif event.kind == "look" and event.result is not None:
            self._say(*_look_lines(event, self._plan))
            self._shown = -PLAIN_SECONDS
        elif self._live is not None:
            from rich.text import Text

            self._live.update(Text("\n".join(_progress_lines(event))), refresh=True)
        elif event.seconds - self._shown >= PLAIN_SECONDS:
            self._shown = event.seconds
            self._say(f"  look {event.look}   " + " · ".join(_arm_progress(arm) for arm in event.arms))

    def _say(self, *lines: str) -> None:
        for line in lines:
            (self._live.console if self._live is not None else self._console).print(line, soft_wrap=True)


def _look_lines(event: "Event", plan: "TrialPlan") -> list[str]:
    assert event.result is not None
    arms = [(arm.name, arm.runs, arm.solved, arm.failed, arm.return_mean) for arm in event.arms]
    first, second = trial_words.look_lines(arms, event.result, plan.looks, plan.threshold)
    return [f"  look {event.look}   {first}", f"           {second}"]


def _progress_lines(event: "Event") -> list[str]:
    return [f"  look {event.look}   {_arm_progress(arm)}" for arm in event.arms]


def _arm_progress(arm: "ArmProgress") -> str:
    share = f" {percent(min(1.0, arm.env_steps / arm.max_env_steps))}" if arm.max_env_steps else ""
    # How a command's runs stand is known once they have ended.
    said = [f"{arm.ended}/{arm.runs} ended"] + ([f"{arm.solved} solved"] if arm.max_env_steps else [])
    said += [f"{arm.failed} failed"] if arm.failed else []
    steps = f", {short(arm.env_steps)} env steps{share}" if arm.env_steps else ""
    return f"{arm.name} {', '.join(said)}{steps}"


# ── the end ──


def print_trial(result: "TrialResult") -> None:
    """The verdict with its evidence, what is not shown, and what to type next."""
    trial, title = result.trial, trial_words.headline(result.trial)
    leading = trial.leading
    results.print_lines([""])
    if leading is None or len(title) > _TITLE:
        _print_title(trial, title)
        title = ""
    if leading is not None:
        _print_effect(trial, leading, title)
        for effect in trial.effects:
            if effect is not leading:
                said = trial_words.effect_text(trial, effect)
                results.print_lines([f"  {effect.arm:<17}  {effect.verdict}: {said} · {trial_words.guardrail_text(effect)}"])
    for arm in trial.arms:
        if arm.failed:
            reason = (arm.reason or "no reason was recorded").splitlines()[0]
            results.print_lines([f"  {'failed':<17}  {arm.name}: {arm.failed} of {arm.n} runs, the first because: {reason}"])
    listing = f"rlclinic runs list --trial {trial.id}"
    results.print_lines([f"  {'used':<17}  {trial_words.used_text(trial)} ({listing})"])
    if trial.verdict is not None:
        results.print_lines([f"NOT SHOWN  {' · '.join(trial_words.not_shown(trial))}"])
    _print_next(result)


def _print_title(trial: "Trial", title: str, rest: str = "") -> None:
    from rich.text import Text

    line = Text(title, style=STYLES.get(trial.verdict or "", "bold"))
    console.results().print(line.append(rest, style="default"), soft_wrap=True)


def _print_effect(trial: "Trial", effect: "Effect", title: str) -> None:
    """The measures under each other; a short verdict stands before the heads."""
    rows = trial_words.rows(trial, effect)
    level = percent(1 - trial.plan.alpha)
    heads = ("", trial.control.name, effect.arm, f"effect ({level}, valid after stopping early)")
    widths = [max(len(row[place]) for row in (heads, *rows)) for place in range(3)]
    widths[0] = max(widths[0], 17)
    for row in (heads, *rows):
        cells = "  ".join([*(f"{row[place]:<{widths[place]}}" for place in (1, 2)), row[3]]).rstrip()
        if row is heads:
            _print_title(trial, title, f"{'':<{widths[0] + 4 - len(title)}}{cells}")
        else:
            results.print_lines([f"  {row[0]:<{widths[0]}}  {cells}"])
    lines = [("guardrails", trial_words.guardrail_text(effect))]
    forecast = trial_words.forecast_text(trial, effect)
    lines += [("forecast", forecast)] if forecast else []
    if effect.worse:
        lines.append(("careful", f"{', '.join(effect.worse)} got worse while the outcome got better"))
    results.print_lines([f"  {label:<{widths[0]}}  {text}" for label, text in lines])


def _print_next(result: "TrialResult") -> None:
    trial = result.trial
    lines = [""]
    labels = {"adopt": "keep it", "trial": "go on"}
    for command in result.next:
        word = labels.get(command.split()[1], "")
        if word:
            lines.append(f"{word:<9}{command}")
    report = next((file for file in result.files if file.endswith(".html")), None)
    if report is not None:
        lines.append(f"report   {report}      repeat: {trial_words.repeat(trial)}")
    results.print_lines(lines)


def print_trials(found: "TrialList") -> None:
    """`trial --list`."""
    import time

    if not found.trials:
        results.print_lines(["no trials yet", "  Start one: rlclinic trial --rx 1"])
    for row in found.trials:
        said = (row.verdict or row.state) + (f" {row.winner}" if row.winner else "")
        results.print_lines([f"{row.id}  {said:<18}  {ago(time.time() - row.created):<12}  {row.question}"])


def print_adopted(found: "Adopted") -> None:
    """`adopt`: the difference, then what to type."""
    out = console.results()
    for line in found.diff:
        style = "green" if line.startswith("+") else "red" if line.startswith("-") else "dim"
        out.print(line, style=style, soft_wrap=True)
    verb = "wrote" if found.written else "would write"
    results.print_lines([f"{verb} {found.ref} into {found.file}: {'; '.join(found.changes) or 'no change against the control'}"])
    if found.written:
        results.print_lines([f"use it   rlclinic train {found.ref} --seeds 8"])

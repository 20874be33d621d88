"""A trial as text for people: what it asks and costs, how it goes, how it ended."""

import sys
from typing import TYPE_CHECKING

from rlclinic.report.document import Code, Commands, Gap, Table, Text
from rlclinic.report.format import ago, percent, short
from rlclinic.report.trial import cost_text, describe_plan, describe_power, describe_result, ending, look_lines
from rlclinic.serve.cli import console
from rlclinic.serve.cli.progress import ArmsView
from rlclinic.serve.cli.text import terminal

if TYPE_CHECKING:
    from rlclinic.ops.treat.adopt import Adopted
    from rlclinic.ops.treat.trial import Preview, TrialList, TrialResult
    from rlclinic.treatment.trial.models import ArmProgress, Event, TrialPlan

_LABEL = 9


def print_preview(preview: "Preview", *, to_results: bool = False) -> None:
    """Question, arms, rule, power and cost."""
    cost = cost_text(preview.max_env_steps, preview.plan.step_unit, preview.max_seconds, preview.likely_seconds, preview.cores)
    blocks = describe_plan(preview.question, preview.plan, preview.power, preview.control, cost, preview.warnings)
    blocks += describe_power(preview.plan, preview.power, preview.table) if preview.table else []
    terminal.show(blocks, None if to_results else sys.stderr)


def ask_to_start() -> bool:
    """start? [Y/n] on the terminal; without one the answer is yes: whoever typed it in a script meant it."""
    if not console.is_attended():
        return True
    sys.stderr.write("start? [Y/n] ")
    sys.stderr.flush()
    return sys.stdin.readline().strip().lower() in ("", "y", "yes")


class View(ArmsView):
    """A line per arm, and every look."""

    def __init__(self, plan: "TrialPlan", quiet: bool) -> None:
        super().__init__(quiet)
        self._plan = plan

    def __call__(self, event: "Event") -> None:
        """Show one event."""
        if event.kind == "started":
            self.say(f"  {'started':<{_LABEL}}{event.trial}; interrupted, it goes on with: rlclinic trial --resume {event.trial}")
        elif event.result is not None:
            self.say(*_look_lines(event, self._plan))
        else:
            summary = " · ".join(_arm_progress(arm) for arm in _add_up_environments(event.arms))
            self.show(_progress_lines(event), f"  look {event.look}   {summary}", event.seconds)


def _look_lines(event: "Event", plan: "TrialPlan") -> list[str]:
    assert event.result is not None
    lines = []
    for part in plan.parts:
        own = [arm for arm in event.arms if arm.env_id in (None, part.env_id)]
        arms = [(arm.name, arm.runs, arm.solved, arm.failed, arm.return_mean) for arm in own]
        first, second = look_lines(arms, event.result, plan.looks, part.threshold)
        lines.append(f"{part.env_id}: {first}" if plan.environments else first)
    return [f"  look {event.look}   {lines[0]}", *(f"           {line}" for line in [*lines[1:], second])]


def _progress_lines(event: "Event") -> list[str]:
    return [f"  look {event.look}   {_arm_progress(arm)}" for arm in event.arms]


def _add_up_environments(arms: "tuple[ArmProgress, ...]") -> "list[ArmProgress]":
    """The arms over all environments: one line has no room for each."""
    by_name: dict[str, list[ArmProgress]] = {}
    for arm in arms:
        by_name.setdefault(arm.name, []).append(arm)
    added = []
    for own in by_name.values():
        names = ("runs", "ended", "solved", "failed", "env_steps")
        most = [arm.max_env_steps for arm in own]
        sums = {name: sum(getattr(arm, name) for arm in own) for name in names} | {"env_id": None}
        added.append(own[0].model_copy(update={**sums, "max_env_steps": None if None in most else sum(map(int, filter(None, most)))}))
    return added


def _arm_progress(arm: "ArmProgress") -> str:
    share = f" {percent(min(1.0, arm.env_steps / arm.max_env_steps))}" if arm.max_env_steps else ""
    # How a command's runs stand is known once they have ended.
    parts = [f"{arm.ended}/{arm.runs} ended"] + ([f"{arm.solved} solved"] if arm.max_env_steps else [])
    parts += [f"{arm.failed} failed"] if arm.failed else []
    steps = f", {short(arm.env_steps)} env steps{share}" if arm.env_steps else ""
    return f"{arm.env_id + ': ' if arm.env_id else ''}{arm.name} {', '.join(parts)}{steps}"


# ── the end ──


def print_trial(result: "TrialResult") -> None:
    """The verdict with its evidence, what is not shown, and what to type next."""
    trial = result.trial
    blocks = describe_result(trial, f"rlclinic runs list --trial {trial.id}")
    terminal.show([Gap(), *blocks, *ending(trial, result.next, result.files)])


def print_trials(result: "TrialList") -> None:
    """`trial --list`."""
    import time

    rows = []
    for row in result.trials:
        verdict = (row.verdict or row.state) + (f" {row.winner}" if row.winner else "")
        rows.append([row.id, verdict, ago(time.time() - row.created), row.question])
    none = Text("no trials yet\nStart one: rlclinic trial --rx 1")
    terminal.show([Table(["trial", "verdict", "when", "question"], rows) if rows else none])


def print_adopted(result: "Adopted") -> None:
    """`adopt`: the difference, then what to type."""
    verb = "wrote" if result.written else "would write"
    done = Text(f"{verb} {result.ref} into {result.file}: {'; '.join(result.changes) or 'no change against the control'}")
    use = Commands([("use it", f"rlclinic train {ref} --seeds 8") for ref in result.refs or [result.ref]] if result.written else [])
    terminal.show([Code("\n".join(result.diff), "diff"), done, use])

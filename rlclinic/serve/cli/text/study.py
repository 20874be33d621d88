"""Sensitivity studies, searches and probes on a terminal. Nothing here decides anything."""

import sys
import time
from typing import TYPE_CHECKING

from rlclinic.report.document import Commands, Gap, Points, Rows, Verdict
from rlclinic.report.format import count, duration, plural, short, step_unit
from rlclinic.serve.cli import console
from rlclinic.serve.cli.text import terminal

if TYPE_CHECKING:
    from rlclinic.launch.batch import Progress
    from rlclinic.ops.treat.optimize import SearchPlan, SearchReport
    from rlclinic.ops.treat.probe import ProbePlan, ProbeReport
    from rlclinic.ops.treat.sensitivity import SensitivityPlan, SensitivityReport


class ProgressLine:
    """One line of progress on stderr, drawn over on a terminal and repeated now and then elsewhere."""

    def __init__(self, every: float = 20.0) -> None:
        self._every = every
        self._next = 0.0
        self._ended = False

    def __call__(self, progress: "Progress") -> None:
        """Show how far it is."""
        ended = progress.ended == progress.runs
        if not sys.stderr.isatty() and not ended and time.monotonic() < self._next:
            return
        self._next = time.monotonic() + self._every
        runs = f"{progress.ended} of {plural(progress.runs, 'run')} ended, {progress.solved} reached the threshold"
        steps = f"{short(progress.env_steps)} of at most {short(progress.max_env_steps)} env steps"
        line = f"{progress.study}  {duration(progress.seconds)}  {runs} · {steps}"
        if ended and self._ended:
            return
        self._ended = ended
        sys.stderr.write((f"\r\x1b[2K{line}" + ("\n" if ended else "")) if sys.stderr.isatty() else f"{line}\n")
        sys.stderr.flush()


def agreed(yes: bool, as_json: bool) -> bool:
    """Whether to start: asked where somebody is there to answer."""
    if yes or as_json or not console.is_attended():
        return True
    return console.confirm("start?")


def print_sensitivity_plan(plan: "SensitivityPlan") -> None:
    """What is varied, and what it costs."""
    study = plan.study
    settings = list(dict.fromkeys(arm.setting.partition(".")[2] for arm in study.arms))
    factors = " and ".join(f"{factor:g}" for factor in study.factors)
    rows = [
        ("numbers", ", ".join(settings)),
        *(("left out", text) for text in study.skipped),
        ("runs", f"{plural(len(study.arms) + 1, 'arm')} x {plural(len(study.seeds), 'seed')}, all arms on the same fresh seeds"),
        ("cost", f"at most {count(plan.max_env_steps)} {step_unit(study.algo, study.config)}{_took(plan.seconds)}"),
        *(("note", text) for text in plan.notes),
    ]
    what = f"{study.env_id} · {study.algo} · {study.target}: every number times and divided by {factors}"
    terminal.show([Verdict("SENSITIVITY", what), Rows(rows, 9, 2)])


def _took(seconds: float | None) -> str:
    return "" if seconds is None else f", at most {duration(seconds)} at this group's speed"


def print_sensitivity(result: "SensitivityReport") -> None:
    """The tornado, and where its page is."""
    from rlclinic.report import sensitivity

    terminal.show([*sensitivity.answer(result.study), Rows([("report", result.files[0])])])


def say(text: str) -> None:
    """A remark about a search, on stderr."""
    sys.stderr.write(f"{text}\n")
    sys.stderr.flush()


def print_search_plan(plan: "SearchPlan") -> None:
    """What is searched, and what it may cost."""
    unit = step_unit(plan.algo)
    goals = {"steps": f"fewer {unit}", "wall": "less time", "return": "a higher return", "stability": "less spread over seeds"}
    goal = f"{goals[plan.outcome]} to {plan.threshold:g}" if plan.outcome in ("steps", "wall") else goals[plan.outcome]
    known = f"{plural(plan.known_runs, 'run')} of it exist already" if plan.known_runs else "two runs of it come first"
    length = f"{count(plan.budget)} {unit} in all, runs of {count(plan.run_env_steps)}"
    rows = [
        ("budget", f"{length}; never more, and enough of it is kept for the confirmation"),
        ("rounds", f"diagnose ({known}), try what it says on two seeds each, settle on more, confirm on fresh seeds"),
        ("rule", 'a wrong "adopt" in at most 2.5 % of searches, over all confirmations together'),
        *(("note", text) for text in plan.notes),
    ]
    terminal.show([Verdict("OPTIMIZE", f"{plan.env_id} · {plan.algo} · from {plan.target}: {goal}"), Rows(rows, 9, 2)])


def print_search(result: "SearchReport") -> None:
    """What was tried, what won, how sure that is, and what to type."""
    from rlclinic.report import optimize

    labels = {"rlclinic adopt": "keep it", "rlclinic train": "use it", "rlclinic optimize": "go on"}
    commands = [(next(label for start, label in labels.items() if text.startswith(start)), text) for text in result.next]
    blocks = optimize.describe(result.ledger, result.changes, result.evidence)
    terminal.show([*blocks, Gap(), Commands(commands), Rows([("ledger", result.files[0])])])


def print_probe_plan(plan: "ProbePlan") -> None:
    """The experiment, and what it costs."""
    experiment = plan.experiment
    if experiment is None:
        terminal.show([Gap(), Verdict("PROBE", plan.why_none)])
        return
    close = " or ".join(f"{title} (p {chance:.2f})" for title, chance in zip(experiment.titles, experiment.before, strict=True))
    arms = f"{', '.join(arm.name for arm in experiment.arms)} · {plural(len(experiment.seeds), 'seed')} each"
    cost = f"{count(plan.max_env_steps)} env steps{_took(plan.seconds)}"
    terminal.show([Gap(), Verdict("PROBE", f"{close}: {experiment.question}"), Rows([("arms", arms), ("cost", cost)], 9, 2)])


def print_probe(result: "ProbeReport") -> None:
    """Which cause gained."""
    probed = result.probed
    tried = probed.experiment
    rows = [("shown", probed.text)]
    if probed.control_repeated is not None:
        repeated = "repeats the original bit for bit" if probed.control_repeated else "does NOT repeat the original"
        rows.append(("control", repeated))
    causes = [
        f"{'→' if cause == probed.gained else ' '} {title}: p {before:.2f} → {after:.2f}"
        for cause, title, before, after in zip(tried.causes, tried.titles, tried.before, probed.after, strict=True)
    ]
    causes += [] if probed.gained else ["neither gained: the experiment does not separate them"]
    terminal.show([Rows(rows, 9, 2), Points(causes)])

"""Sensitivity studies and searches as text for people. Nothing here decides anything."""

import sys
import time
from typing import TYPE_CHECKING

from rlclinic.report.format import count, duration, plural, short
from rlclinic.serve.cli import console
from rlclinic.serve.cli.text.results import print_lines

if TYPE_CHECKING:
    from rlclinic.launch.batch import Progress
    from rlclinic.ops.treat.optimize import SearchPlan, SearchReport
    from rlclinic.ops.treat.probe import ProbePlan, ProbeReport
    from rlclinic.ops.treat.sensitivity import SensitivityPlan, SensitivityReport
    from rlclinic.treatment.optimize.ledger import Entry

HALF = 18
"""Characters on each side of a tornado's middle."""
MARKS = {"better": "█", "worse": "█", "no difference seen": "░"}


class Watch:
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
    took = "" if plan.seconds is None else f", at most {duration(plan.seconds)} at this group's speed"
    print_lines([
        f"SENSITIVITY  {study.env_id} · {study.algo} · {study.target}: every number times and divided by {factors}",
        f"  numbers  {', '.join(settings)}",
        *(f"  left out {text}" for text in study.skipped),
        f"  runs     {plural(len(study.arms) + 1, 'arm')} x {plural(len(study.seeds), 'seed')}, all arms on the same fresh seeds",
        f"  cost     at most {count(plan.max_env_steps)} env steps{took}",
    ])  # fmt: skip


def print_sensitivity(result: "SensitivityReport") -> None:
    """The tornado: what matters most on top, better to the left, worse to the right."""
    from rlclinic.report import sensitivity

    study = result.study
    steps = study.base.get("steps")
    base = f"{study.base['reached']:.0f} of {study.base['n']:.0f} seeds reach the threshold" if study.measure == "steps" else ""
    mean = f", in {count(steps)} env steps on average" if steps is not None and study.measure == "steps" else ""
    print_lines([f"{study.id}  {study.env_id} · {study.algo} · {study.target}: {base}{mean}".rstrip(": "), ""])
    print_lines([f"{'':<24}{'better':>{HALF}}│worse"])
    setting = ""
    for row in sensitivity.ordered(study):
        name = sensitivity.label(row)
        left, right = _bar(0.0 if row.effect is None else sensitivity.position(study, row.effect), MARKS[row.verdict])
        reached = "" if row.reached is None else f"  {row.reached}/{row.n} reach it"
        if setting and row.arm.setting != setting:
            print_lines([""])
        setting = row.arm.setting
        print_lines([f"{name:<24}{left}│{right}  {sensitivity.said(study, row)}{reached}"])
    legend = "█ the interval excludes no effect, ░ it does not"
    print_lines(["", sensitivity.summary(study), f"{legend} · {short(study.used_env_steps)} env steps"])
    print_lines([f"report    {result.files[0]}"])


def _bar(place: float, mark: str) -> tuple[str, str]:
    """A bar from the middle to a place between -1 and 1."""
    width = round(abs(place) * HALF)
    return (mark * width).rjust(HALF) if place < 0 else " " * HALF, (mark * width).ljust(HALF) if place > 0 else " " * HALF


def say(text: str) -> None:
    """A remark about a search, on stderr."""
    sys.stderr.write(f"{text}\n")
    sys.stderr.flush()


def print_search_plan(plan: "SearchPlan") -> None:
    """What is searched, and what it may cost."""
    goals = {"steps": "fewer env steps", "wall": "less time", "return": "a higher return", "stability": "less spread over seeds"}
    goal = f"{goals[plan.outcome]} to {plan.threshold:g}" if plan.outcome in ("steps", "wall") else goals[plan.outcome]
    known = f"{plural(plan.known_runs, 'run')} of it exist already" if plan.known_runs else "two runs of it come first"
    print_lines([
        f"OPTIMIZE  {plan.env_id} · {plan.algo} · from {plan.target}: {goal}",
        f"  budget   {count(plan.budget)} env steps in all, runs of {count(plan.run_env_steps)}; a third is kept for the confirmation",
        f"  rounds   diagnose ({known}), try what it says on two seeds each, settle on more, confirm on fresh seeds",
        "  rule     a wrong \"adopt\" in at most 5 % of searches, over all confirmations together",
    ])  # fmt: skip


def print_search(result: "SearchReport") -> None:
    """What was tried, what won, and how sure that is."""
    ledger = result.ledger
    print_lines([f"{ledger.id}  {ledger.env_id} · {ledger.algo} · from {ledger.target}", ""])
    for each in ledger.rounds:
        wrong = f"  {each.diagnosis}" if each.diagnosis else ""
        print_lines([f"round {each.number:<3}{each.kind:<9}{short(each.used_env_steps):>7} env steps{wrong}"])
        for entry in each.entries if each.kind != "confirm" else ():
            mark = "→" if entry.name == each.winner else " "
            pruned = f", {entry.pruned} stopped early" if entry.pruned else ""
            done = f"{entry.reached}/{entry.n} reach it{pruned}" if ledger.threshold is not None else f"return {entry.final}"
            print_lines([f"  {mark} {entry.name:<20}{done:<32}{_changed(entry)}"])
        if each.kind == "confirm":
            print_lines([f"    trial {each.trial}: {each.verdict} (alpha {each.alpha:.3g})"])
    print_lines(["", ledger.verdict.upper() or ledger.state.upper(), *(f"  {text}" for text in result.evidence)])
    print_lines([f"  --set '{text}'" for text in result.changes])
    print_lines([f"note      {note}" for note in ledger.notes if any(entry.source == "search" for entry in ledger.tried)])
    labels = {"rlclinic adopt": "keep it", "rlclinic train": "use it", "rlclinic optimize": "go on"}
    print_lines(["", *(f"{next(name for start, name in labels.items() if text.startswith(start)):<10}{text}" for text in result.next)])
    print_lines([f"ledger    {result.files[0]}"])


def _changed(entry: "Entry") -> str:
    """What a config changes in the start, in a few words."""
    from rlclinic.treatment.trial.arms import Arm

    text = Arm(name=entry.name, changes=entry.changes).title if entry.changes else ""
    return text if len(text) <= 110 else f"{text[:107]}…"


def print_probe_plan(plan: "ProbePlan") -> None:
    """The experiment, and what it costs."""
    found = plan.experiment
    if found is None:
        print_lines(["", f"PROBE  {plan.why_none}"])
        return
    took = "" if plan.seconds is None else f", at most {duration(plan.seconds)} at this group's speed"
    close = " or ".join(f"{title} (p {chance:.2f})" for title, chance in zip(found.titles, found.before, strict=True))
    print_lines([
        "",
        f"PROBE  {close}: {found.question}",
        f"  arms     {', '.join(arm.name for arm in found.arms)} · {plural(len(found.seeds), 'seed')} each",
        f"  cost     {count(plan.max_env_steps)} env steps{took}",
    ])  # fmt: skip


def print_probe(result: "ProbeReport") -> None:
    """Which cause gained."""
    found = result.probed
    tried = found.experiment
    print_lines([f"  shown    {found.text}"])
    if found.control_repeated is not None:
        print_lines([f"  control  {'repeats the original bit for bit' if found.control_repeated else 'does NOT repeat the original'}"])
    for cause, title, before, after in zip(tried.causes, tried.titles, tried.before, found.after, strict=True):
        print_lines([f"  {'→' if cause == found.gained else ' '} {title}: p {before:.2f} → {after:.2f}"])
    print_lines([] if found.gained else ["  neither gained: the experiment does not separate them"])

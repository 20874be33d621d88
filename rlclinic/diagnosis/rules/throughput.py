"""Where the time goes. Nothing here keeps a run from learning; it keeps its owner from waiting."""

from collections.abc import Iterator

import numpy as np

from rlclinic.diagnosis.case import Case
from rlclinic.diagnosis.columns import FPS
from rlclinic.diagnosis.findings import Finding, Severity
from rlclinic.diagnosis.registry import change, evidence, grade, percent, rule, say
from rlclinic.diagnosis.rules import cases
from rlclinic.diagnosis.signals import detect

PHASES = ("env", "act", "learn", "sentinels", "eval", "write")


def _seconds(case: Case) -> dict[str, float]:
    phases = {phase: case.history.series.get(f"time/{phase}") for phase in PHASES}
    return {phase: float(np.sum(series.values)) for phase, series in phases.items() if series is not None and len(series.values)}


@rule(
    "THR101",
    severity=Severity.LOW,
    needs=["time/eval", "time/learn"],
    cites=["raffin2021sb3"],
    bad=lambda: cases.unsolved({"time/eval": 9.0, "time/learn": 1.0, "time/env": 1.0}, settings={"run.eval_every_env_steps": 1000}),
)
def evaluation_takes_most_of_the_time(case: Case) -> Iterator[Finding]:
    """More time is spent on evaluation than on training.

    ## Why it hurts
    The run takes twice as long for numbers that change little from one evaluation to the next.

    ## When it is fine
    Short runs.
    """
    seconds = _seconds(case)
    share = seconds.get("eval", 0.0) / max(sum(seconds.values()), 1e-9)
    every = case.count("run.eval_every_env_steps")
    if share < 0.5 or sum(seconds.values()) < 60 or not every:
        return
    text = f"evaluation takes {percent(share)} of the time"
    fix = change(case, "run.eval_every_env_steps", 4 * every, "a quarter of the evaluations")
    yield Finding(strength=grade(share, 0.4, 0.8), text=text, evidence=(evidence("time/eval", text, share=share),), remedies=(fix,))


@rule(
    "THR102",
    severity=Severity.LOW,
    needs=[FPS],
    cites=["godbole2023playbook"],
    bad=lambda: cases.unsolved({"time/fps": cases.falls(0.5, 5000.0, 900.0)}),
)
def training_slows_down(case: Case) -> Iterator[Finding]:
    """Steps per second fell to less than half while the run went on.

    ## Why it hurts
    Something grows with time: memory, a log, an environment that keeps objects; or another process takes the machine.

    ## When it is fine
    Episodes that become longer or harder to simulate.
    """
    speed = case.signal(FPS)
    change_of_pace = detect.change_point(speed)
    if len(speed) < 20 or change_of_pace is None:
        return
    ratio = speed.share(0.8).median / max(speed.share(0.0, 0.3).median, 1e-9)
    if ratio > 0.45:
        return
    text = f"steps per second fell from {say(speed.share(0.0, 0.3).median)} to {say(speed.share(0.8).median)}"
    yield Finding(
        strength=grade(-ratio, -0.5, -0.2),
        text=text,
        evidence=(evidence(FPS, text, change_of_pace.step, case.span[1], ratio=ratio),),
        onset=change_of_pace.step,
    )


@rule(
    "THR103",
    severity=Severity.LOW,
    needs=["time/env", "time/learn", "config:env.workers"],
    cites=["raffin2021sb3"],
    bad=lambda: cases.unsolved({"time/env": 0.2, "time/learn": 0.05}, settings={"env.workers": 4}),
)
def worker_processes_do_not_pay(case: Case) -> Iterator[Finding]:
    """Environments are stepped in processes of their own, and waiting for them takes most of the time.

    ## Why it hurts
    A message to another process costs more than a step of a simple environment.

    ## When it is fine
    Environments whose step takes a millisecond or more.
    """
    workers, seconds = case.count("env.workers"), _seconds(case)
    steps, envs = case.trained, case.count("env.n_envs") or 1
    each = seconds.get("env", 0.0) / max(steps / envs, 1.0)
    share = seconds.get("env", 0.0) / max(sum(seconds.values()), 1e-9)
    if not workers or share < 0.5 or each > 2e-3:
        return
    text = f"stepping takes {percent(share)} of the time, {say(1e6 * each)} µs for each step of all envs, with {workers} workers"
    fix = change(case, "env.workers", 0, "step them in the training process")
    yield Finding(strength=grade(share, 0.4, 0.8), text=text, evidence=(evidence("time/env", text, share=share),), remedies=(fix,))

"""`trial`: planned with cost and power before anything is spent, carried out, reported; and what is known of earlier ones."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

from pydantic import Field

from rlclinic import trust
from rlclinic.actions import Action, Argument
from rlclinic.config import files
from rlclinic.errors import UsageError
from rlclinic.launch import places
from rlclinic.launch.batch import Interrupted, StopRequests
from rlclinic.ops.train import signals
from rlclinic.ops.train.machine import check_device, has_gpu, usable_cores
from rlclinic.ops.train.plan import check_data, check_installed
from rlclinic.ops.treat import arms
from rlclinic.ops.treat.arms import Resolved
from rlclinic.ops.treat.requests import TrialRequest, check_extension
from rlclinic.report.models import Result, ResultPart
from rlclinic.report.trial import write
from rlclinic.runs import trials
from rlclinic.runs.store import Store
from rlclinic.treatment.trial import conduct, power, questions
from rlclinic.treatment.trial.models import CENSORED_OUTCOMES, Event, PlanRow, Power, Trial, TrialOutcome, TrialPlan

__all__ = [
    "Preview",
    "TrialRequest",
    "TrialResult",
    "TrialRow",
    "extend_trial",
    "list_trials",
    "plan_trial",
    "resume_trial",
    "run_trial",
    "show_trial",
]

EXTENSION_SEEDS = 16
HOPELESS = 0.05
"""Power below which a trial is not worth its steps."""
TrialWatch = Callable[[Event], None]


class Preview(Result):
    """What a trial asks, what it can see and what it may cost: shown before it starts."""

    question: str
    control: str
    """What the control is."""
    arms: dict[str, list[str]]
    """Changes by treatment arm."""
    outcome: TrialOutcome
    power: Power
    max_env_steps: int | None
    likely_env_steps: int | None
    """If the first look decides, as it does for a cure."""
    max_seconds: float | None
    likely_seconds: float | None
    """Both None where nothing was measured on this task yet."""
    cores: int
    warnings: list[str]
    plan: TrialPlan
    table: list[PlanRow] = Field(default_factory=list)
    """Where it was asked for: seeds and time against the effect that would be seen."""


class TrialResult(Result):
    """How a trial ended, and where its report is."""

    trial: Trial
    files: list[str]
    next: list[Action]
    """Commands to type next, the most useful first."""
    signal: str | None = None
    """SIGINT or SIGTERM, if that ended it before its time."""


class TrialRow(ResultPart):
    """One line of a list of trials."""

    id: str
    question: str
    state: str
    verdict: str | None
    winner: str | None
    created: float


class TrialList(Result):
    """Trials of a store, newest first."""

    trials: list[TrialRow]


def plan_trial(request: TrialRequest, *, table: bool = False) -> Preview:
    """Decide what to compare, what that can show and what it may cost; nothing is written. `table`: also what more or fewer seeds would."""
    if request.seeds is not None:
        request = request.model_copy(update={"looks": 1, "per_look": request.seeds})
    resolved = arms.resolve(request)
    if resolved.control.config is not None:
        check_installed()
        files.check_environment(resolved.control.config.env.id)
    trained = [arm.config for arm in (resolved.control, *resolved.treatments) if arm.config is not None]
    trust.check_envs(config.env for config in trained)
    check_data(trained)
    _check_seeds(request, resolved)
    config = resolved.control.config
    threshold = request.threshold if request.threshold is not None or config is None else config.spec.threshold
    if unknown := [
        control.config.env.id for control, _ in resolved.environments if control.config and control.config.spec.threshold is None
    ]:
        _check_thresholds(request, unknown)
        threshold = None
    outcome = request.outcome or _usual_outcome(resolved, threshold)
    device = {"auto": "cuda" if has_gpu() else "cpu"}.get(request.device or "", request.device)
    check_device(device)
    options = dict[str, Any](
        outcome=outcome,
        per_look=request.per_look,
        looks=request.looks,
        alpha=request.alpha,
        margin=request.margin,
        seed0=request.seed0,
        rule=request.rule,
        arrival_margin=request.arrival_margin,
        futility=request.futility,
        whole_budget=request.whole_budget,
        max_env_steps=request.max_env_steps,
        device=device,
        above_seed=resolved.above_seed,
        source=resolved.source,
        context={**resolved.context, "control": resolved.described, "typed": arms.typed(request, resolved)},
        timeout_seconds=request.timeout_seconds,
        notes=resolved.notes,
    )
    if resolved.environments:
        plan = conduct.plan_environments(resolved.environments, **options)
    else:
        plan = conduct.plan(resolved.control, resolved.treatments, threshold=threshold, **options)
    plan = questions.charge(Store(request.runs_dir), plan, independent=request.independent)
    preview = _preview(plan, resolved)
    return preview.model_copy(update={"table": power.plan_rows(plan, resolved.steps_per_second)}) if table else preview


def _check_thresholds(request: TrialRequest, unknown: list[str]) -> None:
    if request.outcome in CENSORED_OUTCOMES:
        raise UsageError(
            f"outcome {request.outcome}: no threshold is known for {', '.join(unknown)}.\n  There would be nothing to reach there.\n"
            "  Type: ",
            Argument("outcome", "return"),
            ", which ranks returns within each environment; or write `spec: {threshold: VALUE}` into "
            f"config/environments/{unknown[0].replace('/', '-').replace(':', '-')}.yaml",
        )


def _usual_outcome(resolved: Resolved, threshold: float | None) -> TrialOutcome:
    """Steps to the threshold where there is one; the final return where runs get there and lose it again."""
    if threshold is None:
        return "return"
    if resolved.loses:
        resolved.notes.append(
            "these runs reach the threshold and lose it again: judged by the final return (an outcome of steps asks the other)"
        )
        return "return"
    return "steps"


def _check_seeds(request: TrialRequest, resolved: Resolved) -> None:
    """The diagnosed runs were picked because they failed: repeating their seeds would count them as control."""
    if request.seed0 is None:
        return
    count = max(len(resolved.environments), 1) * (1 + len(resolved.treatments)) * request.looks * request.per_look
    again = sorted(seed for seed in resolved.used_seeds if request.seed0 <= seed < request.seed0 + count)
    if again:
        raise UsageError(
            Argument("seed0", request.seed0),
            f" would use seed {again[0]} again, which the runs to be treated have.\n"
            "  They were picked because of how they ended: as control they would be counted twice.\n  Type: ",
            Argument("seed0", max(resolved.used_seeds) + 1),
            ", or leave it out",
        )


def _preview(plan: TrialPlan, resolved: Resolved) -> Preview:
    computed = power.of_plan(plan)
    most = plan.max_env_steps
    likely = most // plan.looks if most is not None else None
    cores = places.count_cores(usable_cores())
    rate = resolved.steps_per_second
    return Preview(
        question=conduct.question(plan),
        control=resolved.described,
        arms={arm.name: list(arm.changes) for arm in plan.treatments},
        outcome=plan.outcome,
        power=computed,
        max_env_steps=most,
        likely_env_steps=likely,
        max_seconds=most / rate if most is not None and rate else None,
        likely_seconds=likely / rate if likely is not None and rate else None,
        cores=cores,
        warnings=[*plan.notes, *_warnings(plan, computed)],
        plan=plan,
    )


def _warnings(plan: TrialPlan, power: Power) -> list[str]:
    found = []
    if max(power.by_effect.values()) < HOPELESS:
        found.append(f"with {plan.looks} x {plan.per_look} seeds an arm even a large effect is hardly ever seen: take more: 8 per look")
    for part in plan.parts:
        budgets = {arm.name: arm.config.run.max_env_steps for arm in part.arms if arm.config is not None}
        if len(set(budgets.values())) > 1 and not plan.own_budgets:
            where = f"{part.env_id}: " if plan.environments else ""
            shown = ", ".join(f"{name} {steps:,}" for name, steps in budgets.items())
            common = f"{min(budgets.values()):,} {plan.step_unit}"
            found.append(f"{where}arms have different budgets ({shown}): they are compared up to {common}")
    return found


def run_trial(preview: Preview, runs_dir: Path = Path("runs"), watch: TrialWatch | None = None, jobs: int | None = None) -> TrialResult:
    """Carry out a plan to its verdict. SIGINT and SIGTERM let the runs write checkpoints; `resume_trial` goes on."""
    store = Store(runs_dir)
    return _carry_out(
        store, watch, lambda progress, stop: conduct.run(store, preview.plan, progress=progress, cores=_cores(jobs), stop=stop)
    )


def extend_trial(request: TrialRequest) -> Trial:
    """Add seeds to a trial that ended undecided: written down, and carried out by `resume_trial`."""
    check_extension(request)
    return conduct.extend(Store(request.runs_dir), request.extend or "@last", request.seeds or EXTENSION_SEEDS)


def resume_trial(tid: str, runs_dir: Path = Path("runs"), watch: TrialWatch | None = None, jobs: int | None = None) -> TrialResult:
    """Go on with a trial that was interrupted or killed; its verdict is the one that it would have had."""
    store = Store(runs_dir)
    return _carry_out(store, watch, lambda progress, stop: conduct.resume(store, tid, progress=progress, cores=_cores(jobs), stop=stop))


def _cores(jobs: int | None) -> int:
    return jobs or places.count_cores(usable_cores())


def _carry_out(store: Store, watch: TrialWatch | None, work: "Callable[[TrialWatch, StopRequests], Trial]") -> TrialResult:
    seen: list[str] = []

    def progress(event: Event) -> None:
        seen[:] = [event.trial]
        if watch is not None:
            watch(event)

    with signals.caught_signals() as caught:
        try:
            trial = work(progress, lambda: len(caught))
        except Interrupted:
            trial = conduct.load(store, seen[0]) if seen else conduct.load(store)
    return _result(store, trial, caught[0].name if caught and trial.state != "finished" else None)


def _result(store: Store, trial: Trial, ended_by: str | None = None) -> TrialResult:
    files = write(store, trial) if trial.looks else []
    return TrialResult(trial=trial, files=[str(file) for file in files], next=_next(store, trial), signal=ended_by)


def _next(store: Store, trial: Trial) -> list[Action]:
    where = None if store.root == Path("runs") else store.root
    if trial.state != "finished":
        return [Action("trial", resume=trial.id, runs_dir=where)]
    commands = []
    if trial.verdict == "adopt" and trial.source != "command":
        commands.append(Action("adopt", trial.id, as_="mine" if trial.environments else f"{trial.env_id}:mine", runs_dir=where))
    if trial.verdict == "mixed":
        helped = [part.env_id for part in trial.parts if any(effect.verdict == "adopt" for effect in part.effects)]
        commands += [Action("adopt", trial.id, as_=f"{env_id}:mine", runs_dir=where) for env_id in helped[:1]]
    if trial.verdict in ("undecided", "less reliable") and not trial.reason:
        commands.append(Action("trial", extend=trial.id, runs_dir=where))
    trained = any(arm.failed < arm.n for arm in trial.arms)
    if trained and trial.verdict == "undecided" and trial.outcome in CENSORED_OUTCOMES and (trial.reason or _ends_apart(trial)):
        # Fresh seeds: what these ones show of the return was not asked of them.
        asked = trial.context.get("typed") or Action("trial", "…")
        flag = "" if where is None else f" {Argument('runs_dir', where)}"
        commands.append(Action.quoted(f"{asked} {Argument('outcome', 'return')}{'' if flag in asked else flag}"))
    commands.append(Action("runs list", trial=trial.id, runs_dir=where))
    return commands


def _ends_apart(trial: Trial) -> bool:
    """Whether an arm ends above the control, or below it, although no steps to the threshold show it."""
    ends = [effect.final_improvement for effect in trial.effects if effect.final_improvement is not None]
    return any((end.low or 0.0) > 0.5 or (1.0 if end.high is None else end.high) < 0.5 for end in ends)


def show_trial(tid: str = "@last", runs_dir: Path = Path("runs")) -> TrialResult:
    """A stored trial as it ended, or as it stands; its report is written again."""
    store = Store(runs_dir)
    return _result(store, conduct.load(store, tid))


def list_trials(runs_dir: Path = Path("runs")) -> TrialList:
    """Every trial of a store, newest first."""
    found = []
    for trial in reversed(trials.trials(Store(runs_dir))):
        about = trial.record
        found.append(
            TrialRow(
                id=trial.id,
                question=str(about.get("question", "")),
                state=str(about.get("state", "?")),
                verdict=trial.verdict,
                winner=about.get("winner"),
                created=trial.created,
            )
        )
    return TrialList(trials=found)

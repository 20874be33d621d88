"""`race`: which of many arms is best; planned with cost and power before anything is spent, carried out, reported."""

from collections.abc import Callable
from pathlib import Path

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
from rlclinic.ops.treat.requests import RaceRequest, check_extension
from rlclinic.ops.treat.trial import EXTENSION_SEEDS
from rlclinic.report.models import Result, ResultPart
from rlclinic.report.race import draw_ranking, render_race_page, render_report
from rlclinic.runs import studies
from rlclinic.runs.store import Store
from rlclinic.treatment.race import conduct, power
from rlclinic.treatment.race.models import Race, RaceEvent, RacePlan
from rlclinic.treatment.race.power import RacePower
from rlclinic.treatment.trial.models import TrialOutcome

RaceWatch = Callable[[RaceEvent], None]


class RacePreview(Result):
    """What a race asks, what it can see and what it may cost: shown before it starts."""

    question: str
    arms: dict[str, list[str]]
    """By arm: what sets it apart."""
    outcome: TrialOutcome
    power: RacePower
    first_env_steps: int | None
    """Of the first round, in which all arms train."""
    max_env_steps: int | None
    max_seconds: float | None
    """None where nothing was measured on this task yet."""
    cores: int
    warnings: list[str]
    plan: RacePlan


class RaceResult(Result):
    """How a race ended, and where its report is."""

    race: Race
    files: list[str]
    next: list[Action]
    """Commands to type next, the most useful first."""
    signal: str | None = None
    """SIGINT or SIGTERM, if that ended it before its time."""


class RaceRow(ResultPart):
    """One line of a list of races."""

    id: str
    question: str
    state: str
    verdict: str | None
    best: list[str]
    created: float


class RaceList(Result):
    """Races of a store, newest first."""

    races: list[RaceRow]


def plan_race(request: RaceRequest) -> RacePreview:
    """Decide what to race, what that can show and what it may cost; nothing is written."""
    resolved = arms.resolve_race(request)
    trained = [arm.config for arm in (resolved.control, *resolved.treatments) if arm.config is not None]
    trust.check_envs(config.env for config in trained)
    check_data(trained)
    config = resolved.control.config
    if config is not None:
        check_installed()
        files.check_environment(config.env.id)
    _check_seeds(request, resolved)
    threshold = request.threshold if request.threshold is not None or config is None else config.spec.threshold
    device = {"auto": "cuda" if has_gpu() else "cpu"}.get(request.device or "", request.device)
    check_device(device)
    planned = conduct.plan(
        [resolved.control, *resolved.treatments],
        outcome=request.outcome or ("return" if threshold is None else "steps"),
        rounds=request.rounds,
        per_round=request.per_round,
        alpha=request.alpha,
        margin=request.margin,
        arrival_margin=request.arrival_margin,
        budget=request.budget,
        seed0=request.seed0,
        whole_budget=request.whole_budget,
        max_env_steps=request.max_env_steps,
        device=device,
        above_seed=resolved.above_seed,
        threshold=threshold,
        source=resolved.source,
        context={**resolved.context, "base": resolved.described},
        timeout_seconds=request.timeout_seconds,
        notes=resolved.notes,
    )
    planned = conduct.charge(Store(request.runs_dir), planned, independent=request.independent)
    most, rate = planned.max_env_steps, resolved.steps_per_second
    return RacePreview(
        question=conduct.question(planned),
        arms={arm.name: list(arm.changes) for arm in planned.arms},
        outcome=planned.outcome,
        power=power.of_plan(planned),
        first_env_steps=planned.cost(),
        max_env_steps=most,
        max_seconds=most / rate if most is not None and rate else None,
        cores=places.count_cores(usable_cores()),
        warnings=[*planned.trial.notes, *_warnings(planned)],
        plan=planned,
    )


def _check_seeds(request: RaceRequest, resolved: Resolved) -> None:
    """Runs that somebody has looked at were picked because of how they ended: their seeds are not raced again."""
    again = [seed for seed in resolved.used_seeds if request.seed0 is not None and seed >= request.seed0]
    if again:
        raise UsageError(
            Argument("seed0", request.seed0),
            f" may use seed {min(again)} again, which runs of these arms have.\n  They would be counted twice.\n  Type: ",
            Argument("seed0", max(again) + 1),
            ", or leave it out",
        )


def _warnings(planned: RacePlan) -> list[str]:
    budgets = {arm.name: arm.config.run.max_env_steps for arm in planned.arms if arm.config is not None}
    if len(set(budgets.values())) > 1 and not planned.trial.own_budgets:
        return [f"arms have different budgets: they are compared up to {min(budgets.values()):,} {planned.trial.step_unit}"]
    return []


def run_race(preview: RacePreview, runs_dir: Path = Path("runs"), watch: RaceWatch | None = None, jobs: int | None = None) -> RaceResult:
    """Carry out a plan to its ranking. SIGINT and SIGTERM let the runs write checkpoints; `resume_race` goes on."""
    store = Store(runs_dir)
    cores = jobs or places.count_cores(usable_cores())
    return _carry_out(store, watch, lambda progress, stop: conduct.run(store, preview.plan, progress=progress, cores=cores, stop=stop))


def extend_race(request: RaceRequest) -> Race:
    """Add seeds to the arms of a race that are not told apart: written down, and carried out by `resume_race`."""
    check_extension(request)
    return conduct.extend_race(Store(request.runs_dir), request.extend or "@last", request.seeds or EXTENSION_SEEDS)


def resume_race(id: str = "@last", runs_dir: Path = Path("runs"), watch: RaceWatch | None = None, jobs: int | None = None) -> RaceResult:
    """Go on with a race that was interrupted or killed; its ranking is the one that it would have had. One that ended is shown."""
    store = Store(runs_dir)
    known, cores = conduct.load_race(store, id).id, jobs or places.count_cores(usable_cores())
    return _carry_out(store, watch, lambda progress, stop: conduct.resume(store, known, progress=progress, cores=cores, stop=stop), known)


def _carry_out(store: Store, watch: RaceWatch | None, work: Callable[[RaceWatch, StopRequests], Race], known: str = "@last") -> RaceResult:
    begun = [known]

    def progress(event: RaceEvent) -> None:
        begun[:] = [event.race]
        if watch is not None:
            watch(event)

    with signals.caught_signals() as caught:
        try:
            race = work(progress, lambda: len(caught))
        except Interrupted:
            race = conduct.load_race(store, begun[0])
    return _result(store, race, caught[0].name if caught and race.state != "finished" else None)


def _result(store: Store, race: Race, ended_by: str | None = None) -> RaceResult:
    files = []
    if race.rounds:
        pages = {"report.md": render_report(race), "report.html": render_race_page(race), "ranking.svg": draw_ranking(race)}
        files = [str(studies.write_report(store, "race", race.id, name, text)) for name, text in pages.items()]
    return RaceResult(race=race, files=files, next=_next(store, race), signal=ended_by)


def _next(store: Store, race: Race) -> list[Action]:
    where = None if store.root == Path("runs") else store.root
    if race.state != "finished":
        return [Action("race", resume=race.id, runs_dir=where)]
    commands = []
    if race.verdict == "best" and race.plan.trial.source != "command":
        commands.append(Action("adopt", race.id, as_=f"{race.env_id}:mine", runs_dir=where))
    groups = [race.find(name).arm.groups for name in race.best[:2]]
    dead_end = race.verdict == "undecided" and bool(race.reason)
    if race.verdict != "best" and not dead_end and race.plan.reserve > 0 and not race.plan.budget:
        commands.append(Action("race", extend=race.id, runs_dir=where))
    if race.verdict in ("several", "less reliable") and all(groups) and len(groups) == 2:
        # A trial of the two that lead asks anew, with all of the error for these two.
        commands.append(Action("trial", *(group[0] for group in groups), runs_dir=where))
    commands.append(Action("runs list", trial=race.id, runs_dir=where))
    return commands


def show_race(id: str = "@last", runs_dir: Path = Path("runs")) -> RaceResult:
    """A stored race as it ended, or as it stands; its report is written again."""
    store = Store(runs_dir)
    return _result(store, conduct.load_race(store, id))


def list_races(runs_dir: Path = Path("runs")) -> RaceList:
    """Every race of a store, newest first."""
    store, rows = Store(runs_dir), []
    for id in reversed(studies.ids(store, "race")):
        about = studies.read(store, "race", id)
        rows.append(
            RaceRow(
                id=id,
                question=str(about.get("question", "")),
                state=str(about.get("state", "?")),
                verdict=about.get("verdict"),
                best=[str(name) for name in about.get("best") or ()],
                created=float(about.get("created", 0.0)),
            )
        )
    return RaceList(races=rows)

"""What can be started in the background: for each kind what it may cost, and what is written down before its process begins."""

from collections.abc import Callable
from typing import Any, Final

from pydantic import BaseModel, ConfigDict

from rlclinic.actions import Action
from rlclinic.config import Config, from_record
from rlclinic.errors import UsageError
from rlclinic.ops.compare import regress
from rlclinic.ops.compare.requests import RegressRequest
from rlclinic.ops.jobs import budget
from rlclinic.ops.jobs.models import ALL_CORES, Job, Planned
from rlclinic.ops.train import machine, run
from rlclinic.ops.train.plan import TrainPlan, plan_training
from rlclinic.ops.train.requests import TrainRequest
from rlclinic.ops.treat import optimize, race, sensitivity, trial
from rlclinic.ops.treat.requests import OptimizeRequest, RaceRequest, SensitivityRequest, TrialRequest, check_extension
from rlclinic.report.gate import GateRecord, Regression
from rlclinic.runs import status_file, studies, trials
from rlclinic.runs.database import connections
from rlclinic.runs.record import Group, Run
from rlclinic.runs.store import Store
from rlclinic.treatment.optimize import search
from rlclinic.treatment.race.conduct import begin_race, extend_race, load_race
from rlclinic.treatment.race.models import RacePlan
from rlclinic.treatment.sensitivity.study import Sensitivity, cells, load, start
from rlclinic.treatment.trial import conduct
from rlclinic.treatment.trial.models import TrialPlan

MOST_NAMED: Final = 4
"""Changes of an arm that the ledger names."""


Request = TrainRequest | TrialRequest | RaceRequest | OptimizeRequest | SensitivityRequest | RegressRequest


class Prepared(BaseModel):
    """A checked request: what it costs, and what writes it down."""

    model_config = ConfigDict(arbitrary_types_allowed=True)

    planned: Planned
    reserve: Callable[[], str]
    """The id of what is going to be made, or goes on. Of an extension also its number."""
    begin: Callable[[str], dict[str, Any]]
    """Makes the group, trial or search of that id, unless it is there already; gives the fields of the job that name it."""


# ── what each kind costs, and what it writes down ──


def _training(request: TrainRequest) -> Prepared:
    store, plan = Store(request.runs_dir), plan_training(request)
    configs = plan.configs or [run.config for run in plan.resumed]
    parents = plan.parents if plan.start != "init" else []
    made = [run.status.env_steps for run in plan.resumed] or [int(parent.rpartition("@")[2]) for parent in parents]
    most = sum(whole_budget(config) for config in configs) - sum(made)
    change = [*([plan.prescription] if plan.prescription else []), *request.changes]
    target = request.ref or request.resume or request.init_from or ""

    def begin(gid: str) -> dict[str, Any]:
        made_before = not plan.resumed and store.has_group(gid)
        group, runs = (store.group(gid), store.group(gid).runs) if made_before else run.create_group(plan, gid)
        before = sum(run.status.used_env_steps for run in plan.resumed) if plan.resumed else sum(made)
        return {"refers": group.id, "runs": [run.id for run in runs], "before_env_steps": before}

    planned = Planned(target=target, change=change, max_env_steps=max(most, 0), runs=len(configs), cores=_cores(configs[0], len(configs)))
    reserve = (lambda: store.group(plan.resumed[0].id).id) if plan.resumed else store.reserve_group
    return Prepared(planned=planned, reserve=reserve, begin=begin)


def _cores(config: Config, runs: int) -> int:
    """Cores that runs of a config keep busy at once. A GPU trains one thing at a time, and takes the whole machine for that.

    Where any worker may train them, this machine's cores say nothing: whoever takes a job has as many of them as there are.
    """
    if config.run.device != "cpu" and (connections.shared() or machine.has_gpu()):
        return ALL_CORES if connections.shared() else machine.usable_cores()
    return runs * config.cores if connections.shared() else min(machine.usable_cores(), runs * config.cores)


def whole_budget(config: Config) -> int:
    """Env steps that a run of this config can make: the last rollout is finished even where it passes the limit."""
    return config.iterations * config.rollout_size


def _trial(request: TrialRequest) -> Prepared:
    store = Store(request.runs_dir)
    if request.resume is not None:
        begun = conduct.load(store, request.resume)
        spent = sum(status_file.raw(run.path).env_steps for group in trials.groups(store, begun.id) for run in group.runs)
        planned = Planned(target=begun.id, change=_changes(begun.plan), max_env_steps=_most(begun.plan, spent), runs=begun.plan.n_seeds)
        return _go_on(planned, begun.id, budget.used_by(store, begun.id))
    if request.extend is not None:
        check_extension(request)
        ended = conduct.load(store, request.extend)
        seeds = request.seeds or trial.EXTENSION_SEEDS
        most = _most_of_extension(ended.plan, seeds)
        runs = len(ended.plan.parts) * len(ended.plan.arms) * seeds
        planned = Planned(target=ended.id, change=_changes(ended.plan), max_env_steps=most, runs=runs)
        return _extend(planned, ended.id, ended.plan, lambda: conduct.extend(store, ended.id, seeds))
    preview = trial.plan_trial(request)
    plan, target = preview.plan, " ".join(request.targets) or preview.control
    planned = Planned(target=target, change=_changes(plan), max_env_steps=_most(plan, 0), runs=plan.n_seeds)

    def begin(tid: str) -> dict[str, Any]:
        return {"refers": tid if trials.exists(store, tid) else conduct.begin(store, plan, tid).id}

    return Prepared(planned=planned, reserve=lambda: trials.reserve(store), begin=begin)


def _go_on(planned: Planned, id: str, before_env_steps: int) -> Prepared:
    """A trial or study that exists goes on."""
    return Prepared(planned=planned, reserve=lambda: id, begin=lambda _: {"refers": id, "before_env_steps": before_env_steps})


def _extend(planned: Planned, id: str, plan: TrialPlan, extend: Callable[[], Any]) -> Prepared:
    """A trial or race gets more seeds, once: the number of the extension tells whether it was written down before a kill."""

    def begin(making: str) -> dict[str, Any]:
        if len(plan.extensions) < int(making.partition(" ")[2]):
            extend()
        return {"refers": id}

    return Prepared(planned=planned, reserve=lambda: f"{id} {len(plan.extensions) + 1}", begin=begin)


def _most(plan: TrialPlan, spent: int) -> int | None:
    configs = [arm.config for part in plan.parts for arm in part.arms]
    if any(config is None for config in configs):
        return None
    seeds = plan.looks * plan.per_look + sum(extension.seeds for extension in plan.extensions)
    return max(0, sum(whole_budget(config) for config in configs if config) * seeds - spent)


def _most_of_extension(plan: TrialPlan, seeds: int) -> int | None:
    configs = [arm.config for part in plan.parts for arm in part.arms]
    return None if any(config is None for config in configs) else sum(whole_budget(config) for config in configs if config) * seeds


def _changes(plan: Any) -> list[str]:
    return [f"{arm.name}: {arm.title if len(arm.changes) <= MOST_NAMED else f'{len(arm.changes)} changes'}" for arm in plan.treatments]


def _race(request: RaceRequest) -> Prepared:
    store = Store(request.runs_dir)
    if request.resume is not None:
        begun = load_race(store, request.resume)
        spent = sum(status_file.raw(run.path).env_steps for group in trials.groups(store, begun.id) for run in group.runs)
        most = None if begun.max_env_steps is None else max(0, begun.max_env_steps - spent)
        planned = Planned(target=begun.id, change=_raced(begun.plan), max_env_steps=most, runs=_most_runs(begun.plan))
        return _go_on(planned, begun.id, spent)
    if request.extend is not None:
        check_extension(request)
        ended, seeds = load_race(store, request.extend), request.seeds or trial.EXTENSION_SEEDS
        planned = Planned(
            target=ended.id,
            change=_raced(ended.plan),
            max_env_steps=ended.plan.cost(ended.best, seeds),
            runs=len(ended.best) * seeds,
        )
        return _extend(planned, ended.id, ended.plan.trial, lambda: extend_race(store, ended.id, seeds))
    plan = race.plan_race(request).plan
    target = " ".join(request.targets) or str(plan.trial.context.get("base"))
    planned = Planned(target=target, change=_raced(plan), max_env_steps=plan.max_env_steps, runs=_most_runs(plan))

    def begin(id: str) -> dict[str, Any]:
        return {"refers": id if studies.exists(store, "race", id) else begin_race(store, plan, id).id}

    return Prepared(planned=planned, reserve=lambda: studies.reserve(store, "race"), begin=begin)


def _most_runs(plan: RacePlan) -> int:
    return len(plan.arms) * plan.rounds * plan.per_round


def _raced(plan: RacePlan) -> list[str]:
    named = ", ".join(arm.name for arm in plan.arms[:MOST_NAMED])
    return [f"{len(plan.arms)} arms: {named}{', …' if len(plan.arms) > MOST_NAMED else ''}"]


def _optimize(request: OptimizeRequest) -> Prepared:
    store = Store(request.runs_dir)
    if request.resume is not None:
        ledger = search.load(store, request.resume)
        planned = Planned(target=ledger.target, change=[], max_env_steps=max(0, ledger.left), runs=search.RUNS)
        before = budget.used_by(store, ledger.id, search=True)
        return _go_on(planned, ledger.id, before)
    optimize.plan(request)
    planned = Planned(target=request.target, change=request.changes, max_env_steps=request.budget, runs=search.RUNS)

    def begin(id: str) -> dict[str, Any]:
        return {"refers": id if studies.exists(store, "optimize", id) else optimize.begin(request, id).id}

    return Prepared(planned=planned, reserve=lambda: studies.reserve(store, "optimize"), begin=begin)


def _sensitivity(request: SensitivityRequest) -> Prepared:
    store = Store(request.runs_dir)
    if request.resume is not None:
        begun = load(store, request.resume)
        spent = sum(status_file.raw(run.path).env_steps for group in trials.groups(store, begun.id) for run in group.runs)
        planned = Planned(target=begun.target, change=[], max_env_steps=_varied(begun, spent), runs=_runs(begun))
        return _go_on(planned, begun.id, budget.used_by(store, begun.id))
    study = sensitivity.plan(request).study
    planned = Planned(target=request.target, change=request.changes, max_env_steps=_varied(study, 0), runs=_runs(study))

    def begin(id: str) -> dict[str, Any]:
        return {"refers": id if studies.exists(store, "sensitivity", id) else start(store, study, id).id}

    return Prepared(planned=planned, reserve=lambda: studies.reserve(store, "sensitivity"), begin=begin)


def _regress(request: RegressRequest) -> Prepared:
    store = Store(request.runs_dir)
    if request.resume is not None:
        begun = regress.load(store, request.resume)
        spent = budget.used_by(store, begun.id)
        return _go_on(_gate(begun, spent), begun.id, spent)
    gate = regress.plan(request)
    if isinstance(gate, Regression):
        raise UsageError(
            f"{request.candidate} was trained already, and is judged at once: {gate.decision}.\n"
            "  There is nothing to do in the background.\n  Type: ",
            Action("regress", request.baseline, request.candidate),
        )

    def begin(id: str) -> dict[str, Any]:
        return {"refers": id if studies.exists(store, "regress", id) else regress.begin(store, gate, id).id}

    return Prepared(planned=_gate(gate, 0), reserve=lambda: studies.reserve(store, "regress"), begin=begin)


def _gate(gate: GateRecord, spent: int) -> Planned:
    runs = gate.rule.looks * gate.rule.per_look
    most = max(0, runs * whole_budget(from_record(gate.config)) - spent)
    return Planned(target=gate.target, change=[f"as good as {gate.baseline}: {gate.rule.outcome}"], max_env_steps=most, runs=runs)


def _runs(study: Sensitivity) -> int:
    return (len(study.arms) + 1) * len(study.seeds)


def _varied(study: Sensitivity, spent: int) -> int:
    """Env steps that a study can still make: every run of every config to its last rollout."""
    return max(0, sum(whole_budget(config) for config in cells(study).values()) * len(study.seeds) - spent)


PREPARE: Final[dict[str, Callable[[Any], Prepared]]] = {
    "training": _training,
    "trial": _trial,
    "race": _race,
    "optimize": _optimize,
    "sensitivity": _sensitivity,
    "regress": _regress,
}


def resumed_plan(job: Job, store: Store) -> tuple[TrainPlan, Group, list[Run]]:
    """What a training's process carries out: the plan, the group and the runs that are not finished."""
    group = store.group(str(job.refers))
    runs = [run for run in group.runs if run.id in job.runs and run.status.state != "finished"]
    again = [run for run in runs if run.checkpoints or run.status.env_steps or run.status.resumes]
    asked = TrainRequest(**{**job.request, "runs_dir": store.root})
    return TrainPlan(asked, resumed=runs if again else []), group, runs

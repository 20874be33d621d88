"""How much each number of a config matters: planning, carrying out and reporting a study."""

import operator
from collections.abc import Callable, Sequence
from pathlib import Path

from pydantic import Field

from rlclinic import trust
from rlclinic.actions import Argument
from rlclinic.config import Config, files, set_values
from rlclinic.errors import NotFound, UsageError
from rlclinic.launch.batch import Progress
from rlclinic.ops.train.plan import check_data, check_installed
from rlclinic.ops.treat.requests import SensitivityRequest
from rlclinic.report import sensitivity
from rlclinic.report.models import Result
from rlclinic.runs import env_code, history, selector, studies
from rlclinic.runs.record import Checkpoint, Group
from rlclinic.runs.store import Store
from rlclinic.treatment.sensitivity import study
from rlclinic.treatment.sensitivity.study import Sensitivity


class SensitivityPlan(Result):
    """What a study would train, before anything is spent."""

    study: Sensitivity
    runs: int
    max_env_steps: int
    seconds: float | None
    """How long it takes at most on this machine, from the speed of the group; None where that is unknown."""
    notes: list[str] = Field(default_factory=list, exclude_if=operator.not_)
    """What has changed in the files of the group's own environment since it was trained."""


class SensitivityReport(Result):
    """A finished study, and where its page lies."""

    study: Sensitivity
    ranking: list[tuple[str, float]]
    files: list[str]


def plan(request: SensitivityRequest) -> SensitivityPlan:
    """What a study of a group or of ENV:VARIANT would train."""
    store = Store(request.runs_dir)
    config, speed = resolve(store, request.target, request.changes)
    if request.terms and config.env.log_terms is None:
        config = config.model_copy(update={"env": config.env.model_copy(update={"log_terms": _find_terms(store, request.target)})})
    if request.terms and request.truth is None:
        _check_success(store, request.target)
    planned = study.plan(store, request.target, config, request.scope)
    runs = (len(planned.arms) + 1) * len(planned.seeds)
    return SensitivityPlan(
        study=planned,
        runs=runs,
        max_env_steps=planned.max_env_steps,
        seconds=None if speed is None else planned.max_env_steps / speed,
        notes=describe_changes(store, request.target, config),
    )


def run(
    planned: SensitivityPlan,
    runs_dir: Path = Path("runs"),
    *,
    watch: Callable[[Progress], None] | None = None,
    stop: Callable[[], bool] | None = None,
    cores: int | None = None,
) -> SensitivityReport:
    """Carry out a plan; Interrupted if `stop` says so."""
    store = Store(runs_dir)
    return _report(store, study.carry_out(store, study.start(store, planned.study), watch=watch, stop=stop, cores=cores))


def resume(
    id: str = "@last",
    runs_dir: Path = Path("runs"),
    *,
    watch: Callable[[Progress], None] | None = None,
    stop: Callable[[], bool] | None = None,
    cores: int | None = None,
) -> SensitivityReport:
    """Go on with a study that was interrupted or killed; show one that has ended."""
    store = Store(runs_dir)
    return _report(store, study.carry_out(store, study.load(store, id), watch=watch, stop=stop, cores=cores))


def _report(store: Store, found: Sensitivity) -> SensitivityReport:
    page = studies.write_report(store, "sensitivity", found.id, "report.html", sensitivity.page(found))
    picture = studies.write_report(store, "sensitivity", found.id, "tornado.svg", sensitivity.svg(found))
    return SensitivityReport(study=found, ranking=found.ranking, files=[str(page), str(picture)])


def resolve(store: Store, target: str, changes: Sequence[str] = ()) -> tuple[Config, float | None]:
    """The config that a group, a run or ENV:VARIANT names, and the env steps per second that its runs made on this machine.

    NotFound for an environment that does not exist: before anything is spent, not in the first process.
    """
    config, speed = _named(store, target, changes)
    check_installed()
    files.check_environment(config.env.id)
    trust.check_envs([config.env])
    check_data([config])
    return config, speed


def describe_changes(store: Store, target: str, config: Config) -> list[str]:
    """What has changed in the own environment of the group or run that a study begins with, where it trains in the same one."""
    if not _names_run(target):
        return []
    try:
        found = store.resolve(target)
    except NotFound:
        return []
    owner = found.run if isinstance(found, Checkpoint) else found
    if config.env.id != owner.config.env.id:
        return []
    changed = env_code.describe_changes(owner, "all runs train in the environment as it is today; what its runs did is no measure of them")
    return [changed] if changed else []


def _find_terms(store: Store, target: str) -> tuple[str, ...]:
    """The terms that the runs of a target have logged: found in the environment when they began, and in no setting."""
    if not _names_run(target):
        return ()
    found = store.resolve(target)
    owner = found.run if isinstance(found, Checkpoint) else found
    run = owner.runs[0] if isinstance(owner, Group) else owner
    names = [column.split("/") for column in history.of_run(run).series if column.startswith("train/terms/")]
    return tuple(dict.fromkeys(parts[2] for parts in names if parts[3] == "return"))


def _check_success(store: Store, target: str) -> None:
    """UsageError where runs that are named reported no success: all weights would be judged by the same 0."""
    if not _names_run(target):
        return
    found = store.resolve(target)
    owner = found.run if isinstance(found, Checkpoint) else found
    logged = history.of_run(owner.runs[0] if isinstance(owner, Group) else owner).series
    if not any(name.endswith("/roll/success_rate") for name in logged):
        known = [name for name in logged if name.startswith("train/info/")] or ["train/info/NAME/last"]
        raise UsageError(
            f"{target} reported no success.\n  Nothing would tell whether a weight does the task good: the return changes with it.\n"
            '  Report info["is_success"], or type what the task is measured by: ',
            Argument("truth", known[-1]),
        )


def _names_run(target: str) -> bool:
    return target.startswith("@") or selector.has_slash(target) or bool(selector.ID.fullmatch(target))


def _named(store: Store, target: str, changes: Sequence[str]) -> tuple[Config, float | None]:
    if _names_run(target):
        try:
            found = store.resolve(target)
        except NotFound:
            if target.startswith("@"):
                raise
        else:
            owner = found.run if isinstance(found, Checkpoint) else found
            runs = owner.runs if isinstance(owner, Group) else [owner]
            speeds = [speed for run in runs if (speed := run.status.fps)]
            config = set_values(owner.config, list(changes))
            if config.env.id == owner.config.env.id:
                env_code.check_found(owner)
            trust.approve_new(owner.config.env, config.env)
            return config, sum(speeds) if speeds else None
    config = files.load(target, list(changes)).config
    trust.approve(*trust.names_in(config.env))
    return config, None

"""Training from start to verdict: processes are started, watched, stopped by a signal, and the group is reported on."""

import signal
from collections.abc import Callable, Sequence
from typing import Final, TypedDict

from rlclinic import trust
from rlclinic.actions import Action, Argument
from rlclinic.diagnosis.findings import Finding, Severity
from rlclinic.errors import ConfigError, NotFound, RlclinicError
from rlclinic.launch import batch, places
from rlclinic.ops.diagnose import diagnose, lint, run_environments, write_reports
from rlclinic.ops.status.status import Pace, observe
from rlclinic.ops.train import signals
from rlclinic.ops.train.machine import has_gpu, usable_cores
from rlclinic.ops.train.plan import TrainPlan
from rlclinic.report.group import describe_group, runs_dir_of
from rlclinic.report.models import LiveGroup, TrainResult
from rlclinic.runs.record import Group, Run
from rlclinic.runs.store import Store

LINT_SECONDS: Final = 5.0
"""How long an own environment may be looked at before it is trained on: three of them are for starting Python."""
MOST_FINDINGS: Final = 6
TrainingWatch = Callable[[LiveGroup], None]
Say = Callable[[str], None]


class Placement(TypedDict):
    """Where runs train."""

    processes: int
    device: str
    resume: bool


def train(plan: TrainPlan, watch: TrainingWatch | None = None, say: Say | None = None, *, restarts: int = 0) -> TrainResult:
    """Carry out a plan. `watch` is shown the group several times a second, `say` gets remarks.

    SIGINT and SIGTERM: the first lets every run write a checkpoint and stop, the second kills them. `restarts`: how often runs whose
    process was killed are taken up again; a person who trains is told instead, and may resume.
    """
    with signals.caught_signals() as caught:
        findings = examine_own_environment(plan, say)
        group, runs = create_group(plan)
        if plan.request.detach:
            batch.start(runs, detach=True, **_place(plan, runs))
            names = [run.id for run in runs]
            result = TrainResult(group=group.id, runs=names, detached=True, signal=None, failed=[], report=None, files=[])
        else:
            result = _train_runs(plan, group, runs, caught, watch, say, restarts)
        return result.model_copy(update={"env_findings": findings})


def examine_own_environment(plan: TrainPlan, say: Say | None = None) -> tuple[Finding, ...]:
    """What is wrong with an environment of the user's own, where its code is new: seen in a process of its own, before anything is spent.

    Training goes on whatever is found, and does not notice: it makes its own copies, with its own seeds. What cannot even be imported
    (NotFound, ConfigError) would fail there just the same, and is told before a group is made.
    """
    if not plan.unseen_code or not plan.request.lint_env:
        return ()
    config = (plan.configs or [run.config for run in plan.resumed])[0].env
    tell = say or (lambda text: None)
    try:
        findings = lint.lint_env(config.id, dict(config.kwargs), seconds=LINT_SECONDS).lint.findings
    except (NotFound, ConfigError):
        raise
    except RlclinicError as error:
        tell(f"{config.id} could not be examined before training: {str(error).splitlines()[0]}")
        return ()
    for finding in findings[:MOST_FINDINGS]:
        tell(f"{finding.severity.value.upper():<8} {finding.rule} {finding.name}: {finding.text}")
        if finding.severity is Severity.HIGH and finding.remedies:
            tell(f"         fix: {finding.remedies[0].text}")
    if findings:
        more = len(findings) - MOST_FINDINGS
        tell(f"         {f'{more} more: ' if more > 0 else ''}{Action('lint', env=config.id)}; not to be asked: {Argument('no_lint_env')}")
    return findings


def carry_out(
    plan: TrainPlan,
    group: Group,
    runs: Sequence[Run],
    watch: TrainingWatch | None = None,
    say: Say | None = None,
    *,
    restarts: int = 0,
) -> TrainResult:
    """Train runs of a group that was created before (`create_group`), to the report."""
    with signals.caught_signals() as caught:
        return _train_runs(plan, group, runs, caught, watch, say, restarts)


def _train_runs(
    plan: TrainPlan,
    group: Group,
    runs: Sequence[Run],
    caught: list[signal.Signals],
    watch: TrainingWatch | None,
    say: Say | None,
    restarts: int,
) -> TrainResult:
    observer = None if watch is None else _Observer(group, watch, say)
    batch.train_runs(runs, restarts=restarts, stop=lambda: len(caught), observe=observer, say=say, **_place(plan, runs))
    if watch is not None:
        watch(observe(group))
    return reported(plan, group, runs, caught[0].name if caught else None, say)


def _place(plan: TrainPlan, runs: Sequence[Run]) -> Placement:
    """Where the runs train, and whether they go on from their checkpoints."""
    config = runs[0].config
    return {
        "processes": plan.request.jobs or max(1, places.count_cores(usable_cores()) // config.run.cores),
        "device": {"auto": "cuda" if places.have_gpu(has_gpu()) else "cpu"}.get(config.run.device, config.run.device),
        "resume": bool(plan.resumed),
    }


class _Observer:
    """Shows a group to whoever watches, and says once what was decided about its engine."""

    def __init__(self, group: Group, watch: TrainingWatch, say: Say | None) -> None:
        self._group, self._watch, self._say = group, watch, say
        self._pace, self._engine_said = Pace(), say is None

    def __call__(self) -> None:
        self._say_engine()
        self._watch(self._pace(observe(self._group)))

    def _say_engine(self) -> None:
        """What was decided, once it is: only where it was left to be decided."""
        run = self._group.runs[0]
        if self._engine_said or self._say is None or "auto" not in (run.config.run.engine, run.config.run.device):
            return
        decided = Run(run.path).record.get("engine")  # read anew: it is added when training starts
        if isinstance(decided, dict):
            self._engine_said = True
            self._say(f"engine: {decided.get('kind')} on {decided.get('device')} ({decided.get('why')})")


def reported(plan: TrainPlan, group: Group, runs: Sequence[Run], ended_by: str | None = None, say: Say | None = None) -> TrainResult:
    """How runs that have ended came out: diagnosed, and reported on where the plan asks for it.

    An environment of the user's own is looked at where something is wrong, as `diagnose` does it: both give the same answer. Nobody
    who has stopped a training waits for that.
    """
    diagnosis = diagnose.examine_group(group)
    if diagnosis is not None and not diagnosis.diagnosis.causes[0].calm and plan.request.lint_env and ended_by is None:
        config = group.runs[0].config.env
        if say is not None and trust.names_code(config.id):
            say(f"looking at {config.id}: what is wrong may lie there")
        diagnosis = diagnose.examine_group(group, run_environments.look_at_own(group))
    report, files = write_reports.write_reports(group, diagnosis) if plan.request.report else (describe_group(group), [])
    return TrainResult(
        group=group.id,
        runs=[run.id for run in runs],
        detached=False,
        signal=ended_by,
        # Queued after all have ended: it could not even be written down that its process had died, as on a full disk.
        failed=[run.id for run in runs if run.status.state in ("failed", "crashed", "queued")],
        report=report,
        files=[str(file) for file in files],
        finding=None if diagnosis is None else diagnose.top_finding(diagnosis, runs_dir_of(group)),
    )


def create_group(plan: TrainPlan, gid: str | None = None) -> tuple[Group, list[Run]]:
    """The group to train: created here (as `gid`, where that was reserved), or the one that the resumed runs belong to."""
    store = Store(plan.request.runs_dir)
    if plan.resumed:
        return store.group(plan.resumed[0].id), plan.resumed
    known = {"start": plan.start, "repeats": plan.repeats, "trial": plan.study}
    extra = {"origins": plan.origins, **{key: value for key, value in known.items() if value}}
    group = store.create_group(
        plan.configs,
        parent=plan.parent,
        parents=plan.parents or None,
        prescription=plan.prescription,
        name=plan.request.name,
        extra=extra,
        gid=gid,
    )
    return group, group.runs

"""Training from start to verdict: processes are started, watched, stopped by a signal, and the group is reported on."""

import signal
import time
from collections.abc import Callable, Sequence

from rlclinic.launch import local
from rlclinic.launch.plan import plan as plan_cohorts
from rlclinic.ops.diagnose import diagnose, write_reports
from rlclinic.ops.status.status import Pace, observe
from rlclinic.ops.train import signals
from rlclinic.ops.train.machine import has_gpu, usable_cores
from rlclinic.ops.train.plan import TrainPlan
from rlclinic.report.group import describe_group, runs_dir_flag
from rlclinic.report.models import LiveGroup, TrainResult
from rlclinic.runs.record import Group, Run
from rlclinic.runs.store import Store

OBSERVE_SECONDS = 0.5
Watch = Callable[[LiveGroup], None]
Say = Callable[[str], None]


def train(plan: TrainPlan, watch: Watch | None = None, say: Say | None = None) -> TrainResult:
    """Carry out a plan. `watch` is shown the group several times a second, `say` gets remarks.

    SIGINT and SIGTERM: the first lets every run write a checkpoint and stop, the second kills them.
    """
    with signals.caught_signals() as caught:
        group, runs = create_group(plan)
        if plan.request.detach:
            _launch(plan, runs)
            return TrainResult(group=group.id, runs=[run.id for run in runs], detached=True, signal=None, failed=[], report=None, files=[])
        return _carried_out(plan, group, runs, caught, watch, say)


def carry_out(plan: TrainPlan, group: Group, runs: Sequence[Run], watch: Watch | None = None, say: Say | None = None) -> TrainResult:
    """Train runs of a group that was created before (`create_group`), to the report."""
    with signals.caught_signals() as caught:
        return _carried_out(plan, group, runs, caught, watch, say)


def _carried_out(
    plan: TrainPlan, group: Group, runs: Sequence[Run], caught: list[signal.Signals], watch: Watch | None, say: Say | None
) -> TrainResult:
    launch = _launch(plan, runs)
    launch.wait(tick=_Tick(launch, group, caught, watch, say or (lambda text: None)))
    if watch is not None:
        watch(observe(group))
    return reported(plan, group, runs, caught[0].name if caught else None)


def reported(plan: TrainPlan, group: Group, runs: Sequence[Run], ended_by: str | None = None) -> TrainResult:
    """How runs that have ended came out: diagnosed, and reported on where the plan asks for it."""
    found = diagnose.examine_group(group)
    report, files = write_reports.write_reports(group, found) if plan.request.report else (describe_group(group), [])
    return TrainResult(
        group=group.id,
        runs=[run.id for run in runs],
        detached=False,
        signal=ended_by,
        failed=[run.id for run in runs if run.status.state in ("failed", "crashed")],
        report=report,
        files=[str(file) for file in files],
        finding=None if found is None else diagnose.top_finding(found, runs_dir_flag(group)),
    )


def create_group(plan: TrainPlan) -> tuple[Group, list[Run]]:
    """The group to train: created here, or the one that the resumed runs belong to."""
    store = Store(plan.request.runs_dir)
    if plan.resumed:
        return store.group(plan.resumed[0].id), plan.resumed
    extra = {"origins": plan.origins, **{key: value for key, value in (("start", plan.start), ("repeats", plan.repeats)) if value}}
    group = store.create_group(
        plan.configs,
        parent=plan.parent,
        parents=plan.parents or None,
        prescription=plan.prescription,
        name=plan.request.name,
        extra=extra,
    )
    return group, group.runs


def _launch(plan: TrainPlan, runs: Sequence[Run]) -> local.Launch:
    config = runs[0].config
    cores = plan.request.jobs or max(1, usable_cores() // config.run.threads)
    device = {"auto": "cuda" if has_gpu() else "cpu"}.get(config.run.device, config.run.device)
    # Members of a cohort stand at the same env step: a kill may have left some behind, and those train after the others.
    together = sorted(runs, key=_last_step) if plan.resumed else list(runs)
    cohorts = [[together[place].path for place in cohort] for cohort in plan_cohorts([run.config for run in together], cores, device)]
    return local.start(
        cohorts,
        parallel=cores if device == "cpu" else 1,
        resume=bool(plan.resumed),
        detach=plan.request.detach,
        threads=config.run.threads,
    )


def _last_step(run: Run) -> int:
    return next((checkpoint.step for checkpoint in reversed(run.checkpoints) if checkpoint.valid), 0)


class _Tick:
    """What happens between two looks at the processes: signals are obeyed, and the group is shown now and then."""

    def __init__(self, launch: local.Launch, group: Group, caught: list[signal.Signals], watch: Watch | None, say: Say) -> None:
        self._launch, self._group, self._caught, self._watch, self._say = launch, group, caught, watch, say
        self._next, self._pace, self._engine_said = 0.0, Pace(), False

    def __call__(self) -> None:
        if len(self._caught) > 1:
            self._say("aborting: what came after the last checkpoint is lost")
            self._launch.abort()
            return
        if self._caught and not self._launch.stopping:
            self._say("stopping after a checkpoint; once more aborts")
            self._launch.stop()
        now = time.monotonic()
        if self._watch is not None and now >= self._next:
            self._say_engine()
            self._watch(self._pace(observe(self._group)))
            # With a thousand runs a look takes a while: never spend more than a tenth of the time on it.
            self._next = time.monotonic() + max(OBSERVE_SECONDS, 9 * (time.monotonic() - now))

    def _say_engine(self) -> None:
        """What was decided, once it is: only where it was left to be decided."""
        run = self._group.runs[0]
        if self._engine_said or "auto" not in (run.config.run.engine, run.config.run.device):
            return
        decided = Run(run.path).record.get("engine")  # read anew: it is added when training starts
        if isinstance(decided, dict):
            self._engine_said = True
            self._say(f"engine: {decided.get('kind')} on {decided.get('device')} ({decided.get('why')})")

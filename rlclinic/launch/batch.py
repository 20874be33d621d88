"""The launcher: trains runs to their end, on all cores, whoever asks for it.

`train`, `trial`, `optimize`, `sensitivity`, `regress` and probes all train through `train_runs`:

- runs of one shape share a cohort, cohorts fill the cores, and a run that was interrupted goes on from its last checkpoint;
- a run whose process was killed (by the kernel, or by a person) is taken up again, at most RESTARTS times: that says nothing about its
  config. A run that failed by itself is not;
- somebody may ask to stop: once lets every run write a checkpoint, twice does not wait for it;
- between two looks at the processes a callback sees how it goes: it shows progress, or stops runs that cannot win any more.

A `Study` trains configs as groups that are found again by their labels. One that was killed goes on with the same call: what has ended
is not trained again.
"""

import json
import math
import time
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

from rlclinic import trust
from rlclinic.config import Config
from rlclinic.errors import RunError
from rlclinic.launch import local, places
from rlclinic.launch.plan import plan
from rlclinic.runs import disk, lease, status_file, studies
from rlclinic.runs.object_store import artifacts
from rlclinic.runs.record import Group, Run
from rlclinic.runs.store import Store

OBSERVE_SECONDS: Final = 0.5
RESTARTS: Final = 2
"""How often a run whose process was killed is taken up again before it counts as failed."""
KILLED: Final = (
    *("killed by", "out of memory", "aborted", "stopped before"),
    *("the disk is full", "your quota is used up", "No space left on device", "Disk quota exceeded"),
)
"""How the reason of a failure begins, or what is in it, where the machine did it and not the config."""
LOST: Final = ("killed by a cut", "killed by the loss of its Ray worker", lease.CUT_OFF)
"""How it begins where nothing of the run is to blame, not even what it takes of a machine: the way to it was lost."""
SMALL_COHORT, LARGE_COHORT = 4, 8
"""Members of a cohort, at least and at most, where runs end at their threshold: smaller ones end sooner."""
_PRUNED: Final = "pruned.json"

StopRequests = Callable[[], int]
"""How often somebody has asked to stop: once lets runs write a checkpoint, twice does not wait for it."""


class Interrupted(RunError):
    """Somebody asked to stop: the runs have checkpoints, and what they belong to can be resumed."""


class Killed(RunError):
    """The machine killed runs each time that they were started: that says nothing about their config, and nothing is judged by it."""


# ── runs ──


def train_runs(
    runs: Sequence[Run],
    *,
    processes: int,
    members: int | None = None,
    device: str | None = None,
    resume: bool | None = None,
    restarts: int = RESTARTS,
    stop: StopRequests | None = None,
    observe: Callable[[], None] | None = None,
    given_up: Callable[[], Collection[str]] | None = None,
    say: Callable[[str], None] | None = None,
) -> bool:
    """Train runs until all of them have ended; False if somebody asked to stop before.

    So many processes at a time, of at most `members` runs each. `observe` is called a few times a second. `given_up` names runs that
    are not to be taken up again; `say` gets what is done about a request to stop.
    """
    waiting = list(runs)
    starts = dict.fromkeys((run.id for run in waiting), 0)
    with artifacts.uploading(runs):
        while waiting:
            before = {run.id: _last_process(run) for run in waiting}
            launch = start(waiting, processes=processes, members=members, device=device, resume=resume)
            launch.wait(tick=_Tick(launch, stop, observe, say))
            if launch.stopping:
                return False
            left_out = given_up() if given_up is not None else ()
            # A run that still waited its turn in a process that was killed has used up nothing, unless nobody in it got further.
            begun = [run for run in waiting if _last_process(run) != before[run.id]] or waiting
            for run in begun:
                starts[run.id] += 1
            waiting = [run for run in waiting if is_open(run) and run.id not in left_out and starts[run.id] <= restarts]
            resume = True
    return True


def _last_process(run: Run) -> tuple[int | None, int | None, int]:
    """Which process wrote a run last, and how often it was taken up."""
    status = status_file.raw(run.path)
    return status.pid, status.process_started, status.resumes


def is_open(run: Run) -> bool:
    """Whether a run still has something to train: it has not finished, nor failed by its own fault."""
    status = run.status
    return status.state != "finished" and (status.state != "failed" or any(word in (status.reason or "") for word in KILLED))


def is_lost(run: Run) -> bool:
    """Whether a run ended only because its node, or the way to it, was lost."""
    status = run.status
    return status.state in ("failed", "stopped") and (status.reason or "").startswith(LOST)


def check_ended(runs: Sequence[Run], what: str, *go_on: str) -> None:
    """Killed if a run still has something to train after all restarts: it would be counted as its config's failure."""
    left = [run for run in runs if is_open(run)]
    if left:
        why = left[0].status.reason or "no reason was recorded"
        raise Killed(
            f"{len(left)} of {len(runs)} runs of {what} were killed each time that they were started: {why}\n"
            "  They are not counted as failures of their config, and without them there is no verdict.",
            *go_on,
        )


def start(
    runs: Sequence[Run],
    *,
    processes: int,
    members: int | None = None,
    device: str | None = None,
    resume: bool | None = None,
    detach: bool = False,
) -> local.Launch:
    """Start runs as cohorts. `resume`: from their last checkpoints (None: if any of them has trained before)."""
    trust.check_envs(run.config.env for run in runs)
    if resume is None:
        resume = any(run.status.env_steps or run.status.resumes or run.status.state != "queued" for run in runs)
    # Members of a cohort stand at the same env step: a kill may have left some behind, and those train after the others.
    together = sorted(runs, key=_last_step) if resume else list(runs)
    configs = [run.config for run in together]
    device = device or configs[0].run.device
    gpus = 1 if device == "cpu" else places.count_gpus()
    cohorts = split_into_cohorts(configs, processes, members, device, gpus)
    return places.start(
        [[together[place].path for place in cohort] for cohort in cohorts],
        parallel=processes if device == "cpu" else gpus,
        resume=resume,
        detach=detach,
        threads=configs[0].run.threads,
        device=device,
    )


def _last_step(run: Run) -> int:
    return next((checkpoint.step for checkpoint in reversed(run.checkpoints) if checkpoint.valid), 0)


class _Tick:
    """Between two looks at the processes: somebody may want to stop, or to see how it goes."""

    def __init__(
        self,
        launch: local.Launch,
        stop: StopRequests | None,
        observe: Callable[[], None] | None,
        say: Callable[[str], None] | None,
    ) -> None:
        self._launch, self._stop, self._observe, self._say = launch, stop, observe, say or (lambda text: None)
        self._next = 0.0

    def __call__(self) -> None:
        requests = 0 if self._stop is None else int(self._stop())
        if requests > 1:
            self._say("aborting: what came after the last checkpoint is lost")
            self._launch.abort()
            return
        if requests and not self._launch.stopping:
            self._say("stopping after a checkpoint; once more aborts")
            self._launch.stop()
        now = time.monotonic()
        if self._observe is not None and now >= self._next:
            self._observe()
            # With a thousand runs this takes a while: never spend more than a tenth of the time on it.
            self._next = time.monotonic() + max(OBSERVE_SECONDS, 9 * (time.monotonic() - now))


def split_into_cohorts(
    configs: Sequence[Config], processes: int, members: int | None = None, device: str = "cpu", gpus: int = 1
) -> list[list[int]]:
    """Places in `configs`, one list a cohort: at most `members` in each, and one for every process at least."""
    share = math.ceil(len(configs) / processes)
    return plan(configs, math.ceil(len(configs) / min(share, members or share)), device, gpus)


def choose_members(configs: Sequence[Config], cores: int) -> int:
    """Members of a cohort: as many as give every core one, but fewer where runs end at their threshold."""
    share = math.ceil(len(configs) / cores)
    return min(share, LARGE_COHORT, max(SMALL_COHORT, math.ceil(share / 2))) if configs[0].run.stop_at_threshold else share


def count_processes(configs: Sequence[Config], cores: int) -> int:
    """Processes that fit on so many cores, by the cores that each takes."""
    return max(1, cores // configs[0].run.cores)


def forget_half_made(store: Store, id: str) -> None:
    """Remove runs of a trial or study whose group was never finished: a kill came between; they are made again."""
    known = {run.id for group in studies.groups(store, id).values() for run in group.runs}
    for run in store.runs():
        if run.record.get("trial") == id and run.id not in known and run.group is None:
            store.remove(run)


# ── studies ──


@dataclass(frozen=True)
class Progress:
    """How far a study is."""

    study: str
    runs: int
    ended: int
    solved: int
    env_steps: int
    max_env_steps: int
    seconds: float


@dataclass
class Study:
    """What every batch of a study needs to know."""

    store: Store
    kind: studies.Kind
    id: str
    cores: int = field(default_factory=places.count_cores)
    watch: Callable[[Progress], None] | None = None
    stop: StopRequests | None = None

    @property
    def pruned(self) -> set[str]:
        """Runs that were stopped for good, because they could not win any more."""
        record = disk.read_json(studies.folder(self.store, self.kind, self.id) / _PRUNED) or {}
        return set(record.get("runs", ()))

    def prune(self, runs: Sequence[Run]) -> None:
        """Stop runs for good. Written down first: a kill must not bring them back."""
        known = self.pruned
        named = [run for run in runs if run.id not in known]
        if not named:
            return
        everything = sorted(known | {run.id for run in named})
        studies.write_report(self.store, self.kind, self.id, _PRUNED, json.dumps({"runs": everything}) + "\n")
        for run in named:
            run.ask(stop=True)

    def show(self, groups: Mapping[str, Group], began: float) -> None:
        """Tell whoever watches how far it is."""
        if self.watch is None:
            return
        states = [run.status for group in groups.values() for run in group.runs]
        self.watch(
            Progress(
                study=self.id,
                runs=len(states),
                ended=sum(not state.live for state in states),
                solved=sum(state.threshold_reached_at is not None for state in states),
                env_steps=sum(state.env_steps for state in states),
                max_env_steps=sum(state.max_env_steps or 0 for state in states),
                seconds=time.monotonic() - began,
            )
        )


Pruner = Callable[[Mapping[str, Group]], Sequence[Run]]
"""Looks at groups while they train, and names the runs that may stop."""


def train(
    study: Study, cells: Mapping[str, Config], seeds: Sequence[int], pruner: Pruner | None = None, parents: Sequence[str] = ()
) -> dict[str, Group]:
    """Train every config on every seed to its end, and give the groups by name; Interrupted if somebody stops it.

    `parents` are RUN@STEP, one for each seed: the runs are then forks that go on from there.
    """
    groups = _find_or_create(study, cells, seeds, parents)
    began = time.monotonic()

    def observe() -> None:
        if pruner is not None:
            study.prune(pruner(groups))
        study.show(groups, began)

    pruned = study.pruned
    runs = [run for group in groups.values() for run in group.runs if run.id not in pruned and is_open(run)]
    configs = [run.config for run in runs]
    if runs and not train_runs(
        runs,
        processes=count_processes(configs, study.cores),
        members=choose_members(configs, study.cores),
        stop=study.stop,
        observe=observe,
        given_up=lambda: study.pruned,
    ):
        raise Interrupted(f"study {study.id} was interrupted; its runs have checkpoints, and the same command goes on with it.")
    study.show(groups, began)
    return groups


def _find_or_create(study: Study, cells: Mapping[str, Config], seeds: Sequence[int], parents: Sequence[str]) -> dict[str, Group]:
    known = studies.groups(study.store, study.id)
    extra = {"trial": study.id, **({"start": "fork"} if parents else {})}
    groups = {}
    for name, config in cells.items():
        label = f"{study.id} {name}"
        configs = [config.model_copy(update={"seed": seed}) for seed in seeds]
        groups[name] = known.get(label) or study.store.create_group(
            configs, name=label, extra=extra, parents=list(parents) or None, parent=parents[0] if parents else None
        )
    return groups

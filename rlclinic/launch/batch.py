"""Training many configs side by side as one study: groups are found or made, cohorts fill the cores, hopeless runs are stopped.

Configs that differ in numbers only share a cohort, so a study of thirty learning rates is one program. A study that was killed
goes on with the same call: its groups are known by their labels, and what has ended is not trained again.
"""

import json
import math
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

from rlclinic.config import Config
from rlclinic.errors import RunError
from rlclinic.launch import local
from rlclinic.launch.plan import plan as plan_cohorts
from rlclinic.runs import disk, studies
from rlclinic.runs.record import Group, Run
from rlclinic.runs.store import Store

WATCH_SECONDS: Final = 0.5
RESTARTS: Final = 2
"""How often a run whose process was killed is taken up again before it counts as failed."""
_SMALL_COHORT: Final = 4
_ENDED: Final = frozenset({"finished", "failed"})
_PRUNED: Final = "pruned.json"


class Interrupted(RunError):
    """Somebody asked the study to stop: its runs have checkpoints, and it can be resumed."""


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
    cores: int = field(default_factory=local.available_cores)
    watch: Callable[[Progress], None] | None = None
    stop: Callable[[], bool] | None = None

    @property
    def pruned(self) -> set[str]:
        """Runs that were stopped for good, because they could not win any more."""
        found = disk.read_json(studies.folder(self.store, self.kind, self.id) / _PRUNED) or {}
        return set(found.get("runs", ()))

    def prune(self, runs: Sequence[Run]) -> None:
        """Stop runs for good. Written down first: a kill must not bring them back."""
        everything = sorted(self.pruned | {run.id for run in runs})
        studies.write_report(self.store, self.kind, self.id, _PRUNED, json.dumps({"runs": everything}) + "\n")
        for run in runs:
            run.ask(stop=True)

    def stopping(self) -> bool:
        """Whether somebody wants the study to stop."""
        return self.stop is not None and self.stop()


Judge = Callable[[Mapping[str, Group]], Sequence[Run]]
"""Looks at groups while they train, and names the runs that may stop."""


def train(
    study: Study, cells: Mapping[str, Config], seeds: Sequence[int], judge: Judge | None = None, parents: Sequence[str] = ()
) -> dict[str, Group]:
    """Train every config on every seed to its end, and give the groups by name; Interrupted if somebody stops it.

    `parents` are RUN@STEP, one for each seed: the runs are then forks that go on from there.
    """
    groups = _groups(study, cells, seeds, parents)
    began = time.monotonic()
    tick = _Tick(study, groups, judge, began)
    for _ in range(RESTARTS + 1):
        pruned = study.pruned
        runs = [run for group in groups.values() for run in group.runs if run.id not in pruned and run.status.state not in _ENDED]
        if not runs:
            break
        tick.launch = _launch(study, runs)
        tick.launch.wait(tick=tick)
        if tick.launch.stopping:
            raise Interrupted(f"study {study.id} was interrupted; its runs have checkpoints, and the same command goes on with it.")
    tick.show()
    return groups


def _groups(study: Study, cells: Mapping[str, Config], seeds: Sequence[int], parents: Sequence[str]) -> dict[str, Group]:
    known = studies.groups(study.store, study.id)
    extra = {"trial": study.id, **({"start": "fork"} if parents else {})}
    found = {}
    for name, config in cells.items():
        label = f"{study.id} {name}"
        configs = [config.model_copy(update={"seed": seed}) for seed in seeds]
        found[name] = known.get(label) or study.store.create_group(
            configs, name=label, extra=extra, parents=list(parents) or None, parent=parents[0] if parents else None
        )
    return found


def forget_half_made(study: Study) -> None:
    """Remove runs of this study whose group was never finished: a kill came between; they are made again."""
    known = {run.id for group in studies.groups(study.store, study.id).values() for run in group.runs}
    for run in study.store.runs():
        if run.record.get("trial") == study.id and run.id not in known and run.group is None:
            study.store.remove(run)


def _launch(study: Study, runs: list[Run]) -> local.Launch:
    again = any(run.status.env_steps or run.status.resumes for run in runs)
    runs = sorted(runs, key=lambda run: run.status.env_steps) if again else runs
    configs = [run.config for run in runs]
    device, threads = configs[0].run.device, configs[0].run.threads
    share = math.ceil(len(configs) / study.cores)
    if configs[0].run.stop_at_threshold:
        # Smaller cohorts end sooner where runs end at their threshold.
        share = max(_SMALL_COHORT, min(share, 2 * _SMALL_COHORT))
    cohorts = plan_cohorts(configs, math.ceil(len(configs) / share), device)
    parallel = max(1, study.cores // threads) if device == "cpu" else 1
    return local.start([[runs[place].path for place in cohort] for cohort in cohorts], parallel=parallel, resume=again, threads=threads)


class _Tick:
    """Between two looks at the processes: somebody may want to stop, to see how it goes, or to prune."""

    def __init__(self, study: Study, groups: Mapping[str, Group], judge: Judge | None, began: float) -> None:
        self._study, self._groups, self._judge, self._began = study, groups, judge, began
        self._next = 0.0
        self.launch: local.Launch | None = None
        self._pruned = study.pruned

    def __call__(self) -> None:
        if self._study.stopping() and self.launch is not None and not self.launch.stopping:
            self.launch.stop()
        now = time.monotonic()
        if now < self._next:
            return
        named = self._judge(self._groups) if self._judge is not None else ()
        hopeless = [run for run in named if run.id not in self._pruned]
        if hopeless:
            self._pruned |= {run.id for run in hopeless}
            self._study.prune(hopeless)
        self.show()
        # With hundreds of runs a look takes a while: never spend more than a tenth of the time on it.
        self._next = time.monotonic() + max(WATCH_SECONDS, 9 * (time.monotonic() - now))

    def show(self) -> None:
        """Tell whoever watches how far it is."""
        if self._study.watch is None:
            return
        states = [run.status for group in self._groups.values() for run in group.runs]
        self._study.watch(
            Progress(
                study=self._study.id,
                runs=len(states),
                ended=sum(not state.live for state in states),
                solved=sum(state.threshold_reached_at is not None for state in states),
                env_steps=sum(state.env_steps for state in states),
                max_env_steps=sum(state.max_env_steps or 0 for state in states),
                seconds=time.monotonic() - self._began,
            )
        )

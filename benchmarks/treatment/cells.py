"""Sixty sick groups of the diagnosis corpus to be cured, fixed by a hash, and the arms that are trained for each.

Which cells: admitted faults of the corpus' test split that a user made and that a setting can undo. That is every planted
setting except a threshold that no policy can reach, and of the planted environments those that are wrong by a factor or a
bound, which normalizers and RescaleAction undo. Where an environment hides, falsifies or never pays something, no setting
brings the clean return back: there it is only counted whether a prescription says so. Tasks of PPO and A2C; LunarLander is left
out: it is stepped on the CPU, and one cell would cost as much as all others. Of what is left, the sixty cells with the lowest
SHA-256 of their name; formulas were worked out on the fit split, whose tasks are fewer and whose severities are others.

What is prescribed: the diagnosis reads the corpus' recorded runs of the cell, with no shipped YAML in reach, and `prescribe`
has no recorded effects. The first prescription is the first of the list, and one that is advice cures nothing.

Arms, each on the same ten fresh seeds, each with the cell's planted environment except the clean one: the sick config, the
clean config, the prescriptions; and on five of the seeds two baselines: `defaults` (every setting of algorithm, network and
normalizers as the schema has it; copies, budget and task stay) and `lower` (a third of the learning rate). An arm that asks for
more than three times the clean budget is not trained and counts as no cure.
"""

import hashlib
import json
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass, replace
from functools import cache
from typing import Any, Final

from benchmarks.diagnosis import cells as corpus_cells
from benchmarks.diagnosis import corpus, faults
from benchmarks.diagnosis.cells import Cell
from benchmarks.diagnosis.corpus import Group
from benchmarks.diagnosis.faults import Fault
from benchmarks.diagnosis.faulty import EnvFault
from benchmarks.diagnosis.tasks import TASKS
from rlclinic.config import Config, files, from_record, to_record
from rlclinic.config.schedule import Schedule
from rlclinic.diagnosis import engine
from rlclinic.diagnosis.lint.config import choices
from rlclinic.errors import ConfigError
from rlclinic.treatment.prescription.prescribe import make_prescriptions
from rlclinic.treatment.prescription.prescription import Prescription, apply, changed

COUNT: Final = 60
UNDONE: Final = frozenset(fault.cause for fault in faults.SETTINGS) - {"threshold-out-of-reach"} | {
    "reward-scale-too-large",
    "reward-scale-too-small",
    "observation-scale",
    "action-bounds",
}
"""Causes that a setting can undo."""
SEEDS: Final = tuple(range(5_000, 5_010))
BASELINE_SEEDS: Final = 5
MOST_BUDGETS: Final = 3.0
RESCALED: Final = "RescaleAction"
STAGES: Final = (("clean", "control", "rx1"), ("rx2", "rx3"), ("lower", "defaults"))
"""Arms in the order in which they are trained; the last ones are the baselines."""
ARMS: Final = tuple(name for names in STAGES for name in names)


@cache
def treatable(split: str) -> tuple[Group, ...]:
    """Admitted cells whose fault a setting can undo, in the order of their hashes."""
    tasks = {task.id for task in TASKS if not task.costly and task.config.algo.name in ("ppo", "a2c")}
    found = [
        group
        for group in corpus.load()
        if (group.role, group.about["kind"], group.split) == ("fault", "user", split)
        and group.causes[0] in UNDONE
        and group.about["task"] in tasks
    ]
    return tuple(sorted(found, key=lambda group: hashlib.sha256(group.id.encode()).hexdigest()))


def chosen() -> tuple[Group, ...]:
    """The sixty."""
    return treatable("test")[:COUNT]


def incurable() -> tuple[Group, ...]:
    """Admitted faults of the test split, planted bugs too, that no setting can undo."""
    tasks = {task.id for task in TASKS if task.config.algo.name in ("ppo", "a2c")}
    found = [group for group in corpus.load() if group.role == "fault" and group.split == "test" and group.about["task"] in tasks]
    # A group that is one run copied has no cell of its own.
    return tuple(group for group in found if group.causes[0] not in UNDONE and group.id in _cells())


@contextmanager
def no_shipped_files() -> Iterator[None]:
    """As if no environment had a YAML of ours."""
    known, files.available = files.available, lambda *_, **__: []
    for each in (choices._known, choices._usual_budget):
        each.cache_clear()
    try:
        yield
    finally:
        files.available = known
        for each in (choices._known, choices._usual_budget):
            each.cache_clear()


@cache
def _cells() -> dict[str, Cell]:
    return {cell.id: cell for cell in corpus_cells.all_cells()}


def sick(group: Group) -> Cell:
    """The cell whose runs a group of the corpus holds."""
    return _cells()[group.id]


def prescriptions(group: Group) -> list[Prescription]:
    """What is prescribed for a group, without shipped files and recorded effects."""
    with no_shipped_files():
        return make_prescriptions(engine.diagnose(list(group.runs)), list(group.runs), sick(group).config)


# ── arms ──


@dataclass(frozen=True)
class Arm:
    """A config in an environment, to be trained once however many cells ask for it."""

    task: str
    env: EnvFault
    config: Config

    @property
    def key(self) -> str:
        return hashlib.sha256(json.dumps(self.record(), sort_keys=True).encode()).hexdigest()[:12]

    def record(self) -> dict[str, Any]:
        return {"task": self.task, "env": asdict(self.env), "config": to_record(self.config)}

    @staticmethod
    def of(record: dict[str, Any]) -> "Arm":
        env: dict[str, Any] = {name: tuple(value) if isinstance(value, list) else value for name, value in record["env"].items()}
        return Arm(record["task"], EnvFault(**env), from_record(record["config"]))

    def cell(self, key: str, seeds: Sequence[int]) -> Cell:
        """As the corpus' machinery trains it, under the key that its plan has for it: a later schema would give another."""
        task = next(each for each in TASKS if each.id == self.task)
        return Cell(task, (Fault("planned", key, "test", env=self.env),), "test", tuple(seeds), self.config)


def arms(group: Group, given: Sequence[Prescription]) -> dict[str, Arm]:
    """The arms of a cell by name; what cannot be tried, or costs too much, is missing."""
    cell = sick(group)
    made = {"clean": Arm(cell.task.id, EnvFault(), cell.task.config), "control": Arm(cell.task.id, cell.env, cell.config)}
    made |= {f"rx{rx.number}": _arm(cell, apply(cell.config, rx)) for rx in given if rx.trialable}
    for name, config in (("lower", lower(cell.config)), ("defaults", defaults(cell.config))):
        if config is not None:
            made[name] = _arm(cell, config)
    most = MOST_BUDGETS * cell.task.config.run.max_env_steps
    return {name: arm for name, arm in made.items() if arm.config.run.max_env_steps <= most}


def _arm(cell: Cell, config: Config) -> Arm:
    """A treated arm. A wrapper around the user's environment lies outside of what is wrong with it, and here it is inside."""
    if cell.env.bound and any(each.id == RESCALED for each in config.env.wrappers):
        kept = tuple(each for each in config.env.wrappers if each.id != RESCALED)
        env = config.env.model_copy(update={"wrappers": kept})
        return Arm(cell.task.id, replace(cell.env, bound=1.0), config.model_copy(update={"env": env}))
    return Arm(cell.task.id, cell.env, config)


def lower(config: Config) -> Config:
    """A third of the learning rate."""
    rate = config.algo.learning_rate
    value: Any = rate / 3 if not isinstance(rate, Schedule) else {
        **rate.model_dump(exclude_none=True, exclude_defaults=True), "start": rate.start / 3, "end": rate.end / 3,
    }  # fmt: skip
    return changed(config, {"algo.learning_rate": value})


def defaults(config: Config) -> Config | None:
    """Settings of algorithm, network and normalizers as the schema has them; None where the schema refuses them together."""
    record = to_record(config)
    kept = ("id", "n_envs", "kwargs", "native", "workers", "action_mask")
    env = {name: value for name, value in record["env"].items() if name in kept}
    try:
        return from_record({"spec": record["spec"], "env": env, "algo": {"name": record["algo"]["name"]}, "run": record["run"]})
    except ConfigError:
        return None

"""Reading what a run left behind: Run and Group over their folders.

A property reads its file when it is asked for, so that listing a thousand runs costs two small files each, and a folder
that is still being written always reads as of now.
"""

import hashlib
import json
import math
import re
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Protocol

from rlclinic import own_code, plain_files
from rlclinic.actions import Action
from rlclinic.errors import NotFound, RunError
from rlclinic.metrics import EVAL_RETURN
from rlclinic.runs import coerce, control, disk, status_file
from rlclinic.runs.goal import Goal, read_goal
from rlclinic.runs.metrics_file import rows
from rlclinic.runs.status_file import Status

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from rlclinic.config import Config
    from rlclinic.runs.metrics_file.table import Table
    from rlclinic.runs.summary import GroupSummary

_REGISTERED: Final = re.compile(r"[\w.-]+(/[\w.-]+)?-v\d+(:\w+)?")
"""The name of a config whose environment is registered, rather than imported from a module or a file."""
SCHEMA_VERSION: Final = 1
CONFIG: Final = "config.json"
METRICS: Final = "metrics.csv"
LOG: Final = "run.log"
LAUNCH_LOG: Final = "launch.log"
INTERVENTIONS: Final = "interventions.jsonl"
CHECKPOINTS: Final = "checkpoints"
MANIFEST: Final = "manifest.json"
GROUP: Final = "group.json"
EVAL_STD: Final = "val/roll/ep_rew_std"
GROUPS: Final = "@groups"

META: Final = frozenset(
    {"schema_version", "id", "group", "members", "label", "created", "parent", "start", "repeats", "prescription", "trial"}
    | {"origins", "engine", "versions", "random_policy", "source", "corrections", "env_code", "reward_terms", "recorded"}
)
"""Keys of config.json and group.json that are about the run; all others are its settings, nested as in YAML."""


@dataclass(frozen=True, slots=True)
class Checkpoint:
    """One checkpoints/<step>/ folder."""

    run: "Run"
    step: int
    path: Path
    best: bool
    last: bool

    @property
    def valid(self) -> bool:
        """Every file that its manifest names is there, with the bytes that were written."""
        manifest = disk.read_json(self.path / MANIFEST) or {}
        return bool(manifest) and all(_sha256(self.path / name) == wanted for name, wanted in manifest.items())


class Acting(Protocol):
    """A trained policy."""

    env_steps: int

    def act(self, obs: Any, *, deterministic: bool = True, action_mask: Any = None) -> Any:
        """The action for one of the environment's own observations, as `env.step` takes it."""
        ...

    def evaluate(self, episodes: int = 20, *, deterministic: bool = True) -> Any:
        """Whole episodes from the fixed evaluation starts: `.returns`, `.lengths`, `.success`, each [1, episodes]."""
        ...


class Run:
    """One seed of one config, with one folder."""

    def __init__(self, path: Path | str) -> None:
        self.path = Path(path)

    def __repr__(self) -> str:
        return f"Run({str(self.path)!r})"

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Run) and self.path == other.path

    def __hash__(self) -> int:
        return hash(self.path)

    @property
    def id(self) -> str:
        return self.path.name

    # ── what it was asked to do ──

    @cached_property
    def record(self) -> dict[str, Any]:
        """config.json as it stands: the settings, nested as in YAML, and what META names."""
        return _required(self.path, CONFIG, "run")

    @cached_property
    def config(self) -> "Config":
        """The validated config; code of an own environment is named by where it lies today."""
        return _locate_code(_config(self.record), self.record, self.path.parent)

    @property
    def seed(self) -> int:
        return coerce.whole(self.record.get("seed")) or 0

    @property
    def env_id(self) -> str:
        return coerce.one_line(coerce.within(self.record, "env", "id")) or "?"

    @property
    def algo(self) -> str:
        return coerce.one_line(coerce.within(self.record, "algo", "name")) or "?"

    @property
    def name(self) -> str:
        """The config's name: "CartPole-v1:ppo"."""
        return coerce.one_line(self.record.get("name")) or "?"

    @property
    def threshold(self) -> float | None:
        return self.goal.threshold

    @property
    def goal(self) -> Goal:
        """What it is to reach."""
        return read_goal(self.record)

    @property
    def created(self) -> float:
        """Unix seconds."""
        return coerce.real(self.record.get("created")) or 0.0

    @property
    def group_id(self) -> str | None:
        return coerce.text(self.record.get("group"))

    @property
    def group(self) -> "Group | None":
        """The group it belongs to, if that is in the same store."""
        folder = self.path.parent / GROUPS / str(self.group_id)
        return Group(folder) if self.group_id and (folder / GROUP).exists() else None

    @property
    def parent(self) -> str | None:
        """RUN@STEP that it was forked, extended or initialized from."""
        return coerce.text(self.record.get("parent"))

    @property
    def corrections(self) -> frozenset[str]:
        """The corrections of the trainer that it was begun with (see config.corrections); none where it is older than them all."""
        return frozenset(self.record.get("corrections") or ())

    # ── what it did ──

    @property
    def status(self) -> Status:
        """Where it stands now; `crashed` when it says `running` and its process is gone."""
        return status_file.read(self.path)

    @property
    def metrics(self) -> "Table":
        """metrics.csv as it stands now."""
        from rlclinic.runs.metrics_file import table

        return table.read(self.path / METRICS)

    @property
    def latest(self) -> dict[str, float]:
        """The last number in each column of metrics.csv, read from the file's end: for a live view."""
        return rows.latest(self.path / METRICS)

    @property
    def evaluations(self) -> "tuple[NDArray[np.float64], NDArray[np.float64], NDArray[np.float64]]":
        """(env steps, mean return, standard deviation over episodes) of every evaluation so far."""
        metrics = self.metrics
        steps, mean = metrics.series(EVAL_RETURN)
        std = metrics[EVAL_STD][metrics.logged(EVAL_RETURN)] if len(mean) and EVAL_STD in metrics else mean * math.nan
        return steps, mean, std

    @property
    def log(self) -> str:
        """run.log, and what a process that died printed after it."""
        return _text(self.path / LOG)

    @property
    def interventions(self) -> list[dict[str, Any]]:
        """Changes of numbers made while it ran, in order; half a line at the end is left out."""
        return disk.read_json_lines(self.path / INTERVENTIONS)

    @property
    def checkpoints(self) -> list[Checkpoint]:
        """In order of steps. @best and @last are marked."""
        folder = self.path / CHECKPOINTS
        best, last = _target(folder / "@best"), _target(folder / "@last")
        found = [entry for entry in _entries(folder) if entry.name.isdigit()]
        return [
            Checkpoint(self, int(entry.name), entry, best == entry.name, last == entry.name)
            for entry in sorted(found, key=lambda entry: int(entry.name))
        ]

    def checkpoint(self, which: str = "@last") -> Checkpoint:
        """@best, @last or a step. NotFound lists what there is."""
        found = self.checkpoints
        for checkpoint in found:
            if {"@best": checkpoint.best, "@last": checkpoint.last}.get(which, str(checkpoint.step) == which):
                return checkpoint
        there = ", ".join(str(checkpoint.step) for checkpoint in found) or "none"
        raise NotFound(f"run {self.id} has no checkpoint {which}; there: {there}.\n  ", Action("runs checkpoints", self.id))

    def policy(self, which: str = "@best", env: Any = None) -> "Acting":
        """The policy of a checkpoint (@best, @last or a step), to act with. Needs torch.

        env: the class or function that the run was trained with, if it was your own and is not registered with Gymnasium.
        """
        # By name, because imports point down: reading runs must work where training is not installed.
        loaded: Acting = import_module("rlclinic.training.policy").load(self, which, env)
        return loaded

    def ask(self, *, stop: bool = False, checkpoint: bool = False, numbers: dict[str, Any] | None = None) -> None:
        """Leave a request for the process that trains it: read between two iterations."""
        control.ask(self.path, stop=stop, checkpoint=checkpoint, numbers=numbers)

    def write_report(self, name: str, content: str | bytes) -> Path:
        """Replace report.md, diagnosis.json or another result file beside the run."""
        return _write_report(self.path, name, content)


class Group:
    """Runs of one config that differ only in seed: what statistics are made of."""

    def __init__(self, path: Path | str) -> None:
        self.path = Path(path)

    def __repr__(self) -> str:
        return f"Group({str(self.path)!r})"

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Group) and self.path == other.path

    def __hash__(self) -> int:
        return hash(self.path)

    @property
    def id(self) -> str:
        return self.path.name

    @cached_property
    def record(self) -> dict[str, Any]:
        """group.json as it stands: the settings without the seed, the members, and what META names."""
        return _required(self.path, GROUP, "group")

    @cached_property
    def runs(self) -> list[Run]:
        """Its members in order of creation, those that were removed left out."""
        root = self.path.parent.parent
        listed = self.record.get("members")
        members = [member for member in listed if coerce.text(member)] if isinstance(listed, list) else []
        return [Run(root / member) for member in members if (root / member / CONFIG).exists()]

    @cached_property
    def config(self) -> "Config":
        """The validated config, with the first member's seed."""
        return self.runs[0].config if self.runs else _locate_code(_config(self.record), self.record, self.path.parent.parent)

    @property
    def seeds(self) -> list[int]:
        return [run.seed for run in self.runs]

    @property
    def name(self) -> str:
        """The config's name: "CartPole-v1:ppo"."""
        return coerce.one_line(self.record.get("name")) or "?"

    @property
    def label(self) -> str | None:
        """What the user called it, if anything."""
        return coerce.one_line(self.record.get("label"))

    @property
    def env_id(self) -> str:
        return coerce.one_line(coerce.within(self.record, "env", "id")) or "?"

    @property
    def algo(self) -> str:
        return coerce.one_line(coerce.within(self.record, "algo", "name")) or "?"

    @property
    def threshold(self) -> float | None:
        return self.goal.threshold

    @property
    def goal(self) -> Goal:
        """What it is to reach."""
        return read_goal(self.record)

    @property
    def created(self) -> float:
        """Unix seconds."""
        return coerce.real(self.record.get("created")) or 0.0

    @property
    def parent(self) -> str | None:
        return coerce.text(self.record.get("parent"))

    @property
    def live(self) -> bool:
        """Whether any member may still change by itself."""
        return any(run.status.live for run in self.runs)

    @property
    def summary(self) -> "GroupSummary":
        """How the group did, computed from its files as they are now."""
        from rlclinic.runs import summary

        return summary.summarize(self)

    @property
    def verdict(self) -> str:
        """How the group did, in the words of `rlclinic.runs.outcome`."""
        return self.summary.verdict

    def write_report(self, name: str, content: str | bytes) -> Path:
        """Replace report.md, report.html, solution.yaml or another result file of the group."""
        return _write_report(self.path, name, content)


def possible_returns(record: dict[str, Any]) -> tuple[float, float] | None:
    """The lowest and the highest possible return, from a config.json or group.json."""
    return coerce.pair(coerce.within(record, "spec", "return_range"))


def settings(record: dict[str, Any]) -> dict[str, Any]:
    """The settings in a config.json or group.json, nested as in YAML."""
    return {key: value for key, value in record.items() if key not in META}


def one_line(value: dict[str, Any]) -> str:
    """A JSON object for a .jsonl file."""
    return json.dumps(value)


def describe_cut(status: status_file.Status, rows: "Table") -> str | None:
    """That rows are missing at the end of a run that has finished: its status knows how far it got. None if they are all there."""
    last = rows["total_timesteps"][-1] if len(rows) and "total_timesteps" in rows.names else 0
    if status.state != "finished" or not last < status.env_steps:
        return None
    return f"{METRICS} is damaged: it ends at env step {last:,.0f} of {status.env_steps:,}, and what came after is not counted"


def _config(record: dict[str, Any]) -> "Config":
    from rlclinic.config import records

    if isinstance(source := record.get("source"), dict):
        # Code that a log names is not put into a command that somebody may type as it stands.
        name = str(record.get("name"))
        raise RunError(
            f"{record.get('id')} was imported ({source.get('framework')}): not all of its settings are known.\n"
            "  What it left out would silently become another setting than the one it was trained with.\n"
            "  It can be diagnosed and compared; to train: ",
            Action("train", name if _REGISTERED.fullmatch(name) else "CONFIG", set=["KEY=VALUE"]),
        )
    return records.from_record(settings(record))


def _locate_code(config: "Config", record: dict[str, Any], store: Path) -> "Config":
    """The config whose own environment and wrappers are found from here: by another name, if the recorded one leads elsewhere."""
    names = {code.name: own_code.name_here(code, record, store) for code in own_code.read_record(record)}
    if all(old == new for old, new in names.items()):
        return config
    env = config.env
    wrappers = tuple(wrapper.model_copy(update={"id": names.get(wrapper.id, wrapper.id)}) for wrapper in env.wrappers)
    return config.model_copy(update={"env": env.model_copy(update={"id": names.get(env.id, env.id), "wrappers": wrappers})})


def _required(path: Path, name: str, kind: str) -> dict[str, Any]:
    record = disk.read_json(path / name)
    if record is None:
        if not (path / name).exists():
            raise NotFound(f"{path} is not a {kind}: it has no {name}.\n  See what there is: ", Action("runs list"))
        raise RunError(f"{path / name} is not JSON any more; nothing can be said about this {kind}.\n  Train it anew: ", Action("train"))
    if record.get("schema_version", 0) > SCHEMA_VERSION:
        schema = f"schema {record['schema_version']}, here {SCHEMA_VERSION}"
        raise RunError(f"{path / name} was written by a newer rlclinic ({schema}).\n  pip install -U rlclinic")
    return record


def _entries(folder: Path) -> Sequence[Path]:
    try:
        return list(folder.iterdir())
    except (FileNotFoundError, NotADirectoryError):
        return []


def _target(link: Path) -> str | None:
    try:
        return link.readlink().name
    except OSError:
        return None


def _sha256(path: Path) -> str | None:
    try:
        with plain_files.open_plain(path) as file:
            return hashlib.file_digest(file, "sha256").hexdigest()
    except OSError:
        return None


def _text(path: Path) -> str:
    try:
        return plain_files.read_bytes(path).decode("utf-8", errors="replace")
    except FileNotFoundError:
        return ""


def _write_report(folder: Path, name: str, content: str | bytes) -> Path:
    disk.write(folder / name, content)
    return folder / name

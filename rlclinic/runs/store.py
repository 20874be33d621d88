"""The folder of all runs: creating groups, listing, finding what a selector names, removing."""

import json
import shutil
import statistics
import sys
import time
from collections.abc import Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Literal, TypeVar

from rlclinic import own_code, trust
from rlclinic.actions import Action
from rlclinic.errors import NotFound, UsageError, nearest
from rlclinic.runs import disk, selector, status_file
from rlclinic.runs.lock import Lock
from rlclinic.runs.record import CONFIG, GROUP, GROUPS, META, SCHEMA_VERSION, Checkpoint, Group, Run

if TYPE_CHECKING:
    from rlclinic.config import Config

LAST: Final = "@last"

_LONGEST_CHOSEN: Final = 48
"""Its runs' ids are longer by their seed, and must be ids too."""

Kind = Literal["run", "group"]
Item = TypeVar("Item", Run, Group)


class Store:
    """All runs under one folder. Reading never writes, and a folder that does not exist is an empty store."""

    def __init__(self, root: Path | str = "runs") -> None:
        self.root = Path(root)

    # ── listing ──

    def runs(self) -> list[Run]:
        """Every run, oldest first."""
        found = [Run(folder) for folder in self._folders(self.root) if (folder / CONFIG).exists()]
        return _in_order(found)

    def groups(self) -> list[Group]:
        """Every group, oldest first."""
        found = [Group(folder) for folder in self._folders(self.root / GROUPS) if (folder / GROUP).exists()]
        return _in_order(found)

    @staticmethod
    def _folders(folder: Path) -> list[Path]:
        try:
            return [entry for entry in folder.iterdir() if selector.ID.fullmatch(entry.name)]
        except FileNotFoundError:
            return []
        except NotADirectoryError:
            raise UsageError(f"{folder} is a file, not a folder of runs.\n  There is nothing to list.\n  Try: --runs-dir runs") from None

    # ── finding ──

    def resolve(self, text: str = LAST, prefer: Kind = "group") -> Run | Group | Checkpoint:
        """What a selector names. `prefer` decides for @last, @best and @running, and where a beginning fits both."""
        inside = self._inside(text)
        if inside is not None:
            return inside
        parsed = selector.parse(text)
        if parsed.checkpoint is not None:
            return self._run(parsed).checkpoint(parsed.checkpoint)
        return self._run(parsed) if prefer == "run" and not self._names_group(parsed.base) else self._group_or_run(parsed)

    def run(self, text: str = LAST) -> Run:
        """The run that a selector names. A group of one is its run; a larger one asks which."""
        found = self.resolve(text, prefer="run")
        if isinstance(found, Checkpoint):
            return found.run
        return _only_run(found) if isinstance(found, Group) else found

    def group(self, text: str = LAST) -> Group:
        """The group that a selector names, or that the named run belongs to."""
        found = self.resolve(text)
        if isinstance(found, Group):
            return found
        run = found.run if isinstance(found, Checkpoint) else found
        if run.group is None:
            raise NotFound(f"run {run.id} belongs to group {run.group_id}, which is not in {self.root}.\n  ", Action("runs list"))
        return run.group

    def checkpoint(self, text: str) -> Checkpoint:
        """The checkpoint that a selector names; a run alone means its @last."""
        found = self.resolve(text, prefer="run")
        if isinstance(found, Checkpoint):
            return found
        return (_only_run(found) if isinstance(found, Group) else found).checkpoint(LAST)

    def select(self, text: str = LAST) -> list[Run]:
        """Every run that a selector means: all members of a group, or the one run. @running is all that run now."""
        if text == "@running":
            running = [run for run in self.runs() if run.status.state == "running"]
            return running or _raise_none("is running", self.root)
        found = self.resolve(text)
        if isinstance(found, Group):
            return found.runs
        return [found.run if isinstance(found, Checkpoint) else found]

    def _inside(self, text: str) -> Run | Group | None:
        """A path as the shell completes it (runs/g7k2-s0), if it lies in this store; others are not followed."""
        if "/" not in text:
            return None
        path = Path(text.rstrip("/"))
        if path.is_symlink():
            path = path.parent / path.readlink()
        if path.parent.resolve() == self.root.resolve() and (path / CONFIG).exists():
            return Run(self.root / path.name)
        if path.parent.resolve() == (self.root / GROUPS).resolve() and (path / GROUP).exists():
            return Group(self.root / GROUPS / path.name)
        return None

    def _names_group(self, base: str) -> bool:
        return not base.startswith("@") and (self.root / GROUPS / base / GROUP).exists()

    def _group_or_run(self, parsed: selector.Selector) -> Run | Group:
        if parsed.base.startswith("@"):
            return _pick(self.groups(), parsed, self.root)
        if self._names_group(parsed.base):
            return Group(self.root / GROUPS / parsed.base)
        if (self.root / parsed.base / CONFIG).exists():
            return Run(self.root / parsed.base)
        groups = [group for group in self.groups() if group.id.startswith(parsed.base)]
        if len(groups) == 1:
            return groups[0]
        if groups:
            raise _ambiguous(parsed.base, [group.id for group in groups])
        return self._run(parsed)

    def _run(self, parsed: selector.Selector) -> Run:
        if parsed.base.startswith("@"):
            return _pick(self.runs(), parsed, self.root)
        if (self.root / parsed.base / CONFIG).exists():
            return Run(self.root / parsed.base)
        if self._names_group(parsed.base):
            return _only_run(Group(self.root / GROUPS / parsed.base))
        runs = self.runs()
        matches = [run for run in runs if run.id.startswith(parsed.base)]
        if len(matches) == 1:
            return matches[0]
        if matches:
            raise _ambiguous(parsed.base, [run.id for run in matches])
        raise _unknown(parsed.base, [run.id for run in runs] + [group.id for group in self.groups()], self.root)

    # ── creating and removing ──

    def reserve_group(self) -> str:
        """A new group id, with its folder."""
        return disk.reserve(self.root / GROUPS, "g")

    def has_group(self, gid: str) -> bool:
        """Whether a group was made to its end: its members are written down."""
        return (self.root / GROUPS / gid / GROUP).exists()

    def create_group(
        self,
        configs: "Sequence[Config]",
        *,
        parent: str | None = None,
        parents: Sequence[str] | None = None,
        prescription: str | None = None,
        name: str | None = None,
        extra: dict[str, Any] | None = None,
        gid: str | None = None,
    ) -> Group:
        """Make the folders of runs that differ in seed only, and their group. `name` is the user's own label.

        `parent` is RUN@STEP for all of them, or the group whose runs `parents` names, one for each config.
        `extra` goes into every config.json: origins, start ("fork", "extend", "init"), trial. `gid` was reserved before: what a kill
        left of its runs is made anew.
        """
        trust.check_envs(config.env for config in configs)
        records = _records(configs, extra or {})
        half_made = gid is not None
        gid = gid or self.reserve_group()
        about: dict[str, Any] = {
            "schema_version": SCHEMA_VERSION,
            "group": gid,
            "label": name,
            "created": time.time(),
            "parent": parent,
            "prescription": prescription,
            **(extra or {}),
            "versions": _versions(),
        }
        if codes := own_code.describe_env(configs[0].env):
            about["env_code"] = own_code.to_record(codes, self.root)
        members = [f"{gid}-s{record['seed']}" for record in records]
        origins: Sequence[str | None] = parents or [parent] * len(records)
        for member, record, origin in zip(members, records, origins, strict=True):
            corrections = self._corrections(origin, about.get("start"))
            if half_made:
                shutil.rmtree(self.root / member, ignore_errors=True)
            self._create_run(self.root / member, {"id": member, **about, "parent": origin, "corrections": corrections, **record})
        settings = {key: value for key, value in records[0].items() if key != "seed"}
        folder = self.root / GROUPS / gid
        # Last: a group that is listed has all its members.
        disk.write_json(folder / GROUP, {**about, "id": gid, "members": members, **settings}, sync=True)
        if not about.get("trial"):
            disk.point(self.root / LAST, members[-1])
        return Group(folder)

    def create_foreign(
        self,
        records: Sequence[dict[str, Any]],
        source: Sequence[dict[str, Any]],
        extra: dict[str, Any] | None = None,
        gid: str | None = None,
    ) -> Group:
        """Make the folders of runs that another framework trained, and their group.

        `records` hold the settings that are known, nested as in YAML, which need not be a whole config; `source` says for
        each where it came from. All but the seed must be equal. `extra` goes into every config.json: trial, label.
        `gid` is the group's id, if the user wants a certain one.
        """
        gid = disk.reserve(self.root / GROUPS, "g") if gid is None else self._take(gid)
        about = {"schema_version": SCHEMA_VERSION, "group": gid, "created": time.time(), **(extra or {}), "versions": _versions()}
        members = [f"{gid}-s{record['seed']}" if "seed" in record else f"{gid}-r{place}" for place, record in enumerate(records)]
        for member, record, origin in zip(members, records, source, strict=True):
            self._create_run(self.root / member, {"id": member, **about, "source": origin, **record})
        shared = {key: value for key, value in records[0].items() if key != "seed"}
        folder = self.root / GROUPS / gid
        origin = {"framework": source[0].get("framework")}
        disk.write_json(folder / GROUP, {**about, "id": gid, "members": members, "source": origin, **shared}, sync=True)
        if not about.get("trial"):
            disk.point(self.root / LAST, members[-1])
        return Group(folder)

    def _corrections(self, origin: str | None, start: str | None) -> list[str]:
        """The corrections of the trainer that a new run computes by; one that goes on from a checkpoint keeps its parent's meaning."""
        from rlclinic.config.corrections import CORRECTIONS, inherited

        parent = Run(self.root / (origin or "").rpartition("@")[0])
        if start == "init" or not (parent.path / CONFIG).exists():
            return list(CORRECTIONS)
        return inherited(parent.corrections, parent.config)

    def _create_run(self, folder: Path, record: dict[str, Any]) -> None:
        with disk.guarded(folder):
            folder.mkdir()
        status_file.write(folder, status_file.Status(heartbeat=time.time(), max_env_steps=record.get("run", {}).get("max_env_steps")))
        disk.write_json(folder / CONFIG, record)

    def _take(self, gid: str) -> str:
        """An id that the user chose: free, and one that selectors can name."""
        if not selector.ID.fullmatch(gid) or len(gid) > _LONGEST_CHOSEN:
            raise UsageError(
                f"{gid!r} cannot be an id: letters, digits, dots, dashes and underscores, at most {_LONGEST_CHOSEN}.\n"
                "  No selector could name it.\n  Try another name, for example sb3-cartpole"
            )
        folder = self.root / GROUPS / gid
        if (self.root / gid).exists() or folder.exists():
            raise UsageError(f"{gid} is in {self.root} already.\n  Two would be one.\n  Choose another name, or: ", Action("runs rm", gid))
        with disk.guarded(folder):
            folder.mkdir(parents=True)
        return gid

    def remove(self, target: Run | Group | str) -> list[str]:
        """Delete a run, or a group with its runs; the ids that are gone. RunBusy if one is being written."""
        found = self.resolve(target) if isinstance(target, str) else target
        if isinstance(found, Checkpoint):
            raise UsageError(f"{target!r} is a checkpoint; training keeps best, last and the one before by itself")
        group = found if isinstance(found, Group) else found.group
        runs = found.runs if isinstance(found, Group) else [found]
        with ExitStack() as locks:
            for run in runs:
                locks.callback(Lock(run.path).release)
            for run in runs:
                with disk.guarded(run.path):
                    shutil.rmtree(run.path)
        if group is not None:
            _forget_members(group, {run.id for run in runs})
        self._point_at_newest()
        return [run.id for run in runs]

    def _point_at_newest(self) -> None:
        runs = _own(self.runs())
        if runs:
            disk.point(self.root / LAST, runs[-1].id)
        else:
            with disk.guarded(self.root / LAST):
                (self.root / LAST).unlink(missing_ok=True)


def _in_order(found: list[Item]) -> list[Item]:
    """Oldest first; of one group, in order of seeds. A damaged record counts as oldest, and does not hide the others."""
    keyed = []
    for item in found:
        record = disk.read_json(item.path / (CONFIG if isinstance(item, Run) else GROUP)) or {}
        if record:
            item.record = record
        keyed.append((record.get("created", 0.0), record.get("group", ""), record.get("seed", 0), item.id, item))
    keyed.sort(key=lambda entry: entry[:-1])
    return [entry[-1] for entry in keyed]


def _pick(items: list[Item], parsed: selector.Selector, root: Path) -> Item:
    """The item that @last, @best or @running names, `back` places before the first choice."""
    ordered = {"@last": lambda: _own(items)[::-1], "@best": lambda: _best_first(items), "@running": lambda: _running(items)}[parsed.base]()
    if not ordered:
        what = {"@last": "is here", "@best": "has been evaluated", "@running": "is running"}[parsed.base]
        _raise_none(what, root)
    if parsed.back >= len(ordered):
        raise NotFound(
            f"{parsed.base}~{parsed.back} goes back too far: there are {len(ordered)}.\n  See what there is: ", Action("runs list")
        )
    return ordered[parsed.back]


def _own(items: list[Item]) -> list[Item]:
    """What people started themselves: without what a trial or a search trained, which is asked about by its own id.

    Where there is nothing else, the first of each trial or search: its control, or the config that the search began with.
    """
    own: list[Item] = []
    first: dict[str, Item] = {}
    for item in items:
        # As far as it could be read: a damaged record must not hide the others.
        trial = (vars(item).get("record") or {}).get("trial")
        if trial:
            first.setdefault(trial, item)
        else:
            own.append(item)
    return own or list(first.values())


def _running(items: list[Item]) -> list[Item]:
    def runs_now(item: Run | Group) -> bool:
        members = item.runs if isinstance(item, Group) else [item]
        return any(run.status.state == "running" for run in members)

    return [item for item in reversed(items) if runs_now(item)]


def _best_first(items: list[Item]) -> list[Item]:
    """By best evaluation (a group: the median of its runs'), on the newest item's environment: returns of two are not comparable."""
    scored = []
    for place, item in enumerate(items):
        members = item.runs if isinstance(item, Group) else [item]
        values = [value for run in members if (value := status_file.raw(run.path).best_eval) is not None]
        if values and item.env_id == items[-1].env_id:
            scored.append((statistics.median(values), place, item))
    scored.sort(key=lambda entry: entry[:2], reverse=True)
    return [item for _, _, item in scored]


def _only_run(group: Group) -> Run:
    if len(group.runs) == 1:
        return group.runs[0]
    names = ", ".join(run.id for run in group.runs[:4]) + (", …" if len(group.runs) > 4 else "")
    raise UsageError(f"{group.id} is a group of {len(group.runs)} runs, and one run is needed here.\n  Pick one: {names}")


def _ambiguous(text: str, ids: list[str]) -> UsageError:
    shown = ", ".join(ids[:6]) + (f", … ({len(ids)} in all)" if len(ids) > 6 else "")
    return UsageError(f"{text!r} is the beginning of several: {shown}.\n  Type more of the one you mean.")


def _unknown(text: str, ids: list[str], root: Path) -> NotFound:
    offered = nearest(text, ids)
    hint = f"; nearest: {', '.join(offered)}" if offered else ""
    return NotFound(f"no run or group {text!r} in {root}{hint}.\n  See what there is: ", Action("runs list"))


def _raise_none(what: str, root: Path) -> list[Run]:
    raise NotFound(f"nothing {what} in {root}.\n  Start something: ", Action("train", "CartPole-v1:ppo"))


def _records(configs: "Sequence[Config]", extra: dict[str, Any]) -> list[dict[str, Any]]:
    from rlclinic.config.records import to_record

    if not configs:
        raise UsageError("a group needs at least one config")
    if unknown := sorted(extra.keys() - META):
        raise UsageError(f"extra={unknown}: config.json has room for {', '.join(sorted(META))}")
    records = [to_record(config) for config in configs]
    seeds = [record["seed"] for record in records]
    if len(set(seeds)) != len(seeds) or min(seeds) < 0:
        raise UsageError(f"seeds {seeds}: each run of a group needs a seed of its own, 0 or more; statistics would count one run twice")
    first = json.dumps({**records[0], "seed": 0}, sort_keys=True)
    for record in records:
        if json.dumps({**record, "seed": 0}, sort_keys=True) != first:
            raise UsageError("the configs of a group differ in more than the seed; make a group of each, or their statistics would mix")
    return records


def _versions() -> dict[str, str]:
    from importlib import metadata  # 20 ms that listing runs does not need

    found = {"python": sys.version.split()[0]}
    for package in ("rlclinic", "numpy"):
        try:
            found[package] = metadata.version(package)
        except metadata.PackageNotFoundError:
            # Run from a checkout that was never installed.
            continue
    return found


def _forget_members(group: Group, gone: set[str]) -> None:
    left = [member for member in group.record.get("members", []) if member not in gone]
    if left:
        disk.write_json(group.path / GROUP, {**group.record, "members": left})
    else:
        with disk.guarded(group.path):
            shutil.rmtree(group.path)

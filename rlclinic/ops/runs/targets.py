"""What `compare` and `regress` are given: runs, groups, other frameworks' folders, YAML files, variants, files of a git revision."""

import re
import subprocess
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from rlclinic.comparison import sides
from rlclinic.comparison.sides import Side
from rlclinic.config import files
from rlclinic.errors import ConfigError, NotFound, RlclinicError, UsageError
from rlclinic.runs.history import group_by_config
from rlclinic.runs.record import CONFIG, GROUP, Checkpoint, Group, Run
from rlclinic.runs.store import Store

GIT = "git:"
_GIT = re.compile(r"git:(?P<rev>[^:]+):(?P<path>.+?\.ya?ml)(?::(?P<variant>[^:/\\]+))?")
_YAML = re.compile(r".+\.ya?ml(:[^:/\\]+)?")


@dataclass(frozen=True)
class Reading:
    """Where to look, and what logs of others leave open."""

    runs_dir: Path = Path("runs")
    threshold: float | None = None
    budget: int | None = None
    mapping: Sequence[str] = ()


def read(target: str, how: Reading) -> list[Side]:
    """The sides that a word on the command line means: one, or several where a folder holds runs of several configs."""
    if target.startswith(GIT):
        return [_of_git(target)]
    if _YAML.fullmatch(target):
        return [_of_reference(target)]
    owner = _ours(target, how.runs_dir)
    if owner is not None:
        return [_completed(sides.of_runs(_named(target, owner), owner), how)]
    if Path(target).exists():
        return _of_folder(target, how)
    return [_of_name(target, how)]


def _of_reference(target: str) -> Side:
    loaded = files.load(target)
    return sides.of_config(target, loaded.config, loaded.notes)


def _of_name(target: str, how: Reading) -> Side:
    """A selector or the name of a variant; where it is neither, the nearest of both worlds is offered."""
    if ":" in target and "@" not in target:
        return _of_reference(target)
    try:
        selected = Store(how.runs_dir).resolve(target)
    except (NotFound, UsageError) as unknown:
        if "@" in target or "/" in target:
            raise
        try:
            return _of_reference(target)
        except RlclinicError:
            raise unknown from None
    owner = selected.run if isinstance(selected, Checkpoint) else selected
    return _completed(sides.of_runs(_named(target, owner), owner), how)


def _named(target: str, owner: Run | Group) -> str:
    """A path stays as it was typed; @last and a beginning become the id that they mean today."""
    return target if "/" in target else owner.id


def _ours(target: str, runs_dir: Path) -> Run | Group | None:
    """A run's or group's folder, here or in any store; None for everything else."""
    path = Path(target)
    if (path / GROUP).is_file():
        return Group(path)
    if (path / CONFIG).is_file() and (path / "status.json").is_file():
        return Run(path)
    if (runs_dir / target / CONFIG).is_file() or (runs_dir / "@groups" / target / GROUP).is_file():
        selected = Store(runs_dir).resolve(target)
        return selected.run if isinstance(selected, Checkpoint) else selected
    return None


def _completed(side: Side, how: Reading) -> Side:
    """What the command line says about the task goes before what the runs say."""
    if how.threshold is None:
        return side
    return replace(side, histories=tuple(replace(history, threshold=how.threshold) for history in side.histories))


def _of_folder(target: str, how: Reading) -> list[Side]:
    # Imported here: comparing our own runs must not wait for the formats of others.
    from rlclinic import readers

    histories = readers.read(target, threshold=how.threshold, budget=how.budget, mapping=list(how.mapping))
    groups = group_by_config(histories)
    if len(groups) == 1:
        return [sides.of_histories(target, groups[0])]
    return [sides.of_histories(f"{target}:{group[0].id}", group) for group in groups]


# ── git ──


def _of_git(target: str) -> Side:
    """A YAML file as it stood in a revision; the working tree is not touched."""
    match = _GIT.fullmatch(target)
    if match is None:
        raise UsageError(
            f"{target!r} is not git:REVISION:FILE.yaml, with :VARIANT behind it if the file has several.\n"
            "  It cannot be told which file is meant.\n  Type for example: git:HEAD~1:config/environments/CartPole-v1.yaml:ppo"
        )
    text = _shown(match["rev"], match["path"])
    with tempfile.TemporaryDirectory(prefix="rlclinic-git-") as folder:
        file = Path(folder) / Path(match["path"]).name
        file.write_bytes(text)
        reference = f"{file}:{match['variant']}" if match["variant"] else str(file)
        try:
            loaded = files.load(reference)
        except (ConfigError, NotFound) as error:
            # The file lies in a temporary folder for a moment; the user knows it by its revision.
            message = str(error).replace(str(file), f"git:{match['rev']}:{match['path']}")
            raise type(error)(message) from None
    return sides.of_config(target, loaded.config, loaded.notes)


def _shown(revision: str, path: str) -> bytes:
    place = Path(path)
    relative = path if not place.is_absolute() else str(place.relative_to(_top())) if place.is_relative_to(_top()) else path
    # ./ means: from this folder, as everywhere else on a command line. A revision that begins with - is no option.
    inside = relative if place.is_absolute() else f"./{relative}"
    result = _git("show", "--end-of-options", f"{revision}:{inside}")
    if result.returncode == 0:
        return result.stdout
    message = result.stderr.decode("utf-8", errors="replace").strip()
    if "not a git repository" in message:
        raise UsageError(
            f"{Path.cwd()} is in no git repository.\n  There are no revisions to read {path} from.\n  Give the file itself: {path}"
        )
    if _git("rev-parse", "--verify", "--quiet", "--end-of-options", f"{revision}^{{commit}}").returncode != 0:
        raise NotFound(
            f"git knows no revision {revision!r}.\n  There is nothing to read {path} from.\n  See what there is: git log --oneline"
        )
    raise NotFound(
        f"{path} is not in revision {revision}.\n  There is nothing to compare.\n  See its files: git ls-tree -r --name-only {revision}"
    )


def _top() -> Path:
    result = _git("rev-parse", "--show-toplevel")
    return Path(result.stdout.decode("utf-8", errors="replace").strip() or ".")


def _git(*arguments: str) -> "subprocess.CompletedProcess[bytes]":
    try:
        return subprocess.run(["git", *arguments], capture_output=True, check=False, timeout=60)
    except FileNotFoundError as missing:
        raise UsageError(
            "git is not installed, or not on the PATH.\n  Files of a revision cannot be read.\n  Give the file itself, without git:"
        ) from missing
    except subprocess.TimeoutExpired as slow:
        raise UsageError(f"git {arguments[0]} did not answer within a minute.\n  Nothing was read.\n  Give the file itself") from slow

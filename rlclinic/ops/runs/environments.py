"""What can be trained, and with which settings: environments with variants, and whole configs with their origins."""

import re
from collections.abc import Sequence
from pathlib import Path

from rlclinic import plain_files
from rlclinic.actions import Action
from rlclinic.config import describe, files, to_record
from rlclinic.config.overrides import set_values
from rlclinic.errors import NotFound
from rlclinic.report.models import ConfigView, EnvironmentList, EnvironmentRow
from rlclinic.runs import selector
from rlclinic.runs.record import Checkpoint, Group, Run
from rlclinic.runs.store import Store

_MEASURED = re.compile(r"\s*#\s*measured:\s*(.+)")
_VARIANT = re.compile(r"([A-Za-z0-9]\w*):")


def list_environments(pattern: str = "") -> EnvironmentList:
    """Environments that have a file, a user's own first; `pattern` is a part of the name."""
    entries = [entry for entry in files.available() if pattern.lower() in entry.env.lower()]
    if pattern and not entries:
        raise NotFound(
            f"no environment with settings has {pattern!r} in its name.\n  See all of them: ",
            Action("envs"),
            "\n  Others train too, with general settings: ",
            Action("train", pattern),
        )
    # A file of the user's own that adds a variant says nothing of the task: what ships with it does.
    shipped = {entry.env: entry.spec.threshold for entry in files.available() if entry.shipped}
    return EnvironmentList(
        environments=[
            EnvironmentRow(
                id=entry.env,
                variants=list(entry.variants),
                threshold=shipped.get(entry.env) if entry.spec.threshold is None else entry.spec.threshold,
                description=entry.spec.description,
                measured=_measured(entry.path),
                source="shipped" if entry.shipped else str(entry.path),
                problem=entry.problem,
            )
            for entry in entries
        ]
    )


def show_config(ref: str, changes: Sequence[str] = (), runs_dir: Path = Path("runs")) -> ConfigView:
    """The whole config that `ref` means (a variant, a file, a run or a group), with changes applied."""
    stored = _stored(ref, runs_dir)
    if stored is None:
        loaded = files.load(ref, list(changes))
        config, origins, notes = loaded.config, loaded.origins, list(loaded.notes)
    else:
        config, origins, notes = set_values(stored.config, list(changes)), stored.record.get("origins") or {}, []
    return ConfigView(name=config.name, config=to_record(config), origins=dict(origins), derived=describe(config), notes=notes)


def complete_reference(incomplete: str) -> list[str]:
    """What a shell offers: environments; once one is typed in full, its variants."""
    names = []
    for entry in files.available():
        names += [entry.env, *(f"{entry.env}:{variant}" for variant in entry.variants)]
    return [name for name in dict.fromkeys(names) if name.startswith(incomplete)]


def _measured(path: Path) -> dict[str, str]:
    """By variant: the comment `# measured: …` right above it or inside it. It is written for readers of the file, too."""
    measured: dict[str, str] = {}
    waiting, variant = "", ""
    for line in plain_files.read_text(path, errors="replace").splitlines():
        if match := _MEASURED.match(line):
            if line.startswith("#"):
                waiting = match[1]
            elif variant:
                measured[variant] = match[1]
        elif match := _VARIANT.match(line):
            variant = match[1]
            if waiting:
                measured[variant], waiting = waiting, ""
    return measured


def _stored(ref: str, runs_dir: Path) -> Run | Group | None:
    """The run or group that `ref` names; None if it is the name of a config."""
    if not ref.startswith("@") and not selector.has_slash(ref) and not selector.ID.fullmatch(ref):
        return None
    if Path(ref).suffix in (".yaml", ".yml"):
        return None
    try:
        selected = Store(runs_dir).resolve(ref)
    except NotFound:
        if ref.startswith("@"):
            raise
        return None
    return selected.run if isinstance(selected, Checkpoint) else selected

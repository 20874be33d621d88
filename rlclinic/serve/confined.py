"""What a request from elsewhere may name: runs and groups of the store and configs by their names; no file, and no way out."""

import functools
import inspect
import os
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final, TypeVar

from rlclinic import trust
from rlclinic.actions import Action
from rlclinic.config import files
from rlclinic.errors import NotFound, RlclinicError
from rlclinic.runs.record import Checkpoint, Group, Run
from rlclinic.runs.store import Store

Owner = TypeVar("Owner", Run, Group)

_YAML: Final = re.compile(r"\.ya?ml(:|$)", re.IGNORECASE)


def limit_code(function: Callable[..., Any], limits: trust.Limits, configs: Path | None = None) -> Callable[..., Any]:
    """A tool whose callers have only that code run which the limits allow; `configs` holds their own environments and variants."""

    async def call_later(**arguments: Any) -> Any:
        with trust.limited(limits), files.use_folder(configs):
            return await function(**arguments)

    def call(**arguments: Any) -> Any:
        with trust.limited(limits), files.use_folder(configs):
            return function(**arguments)

    made = functools.wraps(function)(call_later if inspect.iscoroutinefunction(function) else call)
    made.__signature__ = inspect.signature(function)  # type: ignore[attr-defined]
    return made


class LimitCode:
    """An ASGI app whose callers have only that code run which the limits allow."""

    def __init__(self, app: Any, limits: trust.Limits, configs: Path | None = None) -> None:
        self.app, self.limits, self.configs = app, limits, configs

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        with trust.limited(self.limits), files.use_folder(self.configs):
            await self.app(scope, receive, send)


def names_file(ref: str) -> bool:
    """Whether a reference is a path, a file with or without a variant behind it, or a revision: read from disk, wherever that is."""
    return ref.startswith((".", "/", "~", "git:")) or ".." in ref or "\\" in ref or "\0" in ref or _YAML.search(ref) is not None


def inside(store: Store, owner: Owner) -> Owner:
    """NotFound if a folder is a link, or holds one, that leads out of the store: what it points at is not a run's."""
    root = store.root.resolve()
    links = [owner.path] if owner.path.is_symlink() else []
    with os.scandir(owner.path) as entries:
        links += [Path(entry.path) for entry in entries if entry.is_symlink()]
    out = next((link for link in links if not link.resolve().is_relative_to(root)), None)
    if out is not None:
        raise NotFound(f"{owner.id} holds a link that leads out of the store ({out.name}): it is not followed.\n  ", Action("runs list"))
    return owner


def check_named(store: Store, name: str) -> None:
    """NotFound if a name is that of a run or group that leads out of the store; what names nothing there is others' business."""
    try:
        selected = store.resolve(name)
    except RlclinicError:
        return
    owner = selected.run if isinstance(selected, Checkpoint) else selected
    if isinstance(owner, Group):
        inside(store, owner)
    for run in owner.runs if isinstance(owner, Group) else [owner]:
        inside(store, run)

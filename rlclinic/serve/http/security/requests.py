"""The check that a request over HTTP chooses no file, no command and no code of this machine."""

import re
from pathlib import Path
from typing import Final

from rlclinic.config import files
from rlclinic.datasets import formats
from rlclinic.errors import NotFound, UsageError
from rlclinic.ops.request import Request
from rlclinic.ops.runs.environments import show_config
from rlclinic.runs import selector
from rlclinic.runs.record import Checkpoint
from rlclinic.runs.store import Store
from rlclinic.serve.confined import names_file

_MODULE: Final = re.compile(r"[A-Za-z_][\w.]*:")
_WORD: Final = re.compile(r"[A-Za-z0-9_-]{1,40}")
_PROBE: Final = "probe:"


def confine(store: Store, request: Request) -> None:
    """UsageError if a request would read a file, or run code that nobody has run here yet."""
    for ref in request.configs:
        for changes in request.patches:
            safe(store, ref, changes)
    for env_id in request.environments:
        safe(store, env_id)


def safe(store: Store, ref: str, changes: list[str] | tuple[str, ...] = ()) -> str:
    """A reference that names a config, an environment or a run; never a file, a revision, or code that nobody has run here yet."""
    if names_file(ref):
        raise _file(ref)
    stored = _in_store(store, ref)
    if stored is None and Path(ref).exists():
        raise _file(ref)
    named = stored or ref
    before = show_config(named, (), store.root).config
    after = show_config(named, changes, store.root).config if changes else before
    if stored is None and _imports(before["env"]):
        raise _code(str(before["env"].get("id")))
    if any(after["env"].get(key) != before["env"].get(key) for key in ("id", "wrappers")):
        raise _code(str(after["env"].get("id")))
    learned, learns = (str((config.get("data") or {}).get("path") or "") for config in (before, after))
    if learns and learns != learned:
        check_data(store, learns)
    known = before["env"].get("kwargs") or {}
    for key, value in (after["env"].get("kwargs") or {}).items():
        if known.get(key) != value and not _is_plain(value):
            raise _argument(str(key), value)
    return ref


def check_data(store: Store, name: str) -> str:
    """Recorded data in the store or in Minari's own folder; UsageError for any other, whether it is there or not."""
    try:
        place = formats.find(name).resolve()
    except NotFound:  # not told apart: who asks would learn which files there are
        raise _file(name) from None
    if not any(place.is_relative_to(folder.resolve()) for folder in (store.root, formats.minari_folder())):
        raise _file(name)
    return name


def _is_plain(value: object) -> bool:
    """Whether an environment can take this for a number or a name, and not for a file that it opens."""
    if isinstance(value, str):
        return _WORD.fullmatch(value) is not None and not Path(value).exists()
    if isinstance(value, list | tuple):
        return all(_is_plain(each) for each in value)
    return value is None or isinstance(value, bool | int | float)


def registered(store: Store, env_id: str) -> str:
    """An environment that this installation knows by its id: whatever else a request names would choose what code is run."""
    if names_file(env_id) or ":" in env_id or Path(env_id).exists():
        raise _code(env_id)
    safe(store, env_id)
    files.check_environment(env_id)
    return env_id


def _in_store(store: Store, ref: str) -> str | None:
    """The run or group that a reference names, if any: the operator has trained it, so its environment is known here."""
    try:
        selector.parse(ref)
    except UsageError:
        return None
    try:
        selected = store.resolve(ref)
    except NotFound:
        if ref.startswith("@"):
            raise
        return None
    return selected.run.id if isinstance(selected, Checkpoint) else selected.id


def _imports(env: dict[str, object]) -> bool:
    """Whether an environment or a wrapper is named by a module, which would be imported."""
    wrappers = env.get("wrappers")
    listed = wrappers if isinstance(wrappers, list) else []
    names = [str(env.get("id")), *(str(each.get("id")) for each in listed if isinstance(each, dict))]
    return any(_MODULE.match(name) and not name.startswith(_PROBE) for name in names)


def _file(ref: str) -> UsageError:
    return UsageError(
        f"{ref[:80]!r} names a file: over HTTP only names are taken.\n  A request must not choose what is read on this machine.\n"
        "  Give an environment (CartPole-v1:ppo), a run or a group."
    )


def _argument(key: str, value: object) -> UsageError:
    return UsageError(
        f"env.kwargs.{key[:40]} = {str(value)[:80]!r} could name a file that the environment opens.\n"
        "  A request must not choose what is read on this machine.\n"
        "  Numbers, yes and no, and names without dots and slashes are taken. Whoever may type here trains it once: rlclinic train"
    )


def _code(name: str) -> UsageError:
    return UsageError(
        f"{name[:80]!r} would choose what code is run as the environment.\n  A request must not: it could run anything on this machine.\n"
        "  Whoever may type on it trains it once: rlclinic train; its groups can then be trained anew from here."
    )

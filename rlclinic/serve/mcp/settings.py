"""What whoever starts the server decides: what may be written, what may be read, and on whose behalf."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from rlclinic.actions import Action
from rlclinic.errors import UsageError
from rlclinic.ops.jobs.audit import Caller
from rlclinic.ops.runs.environments import show_config
from rlclinic.runs.store import Store
from rlclinic.serve.confined import names_file
from rlclinic.serve.http.security.requests import check_data, safe
from rlclinic.trust import Limits

AGENT: Final = Caller(face="mcp", name="agent", budgeted=True, own_only=True)


def agent(request: Any) -> Caller:
    """Over stdio there is one caller: the client that started the server."""
    return AGENT


def agent_for_all(request: Any) -> Caller:
    """The same, where a person lets agents stop and change what they did not start."""
    return AGENT.model_copy(update={"own_only": False})


@dataclass(frozen=True)
class Settings:
    """How a server behaves. Over HTTP it is read-only unless its operator says otherwise."""

    local: bool = False
    """The caller could as well type commands here (stdio): files of the project and its own environments may be named."""
    read_only: bool = False
    """Leave out every tool that starts, stops, changes or writes something."""
    allowed_paths: tuple[Path, ...] = ()
    """Folders that logs may be read from, beside the working folder and the store."""
    configs: Path | None = None
    """Where the callers' own environments and adopted variants lie; None: ./config/environments."""
    caller: Callable[[Any], Caller] = field(default=agent)
    """Who asks: given the HTTP request (None over stdio). May raise UsageError if that caller may only read."""

    def limits(self, store: Path) -> Limits:
        """Which code a call may have run: over stdio that of the project and of allowed folders; in read-only none."""
        folders = (Path.cwd().resolve(), *(path.resolve() for path in self.allowed_paths)) if self.local else ()
        return Limits(run=not self.read_only, folders=folders, except_in=(store.resolve(),))

    def readable(self, store: Path) -> list[Path]:
        """Folders that a path in a call may lie in."""
        return [Path.cwd().resolve(), store.resolve(), *(path.resolve() for path in self.allowed_paths)]

    def path(self, target: str, store: Path) -> str:
        """A target that may be a path: only one that this caller may have read; anything else is a selector or a name."""
        if target == "-":
            raise UsageError('"-" is for logs on stdin, which a server has not.\n  Give a folder or file of the project')
        if not self.local:
            return self._name(target, store)
        if not ("/" in target or target.startswith("git:") or Path(target).exists()):
            return target
        whole = Path(target).resolve()
        if not target.startswith("git:") and not any(whole.is_relative_to(root) for root in self.readable(store)):
            raise UsageError(
                f"{target} lies outside of the folders that this server may read.\n  Nothing was opened.\n  A person allows a folder: ",
                Action("mcp", allow_path="DIR"),
            )
        return target

    @staticmethod
    def _name(target: str, store: Path) -> str:
        """Over the network: a run, a group, or a config by its name."""
        if names_file(target) or "/" in target or Path(target).exists():
            raise UsageError(
                f"{target[:80]!r} names a file: over the network only names are taken.\n  A request must not choose what is read here.\n"
                "  Give a run or a group: list_runs()"
            )
        return safe(Store(store), target) if ":" in target else target

    def config(self, ref: str, changes: Sequence[str], store: Store) -> str:
        """A config to check or to train: over the network no file, and no code that nobody has run here yet."""
        if self.local:
            if any("path" in change or "data" in change for change in changes):
                data = show_config(self.path(ref, store.root), list(changes), store.root).config.get("data") or {}
                self.path(str(Path(str(data.get("path") or ".")).expanduser()), store.root)
            return self.path(ref, store.root)
        return safe(store, ref, list(changes))

    def data(self, name: str, store: Store) -> str:
        """Recorded data: over the network what lies in the store or in Minari's own folder."""
        return self.path(str(Path(name).expanduser()), store.root) if self.local else check_data(store, name)

    def environment(self, env_id: str) -> str:
        """An environment to look at: its code is run, so over the network only registered ones."""
        if not self.local and (":" in env_id or env_id.endswith(".py") or Path(env_id).exists()):
            raise UsageError(
                f"{env_id[:80]!r} would choose what code is run.\n  A request must not: it could run anything here.\n"
                "  Give the id of a registered environment: describe_environment()"
            )
        return env_id

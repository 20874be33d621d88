"""How the server is set up, and who may reach it."""

import ipaddress
import re
from pathlib import Path
from typing import Final

from pydantic import BaseModel, ConfigDict, Field

from rlclinic.actions import Action
from rlclinic.errors import UsageError
from rlclinic.trust import Limits

FOLDER: Final = "@server"
LOOPBACK: Final = ("localhost", "127.0.0.1", "::1")
PORT: Final = 8642
ROOT_PATH: Final = r"^(/[A-Za-z0-9._~-]+)*$"


class Settings(BaseModel):
    """What `rlclinic serve` was started with."""

    model_config = ConfigDict(frozen=True, extra="forbid", use_attribute_docstrings=True)

    host: str = "127.0.0.1"
    port: int = Field(PORT, ge=0, le=65_535)
    read_only: bool = False
    """Nobody may start, stop, change or remove anything, whatever their token says."""
    require_token: bool = False
    """Ask everybody for a token, also the user who runs the server, on this machine's own address."""
    no_token: bool = False
    """Let every user of this machine in without a token, on its own address."""
    link: str | None = None
    """SHA-256 of the token in the link that is printed at the start."""
    projects: dict[str, Path] = Field(default_factory=dict)
    """Other folders than the store's own, by name: each has its runs/ and config/, and only tokens that name it see it."""
    allow_hosts: tuple[str, ...] = ()
    """Other names that the server is reached by, as browsers send them in Host."""
    token_file: Path | None = None
    """Where the hashed tokens lie; None: @server/tokens.json in the store."""
    mcp: bool = True
    """Answer agents at /mcp."""
    mcp_write: bool = False
    """Let agents that connect to /mcp with a token of scope write start and stop things."""
    mcp_all_runs: bool = False
    """Let those agents stop and change also what they did not start."""
    https: bool = False
    """Reached through a proxy that speaks HTTPS: cookies are then sent over HTTPS only."""
    root_path: str = Field("", pattern=ROOT_PATH, max_length=200)
    """The path that a proxy puts before every address of this server: /rl. Whether the proxy takes it off again or not."""
    prepare: bool = True
    """Diagnose groups that have ended before anybody asks, when nothing else is to be done."""
    prepare_films: bool = True
    """Import ahead what an episode needs, while somebody looks at checkpoints."""
    max_body_bytes: int = Field(1_000_000, ge=1_000)
    refresh_seconds: float = Field(0.5, gt=0)
    """How often the index looks for changes."""
    follow_seconds: float = Field(0.25, gt=0)
    """How often a live stream looks for new rows."""

    @property
    def local(self) -> bool:
        """Bound to this machine's own address."""
        return is_loopback(self.host)

    @property
    def guarded(self) -> bool:
        """Nobody gets in without a token, not even the user who runs the server."""
        return self.require_token or not self.local or self.https

    @property
    def limits(self) -> Limits:
        """Which code a request may have run: none that it names; what a person has trained here, unless nothing may be started."""
        return Limits(run=not self.read_only, folders=())

    def tokens_path(self, root: Path) -> Path:
        """Where the hashed tokens lie."""
        return self.token_file or root / FOLDER / "tokens.json"

    def knows_host(self, name: str) -> bool:
        """Whether a Host header names this server; any other may be a foreign page that rebound its name to this address."""
        name = name.lower().rstrip(".")
        if name in LOOPBACK or name in {self.host.lower(), *(known.lower() for known in self.allow_hosts)}:
            return True
        # An address cannot be rebound; a name can. Listening on all addresses, any of them may be used.
        return self.host in ("0.0.0.0", "::", "") and _is_address(name)


def check_root_path(path: str) -> str:
    """A path as it stands before every address: with a slash at its beginning and none at its end; UsageError for what is none."""
    trimmed = "/" + path.strip("/") if path.strip("/") else ""
    if not re.fullmatch(ROOT_PATH, trimmed) or len(trimmed) > 200:
        raise UsageError(
            f"{path[:100]!r} is no path.\n  Links on the page would lead nowhere.\n  Type for example: ", Action("serve", root_path="/rl")
        )
    return trimmed


def is_loopback(host: str) -> bool:
    """Whether only this machine reaches an address."""
    if host.lower() == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


def _is_address(name: str) -> bool:
    try:
        ipaddress.ip_address(name)
    except ValueError:
        return False
    return True


def check(settings: Settings, tokens: int) -> None:
    """Refuse to start where anybody could come in."""
    places = [(name, path.resolve()) for name, path in settings.projects.items()]
    for name, path in places:
        if not path.is_dir():
            raise UsageError(f"project {name}: there is no folder {path}.\n  Nobody could work in it.\n  Make it, or name another")
        for other, place in places:
            if other != name and place.is_relative_to(path):
                raise UsageError(f"projects {name} and {other} share {place}.\n  One would see the runs of the other.\n  Take two folders")
    if settings.guarded and settings.no_token:
        raise UsageError(
            "--no-token is for this machine's own address, without a proxy in front of it.\n"
            "  Anybody who finds the port could start trainings here.\n  Leave it out"
        )
    if (settings.require_token or not settings.local) and not tokens:
        where = f"{settings.host} can be reached from other machines" if not settings.local else "--require-token was given"
        raise UsageError(
            f"{where}, and there is no token.\n"
            "  Anybody who finds the port could read every run and start trainings on this machine.\n"
            "  Make a token: ",
            Action("serve token add", "NAME", scope="write"),
            "\n  Or serve this machine only: ",
            Action("serve", host="127.0.0.1"),
        )

"""The code of others that may be run here, and taking that back."""

from rlclinic import trust
from rlclinic.actions import Action
from rlclinic.errors import NotFound, UsageError
from rlclinic.report.models import Result, ResultPart


class Trusted(ResultPart):
    """Code that may be run here."""

    code: str
    named: str
    """As it was typed."""
    time: float
    """Unix seconds."""
    unchanged: bool | None
    """Whether its file is still the one that was approved, byte for byte; None where it is not one file."""


class TrustList(Result):
    """What is trusted, oldest first."""

    file: str
    trusted: list[Trusted]


class Forgotten(Result):
    """What is no longer trusted."""

    removed: list[str]


def list_trusted() -> TrustList:
    """The code that may be run here, when it was named, and whether its file has changed since."""
    trusted = [Trusted(code=known.code, named=known.named, time=known.time, unchanged=known.unchanged) for known in trust.approvals()]
    return TrustList(file=str(trust.record_file()), trusted=trusted)


def add_trusted(name: str) -> None:
    """Say that this code may be run, also where a run folder or a log names it. Nothing is run now."""
    if not trust.names_code(name):
        raise UsageError(
            f"{name!r} names no code: what is registered needs no trust.\n  Nothing was written.\n  Give file.py:Env or module:Env"
        )
    place = trust.locate(name.rpartition(":")[0] or name)
    if place is None or not place.exists():
        raise NotFound(f"there is no code {name!r} here.\n  Nothing was written.\n  Type it as from the folder that it lies in")
    trust.approve(name)


def forget_trusted(name: str) -> Forgotten:
    """Take it back: whatever names this code asks again. A process that runs already goes on."""
    removed = trust.forget(name)
    if not removed:
        raise NotFound(f"{name!r} is not trusted here.\n  Nothing was changed.\n  See what is: ", Action("trust list"))
    return Forgotten(removed=removed)

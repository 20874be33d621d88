"""Everything that rlclinic raises on purpose.

    RlclinicError              exit code 1; catch this to catch them all
    ├── ConfigError        2   a setting, a file or a combination of settings is wrong; nothing was started
    ├── UsageError         2   a command or a call makes no sense as it was typed
    │   └── Untrusted          code would be run that a run folder, a log or a caller names, and nobody has approved
    ├── NotFound           3   no such run, group, checkpoint, environment or variant
    └── RunError           1   a run could not go on
        ├── EnvironmentFailed    the environment raised, or returned something that is not a number
        ├── CheckpointCorrupt    a checkpoint is incomplete or its bytes are not those that were written
        ├── RunBusy              another process is writing to this run
        └── DiskFailed           the disk is full, read-only or gone

`str(error)` is the whole text for the user: what happened with the values, what it would cause, what to type. It is made of parts,
of which some say as data what to do next (rlclinic.actions): a face that is not typed at says them in its own words.

    raise NotFound(f"no run {name!r} in {root}.\n  See what there is: ", Action("runs list"))
"""

import difflib
from collections.abc import Iterable
from typing import ClassVar

__all__ = [
    "CheckpointCorrupt",
    "ConfigError",
    "DiskFailed",
    "EnvironmentFailed",
    "NotFound",
    "RlclinicError",
    "RunBusy",
    "RunError",
    "Untrusted",
    "UsageError",
    "nearest",
]


class RlclinicError(Exception):
    """The root of rlclinic's errors. `exit_code` is what the command line ends with."""

    exit_code: ClassVar[int] = 1

    def __init__(self, *parts: str) -> None:
        super().__init__(*parts)

    @property
    def parts(self) -> tuple[str, ...]:
        """The text in order: sentences, and actions between them."""
        return self.args

    def __str__(self) -> str:
        return "".join(map(str, self.args))


class ConfigError(RlclinicError):
    """What was asked for cannot be run: found before anything is spent."""

    exit_code = 2


class UsageError(RlclinicError):
    """A command or a call makes no sense as it was typed."""

    exit_code = 2


class Untrusted(UsageError):
    """Code of others would be run that nobody has approved here, or that a server's callers may not choose."""


class NotFound(RlclinicError):
    """A name points at nothing: a run, a group, a checkpoint, an environment or a variant."""

    exit_code = 3


class RunError(RlclinicError):
    """A run could not go on; what it wrote until then is intact."""


class EnvironmentFailed(RunError):
    """The environment raised an exception, or gave an observation or a reward that is not finite."""


class CheckpointCorrupt(RunError):
    """A checkpoint lacks a file, or a file's bytes differ from its manifest."""


class RunBusy(RunError):
    """Another live process is writing to this run's folder."""


class DiskFailed(RunError):
    """Writing failed: full disk, read-only folder, or a file system that went away."""


def nearest(name: str, candidates: Iterable[str], count: int = 3) -> list[str]:
    """The names most like `name`, best first, letter case aside: what an error about an unknown name offers."""
    by_lower: dict[str, str] = {}
    for candidate in candidates:
        by_lower.setdefault(candidate.lower(), candidate)
    matches = difflib.get_close_matches(name.lower(), by_lower, n=count, cutoff=0.6)
    return [by_lower[match] for match in matches]

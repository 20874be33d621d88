"""Machines that are network namespaces of this one, joined to it by a link that can be cut: packets vanish, and nobody is told."""

import os
import shutil
import subprocess
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress

MISSING = "this machine makes no network namespaces (ip from iproute2, as root): what a cut link does is NOT tested"


def _ip(*arguments: str) -> None:
    subprocess.run(["ip", *arguments], check=True, capture_output=True, timeout=30)


class Host:
    """A namespace, its address, and that of this machine as seen from there."""

    def __init__(self, number: int) -> None:
        self.name = f"rlclinic{os.getpid()}-{number}"
        self._link, inside = f"rlc{os.getpid() % 100_000}a{number}", f"rlc{os.getpid() % 100_000}b{number}"
        net = f"10.{200 + number % 50}.{os.getpid() % 250}"
        self.here, self.address = f"{net}.1", f"{net}.2"
        _ip("netns", "add", self.name)
        try:
            _ip("link", "add", self._link, "type", "veth", "peer", "name", inside)
            _ip("link", "set", inside, "netns", self.name)
            _ip("addr", "add", f"{self.here}/30", "dev", self._link)
            _ip("link", "set", self._link, "up")
            for arguments in (
                ("addr", "add", f"{self.address}/30", "dev", inside),
                ("link", "set", inside, "up"),
                ("link", "set", "lo", "up"),
            ):
                _ip("-n", self.name, *arguments)
        except BaseException:
            self.remove()
            raise

    def command(self, arguments: Sequence[str]) -> list[str]:
        """What runs a command there."""
        return ["ip", "netns", "exec", self.name, *arguments]

    def cut(self) -> None:
        """Let every packet vanish, in both directions."""
        _ip("link", "set", self._link, "down")

    def mend(self) -> None:
        """Let packets through again."""
        _ip("link", "set", self._link, "up")

    def remove(self) -> None:
        """Forget it; the link goes with it."""
        with suppress(subprocess.CalledProcessError):
            _ip("netns", "del", self.name)
        with suppress(subprocess.CalledProcessError):
            _ip("link", "del", self._link)


def can_be_made() -> bool:
    """Whether this machine makes namespaces and links."""
    if os.geteuid() != 0 or shutil.which("ip") is None:
        return False
    try:
        Host(99).remove()
    except (subprocess.SubprocessError, OSError):
        return False
    return True


@contextmanager
def hosts(count: int) -> Iterator[list[Host]]:
    """So many, removed with the block."""
    made: list[Host] = []
    try:
        made += map(Host, range(count))
        yield made
    finally:
        for host in made:
            host.remove()

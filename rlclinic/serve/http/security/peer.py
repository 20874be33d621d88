"""Which user of this machine is at the other end of a connection: Linux knows, and whoever is us needs no token."""

import os
import socket
import struct
from contextlib import suppress
from typing import Any, Final

SOCK_DIAG: Final = 4
"""The kernel's table of sockets (sock_diag(7)). One is looked up by its addresses: as fast among thousands as alone."""
BY_FAMILY: Final = 20
REQUEST: Final = 1
ESTABLISHED: Final = 1
ANY: Final = 0xFFFFFFFF

FORWARDED: Final = frozenset({b"forwarded", b"via", b"x-forwarded-for", b"x-real-ip"})
"""Sent by proxies, whose clients may be anybody."""


def is_us(scope: Any) -> bool:
    """Whether a request comes from a process of the user who runs this one, on this machine, and through no proxy."""
    if any(name.lower() in FORWARDED for name, _ in scope["headers"]):
        return False
    client, server = scope.get("client"), scope.get("server")
    if client is None or server is None or server[1] is None:
        return False
    return find_user(tuple(client), tuple(server)) == os.getuid()


def find_user(client: tuple[str, int], server: tuple[str, int]) -> int | None:
    """The user id that owns the client's end of a connection within this machine; None if the kernel does not say."""
    # OSError: not Linux, or not allowed to ask. Then nobody is known, and everybody needs a token.
    with suppress(OSError, struct.error):
        family = socket.AF_INET6 if ":" in client[0] else socket.AF_INET
        return _ask_kernel(family, client, server)
    return None


def _ask_kernel(family: int, client: tuple[str, int], server: tuple[str, int]) -> int | None:
    addresses = [socket.inet_pton(family, host).ljust(16, b"\0") for host in (client[0], server[0])]
    ends = struct.pack("!HH", client[1], server[1]) + b"".join(addresses) + struct.pack("=III", 0, ANY, ANY)
    asked = struct.pack("=BBBBI", family, socket.IPPROTO_TCP, 0, 0, ANY) + ends
    with socket.socket(socket.AF_NETLINK, socket.SOCK_DGRAM, SOCK_DIAG) as kernel:
        kernel.settimeout(0.5)
        kernel.send(struct.pack("=IHHII", 16 + len(asked), BY_FAMILY, REQUEST, 1, 0) + asked)
        answer = kernel.recv(4_096)
    if struct.unpack_from("=H", answer, 4)[0] != BY_FAMILY:
        return None  # no such socket on this machine
    _, state, _, _ = struct.unpack_from("=BBBB", answer, 16)
    ports = struct.unpack_from("!HH", answer, 20)
    user, inode = struct.unpack_from("=II", answer, 80)
    # A socket that its process has closed belongs to nobody, which reads as user 0.
    return int(user) if state == ESTABLISHED and inode and ports == (client[1], server[1]) else None

"""Ports for servers in tests: each process chooses from a block of its own.

A port that was chosen is free until its server listens, and again after a crash; no other process may choose it then.
"""

from __future__ import annotations

import atexit
import functools
import itertools
import random
import socket
from collections.abc import Iterator

from aiodlock.errors import AiodlockError

__all__ = ["HOST", "free_ports"]

HOST = "127.0.0.1"

_SIZE = 250  # of a block; a port is chosen again after all others of it
# Below every system's range for outgoing connections. While a server is down, a client that keeps connecting to a port
# of that range is sooner or later given the same port as its own, connects to itself, and the server cannot come back.
_BLOCKS = range(15_000, 32_000, _SIZE)


def free_ports(count: int) -> tuple[int, ...]:
    """Return that many different ports on which nobody listens on loopback."""
    ports = itertools.islice(_own_block(), _SIZE - 1)
    free = tuple(itertools.islice(filter(_is_free, ports), count))
    if len(free) < count:
        raise AiodlockError(f"no {count} ports are free: end servers that are not needed")
    return free


@functools.cache
def _own_block() -> Iterator[int]:
    """Claim a block by its first port, which stays bound as long as this process lives; return the others in turn."""
    dice = random.SystemRandom()  # tests seed the common one
    for first in dice.sample(_BLOCKS, len(_BLOCKS)):
        claim = socket.socket()
        if _bind(claim, first):
            atexit.register(claim.close)
            return itertools.cycle(range(first + 1, first + _SIZE))
        claim.close()
    raise AiodlockError("every block of ports is in use: end suites that are not needed")


def _is_free(port: int) -> bool:
    with socket.socket() as claim:
        return _bind(claim, port)


def _bind(claim: socket.socket, port: int) -> bool:
    try:
        claim.bind((HOST, port))
    except OSError:
        return False
    return True

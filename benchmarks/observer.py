"""What the harness sees of a server from outside: what it was sent, and how many connections it has.

A server counts what its scripts and procedures do as well. A script call is what a client sent; the commands inside it
are the server's own work. They are told apart by name: a peer states which commands its client sends by itself
(``Peer.sends``) and, where its scripts use one of those too, how many each script call makes (``Peer.scripts_call``).
Everything else that is not a script call or connection upkeep ran inside a script.
"""

from __future__ import annotations

import os
from collections import Counter
from dataclasses import dataclass
from typing import Protocol

from benchmarks.peers.base import Peer

__all__ = ["SCRIPTS", "Calls", "Observer", "Seen", "cpu_of", "split"]

SCRIPTS = frozenset({"eval", "evalsha", "eval_ro", "evalsha_ro", "fcall", "fcall_ro"})
_UPKEEP = frozenset({"hello", "auth", "select", "ping", "reset", "quit", "readonly", "command"})
_UPKEEP_GROUPS = ("client|", "script|", "command|")
_TICKS = os.sysconf("SC_CLK_TCK")


@dataclass(frozen=True, slots=True)
class Seen:
    """The server at one moment."""

    commands: Counter[str]
    connections: int
    busy: float  # seconds spent inside scripts


@dataclass(frozen=True, slots=True)
class Calls:
    """Commands between two looks."""

    sent: int
    in_scripts: int
    busy: float  # seconds the server spent in scripts


class Observer(Protocol):
    """A connection of the harness's own to one server. What it sends is not counted."""

    @property
    def version(self) -> str: ...

    @property
    def cpu(self) -> float:
        """CPU seconds the server has used."""
        ...

    def clean(self) -> None:
        """Begin a cell with an empty server."""
        ...

    def look(self) -> Seen: ...

    def close(self) -> None: ...


def cpu_of(pid: int) -> float:
    """Return the CPU seconds that a process has used."""
    with open(f"/proc/{pid}/stat", encoding="ascii") as file:
        fields = file.read().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / _TICKS


def split(before: Seen, after: Seen, peer: Peer) -> Calls:
    """Tell what the clients sent from what their scripts did."""
    made = after.commands - before.commands
    scripts = sum(made[name] for name in SCRIPTS)
    sent = scripts
    for name, count in made.items():
        if _is_upkeep(name):
            sent += count
        elif name in peer.sends:
            sent += max(0, count - scripts * peer.scripts_call.get(name, 0))
    return Calls(sent=sent, in_scripts=made.total() - sent, busy=after.busy - before.busy)


def _is_upkeep(name: str) -> bool:
    return name in _UPKEEP or name.endswith("subscribe") or name.startswith(_UPKEEP_GROUPS)

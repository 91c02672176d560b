"""Look at a Redis from outside: which commands it was sent, and how many connections it has.

``INFO commandstats`` counts every command that ran, those inside Lua scripts as well. A script call is what a client
sent; the commands inside it are the server's own work. They are told apart by name: a peer states which commands its
client sends by itself (``Peer.sends``) and, where its scripts use one of those too, how many each script call makes
(``Peer.scripts_call``). Everything else that is not a script call or connection upkeep ran inside a script.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass

from benchmarks.peers.base import Peer
from benchmarks.resp import Wire

__all__ = ["Calls", "Observer", "Seen", "split"]

_SCRIPTS = frozenset({"eval", "evalsha", "eval_ro", "evalsha_ro", "fcall", "fcall_ro"})
_UPKEEP = frozenset({"hello", "auth", "select", "ping", "reset", "quit", "readonly", "command"})
_UPKEEP_GROUPS = ("client|", "script|", "command|")
_OUR_OWN = frozenset({"info", "config|resetstat", "flushall"})


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


class Observer:
    """A connection of the harness's own. What it sends is not counted."""

    def __init__(self, url: str) -> None:
        self._wire = Wire(url)

    def clean(self) -> None:
        """Begin a cell with an empty server."""
        self._wire.call("FLUSHALL")
        self._wire.call("CONFIG", "RESETSTAT")

    def look(self) -> Seen:
        stats = self._info("commandstats")
        commands = {name.removeprefix("cmdstat_"): _fields(value) for name, value in stats.items()}
        return Seen(
            commands=Counter({name: int(row["calls"]) for name, row in commands.items() if name not in _OUR_OWN}),
            connections=int(self._info("clients")["connected_clients"]) - 1,
            busy=sum(float(row["usec"]) for name, row in commands.items() if name in _SCRIPTS) / 1e6,
        )

    @property
    def cpu(self) -> float:
        """CPU seconds the server has used."""
        used = self._info("cpu")
        return float(used["used_cpu_user"]) + float(used["used_cpu_sys"])

    @property
    def version(self) -> str:
        return self._info("server")["redis_version"]

    def close(self) -> None:
        self._wire.close()

    def _info(self, section: str) -> dict[str, str]:
        text = self._wire.call("INFO", section)
        assert isinstance(text, bytes)
        lines = (line for line in text.decode().splitlines() if ":" in line)
        return dict(line.split(":", 1) for line in lines)


def split(before: Seen, after: Seen, peer: Peer) -> Calls:
    """Tell what the clients sent from what their scripts did."""
    made = after.commands - before.commands
    scripts = sum(made[name] for name in _SCRIPTS)
    sent = scripts
    for name, count in made.items():
        if _is_upkeep(name):
            sent += count
        elif name in peer.sends:
            sent += max(0, count - scripts * peer.scripts_call.get(name, 0))
    return Calls(sent=sent, in_scripts=made.total() - sent, busy=after.busy - before.busy)


def _is_upkeep(name: str) -> bool:
    return name in _UPKEEP or name.endswith("subscribe") or name.startswith(_UPKEEP_GROUPS)


def _fields(row: str) -> dict[str, str]:
    return dict(field.split("=", 1) for field in row.split(","))

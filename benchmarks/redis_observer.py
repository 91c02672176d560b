"""Look at a Redis from outside: ``INFO commandstats`` counts every command that ran, those inside scripts as well."""

from __future__ import annotations

from collections import Counter

from benchmarks.observer import SCRIPTS, Seen
from benchmarks.resp import Wire

__all__ = ["RedisObserver"]

_OUR_OWN = frozenset({"info", "config|resetstat", "flushall"})


class RedisObserver:
    """See :class:`benchmarks.observer.Observer`."""

    def __init__(self, url: str) -> None:
        self._wire = Wire(url)

    def clean(self) -> None:
        self._wire.call("FLUSHALL")
        self._wire.call("CONFIG", "RESETSTAT")

    def look(self) -> Seen:
        stats = self._info("commandstats")
        commands = {name.removeprefix("cmdstat_"): _fields(value) for name, value in stats.items()}
        return Seen(
            commands=Counter({name: int(row["calls"]) for name, row in commands.items() if name not in _OUR_OWN}),
            connections=int(self._info("clients")["connected_clients"]) - 1,
            busy=sum(float(row["usec"]) for name, row in commands.items() if name in SCRIPTS) / 1e6,
        )

    @property
    def cpu(self) -> float:
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


def _fields(row: str) -> dict[str, str]:
    return dict(field.split("=", 1) for field in row.split(","))

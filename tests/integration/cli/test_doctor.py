"""doctor: what every backend is asked, and what one may add."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Protocol, Self

import pytest

from aiodlock import LockClient
from aiodlock.backends.base import Diagnosing, Finding
from aiodlock.backends.memory import MemoryBackend
from aiodlock.cli.doctor import examine
from aiodlock.cli.session import Stop
from aiodlock.testing.servers import (
    IndependentMasters,
    MariaDBServer,
    RedisCluster,
    RedisSentinel,
    RedisServer,
    SentinelService,
    Server,
    ZooKeeperServer,
    require,
)
from tests.integration.cli.support import Cli


class Reachable(Protocol):
    """Servers that are started for a block."""

    @property
    def url(self) -> str: ...

    def __enter__(self) -> Self: ...

    def __exit__(self, *_: object) -> None: ...


def test_memory_is_well(cli: Cli) -> None:
    """Reached, measured, locked, and its limits told; that nobody else sees it is a warning."""
    ended = cli("doctor", "memory://")
    assert ended.returncode == 0
    levels = {line[9:22].strip(): line.split()[0] for line in ended.stdout.splitlines()}
    assert levels.pop("seen by") == "warning"
    assert levels == dict.fromkeys(["reached", "round trip", "lock", "kinds", "waiting", "tickets"], "ok")


# redis:// itself is in test_servers.
SCHEMES: dict[str, tuple[type[Server], Callable[[], Reachable]]] = {
    "mysql": (MariaDBServer, MariaDBServer),
    "redis+cluster": (RedisServer, RedisCluster),
    "redis+sentinel": (RedisSentinel, SentinelService),
    "redlock": (RedisServer, IndependentMasters),
}


@pytest.mark.parametrize("scheme", SCHEMES)
def test_every_scheme_has_a_doctor(cli: Cli, scheme: str) -> None:
    """It reaches the servers, gets a lock, and tells more than what every backend is asked."""
    program, servers = SCHEMES[scheme]
    require(program)
    with servers() as running:
        assert running.url.startswith(f"{scheme}://")
        ended = cli("doctor", running.url)
    assert ended.returncode == 0, (ended.stdout, ended.stderr)
    told = [line[9:22].strip() for line in ended.stdout.splitlines()]
    assert told[:7] == ["reached", "round trip", "lock", "kinds", "waiting", "seen by", "tickets"]
    assert told[7:]


def test_zookeeper_is_looked_at_from_the_command_line(cli: Cli) -> None:
    """Its version, session, tick and access beside what every backend is asked; a warning is no failure."""
    require(ZooKeeperServer)
    with ZooKeeperServer() as server:
        ended = cli("doctor", server.url)
    assert ended.returncode == 0, ended
    levels = {line[9:22].strip(): line.split()[0] for line in ended.stdout.splitlines()}
    assert levels.pop("ensemble") == levels.pop("access") == "warning"  # one server, and anybody may write there
    assert {"reached", "lock", "server", "session", "tick"} <= levels.keys()
    assert set(levels.values()) == {"ok"}


class _Sick(MemoryBackend):
    """A backend that looks at its own server."""

    async def diagnose(self) -> Sequence[Finding]:
        return [
            Finding("appetite", "good"),
            Finding("memory", "forgets keys \x1b[2J[red]when full", "error", "set it to refuse instead"),
        ]


async def test_a_backend_adds_what_it_knows(capsys: pytest.CaptureFixture[str]) -> None:
    """Its findings follow the common ones; an error among them is the command's."""
    backend = _Sick()
    assert isinstance(backend, Diagnosing)
    assert not isinstance(MemoryBackend(), Diagnosing)
    with pytest.raises(Stop, match="1 of these checks failed") as stop:
        await examine(LockClient(backend))
    assert stop.value.status == 1
    *_, appetite, memory = capsys.readouterr().out.splitlines()
    assert appetite == "ok       appetite     good"
    assert memory == "error    memory       forgets keys �[2J[red]when full: set it to refuse instead"

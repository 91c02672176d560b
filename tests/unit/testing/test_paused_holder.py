"""All parts together: a holder is paused past its lease, and the checkers tell honest belief from naive."""

from __future__ import annotations

import math
import socket
from dataclasses import replace
from pathlib import Path

import pytest

from aiodlock.testing.history import Event, check_accepted, check_exclusion, check_fencing, stays
from aiodlock.testing.processes import Worker
from aiodlock.testing.servers import RedisServer, require


def ask(server: RedisServer, command: str) -> bytes:
    with socket.create_connection(("127.0.0.1", server.port), 5.0) as connection:
        connection.sendall(f"{command}\r\nQUIT\r\n".encode())
        with connection.makefile("rb") as replies:
            return replies.read().removesuffix(b"+OK\r\n")


def run(server: RedisServer) -> list[Event]:
    """Freeze one holder until another has entered and left; then let it go on."""
    with Worker("testing_workers:hold_once", who="frozen", port=server.port, ttl=0.3) as frozen:
        frozen.await_event("inside", within=10)
        with frozen.paused(), Worker("testing_workers:hold_once", who="next", port=server.port, ttl=0.3) as successor:
            successor.await_event("inside", within=10)
            ask(server, "RPUSH go:next 1")
            successor.join(within=10)
        ask(server, "RPUSH go:frozen 1")
        frozen.join(within=10)
    return frozen.events() + successor.events()


def naively(event: Event) -> Event:
    """Believe in a lock until one has released it."""
    return replace(event, facts={**event.facts, "valid_until": math.inf})


def test_a_pause_breaks_naive_belief_and_unguarded_writes_but_not_honest_belief(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    require(RedisServer)
    monkeypatch.syspath_prepend(Path(__file__).parent)
    with RedisServer() as server:
        events = run(server)
        log = [int(line) for line in ask(server, "LRANGE log 0 -1").splitlines()[2::2]]
    honest = stays(events)
    assert [stay.who for stay in honest] == ["frozen", "next"]
    assert check_exclusion(honest) == []
    assert check_fencing(honest) == []
    (overlap,) = check_exclusion(stays(map(naively, events)))
    assert "frozen, next" in str(overlap)
    assert [stay.fence for stay in honest] == sorted(log)
    (stale,) = check_accepted(log)
    assert stale.rule == "stale write"

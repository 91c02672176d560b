"""One suite over every backend, and a table of what each of them can do."""

from __future__ import annotations

import importlib.metadata
from dataclasses import replace
from typing import Any

import pytest

import aiodlock
from aiodlock import LockClient
from aiodlock._core.line import Call, Reconnected
from aiodlock.backends import registry
from aiodlock.backends.base import Capabilities
from aiodlock.backends.memory import MemoryBackend, MemoryServer
from aiodlock.testing import LoopClock
from aiodlock.testing.conformance import CHECKS, Check, MemoryWorld, World, run
from tests.conformance.cannot import CANNOT

# What each backend declares, written down a second time: a lost capability fails here instead of being skipped.
ALL_KINDS = frozenset({"lock", "rwlock", "semaphore", "latch"})
EXPECTED = {
    "memory": Capabilities(kinds=ALL_KINDS, pushes=True, shared=False, most_tickets=1_000_000, stock=True),
    "mysql": Capabilities(kinds=ALL_KINDS, pushes=True, shared=True, most_tickets=1_000_000, stock=True),
    "mysql-looking": Capabilities(kinds=ALL_KINDS, pushes=False, shared=True, most_tickets=1_000_000, stock=True),
    "lock-table": Capabilities(kinds=frozenset({"lock"}), pushes=False, shared=True, ordered=False),
    "redis": Capabilities(kinds=ALL_KINDS, pushes=True, shared=True, most_tickets=1_000_000, stock=True),
    "cluster": Capabilities(kinds=ALL_KINDS, pushes=True, shared=True, most_tickets=1_000_000, stock=True),
    "redlock": Capabilities(kinds=frozenset({"lock", "rwlock"}), pushes=False, shared=True, ordered=False),
    "zookeeper": Capabilities(kinds=ALL_KINDS, pushes=True, shared=True, most_tickets=1_000_000),
    "zookeeper-3": Capabilities(kinds=ALL_KINDS, pushes=True, shared=True, most_tickets=1_000_000),
}

every_check = pytest.mark.parametrize("check", CHECKS, ids=repr)


@every_check
def test_conformance(world: World, check: Check) -> None:
    """Every check, on every backend; what one of them does not promise is written down in `CANNOT`."""
    run(check, world)


def test_a_backend_can_do_what_the_table_says(backend: str, world: World) -> None:
    """No less, and no more without an entry."""
    found: list[Capabilities] = []

    async def ask(world: World) -> None:
        found.append(world.capabilities)

    run(Check(ask), world)
    assert found == [EXPECTED[backend]]


@pytest.mark.parametrize("backend", CANNOT)
def test_what_is_left_out_is_known(backend: str) -> None:
    """A check that was renamed is not left out by its old name, and none has two reasons."""
    names = [name for names in CANNOT[backend].values() for name in names]
    assert len(set(names)) == len(names)
    assert set(names) <= {check.name for check in CHECKS}


def test_names_are_unique_and_every_check_says_what_it_proves() -> None:
    """A report names a check; its docstring is the behaviour."""
    assert len({check.name for check in CHECKS}) == len(CHECKS)
    assert all(check.prove.__doc__ for check in CHECKS)
    assert {check.needs for check in CHECKS} == {"", "faults"}


# --- somebody else's backend -------------------------------------------------------------------------------


class TheirBackend(MemoryBackend):
    """A backend that is not ours: it says of itself that it cannot push, and registers as ``theirs://``."""

    capabilities = replace(MemoryBackend.capabilities, pushes=False)

    def push(self, call: Call) -> None:
        """Tell of a new connection only, which is no word of the server."""
        if isinstance(call, Reconnected):
            super().push(call)


class TheirWorld(MemoryWorld):
    """What they write to run the suite: a way to connect. Looking takes longer than being called."""

    patience = 3_000.0

    def connect(self, **settings: Any) -> LockClient:
        clock = LoopClock()
        self._server = self._server or MemoryServer(clock=clock)
        return LockClient(TheirBackend(server=self._server), **{"clock": clock, **settings})


@every_check
def test_others_run_the_same_suite(check: Check) -> None:
    """By `LockClient(backend)`."""
    run(check, TheirWorld())


async def test_others_are_found_by_their_entry_point(monkeypatch: pytest.MonkeyPatch) -> None:
    """By URL, once their package says so."""
    entry = importlib.metadata.EntryPoint("theirs", f"{__name__}:TheirBackend", "aiodlock.backends")
    known = importlib.metadata.EntryPoints([entry])
    monkeypatch.setattr(registry, "entry_points", known.select)
    async with aiodlock.connect("theirs://") as locks, locks.lock("k") as hold:
        assert not hold.lost
        assert not locks.backend.capabilities.pushes

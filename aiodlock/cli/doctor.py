"""``aiodlock doctor``: is the server there, how far away, what can it do, and is it set up for locks."""

from __future__ import annotations

import asyncio
import secrets
import statistics
import time
from collections.abc import AsyncIterator
from typing import Annotated

import typer

from aiodlock.backends.base import Capabilities, Diagnosing, Finding
from aiodlock.cli.session import Stop
from aiodlock.cli.show import console, seconds, text
from aiodlock.client import LockClient, connect
from aiodlock.errors import BackendError, LockError

__all__ = ["doctor", "examine"]

_PINGS = 50
_COLOURS = {"ok": "green", "warning": "yellow", "error": "red"}


def doctor(
    url: Annotated[str, typer.Argument(help="The server, for example redis://localhost:6379/0.")],
) -> None:
    """Check a server: reachable, how far away, what it can do, and what its backend knows to look at."""
    asyncio.run(examine(connect(url)))


async def examine(locks: LockClient) -> None:
    """Print every finding; stop with an error if one is.

    Cancellation: the client is closed.
    """
    errors = 0
    begun = time.perf_counter()
    async with locks:
        _print(Finding("reached", f"{locks.backend.address} in {seconds(time.perf_counter() - begun)}"))
        async for finding in _findings(locks):
            _print(finding)
            errors += finding.level == "error"
    if errors:
        raise Stop(f"{errors} of these checks failed: see the advice beside them")


async def _findings(locks: LockClient) -> AsyncIterator[Finding]:
    yield await _distance(locks)
    yield await _lock(locks)
    for finding in _abilities(locks.backend.capabilities):
        yield finding
    if isinstance(locks.backend, Diagnosing):
        for finding in await locks.backend.diagnose():
            yield finding


async def _distance(locks: LockClient) -> Finding:
    times = []
    for _ in range(_PINGS):
        sent = time.perf_counter()
        await locks.ping()
        times.append(time.perf_counter() - sent)
    return Finding("round trip", f"{seconds(statistics.median(times))}, the slowest of {_PINGS} {seconds(max(times))}")


async def _lock(locks: LockClient) -> Finding:
    asked = time.perf_counter()
    try:
        async with locks.lock(f"aiodlock-doctor:{secrets.token_hex(8)}", ttl=5, wait=5):
            pass
    except (BackendError, LockError) as error:
        return Finding("lock", str(error), "error", "the findings below may tell why")
    return Finding("lock", f"acquired and released in {seconds(time.perf_counter() - asked)}")


def _abilities(can: Capabilities) -> list[Finding]:
    return [
        Finding("kinds", ", ".join(sorted(can.kinds))),
        Finding("waiting", "the server calls whoever's turn it is" if can.pushes else "clients look again and again"),
        Finding("seen by", "every process")
        if can.shared
        else Finding("seen by", "this process alone", "warning", "give other processes the URL of a server"),
        Finding("tickets", f"at most {can.most_tickets:,} in a line"),
    ]


def _print(finding: Finding) -> None:
    line = text(f"{finding.level:<9}{finding.what:<13}{finding.found}")
    line.stylize(_COLOURS[finding.level], 0, len(finding.level))
    if finding.advice:
        line.append(f": {finding.advice}")
    console().print(line)

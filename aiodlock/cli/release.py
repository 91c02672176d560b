"""``aiodlock release``: take a lock away from whoever holds it."""

from __future__ import annotations

import asyncio
import enum
import glob
from collections.abc import Iterable
from typing import Annotated

import typer

from aiodlock._core.line import LineId, Row, Ticket
from aiodlock.cli.session import Stop, client_of
from aiodlock.cli.show import clean
from aiodlock.client import LockClient
from aiodlock.policy import check_key

__all__ = ["Kind", "release"]


class Kind(enum.StrEnum):
    """What can be taken away, as `inspect` calls it."""

    LOCK = "lock"
    RWLOCK = "rwlock"
    SEMAPHORE = "semaphore"
    ELECTION = "election"
    SEGMENT = "segment"


def release(
    url: Annotated[str, typer.Argument(help="The server, for example redis://localhost:6379/0.")],
    key: Annotated[str, typer.Argument(help="What is locked.")],
    force: Annotated[bool, typer.Option("--force", help="Yes, take it away: the holder loses it.")] = False,
    kind: Annotated[Kind | None, typer.Option(help="What it is.", show_default="whichever of them is held")] = None,
) -> None:
    """Take a lock away from all who hold it; the next in line get it."""
    asyncio.run(_release(url, check_key(key), force=force, kinds=[kind] if kind else list(Kind)))


async def _release(url: str, key: str, *, force: bool, kinds: Iterable[Kind]) -> None:
    async with client_of(url) as locks:
        rows = await _held(locks, key, kinds)
        if not rows:
            print(f"nobody holds {key!r}")
            return
        kind, *others = dict.fromkeys(row.kind for row in rows)
        if others:
            raise Stop(f"{key!r} is held as {' and as '.join((kind, *others))}: add --kind to say which")
        holders = rows[0].owner + (f" and {len(rows) - 1} more" if rows[1:] else "")
        if not force:
            raise Stop(f"{kind} {key!r} is held by {holders}, who would lose it amid its work: add --force if so")
        for row in rows:
            await locks.backend.leave(Ticket.of(LineId(row.kind, row.key), row.id))
        print(f"{kind} {key!r} was taken from {clean(holders)}")


async def _held(locks: LockClient, key: str, kinds: Iterable[Kind]) -> list[Row]:
    """Look once: who is named is who loses it, also where it passes on meanwhile."""
    rows = [row for kind in kinds for row in await locks.backend.inspect(kind, glob.escape(key))]
    return [row for row in rows if row.inside and row.key == key]

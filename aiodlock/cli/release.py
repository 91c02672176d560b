"""``aiodlock release``: take a lock away from whoever holds it."""

from __future__ import annotations

import asyncio
import enum
from typing import Annotated, Any

import typer

from aiodlock.cli.session import Stop, client_of
from aiodlock.cli.show import clean
from aiodlock.client import LockClient
from aiodlock.locks.base import Synchronizer

__all__ = ["Kind", "release"]


class Kind(enum.StrEnum):
    """What can be taken away."""

    LOCK = "lock"
    RWLOCK = "rwlock"
    SEMAPHORE = "semaphore"

    def of(self, locks: LockClient, key: str) -> Synchronizer[Any]:
        """Return the synchronizer of this kind."""
        match self:
            case Kind.LOCK:
                return locks.lock(key)
            case Kind.RWLOCK:
                return locks.rwlock(key).write()
            case Kind.SEMAPHORE:
                return locks.semaphore(key, permits=1)


def release(
    url: Annotated[str, typer.Argument(help="The server, for example redis://localhost:6379/0.")],
    key: Annotated[str, typer.Argument(help="What is locked.")],
    force: Annotated[bool, typer.Option("--force", help="Yes, take it away: the holder loses it.")] = False,
    kind: Annotated[Kind, typer.Option(help="What it is.")] = Kind.LOCK,
) -> None:
    """Take a lock away from all who hold it; the next in line get it."""
    asyncio.run(_release(url, key, force=force, kind=kind))


async def _release(url: str, key: str, *, force: bool, kind: Kind) -> None:
    locks = client_of(url)
    lock = kind.of(locks, key)
    async with locks:
        holder = await lock.holder()
        if holder is None:
            print(f"nobody holds the {kind} {key!r}")
        elif not force:
            raise Stop(f"{kind} {key!r} is held by {holder}, who would lose it amid its work: add --force if so")
        else:
            others = await lock.force_release() - 1
            print(f"{kind} {key!r} was taken from {clean(holder)}" + (f" and {others} more" if others > 0 else ""))

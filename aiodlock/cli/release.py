"""``aiodlock release``: take a lock away from whoever holds it."""

from __future__ import annotations

import asyncio
from typing import Annotated

import typer

from aiodlock.cli.session import Stop, client_of

__all__ = ["release"]


def release(
    url: Annotated[str, typer.Argument(help="The server, for example redis://localhost:6379/0.")],
    key: Annotated[str, typer.Argument(help="What is locked.")],
    force: Annotated[bool, typer.Option("--force", help="Yes, take it away: the holder loses it.")] = False,
) -> None:
    """Take a lock away from whoever holds it; the next in line gets it."""
    asyncio.run(_release(url, key, force=force))


async def _release(url: str, key: str, *, force: bool) -> None:
    locks = client_of(url)
    lock = locks.lock(key)
    async with locks:
        holder = await lock.holder()
        if holder is None:
            print(f"nobody holds {key!r}")
        elif not force:
            raise Stop(f"{key!r} is held by {holder}, who would lose it in the middle of its work: add --force if so")
        else:
            await lock.force_release()
            print(f"{key!r} was taken from {holder}")

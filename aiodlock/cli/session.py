"""What the commands that ask a server have in common."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from aiodlock.client import LockClient, connect
from aiodlock.errors import AiodlockError, BackendUnavailableError

__all__ = ["Stop", "connected", "explained"]


class Stop(Exception):
    """End the command with one line and this status."""

    def __init__(self, message: str, *, status: int = 1) -> None:
        super().__init__(message)
        self.status = status


@asynccontextmanager
async def connected(url: str, *, to_others: bool = True) -> AsyncIterator[LockClient]:
    """Open a client; *to_others*: only of a server that other processes see as well."""
    locks = connect(url)
    if to_others and not locks.backend.capabilities.shared:
        raise Stop(
            f"{url.partition('://')[0]}:// lives inside one process, and this command is a process of its own: nobody "
            "else's locks are there. Give the URL of a server"
        )
    async with locks:
        yield locks


def explained(error: AiodlockError) -> str:
    """Return the line for *error*, with the next step where its message has none."""
    if isinstance(error, BackendUnavailableError):
        return f"{error}; check that the server runs and that the URL is right"
    return str(error)

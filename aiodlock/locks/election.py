"""Election: the lock of a role that one process has at a time."""

from __future__ import annotations

from typing import TYPE_CHECKING

from aiodlock.locks.lock import Lock
from aiodlock.policy import Policy

if TYPE_CHECKING:
    from aiodlock.client import LockClient

__all__ = ["Election"]


class Election:
    """Who leads. Losing the leadership cancels the block. Made by `LockClient.election`."""

    def __init__(self, client: LockClient, key: str, policy: Policy) -> None:
        self._lock = Lock(client, key, policy, kind="election")

    def __repr__(self) -> str:
        return f"<Election {self._lock.key!r}>"

    def leadership(self) -> Lock:
        """Return the lock to be led under: ``async with election.leadership() as hold:``."""
        return self._lock

    async def leader(self) -> str | None:
        """Ask the server for the name of the client that leads.

        Cancellation: nothing is left behind.
        """
        return await self._lock.holder()

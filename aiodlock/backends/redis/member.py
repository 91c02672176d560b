"""A server of a cluster that this client uses, and what travels to it with more ado than other commands."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field

from aiodlock.backends.redis.confirmed import Confirming
from aiodlock.backends.redis.node import Node, close_together
from aiodlock.backends.redis.slots import Redirection, Spot
from aiodlock.errors import BackendUnavailableError

__all__ = ["Member", "RedirectedError"]


@dataclass(slots=True)
class Member:
    """A server that we use, and the channels subscribed on its present connection.

    Where replicas have to confirm joins and renewals, these have a connection of their own, `granting`.
    """

    spot: Spot
    node: Node
    granting: Node | None = None
    grants: Confirming | None = None
    channels: set[bytes] = field(default_factory=set)
    asked: dict[bytes, asyncio.Future[None]] = field(default_factory=dict)  # subscriptions not confirmed yet

    def confirm_by(self, granting: Node, *, replicas: int, within: float) -> None:
        """Send joins and renewals over *granting*, and believe those that so many *replicas* have."""
        granting.start()
        self.granting, self.grants = granting, Confirming(granting, replicas=replicas, within=within)

    def heard(self, channel: bytes, listening: asyncio.Future[None]) -> None:
        """Take the answer to a subscription; a refused one is tried again with the next command."""
        self.asked.pop(channel, None)
        if listening.cancelled() or listening.exception():
            self.channels.discard(channel)

    async def aclose(self) -> None:
        await close_together(node for node in (self.granting, self.node) if node is not None)


class RedirectedError(BackendUnavailableError):
    """A join or a renewal belongs elsewhere; it has done nothing."""

    def __init__(self, redirection: Redirection, error: str) -> None:
        super().__init__(error)
        self.redirection = redirection

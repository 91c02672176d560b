"""The countdown latch: opens for everybody when it has been counted down, and stays open."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from aiodlock._core.line import WAITING_LIFE, LineId
from aiodlock.errors import AcquireTimeoutError
from aiodlock.policy import DEFAULT, Default, Policy, check_count, check_wait

if TYPE_CHECKING:
    from aiodlock.client import LockClient

__all__ = ["Latch"]


class Latch:
    """Opens for everybody when it was counted down to 0, and stays open. Made by `LockClient.latch`.

    The first to use the key sets the count. It is remembered for its ttl after it was last counted down, asked or
    waited for; then the key begins anew. A latch opens once: for the next time take another key.
    """

    def __init__(self, client: LockClient, key: str, policy: Policy, *, count: int) -> None:
        self._client = client
        self._line = LineId("latch", key)
        self._policy = policy
        self._count = check_count("count", count)

    def __repr__(self) -> str:
        return f"<Latch {self._line.key!r} of {self._count}>"

    @property
    def key(self) -> str:
        """What is counted down."""
        return self._line.key

    async def count_down(self, n: int = 1) -> int:
        """Count down by *n* and return what is left. Sent again after a lost reply it counts once.

        Cancellation: it counts, or does not, exactly once; a request on its way is seen through.
        """
        operation = self._client._at_work().new_id()
        return await self._ask(down=check_count("n", n), operation=operation)

    async def count(self) -> int:
        """Return what is left.

        Cancellation: nothing is left behind.
        """
        return await self._ask(down=0, operation="")

    async def opened(self, wait: float | Default | None = DEFAULT) -> None:
        """Wait until the count is 0, at most *wait* seconds (0: one look); then raise `AcquireTimeoutError`.

        Cancellation: nothing is left behind.
        """
        limit = self._policy.wait if isinstance(wait, Default) else check_wait(wait)
        if not await (self._is_open() if limit == 0 else self._watch(limit)):
            raise AcquireTimeoutError(self.key, waited=limit or 0.0)

    async def _watch(self, limit: float | None) -> bool:
        engine = self._client._at_work()
        every = min(self._policy.ttl, WAITING_LIFE) / 3
        watch = engine.latches.watch(self._line, self._is_open, every=every)
        if limit is not None:
            engine.limit(watch, limit, False)
        try:
            return await watch
        finally:
            engine.latches.forget(self._line, watch)

    async def _is_open(self) -> bool:
        return await self._ask(down=0, operation="") == 0

    async def _ask(self, *, down: int, operation: str) -> int:
        """Ask until there is an answer: the operation's id makes that safe."""
        engine, ttl = self._client._at_work(), self._policy.ttl
        verb = partial(engine.backend.latch, self._line, count=self._count, down=down, operation=operation, ttl=ttl)
        return await engine.ask(engine.repeat(verb, within=ttl))

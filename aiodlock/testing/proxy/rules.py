"""Which requests are harmed, and how.

The proxy knows no protocol: what one read from the client returns is a request. A client that writes many commands at
once makes one request of them.
"""

from __future__ import annotations

import asyncio
import enum
import threading
from collections.abc import Callable
from typing import TypeAlias

__all__ = ["Harm", "HeldBack", "Match", "Rule"]

Match: TypeAlias = bytes | Callable[[bytes], bool] | None
"""Bytes that the request contains, a function that says yes, or None for all requests."""


class Harm(enum.Enum):
    """What is done to a request."""

    DROP_REQUEST = "reset the connection instead of forwarding"
    DROP_REPLY = "forward, then reset the connection instead of replying"
    HOLD_BACK = "forward only on command"


class Rule:
    """Harm every k-th of the requests that match, so many times; ``done`` counts them."""

    def __init__(self, harm: Harm, *, match: Match, every: int, times: int | None) -> None:
        if every < 1:
            raise ValueError(f"every {every}-th request: give a number from 1 on")
        self.harm = harm
        self.done = 0
        self._match = match
        self._every = every
        self._times = times
        self._seen = 0

    def applies(self, request: bytes) -> bool:
        """Count this request and tell whether it is the one to harm."""
        if self.done == self._times or not _matches(self._match, request):
            return False
        self._seen += 1
        if self._seen % self._every:
            return False
        self.done += 1
        return True


class HeldBack(Rule):
    """One request that is kept in the proxy until `deliver`, also when its client is long gone.

    What the same connection sends after it waits behind it, as bytes of one stream do. A cut or reset meanwhile ends
    the client's side only.
    """

    def __init__(self, *, match: Match, every: int) -> None:
        super().__init__(Harm.HOLD_BACK, match=match, every=every, times=1)
        self._request = b""
        self._caught = threading.Event()
        self._released = asyncio.Event()
        self._settled = threading.Event()
        self.delivered = False

    def wait(self, *, within: float) -> bytes:
        """Return the request as soon as it has been caught."""
        if not self._caught.wait(within):
            raise TimeoutError(f"no request was held back within {within:g}s")
        return self._request

    def deliver(self, *, within: float = 5.0) -> None:
        """Let it go to the server; returns when the server has answered on that connection, or closed it."""
        if not self._caught.is_set():
            raise RuntimeError("no request has been held back yet: wait() for it")
        self._loop.call_soon_threadsafe(self._released.set)
        if not self._settled.wait(within):
            raise TimeoutError(f"the server has not answered the late request within {within:g}s")
        if not self.delivered:
            raise ConnectionError("the server's side of the connection ended before the late request was delivered")

    async def hold(self, request: bytes) -> None:
        """Keep a request until it is released; called by the link that caught it."""
        self._request = request
        self._loop = asyncio.get_running_loop()
        self._caught.set()
        await self._released.wait()
        self.delivered = True

    def settle(self) -> None:
        """Note that the server has answered, or never will; called by the link."""
        self._settled.set()


def _matches(match: Match, request: bytes) -> bool:
    if match is None:
        return True
    return match in request if isinstance(match, bytes) else match(request)

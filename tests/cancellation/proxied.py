"""The stage of one run on a real Redis with trouble on the way: there is a proxy before our client."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from typing import Any

import aiodlock
from aiodlock.backends.redis.scripts import load
from aiodlock.client import LockClient
from aiodlock.testing.proxy import FaultProxy, HeldBack
from aiodlock.testing.servers import RedisServer
from tests.cancellation.kinds import Kind
from tests.cancellation.real import RealStage
from tests.cancellation.wire import Fault

__all__ = ["ProxiedStage", "Trouble"]

_SCRIPTS = {"change": ("weight", "size")}  # of a verb; others have one of their name


class Trouble:
    """What a `Wire` does to the memory backend, done by *proxy*; until `heal`."""

    def __init__(self, proxy: FaultProxy) -> None:
        self._proxy = proxy
        self._late: list[HeldBack] = []
        self.cut = proxy.cut
        self.come_back = proxy.heal

    def harm(self, verb: str, fault: Fault) -> None:
        """Have something happen to the next request of *verb*."""
        if fault == "drop reply":
            self._proxy.drop_reply(match=_is(verb), times=1)
        elif fault == "drop request":
            self._proxy.drop_request(match=_is(verb), times=1)
        else:
            self._hold_back(_is(verb))

    def go_down(self) -> None:
        """Lose the connection and refuse another, until `come_back`."""
        self._proxy.refuse()
        self._proxy.cut()

    async def deliver_late(self) -> bool:
        """Let requests arrive that were on their way when the connection was lost; return whether there were any."""
        caught = [late for late in self._late if late.done]
        self._late.clear()
        for late in caught:
            await asyncio.to_thread(late.deliver)
        return bool(caught)

    def heal(self) -> None:
        """Take everything back."""
        self._proxy.heal()

    def _hold_back(self, is_meant: Callable[[bytes], bool]) -> None:
        """Keep a request of which the client hears no more than that its connection was lost."""
        loop = asyncio.get_running_loop()

        def catch(request: bytes) -> bool:
            if caught := is_meant(request):
                loop.call_soon_threadsafe(self._proxy.cut)
            return caught

        self._late.append(self._proxy.hold_back(match=catch))


def _is(verb: str) -> Callable[[bytes], bool]:
    """Return what knows a request of *verb*."""
    if verb == "open":
        return lambda request: b"HELLO" in request
    shas = [load(name).sha.encode() for name in _SCRIPTS.get(verb, (verb,))]
    return lambda request: any(sha in request for sha in shas)


class ProxiedStage(RealStage):
    """Everything one run needs, on *server*, with *proxy* before our client."""

    def __init__(self, kind: Kind, policy: Mapping[str, Any], *, server: RedisServer, proxy: FaultProxy) -> None:
        urls = {"ours": f"redis://127.0.0.1:{proxy.port}/0", "other": server.url}

        def connect(name: str, prefix: str) -> LockClient:
            return aiodlock.connect(urls[name], name=name, prefix=prefix)

        self._trouble = Trouble(proxy)
        super().__init__(kind, policy, connect=connect)

    @property
    def trouble(self) -> Trouble:
        return self._trouble

    async def close(self) -> None:
        self._trouble.heal()
        await super().close()

    async def _kept(self) -> list[str]:
        """Look again after the late requests, which come when everything else has been done."""
        left = await super()._kept()
        if not left and await self._trouble.deliver_late():
            return await super()._kept()
        return left

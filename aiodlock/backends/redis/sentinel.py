"""Redis behind sentinels: the lines are at the master, and follow it when another server takes over."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from aiodlock.backends.base import Finding, OnCall
from aiodlock.backends.redis.backend import RedisBackend
from aiodlock.backends.redis.discovery import Sentinels, Told
from aiodlock.backends.redis.node import Node, close_together
from aiodlock.backends.redis.scripts import command, to_none
from aiodlock.backends.redis.wire import Link

__all__ = ["SentinelBackend", "judge_sentinels"]

_SWITCHED = b"+switch-master"


class SentinelBackend(RedisBackend):
    """One client's connection to the master of a service; *settings* are those of `RedisBackend`.

    Every connection is made to the master that the sentinels name then. It is given up when it is lost, when its server
    turns out to be no master any more, and when a sentinel tells of a new one: a server that was cut off from the
    sentinels may still believe to be the master.
    """

    def __init__(self, sentinels: Sentinels, *, name: str = "aiodlock", patience: float = 3.0, **settings: Any) -> None:
        sentinels = replace(sentinels, patience=patience / 3)
        super().__init__(sentinels, name=name, patience=patience, **settings)
        self.sentinels = sentinels
        self._watching = [
            Node(sentinel, name=name, greet=_subscribe, on_push=self._told, patience=patience)
            for sentinel in sentinels.sentinels
        ]

    @classmethod
    def from_url(cls, url: str, *, unverified: bool = False, **settings: Any) -> SentinelBackend:
        """Return the backend of ``redis+sentinel://`` or ``rediss+sentinel://``."""
        return cls(Sentinels.from_url(url, unverified=unverified), **settings)

    async def open(self, on_call: OnCall) -> None:
        await super().open(on_call)
        for node in self._watching:  # one of them may be away: the others tell
            node.keep()

    async def aclose(self) -> None:
        await asyncio.gather(close_together(self._watching), super().aclose())

    async def diagnose(self) -> Sequence[Finding]:
        return [judge_sentinels(await self.sentinels.ask()), *await super().diagnose()]

    def _told(self, push: list[Any], via: int) -> None:
        if push[0] != b"message" or push[1] != _SWITCHED:
            return
        service, *_, host, port = push[2].decode().split(" ")
        if service == self.sentinels.service:
            for node in self._nodes:
                if node.peer != (host, int(port)):
                    node.reset(f"{host}:{port} is the master now")


def judge_sentinels(answers: Sequence[Told | Exception]) -> Finding:
    """Say whether enough sentinels answer and name the same master: without most of them nobody replaces it."""
    told = [answer for answer in answers if isinstance(answer, Told)]
    found = f"{len(told)} of {len(answers)} answer"
    if len(told) <= len(answers) // 2:
        return Finding("sentinels", found, "error", "start the others: no new master can be chosen")
    if len({(one.host, one.port) for one in told}) > 1:
        return Finding("sentinels", f"{found}, and name different masters", "warning", "a failover goes on: look again")
    if len(told) < len(answers):
        return Finding("sentinels", found, "warning", "start the others")
    return Finding("sentinels", f"{found}, the master is {told[0].host}:{told[0].port}")


async def _subscribe(link: Link) -> None:
    await link.send(command("SUBSCRIBE", _SWITCHED), to_none)

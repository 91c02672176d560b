"""Grants that count only when replicas have them: joins and renewals, with a ``WAIT`` behind them.

``WAIT`` speaks of the writes of its own connection and holds up whatever is queued behind it there. So these commands
have a connection of their own, and go out in rounds: all that came meanwhile together, one ``WAIT`` for all of them.
"""

from __future__ import annotations

import asyncio
from functools import partial
from typing import Any, NamedTuple, TypeAlias

from aiodlock._core.line import Gone, GoneWhy, Inside, Waiting
from aiodlock.backends.redis.node import Node
from aiodlock.backends.redis.request import Request
from aiodlock.backends.redis.scripts import command, to_none
from aiodlock.errors import BackendUnavailableError

__all__ = ["Confirming", "doubted"]


class _Asked(NamedTuple):
    """What somebody waits for, and the command that may go before it."""

    request: Request[Any]
    first: bytes | None


_Round: TypeAlias = "list[tuple[Request[Any], Request[Any]]]"  # who waits, and what was sent


class Confirming:
    """Sends over *node*; an answer that fewer than *replicas* have *within* so many seconds is told as a doubt."""

    def __init__(self, node: Node, *, replicas: int, within: float) -> None:
        self._node = node
        self._replicas = replicas
        self._wait = command("WAIT", replicas, max(1, round(within * 1000)))  # 0 would wait for ever
        self._next: list[_Asked] = []
        self._under_way = False

    def take(self, request: Request[Any], *, first: bytes | None = None) -> None:
        """Send with the next round, behind the command *first*; it gets the reply, or what `doubted` makes of that."""
        self._next.append(_Asked(request, first))
        if not self._under_way:
            self._under_way = True
            asyncio.get_running_loop().call_soon(self._begin)

    def _begin(self) -> None:
        asked, self._next = self._next, []
        self._under_way = bool(asked)
        if asked:
            self._send_wait([(one.request, self._send(one)) for one in asked])

    def _send(self, one: _Asked) -> Request[Any]:
        if one.first is not None:
            self._node.send(one.first, to_none).future.add_done_callback(lambda done: done.exception())
        sent = one.request.again()
        self._node.take(sent)
        return sent

    def _send_wait(self, sent: _Round) -> None:
        # A command that met NOSCRIPT is sent again, and is then behind the WAIT: that one says nothing of it.
        def counted(reply: Any, via: int) -> int | None:
            return int(reply) if all(answer.done() for _, answer in sent) else None

        waited = self._node.send(self._wait, counted)
        waited.future.add_done_callback(partial(self._waited, sent))

    def _waited(self, sent: _Round, waited: asyncio.Future[int | None]) -> None:
        error = waited.exception()
        count = 0 if error else waited.result()
        if count is None:
            self._send_wait(sent)
            return
        for request, answer in sent:
            answer.future.add_done_callback(partial(_settle, request, error, count >= self._replicas))
        self._begin()


def _settle(
    request: Request[Any], error: BaseException | None, is_confirmed: bool, answer: asyncio.Future[Any]
) -> None:
    if error := answer.exception() or error:
        request.fail(error)
        return
    try:
        result = answer.result() if is_confirmed else doubted(answer.result())
    except BackendUnavailableError as doubt:
        request.fail(doubt)
    else:
        request.arrive(result)


def doubted(answer: object) -> object:
    """Return what counts of an unconfirmed answer: a refusal does, a join has to be left, a renewal was none.

    Whatever else was done has to be asked for again: that raises.
    """
    match answer:
        case Gone():
            return answer
        case Inside() | Waiting():
            return Gone(GoneWhy.UNCONFIRMED, via=answer.via)
        case [Inside() | Waiting() | Gone(), *_]:
            return [one if isinstance(one, Gone) else None for one in answer]
    raise BackendUnavailableError("done, but too few replicas have confirmed it: ask again")

"""Requests: commands under way, and which of them go out as one call."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from operator import attrgetter
from typing import Any, TypeAlias, TypeVar

from aiodlock.backends.base import Reply
from aiodlock.backends.redis.scripts import Script

__all__ = ["Decode", "Request", "merged", "packed"]

_T = TypeVar("_T")
Decode: TypeAlias = Callable[[Any, int], _T]

_NAME = attrgetter("name")


class Request(Reply[_T]):
    """A command under way: its answer, how to read that, and what to send.

    One with a packed *key* is a verb for one ticket, of a script for many: *payload* is what comes behind the key, and
    requests of one script go out as one call.
    """

    __slots__ = ("decode", "hops", "key", "payload", "script")

    def __init__(self, payload: bytes, decode: Decode[_T], script: Script | None = None, key: bytes = b"") -> None:
        self.then = None
        self.made = None
        self.payload = payload
        self.decode = decode
        self.script = script  # which the server may not know
        self.key = key
        self.hops = 0  # how often it was sent on to another server

    def again(self) -> Request[_T]:
        """Return the same command with an answer of its own."""
        return Request(self.payload, self.decode, self.script, self.key)


def merged(requests: list[Request[Any]]) -> list[list[Request[Any]]]:
    """Put verbs of one script together: leaves first, as they let others in. Nothing moves past a whole command."""
    calls: list[list[Request[Any]]] = []
    verbs: dict[Script | None, list[Request[Any]]] = {}
    for request in requests:
        if not request.key:
            calls += [*_leaves_first(verbs), [request]]
            verbs = {}
        elif request.script in verbs:
            verbs[request.script].append(request)
        else:
            verbs[request.script] = [request]
    return calls + _leaves_first(verbs)


def packed(call: list[Request[Any]]) -> bytes:
    """Return requests that go out as one call as the command for it."""
    first, count = call[0], len(call)
    if not first.key:
        return first.payload
    if count == 1:  # whoever is alone does not wait for more than that
        return b"".join((_head(first.script, 1), first.key, first.payload))
    keys, payloads = [request.key for request in call], [request.payload for request in call]
    return b"".join((_head(first.script, count), *keys, *payloads))


def _leaves_first(verbs: dict[Script | None, list[Request[Any]]]) -> list[list[Request[Any]]]:
    return [verbs[script] for script in sorted(verbs, key=_NAME, reverse=True)]


@cache
def _head(script: Script | None, count: int) -> bytes:
    assert script is not None
    return script.head(2 * count, keys=count)

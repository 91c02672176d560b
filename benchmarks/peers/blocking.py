"""The floor for a hand-off over Redis: two small scripts on a blocking socket, no event loop.

The release makes the next waiter owner and publishes to it. One waiter per process, because waiting blocks.
"""

from __future__ import annotations

import os

from benchmarks.peers.base import LEASE, Peer, Role
from benchmarks.resp import Wire

__all__ = ["PEERS"]

_ACQUIRE = """
if redis.call('set', KEYS[1], ARGV[1], 'NX', 'PX', ARGV[2]) then return 1 end
redis.call('rpush', KEYS[2], ARGV[1])
return 0
"""

_RELEASE = """
if redis.call('get', KEYS[1]) ~= ARGV[1] then return 0 end
local next = redis.call('lpop', KEYS[2])
if not next then return redis.call('del', KEYS[1]) end
redis.call('set', KEYS[1], next, 'PX', ARGV[2])
redis.call('publish', next, 'inside')
return 1
"""


class _Blocking:
    def __init__(self, url: str) -> None:
        self._url = url

    async def open(self) -> None:
        self.wire = Wire(self._url)
        self.token = f"blocking-{os.getpid()}"
        self.wire.call("HELLO", 3)
        self.wire.call("SUBSCRIBE", self.token)
        self.acquire = self._load(_ACQUIRE)
        self.release = self._load(_RELEASE)

    def lock(self, key: str) -> _Entry:
        return _Entry(self, key)

    def evaluate(self, script: bytes, key: str) -> object:
        return self.wire.call("EVALSHA", script, 2, key, f"{key}:line", self.token, LEASE * 1000)

    def _load(self, script: str) -> bytes:
        sha = self.wire.call("SCRIPT", "LOAD", script)
        assert isinstance(sha, bytes)
        return sha


class _Entry:
    def __init__(self, adapter: _Blocking, key: str) -> None:
        self._adapter, self._key = adapter, key

    async def __aenter__(self) -> object:
        if not self._adapter.evaluate(self._adapter.acquire, self._key):
            self._adapter.wire.read()  # the push that says "inside"
        return self

    async def __aexit__(self, *exc: object) -> None:
        self._adapter.evaluate(self._adapter.release, self._key)


PEERS = (
    Peer(
        "blocking-socket",
        _Blocking,
        note="two scripts on a blocking socket",
        only=frozenset({"U1", "W"}),
        role=Role.LIMIT,
    ),
)

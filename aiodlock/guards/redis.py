"""A guard for data in Redis, over your own redis-py client."""

from __future__ import annotations

from importlib import resources
from typing import TYPE_CHECKING, Any, cast

from aiodlock._core.fence import check_fence
from aiodlock.errors import LockLostError

if TYPE_CHECKING:
    from redis.asyncio import Redis, RedisCluster

__all__ = ["RedisGuard"]

_WIDTH = 19  # digits of the largest fence


class RedisGuard:
    """Runs commands on keys of one Redis, or cluster, that is written to under locks of any backend.

    Every write to a guarded key has to go through a guard: a plain ``SET`` asks nobody. The newest fence of a key is
    kept beside it, in the same slot, without an expiry; delete it only when nobody can come late any more.
    """

    def __init__(self, redis: Redis | RedisCluster) -> None:
        script = resources.files("aiodlock.guards").joinpath("lua", "write.lua").read_text("utf-8")
        self._redis = redis
        self._write = redis.register_script(script)

    async def write(self, key: str, command: str, *arguments: bytes | str | float, fence: int) -> object:
        """Run *command* with *key* as its first argument, and return the reply.

        ``await guard.write("stock:42", "SET", 17, fence=hold.fence)``. The same fence may write any number of times; an
        older one than the last raises `LockLostError`, and nothing is written.

        Cancellation: the write may or may not be done; it can be repeated with the same fence.
        """
        keys, text = [key, self.fence_key(key)], f"{check_fence(fence):0{_WIDTH}d}"
        accepted, reply = cast("tuple[int, Any]", await self._write(keys=keys, args=[text, command, *arguments]))
        if not accepted:
            raise LockLostError(key, reason=f"fence {fence} came after {int(reply)}: a later holder has written")
        return reply

    async def newest(self, key: str) -> int:
        """Return the newest fence that wrote to *key*, 0 if none did.

        Cancellation: nothing is left behind.
        """
        return int(await self._redis.get(self.fence_key(key)) or 0)

    @staticmethod
    def fence_key(key: str) -> str:
        """Return where the fence of *key* is kept: in the same slot of a cluster."""
        opening = key.find("{")
        is_tagged = opening >= 0 and key.find("}", opening) > opening + 1
        return f"{key}:fence" if is_tagged else f"{{{key}}}:fence"

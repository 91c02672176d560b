"""Lines kept in Redis by Lua scripts, one hash per line, over one multiplexed connection."""

from aiodlock.backends.redis.backend import RedisBackend

__all__ = ["RedisBackend"]

"""The least that a Redis user needs."""

from __future__ import annotations

__all__ = ["COMMANDS", "acl_line"]

COMMANDS = (
    *("ping", "hello", "select", "evalsha", "script|load", "scan", "subscribe", "publish"),
    *("time", "hget", "hmget", "hset", "hdel", "del", "pexpireat"),
    *("hexists", "hscan", "persist", "zadd", "zrem", "zrangebyscore", "xadd", "xdel", "xrange", "xtrim"),  # stock
)


def acl_line(user: str, password: str, *, prefix: str = "aiodlock") -> tuple[str, ...]:
    """Return the ``ACL SETUSER`` command of a user who can keep lines under *prefix* and nothing else.

    ``scan`` is for ``inspect``, ``del`` for latches; without pushes ``subscribe`` and ``publish`` are not needed.
    """
    keys = (f"~{prefix}:*", f"&{prefix}:calls:*")
    commands = (f"+{name}" for name in COMMANDS)
    return "ACL", "SETUSER", user, "reset", "on", f">{password}", *keys, "-@all", *commands

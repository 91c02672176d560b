"""The least that a Redis user needs."""

from __future__ import annotations

__all__ = ["CLUSTER_COMMANDS", "COMMANDS", "acl_line"]

COMMANDS = (
    *("ping", "hello", "select", "evalsha", "script|load", "scan", "subscribe", "publish"),
    *("time", "hget", "hmget", "hset", "hdel", "del", "pexpireat"),
)
CLUSTER_COMMANDS = (
    *(name for name in COMMANDS if name not in ("select", "subscribe", "publish")),
    *("ssubscribe", "spublish", "asking", "cluster|slots"),
)


def acl_line(user: str, password: str, *, prefix: str = "aiodlock", cluster: bool = False) -> tuple[str, ...]:
    """Return the ``ACL SETUSER`` command of a user who can keep lines under *prefix* and nothing else.

    ``scan`` is for ``inspect``, ``del`` for latches; without pushes ``subscribe`` and ``publish`` are not needed. In a
    *cluster* it is given to every server.
    """
    keys = (f"~{prefix}:*", f"&{prefix}:calls:*")
    commands = (f"+{name}" for name in (CLUSTER_COMMANDS if cluster else COMMANDS))
    return "ACL", "SETUSER", user, "reset", "on", f">{password}", *keys, "-@all", *commands

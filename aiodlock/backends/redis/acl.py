"""The least that a Redis user needs."""

from __future__ import annotations

__all__ = [
    "CLUSTER_COMMANDS",
    "COMMANDS",
    "CONFIRMING",
    "LOOKING",
    "STOCKING",
    "WATCHING",
    "acl_line",
    "probes",
    "sentinel_acl_line",
]

COMMANDS = (
    *("ping", "hello", "select", "evalsha", "script|load", "scan", "subscribe", "publish"),
    *("time", "hget", "hmget", "hset", "hdel", "del", "pexpireat"),
)
STOCKING = ("hexists", "hscan", "persist", "zadd", "zrem", "zrangebyscore", "xadd", "xdel", "xlen", "xrange", "xtrim")
CLUSTER_COMMANDS = (
    *(name for name in COMMANDS if name not in ("select", "subscribe", "publish")),
    *("ssubscribe", "spublish", "asking", "cluster|slots"),
)
CONFIRMING = ("wait",)  # for min_replicas
LOOKING = ("info", "config|get")  # for all that `aiodlock doctor` can see
WATCHING = ("hello", "subscribe", "sentinel|master", "sentinel|get-master-addr-by-name")  # of a sentinel


def acl_line(
    user: str,
    password: str,
    *,
    prefix: str = "aiodlock",
    cluster: bool = False,
    stocking: bool = False,
    confirming: bool = False,
    looking: bool = False,
) -> tuple[str, ...]:
    """Return the ``ACL SETUSER`` command of a user who can keep lines under *prefix* and nothing else.

    ``scan`` is for ``inspect`` only. Without pushes ``subscribe`` is not needed; where no client of the same lines has
    them, nor is ``publish``. In a *cluster* it is given to every server. *stocking* adds what ``stock`` needs,
    *confirming* what ``min_replicas`` needs, *looking* what lets ``aiodlock doctor`` see how the server is set up.
    """
    keys = (f"~{prefix}:*", f"&{prefix}:calls:*")
    names = [*(CLUSTER_COMMANDS if cluster else COMMANDS)]
    for wanted, further in ((stocking, STOCKING), (confirming, CONFIRMING), (looking, LOOKING)):
        names += further if wanted else ()
    return "ACL", "SETUSER", user, "reset", "on", f">{password}", *keys, "-@all", *(f"+{name}" for name in names)


def sentinel_acl_line(user: str, password: str) -> tuple[str, ...]:
    """Return the ``ACL SETUSER`` command, for each sentinel, of a user who can find and follow the master."""
    rights = (f"+{name}" for name in WATCHING)
    return "ACL", "SETUSER", user, "reset", "on", f">{password}", "&+switch-master", "-@all", *rights


def probes(
    prefix: str, *, pushing: bool = True, confirming: bool = False, cluster: bool = False
) -> dict[str, tuple[str, ...]]:
    """Return for each of our commands a form that changes nothing, whether it is allowed or not.

    Rights are checked before a command looks at its key, which is not there, or at its arguments, which are wrong.
    """
    key, channel = f"{prefix}:{{}}:nothing", f"{prefix}:calls:nobody"
    publish = "spublish" if cluster else "publish"
    return {
        **({"asking": ("ASKING",)} if cluster else {}),  # it concerns the next command only, which does nothing
        "evalsha": ("EVALSHA", "0" * 40, "1", key),
        "script|load": ("SCRIPT", "LOAD", "return 0"),
        "scan": ("SCAN", "0", "MATCH", key, "COUNT", "1"),
        **({publish: (publish.upper(), channel, "")} if pushing else {}),
        "time": ("TIME",),
        "hget": ("HGET", key, "f"),
        "hmget": ("HMGET", key, "f"),
        "hset": ("HSET", key, "f", "v", "odd"),
        "hdel": ("HDEL", key, "f"),
        "del": ("DEL", key),
        "pexpireat": ("PEXPIREAT", key, "1"),
        **({"wait": ("WAIT", "0", "1")} if confirming else {}),
    }

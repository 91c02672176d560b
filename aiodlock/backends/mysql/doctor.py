"""What `aiodlock doctor` asks a MySQL or MariaDB server, and what it makes of the answers."""

from __future__ import annotations

import re
import time
from collections.abc import Sequence

from aiodlock.backends.base import Finding
from aiodlock.backends.mysql.link import Link
from aiodlock.backends.mysql.queries import query

__all__ = ["findings"]

_PER_CLIENT = 2  # connections: for verbs, and to be called on
_NEEDED = ("SELECT", "INSERT", "UPDATE", "DELETE", "EXECUTE")
_GRANT = re.compile(r"GRANT (?P<rights>.+?) ON (?P<where>\S+) TO ")
_ROLE = re.compile(r"GRANT (?P<name>`\S+) TO ")
_LIKE = {"%": ".*", "_": "."}
_SKEW = 1.0  # seconds between the server's clock and ours, beyond which one of them is wrong


async def findings(link: Link) -> Sequence[Finding]:
    """Look at the server's settings and this user's rights; nothing is changed.

    Cancellation: nothing is left behind.
    """
    ((version, most, flush, now, database),) = (await link.ask(query("settings")))[-1]
    status = {name: value for rows in await link.ask(query("status")) for name, value in rows}
    grants = [grant for rows in await link.ask("SHOW GRANTS") for (grant,) in rows]
    return [
        Finding("version", str(version)),
        _rights(grants, str(database)),
        _clock(float(now) - time.time()),
        _connections(int(most), int(status.get("Threads_connected", 0))),
        _flushing(int(flush)),
        _replication(status.get("log_bin") == "ON", str(status.get("binlog_format", ""))),
        _cipher(str(status.get("Ssl_cipher", "")), link.is_local),
    ]


def _rights(grants: Sequence[str], database: str) -> Finding:
    """Decide by ``SHOW GRANTS``: what is granted on all databases, or on ours, by name or pattern."""
    here = [grant for grant in map(_GRANT.match, grants) if grant and _covers(grant["where"], database)]
    rights = {right for grant in here for right in grant["rights"].split(", ")}
    missing = [right for right in _NEEDED if not rights & {right, "ALL PRIVILEGES"}]
    if not missing:
        return Finding("rights", "read, write and call")
    advice = f"GRANT {', '.join(missing)} ON {database}.*"
    if roles := [role["name"] for role in map(_ROLE.match, grants) if role]:
        found = f"through {', '.join(roles)}, which may have them or not"
        return Finding("rights", found, "warning", f"if not: {advice}")
    return Finding("rights", f"no {', '.join(missing)} on {database!r}", "error", advice)


def _covers(where: str, database: str) -> bool:
    """Say whether a grant there is one on *database*: its name may be a pattern, as of LIKE."""
    if where == "*.*":
        return True
    name = where.removesuffix(".*").strip("`").replace("``", "`")
    pattern = re.sub(r"\\?.", lambda part: _LIKE.get(part[0]) or re.escape(part[0][-1]), name)
    return where.endswith(".*") and re.fullmatch(pattern, database) is not None


def _clock(skew: float) -> Finding:
    found = f"{skew:+.2f}s from this machine's"
    if abs(skew) > _SKEW:
        return Finding("clock", found, "warning", "leases are safe, they use the server's; but one of the two is wrong")
    return Finding("clock", found)


def _connections(most: int, used: int) -> Finding:
    room = max(0, most - used) // _PER_CLIENT
    found = f"{used} of {most} used: room for {room} more clients of {_PER_CLIENT} each"
    if room < 5:
        return Finding("connections", found, "warning", "raise max_connections, or share one client per process")
    return Finding("connections", found)


def _flushing(setting: int) -> Finding:
    if setting == 1:
        return Finding("durability", "every commit is on disk")
    found = f"innodb_flush_log_at_trx_commit={setting}: a crash of the machine loses the last second"
    return Finding("durability", found, "warning", "set it to 1 where two holders after such a crash would harm")


def _replication(logs: bool, form: str) -> Finding:
    if logs and form == "STATEMENT":
        advice = "set binlog_format to ROW: READ COMMITTED cannot be logged by statement"
        return Finding("replication", "logged by statement", "error", advice)
    if logs:
        found = f"logged by {form.lower()}: after a failover what was not replicated is not held"
        return Finding("replication", found, "ok", "check fences where that would harm")
    return Finding("replication", "none: no binary log")


def _cipher(cipher: str, is_local: bool) -> Finding:
    if cipher:
        return Finding("encryption", cipher)
    if is_local:
        return Finding("encryption", "none, on this machine")
    return Finding("encryption", "none", "warning", "give mysqls://")

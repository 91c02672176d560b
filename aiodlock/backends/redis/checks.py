"""Is this Redis set up for locks: version, memory, replicas, rights. Looks only; decisions are plain functions."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Awaitable, Mapping
from dataclasses import dataclass

from aiodlock.backends.base import Finding
from aiodlock.backends.redis.acl import probes
from aiodlock.backends.redis.keys import Keys
from aiodlock.backends.redis.node import Node
from aiodlock.backends.redis.scripts import command
from aiodlock.errors import BackendError, BackendUnavailableError

__all__ = ["Replicas", "diagnose", "judge_memory", "judge_replicas", "judge_version", "judge_writes"]

_OLDEST = (7, 0)
_LAZY = 3  # seconds; a replica reports every second
_UNSEEN = "not seen: this user may not ask"
_UNTOLD = "not seen: the server does not tell"


@dataclass(frozen=True, slots=True)
class Replicas:
    """The replicas that a master sees: how many are in step, and how far behind the last of them is."""

    online: int
    lag: int = 0  # seconds since the last word of the quietest one
    behind: int = 0  # bytes

    @classmethod
    def of(cls, info: str) -> Replicas:
        """Read ``INFO replication``."""
        offset = int(_word(info, "master_repl_offset") or 0)
        lines = re.findall(r"^slave\d+:.*state=(\w+),offset=(\d+),lag=(-?\d+)", info, re.MULTILINE)
        online = [(int(lag), offset - int(done)) for state, done, lag in lines if state == "online"]
        lags, behind = zip(*online, strict=True) if online else ([0], [0])
        return cls(len(online), max(lags), max(behind))


async def diagnose(node: Node, keys: Keys, *, pushes: bool, min_replicas: int, cluster: bool = False) -> list[Finding]:
    """Return everything that can be seen; what this user may not ask for is said."""
    hello, info, memory, writes = await asyncio.gather(
        _ask(node, "HELLO"),
        _ask(node, "INFO", "replication"),
        _ask(node, "CONFIG", "GET", "maxmemory*"),
        _ask(node, "CONFIG", "GET", "min-replicas-to-write"),
    )
    replicas = Replicas.of(info.decode()) if isinstance(info, bytes) else None
    return [
        judge_version(_texts(hello)),
        judge_memory(_texts(memory)),
        judge_replicas(replicas, min_replicas),
        judge_writes(_texts(writes), replicas, min_replicas),
        await _rights(node, probes(keys.prefix, pushing=pushes, confirming=min_replicas > 0, cluster=cluster)),
    ]


def judge_version(hello: Mapping[str, str]) -> Finding:
    """Say whether the server is one that the scripts are tested with."""
    name = f"{hello.get('server', 'redis')} {hello.get('version', '')}"
    if tuple(int(part) for part in re.findall(r"\d+", hello.get("version", ""))[:2]) >= _OLDEST:
        return Finding("version", name)
    return Finding("version", name, "warning", "use 7.0 or newer: older ones are not tested")


def judge_memory(settings: Mapping[str, str]) -> Finding:
    """Say whether the server may throw lines away when it is full: every key of ours has an expiry."""
    if not settings:
        return Finding("memory", _UNSEEN, advice="grant +config|get to see the eviction policy")
    policy, limit = settings.get("maxmemory-policy"), int(settings.get("maxmemory", 0))
    if policy is None:
        return Finding("memory", _UNTOLD, advice="see to it that its eviction policy is noeviction")
    if policy == "noeviction":
        return Finding("memory", "refuses when full, throws nothing away")
    advice = "set maxmemory-policy noeviction, or keep locks on a server of their own"
    if limit == 0:
        return Finding("memory", f"no limit, but {policy}: a limit set later would throw locks away", "warning", advice)
    return Finding("memory", f"{policy} beyond {limit:,} bytes: locks are thrown away when it is full", "error", advice)


def judge_replicas(replicas: Replicas | None, min_replicas: int) -> Finding:
    """Say how far behind the replicas are, and whether there are enough."""
    if replicas is None:
        return Finding("replicas", _UNSEEN, advice="grant +info to see them")
    found = f"{replicas.online} in step"
    if replicas.online:
        found += f", {replicas.behind:,} bytes behind at most"
    if replicas.online < min_replicas:
        advice = f"this client asks for {min_replicas}: until they are back no lock is acquired"
        return Finding("replicas", found, "error", advice)
    if replicas.lag >= _LAZY:
        found += f", silent for {replicas.lag} s"
        return Finding("replicas", found, "warning", "a failover now would lose what it has not got")
    return Finding("replicas", found)


def judge_writes(settings: Mapping[str, str], replicas: Replicas | None, min_replicas: int) -> Finding:
    """Say whether a master that was cut off from its replicas goes on granting locks."""
    if (told := settings.get("min-replicas-to-write")) is None or replicas is None:
        return Finding("min-replicas", _UNSEEN, advice="grant +config|get and +info to see them")
    least = int(told)
    if min_replicas or least or not replicas.online:
        return Finding("min-replicas", f"{least} of the server, {min_replicas} of this client")
    advice = "set min-replicas-to-write 1 on every server, or connect with min_replicas=1"
    return Finding("min-replicas", "0: a master that is cut off goes on granting locks", "warning", advice)


async def _rights(node: Node, words: Mapping[str, tuple[str, ...]]) -> Finding:
    """Try every command that we use in a form that changes nothing; only the missing right is of interest."""
    answers = await asyncio.gather(*(_ask(node, *probe) for probe in words.values()))
    missing = [name for name, answer in zip(words, answers, strict=True) if isinstance(answer, BackendError)]
    if not missing:
        return Finding("rights", "all that locks need")
    return Finding("rights", f"missing: {', '.join(missing)}", "error", "grant what the ACL line in the docs lists")


async def _ask(node: Node, *words: str) -> object:
    """Return the reply, or the error where this user may not ask."""
    asked: Awaitable[object] = node.send(command(*words), lambda reply, via: reply)
    try:
        return await asked
    except BackendError as error:
        if isinstance(error, BackendUnavailableError) and "NOSCRIPT" not in str(error):
            raise
        return error if "NOPERM" in str(error) else None


def _texts(reply: object) -> dict[str, str]:
    """Return what a server tells as a map, as text; nothing where it tells nothing."""
    pairs = reply.items() if isinstance(reply, dict) else ()
    return {name.decode(): value.decode() for name, value in pairs if isinstance(value, bytes)}


def _word(info: str, name: str) -> str | None:
    found = re.search(rf"^{name}:(\S+)", info, re.MULTILINE)
    return found[1] if found else None

"""What `aiodlock doctor zk://…` looks at: every server of the ensemble, the session, and who may touch our nodes."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Iterator, Sequence

from aiodlock.backends.base import Finding
from aiodlock.backends.zookeeper.session import Session
from aiodlock.backends.zookeeper.tree import NoNode, Tree
from aiodlock.errors import BackendError, BackendUnavailableError

__all__ = ["diagnose"]

_PATIENCE = 2.0
_OLDEST = (3, 5, 3)  # container nodes


async def diagnose(session: Session, tree: Tree) -> Sequence[Finding]:
    """Look only."""
    hosts = session.address.hosts
    told = await asyncio.gather(*(_ask(host, "srvr") for host in hosts))
    settings = _settings(await _ask(session.host, "conf"))
    servers = [_server(host, answer) for host, answer in zip(hosts, told, strict=True)]
    return [*servers, _ensemble(told), *_session(session, settings), await _access(session, tree)]


async def _ask(host: tuple[str, int], word: str) -> str:
    """Return what a server says to a four-letter word; nothing where it is not reached or not allowed to."""
    try:
        async with asyncio.timeout(_PATIENCE):
            reader, writer = await asyncio.open_connection(*host)
            try:
                writer.write(word.encode())
                return (await reader.read()).decode(errors="replace")
            finally:
                writer.close()
    except (OSError, TimeoutError):
        return ""


def _server(host: tuple[str, int], told: str) -> Finding:
    where, version = f"{host[0]}:{host[1]}", re.search(r"version: (\d+)\.(\d+)\.(\d+)", told)
    if version is None:
        advice = "start it, or allow srvr in 4lw.commands.whitelist"
        return Finding("server", f"{where} {told.strip() or 'does not answer'}"[:100], "warning", advice)
    numbers = tuple(map(int, version.groups()))
    mode = re.search(r"Mode: (\w+)", told)
    found = f"{where} is {'.'.join(version.groups())}, {mode[1] if mode else 'serves nobody'}"
    if numbers < _OLDEST:
        return Finding("server", found, "error", "use 3.5.3 or newer: older ones never remove empty lines")
    return Finding("server", found, "ok" if mode else "warning", "" if mode else "it has no quorum: start the others")


def _ensemble(told: Sequence[str]) -> Finding:
    serving = sum("Mode: " in answer for answer in told)
    if len(told) < 3:
        return Finding(
            "ensemble", f"{serving} of {len(told)} serve", "warning", "name at least three servers in the URL"
        )
    return Finding("ensemble", f"{serving} of {len(told)} serve", "ok" if serving == len(told) else "warning")


def _settings(told: str) -> dict[str, str]:
    return dict(line.split("=", 1) for line in told.splitlines() if "=" in line)


def _session(session: Session, settings: dict[str, str]) -> Iterator[Finding]:
    asked, agreed = session.asked_for, session.seconds
    found = f"{agreed:g}s agreed, a dead client costs others that much"
    if abs(agreed - asked) < 0.01:
        yield Finding("session", found)
    else:
        allowed = f"{settings.get('minSessionTimeout', '?')} to {settings.get('maxSessionTimeout', '?')} ms"
        yield Finding("session", f"{asked:g}s asked for, {found}", "warning", f"the server allows {allowed}")
    tick = settings.get("tickTime")
    if tick is None:
        yield Finding(
            "tick", "not told", "warning", "allow conf in 4lw.commands.whitelist, or compare tickTime yourself"
        )
    elif float(tick) / 1000 > session.tick:
        yield Finding("tick", f"{tick} ms", "error", f"connect with tick={float(tick) / 1000:g}")
    else:
        yield Finding("tick", f"{tick} ms")


async def _access(session: Session, tree: Tree) -> Finding:
    root = session.address.root
    try:
        owners = await tree.owners(root)
    except NoNode:
        return Finding("access", f"{root} is not there yet")
    except BackendUnavailableError:
        raise
    except BackendError:
        return Finding("access", f"{root} belongs to somebody else", "error", "give the URL its user and password")
    if "world:anyone" in owners:
        return Finding("access", f"anybody may change {root}", "warning", "give the URL a user and a password")
    return Finding("access", f"{root} belongs to {', '.join(owners)}")

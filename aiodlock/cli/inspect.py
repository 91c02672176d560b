"""``aiodlock inspect``: who holds, who waits, since when."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Sequence
from dataclasses import asdict
from typing import Annotated

import typer
from rich.console import Console, RenderableType
from rich.live import Live

from aiodlock._core.line import Row
from aiodlock.cli.session import client_of
from aiodlock.cli.show import console, seconds, table, text
from aiodlock.client import LockClient

__all__ = ["inspect"]


def inspect(
    url: Annotated[str, typer.Argument(help="The server, for example redis://localhost:6379/0.")],
    pattern: Annotated[str, typer.Argument(help="Which keys, as a shell would match them.")] = "*",
    as_json: Annotated[bool, typer.Option("--json", help="One line of JSON, a list of tickets.")] = False,
    watch: Annotated[bool, typer.Option("--watch", help="Look again until interrupted.")] = False,
    every: Annotated[float, typer.Option(min=0.05, help="Seconds between two looks of --watch.")] = 1.0,
) -> None:
    """Show every ticket of the lines whose key matches: who holds, who waits, since when."""
    asyncio.run(_inspect(url, pattern, as_json=as_json, every=every if watch else None))


async def _inspect(url: str, pattern: str, *, as_json: bool, every: float | None) -> None:
    out = console()
    async with client_of(url) as locks:
        if every is not None and out.is_terminal and not as_json:
            await _watch(locks, pattern, every, out)
            return
        while True:
            rows = await _look(locks, pattern)
            if as_json:
                print(json.dumps([asdict(row) for row in rows], ensure_ascii=False), flush=True)
            else:
                out.print(_drawn(rows, pattern))
            if every is None:
                return
            await asyncio.sleep(every)


async def _watch(locks: LockClient, pattern: str, every: float, out: Console) -> None:
    with Live(console=out, auto_refresh=False, transient=False) as live:
        while True:
            live.update(_drawn(await _look(locks, pattern), pattern), refresh=True)
            await asyncio.sleep(every)


async def _look(locks: LockClient, pattern: str) -> Sequence[Row]:
    rows = [row async for row in locks.inspect(pattern)]
    return sorted(rows, key=lambda row: (row.key, row.kind, not row.inside, -row.since))


def _drawn(rows: Sequence[Row], pattern: str) -> RenderableType:
    if not rows:
        return text(f"nobody holds or waits for {pattern!r}")
    drawn = table("key", "kind", "is", "owner", "weight", "since", "lease left", "epoch", left=4)
    for row in rows:
        drawn.add_row(
            text(row.key),
            text(row.kind),
            "[green]inside[/]" if row.inside else "[yellow]waiting[/]",
            text(row.owner),
            str(row.weight),
            seconds(row.since),
            seconds(row.remaining),
            "" if row.epoch is None else str(row.epoch),
        )
    return drawn

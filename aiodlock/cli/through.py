"""``aiodlock seckill --orders … --into …``: the whole way of an order, in several processes, killed if you like."""

from __future__ import annotations

import asyncio
import json
from dataclasses import asdict

from rich.console import Console

from aiodlock.cli.parts import Sale
from aiodlock.cli.pipeline import Pipeline, Result
from aiodlock.cli.progress import Progress, progress_on
from aiodlock.cli.session import Stop
from aiodlock.cli.show import console, seconds, table

__all__ = ["sell_through"]


def sell_through(sale: Sale, *, chaos: bool, seed: int, as_json: bool) -> None:
    """Sell under a rush of buyers in several processes, and see every order become one row."""
    if not sale.orders or not sale.into or sale.backend.startswith("memory:"):
        raise Stop(
            "orders go from a stock through Kafka into MySQL: give --url redis://… or mysql://…, --orders kafka://…, "
            "--into mysql://…"
        )
    result = asyncio.run(_watched(Pipeline(sale, chaos=chaos, seed=seed)))
    if as_json:
        print(json.dumps(asdict(result)))
    else:
        _tell(sale, result, console())
    if not result.is_balanced:
        raise Stop(f"the books do not balance: {result}. Please report this bug")


async def _watched(pipeline: Pipeline) -> Result:
    with progress_on(console(stderr=True), total=pipeline.sale.buyers) as progress:
        return await _show(pipeline, progress)


async def _show(pipeline: Pipeline, progress: Progress) -> Result:
    progress.begin("orders")
    selling = asyncio.create_task(pipeline.run())
    try:
        while not (await asyncio.wait((selling,), timeout=progress.every))[0]:
            progress.show(pipeline.served)
    finally:
        selling.cancel()
        await asyncio.wait((selling,))
    progress.show(pipeline.served)
    return selling.result()


def _tell(sale: Sale, result: Result, out: Console) -> None:
    title = f"{sale.stock:,} in stock, {sale.buyers:,} buyers, {sale.shops} shops, from take to row"
    drawn = table("orders/s", "accepted", "rows", "left", "oversold", "lag", "balanced", title=title)
    drawn.add_row(
        f"{result.orders_per_second:,.0f}",
        f"{result.accepted:,}",
        f"{result.rows:,}",
        f"{result.left:,}",
        f"{result.oversold:,}",
        seconds(result.lag),
        "[green]yes[/]" if result.is_balanced else "[bold red]no[/]",
    )
    out.print(drawn)
    if result.killed:
        killed = ", ".join(f"{role} {times} times" for role, times in sorted(result.killed.items()))
        out.print(f"Killed meanwhile: {killed}.")

"""``aiodlock seckill --orders … --into …``: the whole way of an order, in several processes, killed if you like."""

from __future__ import annotations

import asyncio
from contextlib import nullcontext
from dataclasses import asdict

from aiodlock.cli.own_servers import with_own_servers
from aiodlock.cli.parts import Sale
from aiodlock.cli.pipeline import Pipeline, Result
from aiodlock.cli.progress import progress_on, shown
from aiodlock.cli.report import Page
from aiodlock.cli.results import Forms
from aiodlock.cli.session import Stop
from aiodlock.cli.show import console, seconds

__all__ = ["check", "sell_through"]


def sell_through(sale: Sale, forms: Forms, *, chaos: bool, seed: int) -> None:
    """Sell under a rush of buyers in several processes, and see every order become one row.

    With *chaos* the servers that are not given are started for this sale, and ours is the Redis that is killed.
    """
    _check(sale, chaos=chaos)
    with with_own_servers(sale) if chaos else nullcontext((sale, None)) as (placed, redis):
        result = asyncio.run(_watched(Pipeline(placed, chaos=chaos, seed=seed, redis=redis)))
    forms.tell(_page(sale, result))
    check(result)


def check(result: Result) -> None:
    """Books that do not balance are a bug: say so."""
    if not result.is_balanced:
        counts = f"{result.accepted} accepted, {result.rows} rows, {result.left} left, {result.oversold} oversold"
        raise Stop(f"the books do not balance: {counts}. Please report this bug")


def _check(sale: Sale, *, chaos: bool) -> None:
    if sale.backend.startswith("memory:") or not (chaos or (sale.backend and sale.orders and sale.into)):
        raise Stop(
            "orders go from a stock through Kafka into MySQL: give --url redis://… or mysql://…, --orders kafka://… "
            "and --into mysql://…, or --chaos alone, which starts what is not given"
        )
    if chaos and sale.backend:
        console(stderr=True).print("The server given by --url is not killed: without --url one is started for that.")


async def _watched(pipeline: Pipeline) -> Result:
    with progress_on(console(stderr=True), total=pipeline.sale.buyers) as progress:
        return await shown(pipeline.run(), progress, name="orders", done=lambda: pipeline.served)


def _page(sale: Sale, result: Result) -> Page:
    return Page(
        title=f"{sale.stock:,} in stock, {sale.buyers:,} buyers, {sale.shops} shops, from take to row",
        columns=("orders/s", "accepted", "rows", "left", "oversold", "lag", "balanced"),
        rows=[_row(result)],
        story=_story(result),
        courses={"From take to row": result.course},
        figures=asdict(result),
    )


def _row(result: Result) -> tuple[str, ...]:
    return (
        f"{result.orders_per_second:,.0f}",
        f"{result.accepted:,}",
        f"{result.rows:,}",
        f"{result.left:,}",
        f"{result.oversold:,}",
        seconds(result.lag),
        "yes" if result.is_balanced else "no",
    )


def _story(result: Result) -> str:
    killed = ", ".join(f"{times} × {role}" for role, times in sorted(result.killed.items()))
    return f"Killed meanwhile: {killed}." if killed else ""

"""``aiodlock seckill``: a flash sale (秒杀) with and without locks."""

from __future__ import annotations

import asyncio
import secrets
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Annotated

import typer

from aiodlock.cli.parts import Sale
from aiodlock.cli.progress import Progress, progress_on, shown
from aiodlock.cli.report import Page
from aiodlock.cli.results import Forms
from aiodlock.cli.sale import Outcome, Run, Terms
from aiodlock.cli.session import Stop
from aiodlock.cli.show import console, seconds
from aiodlock.cli.through import sell_through
from aiodlock.cli.ways import ways_of
from aiodlock.client import connect

__all__ = ["check", "seckill"]


def seckill(
    buyers: Annotated[int, typer.Option(min=1, help="How many want one.")] = 20_000,
    stock: Annotated[int, typer.Option(min=1, help="How many there are.")] = 10_000,
    segments: Annotated[int, typer.Option(min=1, max=1024, help="Lines of the segmented lock.")] = 16,
    concurrency: Annotated[int, typer.Option(min=1, help="How many buyers at a time.")] = 1_000,
    work: Annotated[float, typer.Option(min=0, max=60, help="Seconds the pretended database takes.")] = 0.001,
    url: Annotated[
        str | None, typer.Option("--url", "--backend", help="Where the locks are; memory:// if not given.")
    ] = None,
    seed: Annotated[int, typer.Option(help="Another seed, another crowd.")] = 42,
    as_json: Annotated[bool, typer.Option("--json", help="The figures as JSON.")] = False,
    orders: Annotated[str | None, typer.Option(help="Kafka, as kafka://host:port: orders go through it.")] = None,
    into: Annotated[str | None, typer.Option(help="MySQL, as mysql://user:password@host/db: their rows.")] = None,
    workers: Annotated[int, typer.Option(min=1, max=64, help="Shops, each a process; with --orders and --into.")] = 4,
    chaos: Annotated[
        bool, typer.Option("--chaos", help="Kill shops, relay, writer, connections, and Redis if it is ours.")
    ] = False,
    svg: Annotated[Path | None, typer.Option(help="Save a picture of the table to this file.")] = None,
    report: Annotated[Path | None, typer.Option(help="Save a page with table and charts to this file.")] = None,
) -> None:
    """Sell out under a rush of buyers: without a lock, with one, with a segmented one, and with stock on the server."""
    forms = Forms(as_json=as_json, svg=svg, report=report)
    if orders or into or chaos:
        sale = Sale(
            key=f"seckill:{secrets.token_hex(8)}",
            backend=url or "",
            orders=(orders or "").removeprefix("kafka://"),
            into=into or "",
            stock=stock,
            buyers=buyers,
            shops=workers,
            segments=segments,
            concurrency=concurrency,
        )
        sell_through(sale, forms, chaos=chaos, seed=seed)
        return
    terms = Terms(stock=stock, buyers=buyers, concurrency=concurrency, segments=segments, work=work, seed=seed)
    outcomes = asyncio.run(_sell(terms, url or "memory://"))
    forms.tell(_page(terms, outcomes))
    check(outcomes)


async def _sell(terms: Terms, url: str) -> list[Outcome]:
    async with connect(url) as locks:
        ways = ways_of(terms, locks, key=f"seckill:{secrets.token_hex(8)}")
        with progress_on(console(stderr=True), total=terms.buyers) as progress:
            return [await _watched(Run(terms, way), progress) for way in ways]


async def _watched(run: Run, progress: Progress) -> Outcome:
    return await shown(run.sell(), progress, name=run.way.name, done=lambda: run.served)


def _page(terms: Terms, outcomes: Sequence[Outcome]) -> Page:
    return Page(
        title=f"{terms.stock:,} in stock, {terms.buyers:,} buyers, {terms.concurrency:,} at a time",
        columns=("", "orders/s", "wait p50", "wait p99", "sold", "oversold", "fairness"),
        rows=[_row(outcome) for outcome in outcomes],
        story=_story(terms, outcomes),
        courses={outcome.way: outcome.course for outcome in outcomes},
        figures={"terms": asdict(terms), "ways": [asdict(outcome) for outcome in outcomes]},
    )


def _row(outcome: Outcome) -> tuple[str, ...]:
    return (
        outcome.way,
        f"{outcome.orders_per_second:,.0f}",
        seconds(outcome.wait_p50),
        seconds(outcome.wait_p99),
        f"{outcome.sold:,}",
        f"{outcome.oversold:,}",
        f"{outcome.fairness:.3f}",
    )


def _story(terms: Terms, outcomes: Sequence[Outcome]) -> str:
    none, one, segmented = outcomes[:3]
    lines = []
    if none.oversold:
        lines.append(
            f"Without a lock {none.sold:,} orders were taken for {terms.stock:,} articles: each buyer reads the stock, "
            "waits for the database, and writes back a number that others have changed meanwhile."
        )
    if one.orders_per_second:
        times = segmented.orders_per_second / one.orders_per_second
        lines.append(f"{terms.segments} segments take {times:.1f} times the orders of one lock.")
    if outcomes[3:] and segmented.orders_per_second:
        times = outcomes[3].orders_per_second / segmented.orders_per_second
        lines.append(f"Stock on the server needs no lock, and takes {times:.1f} times the orders of those.")
    return "\n".join(lines)


def check(outcomes: Sequence[Outcome]) -> None:
    """A lock that lets stock be sold twice, or not at all, is a bug: say so."""
    for outcome in outcomes[1:]:
        if outcome.oversold or outcome.unsold:
            raise Stop(f"{outcome.way}: {outcome.oversold} oversold, {outcome.unsold} unsold. Please report this bug")

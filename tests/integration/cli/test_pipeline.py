"""``aiodlock seckill --orders … --into …``: from take to row in several processes, while they are killed."""

from __future__ import annotations

import asyncio
import json
import subprocess
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pytest

from aiodlock._core.stock import Audit
from aiodlock.cli.company import Company
from aiodlock.cli.part import Part
from aiodlock.cli.parts import UNAVAILABLE, Sale
from aiodlock.cli.pipeline import Pipeline
from aiodlock.cli.session import Stop
from aiodlock.cli.through import check
from aiodlock.errors import BackendUnavailableError
from aiodlock.testing.servers import KafkaServer, MariaDBServer, RedisServer, free_ports, require
from tests.integration.cli.support import AIODLOCK, Cli, assert_one_line

PARTS = {"shop", "relay", "writer", "connection"}


@pytest.fixture(scope="module")
def servers() -> Iterator[tuple[str, ...]]:
    """The options that name them."""
    for kind in (KafkaServer, MariaDBServer, RedisServer):
        require(kind)
    with ExitStack() as stack:
        kafka, mariadb = stack.enter_context(KafkaServer()), stack.enter_context(MariaDBServer())
        redis = stack.enter_context(RedisServer(durable=True))
        yield ("--url", redis.url, "--orders", kafka.url, "--into", mariadb.url)


@pytest.fixture
def one_database(servers: tuple[str, ...]) -> tuple[str, ...]:
    """The same, with the stock in the database of the rows: a later option counts."""
    return (*servers, "--url", servers[-1])


def balance(page: Path, *options: str) -> dict[str, Any]:
    """Sell, and return the figures; they are the same on the page."""
    sizes = ("--buyers", "3000", "--stock", "1500", "--workers", "3", "--concurrency", "30", "--segments", "4")
    command = (*AIODLOCK, "seckill", *sizes, "--json", "--report", str(page), *options)
    ended = subprocess.run(command, capture_output=True, text=True, timeout=230, check=False)
    assert ended.returncode == 0, ended.stderr
    assert "Traceback" not in ended.stderr
    result: dict[str, Any] = json.loads(ended.stdout)
    assert (result["accepted"], result["rows"], result["left"], result["oversold"]) == (1500, 1500, 0, 0)
    assert result["is_balanced"] is True
    assert json.loads(ElementTree.parse(page).findtext(".//script[@id='figures']") or "") == result
    return result


@pytest.mark.timeout(120)
def test_each_accepted_order_is_one_row(servers: tuple[str, ...], tmp_path: Path) -> None:
    """Three shops, a relay and a writer, each a process of its own; every buyer has waited, and is in the chart."""
    result = balance(tmp_path / "sale.html", *servers)
    assert (result["killed"], result["course"]["marks"]) == ({}, [])
    assert sum(one["count"] for one in result["course"]["waits"]) == 3000
    last = result["course"]["looks"][-1]
    assert (last["sold"], last["rows"], last["left"]) == (1500, 1500, [0, 0, 0, 0])


@pytest.mark.timeout(120)
def test_the_stock_may_be_where_the_rows_are(one_database: tuple[str, ...], tmp_path: Path) -> None:
    """Without Redis."""
    assert balance(tmp_path / "sale.html", *one_database)["killed"] == {}


@pytest.mark.long
@pytest.mark.timeout(240)
@pytest.mark.parametrize("seed", range(3))
def test_the_books_of_one_database_balance_after_chaos(
    one_database: tuple[str, ...], seed: int, tmp_path: Path
) -> None:
    """The same parts die."""
    killed = balance(tmp_path / "sale.html", *one_database, "--chaos", "--seed", str(seed))["killed"]
    assert set(killed) == PARTS


@pytest.mark.long
@pytest.mark.timeout(240)
@pytest.mark.parametrize("seed", range(10))
def test_the_books_balance_after_chaos(seed: int, tmp_path: Path) -> None:
    """In ten of ten runs: processes, connections and Redis die in the middle, and each accepted order is one row."""
    for kind in (KafkaServer, MariaDBServer, RedisServer):
        require(kind)
    page = tmp_path / "sale.html"
    result = balance(page, "--chaos", "--seed", str(seed))
    assert set(result["killed"]) == {*PARTS, "redis"}
    marks = [item.text or "" for item in ElementTree.parse(page).findall(".//ol/li")]
    assert len(marks) == len(result["course"]["marks"]) == sum(result["killed"].values())


@pytest.mark.long
@pytest.mark.timeout(240)
def test_a_server_that_was_given_is_not_killed(servers: tuple[str, ...], tmp_path: Path) -> None:
    """Only what runs for the sale is."""
    assert set(balance(tmp_path / "sale.html", *servers, "--chaos")["killed"]) == PARTS


SALE = Sale("k", "redis://", "kafka", "mysql://h/d", stock=10, buyers=20, shops=1, segments=2, concurrency=1)


@pytest.mark.parametrize(
    ("accepted", "left", "rows", "is_told_right", "is_right"),
    [
        (10, (0, 0), 10, True, True),
        (10, (0, 0), 9, False, False),
        (10, (0, 0), 10, False, False),
        (11, (0, -1), 11, True, False),
        (9, (1, 0), 9, True, False),
    ],
    ids=["right", "a row is missing", "rows of other orders", "oversold", "not all was sold"],
)
def test_books_that_do_not_balance_are_a_bug(
    accepted: int, left: tuple[int, int], rows: int, is_told_right: bool, is_right: bool
) -> None:
    """The broken twins of a whole sale, as they would look to whoever counts."""
    pipeline = Pipeline(SALE, chaos=False, seed=1)
    pipeline._rows = rows
    result = pipeline._result(Audit(10, accepted, 0, 0, accepted, left), is_told_right, seconds=1.0, lag=0.0)
    assert result.is_balanced is is_right
    if is_right:
        check(result)
        return
    with pytest.raises(Stop, match=f"{accepted} accepted, {rows} rows"):
        check(result)


@pytest.mark.parametrize("fails_before", [False, True])
async def test_whoever_fails_ends_the_work_beside_it(fails_before: bool) -> None:
    """A relay that cannot work is not waited for; also if it failed while nobody looked."""

    async def fail() -> None:
        raise BackendUnavailableError("the relay ended")

    async with Company(fail()) as company:
        if fails_before:
            await asyncio.sleep(0)
        with pytest.raises(BackendUnavailableError, match="the relay ended"):
            await company.unless_it_fails(asyncio.Event().wait())


async def test_passwords_are_in_no_command_line() -> None:
    """Everybody on the machine can read those; the part hears of its sale all the same, and tells what is wrong."""
    (port,) = free_ports(1)
    part = Part("shop", replace(SALE, backend=f"redis://:secret@127.0.0.1:{port}/0"))
    assert "secret" not in " ".join(part._command)
    assert await part._live() == UNAVAILABLE


def test_half_a_way_is_refused(cli: Cli) -> None:
    """And what is missing is named."""
    ended = cli("seckill", "--orders", "kafka://127.0.0.1:1")
    assert ended.returncode == 1
    assert "--into mysql://" in ended.stderr


def test_a_database_that_is_not_there_is_told_before_anything_is_sold(cli: Cli) -> None:
    """Not as a bug of ours, and not after minutes."""
    (port,) = free_ports(1)
    urls = ("--url", f"redis://127.0.0.1:{port}", "--orders", f"127.0.0.1:{port}", "--into")
    ended = cli("seckill", *urls, f"mysql://root:secret@127.0.0.1:{port}/shop")
    assert_one_line(ended, 1, f"mysql://127.0.0.1:{port}", "check that the server runs")
    assert "secret" not in ended.stderr


def test_whose_server_is_left_alone_is_said(cli: Cli) -> None:
    """In one line, before anything begins."""
    (port,) = free_ports(1)
    urls = ("--backend", f"redis://127.0.0.1:{port}", "--orders", f"127.0.0.1:{port}", "--into")
    ended = cli("seckill", "--chaos", *urls, f"mysql://root@127.0.0.1:{port}/shop")
    assert ended.returncode == 1
    assert ended.stderr.startswith("The server given by --url is not killed"), ended.stderr
    assert ended.stderr.count("\n") == 2

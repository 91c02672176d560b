"""``aiodlock seckill --orders … --into …``: from take to row in several processes, while they are killed."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Iterator
from contextlib import ExitStack

import pytest

from aiodlock.testing.servers import KafkaServer, MariaDBServer, RedisServer, require
from tests.integration.cli.support import AIODLOCK, Cli


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


def balance(servers: tuple[str, ...], *options: str) -> dict[str, object]:
    sizes = ("--buyers", "3000", "--stock", "1500", "--workers", "3", "--concurrency", "30", "--segments", "4")
    command = (*AIODLOCK, "seckill", *servers, *sizes, "--json", *options)
    ended = subprocess.run(command, capture_output=True, text=True, timeout=110, check=False)
    assert ended.returncode == 0, ended.stderr
    result: dict[str, object] = json.loads(ended.stdout)
    assert (result["accepted"], result["rows"], result["left"], result["oversold"]) == (1500, 1500, 0, 0)
    assert result["is_balanced"] is True
    return result


@pytest.mark.timeout(120)
def test_each_accepted_order_is_one_row(servers: tuple[str, ...]) -> None:
    """Three shops, a relay and a writer, each a process of its own."""
    assert balance(servers)["killed"] == {}


@pytest.mark.timeout(120)
def test_the_stock_may_be_where_the_rows_are(one_database: tuple[str, ...]) -> None:
    """Without Redis."""
    assert balance(one_database)["killed"] == {}


@pytest.mark.long
@pytest.mark.timeout(120)
@pytest.mark.parametrize("seed", range(3))
def test_the_books_of_one_database_balance_after_chaos(one_database: tuple[str, ...], seed: int) -> None:
    """The same parts die."""
    assert balance(one_database, "--chaos", "--seed", str(seed))["killed"]


@pytest.mark.long
@pytest.mark.timeout(120)
@pytest.mark.parametrize("seed", range(10))
def test_the_books_balance_after_chaos(servers: tuple[str, ...], seed: int) -> None:
    """In ten of ten runs: processes and connections die in the middle of it, and each accepted order is one row."""
    assert balance(servers, "--chaos", "--seed", str(seed))["killed"]


def test_half_a_way_is_refused(cli: Cli) -> None:
    """And what is missing is named."""
    ended = cli("seckill", "--orders", "kafka://127.0.0.1:1")
    assert ended.returncode == 1
    assert "--into mysql://" in ended.stderr

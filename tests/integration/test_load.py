"""The load test of the shops: small, on both of them, and it finds a shop that is wrong."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from aiodlock.testing.servers import RedisServer, require

EXAMPLES = Path(__file__).parents[2] / "examples"
SMALL = ("--buyers", "300", "--lamps", "120", "--at-once", "60", "--hang-up", "0.3")


@pytest.fixture(scope="module")
def redis() -> Iterator[RedisServer]:
    require(RedisServer)
    with RedisServer() as server:
        yield server


def load(shop: str, *, examples: Path = EXAMPLES, url: str = "memory://load") -> tuple[int, dict[str, int]]:
    """Return the status, and every number that was printed behind its word."""
    ended = subprocess.run(
        [sys.executable, "-W", "error", str(examples / "shops" / "load.py"), shop, *SMALL],
        env=os.environ | {"AIODLOCK_URL": url},
        capture_output=True,
        text=True,
        timeout=50,
        check=False,
    )
    assert "Traceback" not in ended.stderr, ended.stderr
    assert re.search(r"^\d+ answers/s, p50 \d+\.\d+ s, p99 \d+\.\d+ s$", ended.stdout, re.MULTILINE), ended
    return ended.returncode, {word: int(number) for word, number in re.findall(r"([a-z][a-z ]+): (\d+)", ended.stdout)}


@pytest.mark.parametrize("shop", ["fastapi", "aiohttp"])
@pytest.mark.parametrize("is_remote", [False, True], ids=["memory", "redis"])
def test_a_shop_under_load_sells_each_lamp_once(redis: RedisServer, shop: str, is_remote: bool) -> None:
    """Whoever hangs up leaves nothing behind, and every lamp is accounted for."""
    status, told = load(shop, url=redis.url if is_remote else "memory://load")
    assert status == 0, told
    assert told["sold"] + told["refused"] + told["hung up"] == 300
    assert told["hung up"] > 0
    assert told["sold"] + told["of whom got one"] == 120
    assert (told["oversold"], told["lost"], told["left"], told["tasks left behind"]) == (0, 0, 0, 0)


SELL_ALWAYS = ('{"sold": isinstance(sale, aiodlock.Taken)}', '{"sold": True}')
LEAVE_A_TASK = ("    stock, query =", "    request.app['t'] = asyncio.create_task(asyncio.sleep(99)); stock, query =")
TAKE_WITHOUT_ORDER = ('order=query["order"]', "order=os.urandom(8).hex()")


@pytest.mark.parametrize(
    ("change", "word"),
    [(SELL_ALWAYS, "oversold"), (LEAVE_A_TASK, "tasks left behind"), (TAKE_WITHOUT_ORDER, "lost")],
    ids=["sells always", "leaves a task", "takes twice"],
)
def test_a_wrong_shop_is_found(tmp_path: Path, change: tuple[str, str], word: str) -> None:
    """The broken twins: one line changed, and the status is 1."""
    examples = shutil.copytree(EXAMPLES, tmp_path / "examples")
    source = (examples / "20_aiohttp_shop.py").read_text()
    assert change[0] in source
    (examples / "20_aiohttp_shop.py").write_text(source.replace(*change))
    status, told = load("aiohttp", examples=examples)
    assert (status, told[word] > 0) == (1, True), told

"""The examples run as their readers run them, on every server there is, and print what they promise."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from aiodlock.testing.servers import MariaDBServer, RedisServer, require

EXAMPLES = Path(__file__).parents[2] / "examples"
NAMES = sorted(path.stem for path in EXAMPLES.glob("*.py"))

# What each one prints, as a pattern of the whole: who is first differs, what comes of it does not.
PRINTS = {
    "01_first_lock": r"customer \d gets the red lamp\n(customer \d is too late\n){4}",
    "02_try_and_wait": (
        "not free: come back later\n"
        r"lock 'nightly-report' not acquired within 0\.10s, held by batch-7\n"
        "locked: True, by batch-7\n"
        "free: web-1 has it\n"
        "locked: False\n"
    ),
    "03_cache_rebuild": "readers served: 100\nrebuilt: 1\n",
    "04_scheduled_job": (
        r"tick 1 ran on (node-\d)\ntick 2 ran on \1\ntick 3 ran on \1\n"
        r"tick 4 ran on (?!\1)(node-\d)\ntick 5 ran on \2\ntick 6 ran on \2\n"
        r"\1 dies\nticks: 6, nodes that ran them: 2\n"
    ),
    "05_menu_tree": (
        "entered 9 times, 4 deep at most, with 1 fence\n"
        "locked afterwards: False\n"
        "this task holds 'menu-tree' already and it is not re-entrant: release it first\n"
    ),
    "06_semaphore": "jobs: 12, permits with an id of their own: 12\ncards in use at most: 4\n",
    "07_latch": "to go: 3\nwarm warm warm serves serves serves\nto go: 0\n",
    "08_multi": "transfers: 40, money: 200\n",
    "09_segmented": "votes: 200, in 8 segments\ninside at once: 8\nthree tabs of ann, segments: 3\n",
    "10_fencing": (
        "quick writes: True\nsleepy writes: False\nsleepy's lock is lost: True\nthe ledger says: from quick\n"
    ),
    "11_loss": (
        "admin takes it away\n"
        "the body is cancelled: stop writing, undo what is half done\n"
        "lost 'import': somebody else gave it up\n"
        "the body goes on, and can look: hold.lost is True\n"
        "lost 'export': it was held as long as max_hold allows\n"
    ),
    "12_testing": ("test_stops_when_the_server_is_gone: passed\ntest_a_lost_reply_leaves_nothing_behind: passed\n"),
    "14_guarded_data": "sleepy is too late\nin stock: 15\n",
    "15_classic_lock": (
        "classic: two believe to be inside: True\n"
        "classic: the first one hears of it when it is done: True\n"
        "classic: an answer is lost, the lock is taken, nobody has it: True\n"
        "aiodlock: the lease is renewed: True\n"
        "aiodlock: the first one knows, and its fence is the older: True\n"
        "aiodlock: an answer is lost, it is asked again, and the lock is ours\n"
    ),
    "16_stock": (
        "sold: 1000, sold out: 1000, left: 0\n"
        r"order-0: Returned\(quantity=1\), left: 1\n"
        "reserved for a second, left: 0\n"
        r"not paid: Returned\(quantity=1\)\n"
        "the books balance: True\n"
    ),
    "22_guarded_rows": "sleepy is too late\nin stock: 15\n",
    "23_fallback": (
        "on its own server\n"
        + "degraded: only those who use the fallback too are kept out, and there is no fence\n" * 2
        + "on its own server\n"
    ),
    "21_several_backends": (
        "price: 120, ledger and page agreed every time: True\nprice is lost, and the ledger is free: True\n"
    ),
    "19_fastapi_shop": "bought once: 100, too late: 150, left: 0\n",
    "20_aiohttp_shop": "sold: 100\nthe books balance: True, left: 0\n",
    "18_outbox": "shipped: 100, tried more often: True\n",
    "17_locked_sale": r"sold: 100, left: \[0, 0, 0, 0\]\n",
    "13_run": r"lamps sold: \[1, 2, 3, 4, 5, 6, 7, 8, 9, 10\]\ntoo late: 190\n",
}

OWN_SERVERS = {  # what an example starts itself
    "14_guarded_data": (RedisServer,),
    "15_classic_lock": (RedisServer,),
    "22_guarded_rows": (MariaDBServer,),
}


@pytest.fixture(scope="module", params=["memory", RedisServer], ids=["memory", "redis"])
def url(request: pytest.FixtureRequest) -> Iterator[str | None]:
    """The URL of a server; None: the one of the examples. Another kind of server joins by its name above."""
    if request.param == "memory":
        yield None
        return
    require(request.param)
    with request.param() as server:
        yield server.url


def outcome_of(example: Path, url: str | None = None) -> str:
    """Return what *example* prints, and after it whatever it complains of."""
    env = {name: value for name, value in os.environ.items() if name != "AIODLOCK_URL"}
    ended = subprocess.run(
        [sys.executable, "-W", "error", str(example)],
        env=env | ({"AIODLOCK_URL": url} if url else {}),
        capture_output=True,
        text=True,
        timeout=50,
        check=False,
    )
    return ended.stdout + ended.stderr


def test_every_example_is_known() -> None:
    """A new example says here what it prints; an old one that is gone is missed."""
    assert sorted(PRINTS) == NAMES


@pytest.mark.parametrize("name", NAMES)
def test_an_example_prints_what_it_promises(name: str, url: str | None) -> None:
    """It ends by itself, without a warning, and with these facts."""
    for kind in OWN_SERVERS.get(name, ()):
        require(kind)
    printed = outcome_of(EXAMPLES / f"{name}.py", url)
    assert re.fullmatch(PRINTS[name], printed), printed


@pytest.mark.parametrize("name", NAMES)
def test_an_example_is_short(name: str) -> None:
    """It fits a screen."""
    assert len((EXAMPLES / f"{name}.py").read_text().splitlines()) < 60


@pytest.mark.parametrize(
    ("name", "right", "wrong"),
    [
        ("01_first_lock", 'async with locks.lock("lamp", ttl=10, wait=5):', "if True:"),
        ("03_cache_rebuild", "async with lock.write():", "if True:"),
        ("04_scheduled_job", "async with election.leadership():", "if True:"),
        ("06_semaphore", "permits=4", "permits=5"),
        ("19_fastapi_shop", "once_per_buyer=True", "once_per_buyer=False"),
        ("17_locked_sale", "segments=4", "segments=3"),
        ("21_several_backends", 'multi(ledger.lock("price"), pages.lock("price"), wait=10):', 'lock("other"):'),
        ("10_fencing", "if fence < self.newest:", "if False:"),
        ("14_guarded_data", "fence=old.fence", "fence=new.fence"),
        ("22_guarded_rows", "fence=old.fence", "fence=new.fence"),
    ],
)
def test_an_example_without_its_lock_is_caught(name: str, right: str, wrong: str, tmp_path: Path) -> None:
    """The broken twins: one line changed, another outcome."""
    source = (EXAMPLES / f"{name}.py").read_text()
    assert right in source
    twin = tmp_path / "twin.py"
    twin.write_text(source.replace(right, wrong))
    assert not re.fullmatch(PRINTS[name], outcome_of(twin))

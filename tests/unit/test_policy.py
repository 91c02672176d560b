"""Bad settings and bad keys: a typed error that names the fix, before any I/O."""

from __future__ import annotations

import functools
import gc
import math
import weakref
from collections.abc import Callable
from decimal import Decimal
from typing import Any

import pytest

import aiodlock
from aiodlock import ConfigurationError, Hold, InvalidKeyError, LockClient, Policy, Poll, Push, Retry
from aiodlock.backends.memory import MemoryBackend
from aiodlock.policy import check_count, check_key, check_wait


@pytest.fixture
def unopened() -> LockClient:
    """A client that was never started: whatever it refuses, it refuses without I/O."""
    return aiodlock.connect("memory://")


FACTORIES: dict[str, Callable[..., object]] = {
    "lock": LockClient.lock,
    "rwlock": LockClient.rwlock,
    "semaphore": lambda client, key, **settings: client.semaphore(key, permits=2, **settings),
    "latch": lambda client, key, **settings: client.latch(key, count=2, **settings),
    "segmented": lambda client, key, **settings: client.segmented(key, segments=2, **settings),
    "election": LockClient.election,
}

# --- keys --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("key", "fix"),
    [
        ("", "has 0 bytes: give 1 to 255"),
        ("k" * 256, "has 256 bytes: give 1 to 255, or its hash"),
        ("é" * 128, "has 256 bytes"),
        ("a\0b", "control character: remove or escape it"),
        ("a\nb", "control character"),
        ("a\x7fb", "control character"),
        ("a\x85b", "control character"),
        ("a\ud800b", "lone surrogate: decode the bytes it came from as UTF-8"),
        (b"k", "is not a string: give str"),
        (42, "is not a string"),
        (None, "is not a string"),
        (("a",), "is not a string"),
    ],
)
def test_a_bad_key_is_refused(unopened: LockClient, key: Any, fix: str) -> None:
    """By every synchronizer, with what to do about it."""
    for make in FACTORIES.values():
        with pytest.raises(InvalidKeyError, match=fix) as raised:
            make(unopened, key)
        assert isinstance(raised.value, ValueError)


@pytest.mark.parametrize("key", ["k" * 255, "é" * 127, "order:{42}/a b*?[c]%_'\"\\;--", "秒杀:🔒", " ", "a\u200bb"])
def test_a_good_key_is_taken_as_it_is(unopened: LockClient, key: str) -> None:
    """Keys are data: no character but the control ones means anything."""
    assert check_key(key) is key
    assert unopened.lock(key).key == key


# --- seconds -----------------------------------------------------------------------------------------------

NOT_SECONDS = [math.nan, True, False, "5", None, Decimal(5), [5]]
HUGE = pytest.param(10**400, id="larger than a float")


@pytest.mark.parametrize("ttl", [0, 0.0, -1, 0.04, 86_401, math.inf, -math.inf, HUGE, *NOT_SECONDS])
def test_a_bad_ttl_is_refused(unopened: LockClient, ttl: Any) -> None:
    """By every synchronizer: a day and a second is too long, a twentieth of a second the shortest."""
    for make in FACTORIES.values():
        with pytest.raises(ConfigurationError, match=r"ttl=.*give seconds from 0.05 to 86400"):
            make(unopened, "k", ttl=ttl)


@pytest.mark.parametrize("ttl", [0.05, 1, 30.0, 86_400])
def test_a_good_ttl_is_taken(unopened: LockClient, ttl: float) -> None:
    """From 50 ms to a day, also as an integer."""
    assert unopened.lock("k", ttl=ttl).policy.ttl == ttl


def refuse_a_known_ttl(client: LockClient) -> None:
    """Ask for a second, and then for what only compares equal to it."""
    assert client.lock("k", ttl=1).policy is client.lock("k", ttl=1).policy
    with pytest.raises(ConfigurationError, match="ttl=True"):
        client.lock("k", ttl=True)


def test_settings_that_are_known_are_not_taken_for_others(unopened: LockClient) -> None:
    refuse_a_known_ttl(unopened)


def test_settings_that_are_compared_by_value_are_found(unopened: LockClient) -> None:
    """The broken twin."""
    unopened._known_policy = functools.lru_cache(unopened._new_policy)
    with pytest.raises(pytest.fail.Exception):
        refuse_a_known_ttl(unopened)


def test_what_a_function_of_a_lost_hold_refers_to_is_not_kept(unopened: LockClient) -> None:
    def tell(hold: Hold) -> None: ...

    lock, told = unopened.lock("k", on_lost=tell), weakref.ref(tell)
    assert lock.policy.on_lost is tell
    del lock, tell
    gc.collect()
    assert told() is None


@pytest.mark.parametrize("wait", [-0.1, -math.inf, HUGE, *(wait for wait in NOT_SECONDS if wait is not None)])
def test_a_bad_wait_is_refused(wait: Any) -> None:
    """Negative, not a number, or too large for one."""
    with pytest.raises(ConfigurationError, match=r"wait=.*give seconds"):
        check_wait(wait)
    with pytest.raises(ConfigurationError, match="wait="):
        Policy(wait=wait)


def test_a_good_wait_is_taken() -> None:
    """None and infinity wait for ever, 0 tries once."""
    assert [check_wait(wait) for wait in (None, 0, 1.5, math.inf)] == [None, 0.0, 1.5, math.inf]


@pytest.mark.parametrize(
    "settings",
    [
        {"max_hold": 0},
        {"max_hold": math.nan},
        {"max_hold": True},
        {"linger": -1},
        {"linger": math.inf},
        {"linger": None},
        {"linger": 1, "fair": True},
        {"linger": 1, "renew": False},
        {"linger": 1, "waiting": Poll()},
        {"renew": 1},
        {"fair": None},
        {"reentrant": "yes"},
        {"on_lost": "ignore"},
        {"on_lost": None},
        {"waiting": "poll"},
        {"waiting": Poll},
        {"waiting": None},
    ],
    ids=str,
)
def test_other_bad_settings_are_refused(settings: dict[str, Any]) -> None:
    """Each names the setting and what to give."""
    with pytest.raises(ConfigurationError, match=f"{next(iter(settings))}.*(give|leave out)"):
        Policy(**settings)


@pytest.mark.parametrize(
    "make",
    [
        lambda: Poll(interval=0),
        lambda: Poll(interval=math.nan),
        lambda: Poll(jitter=1.1),
        lambda: Poll(jitter=-0.1),
        lambda: Retry(times=0),
        lambda: Retry(times=1.5),
        lambda: Retry(times=True),
        lambda: Retry(interval=0),
    ],
)
def test_a_bad_way_of_waiting_is_refused(make: Callable[[], object]) -> None:
    """When it is made, not when it is used."""
    with pytest.raises(ConfigurationError, match=r"(Poll|Retry)\(\w+\)=.*give"):
        make()


@pytest.mark.parametrize("count", [0, -1, 1.0, True, "2", None, (1 << 30) + 1])
def test_a_bad_count_is_refused(unopened: LockClient, count: Any) -> None:
    """Permits, segments, steps and waiters are whole numbers."""
    for make in (
        lambda: unopened.semaphore("k", permits=count),
        lambda: unopened.latch("k", count=count),
        lambda: unopened.segmented("k", segments=count),
        lambda: aiodlock.connect("memory://", max_waiters=count),
    ):
        with pytest.raises(ConfigurationError, match="give an integer from 1 to"):
            make()
    assert check_count("permits", 3) == 3


def test_a_setting_that_does_not_exist_is_refused(unopened: LockClient) -> None:
    """`timeout` is no word of ours: people read it both as ttl and as wait."""
    with pytest.raises(TypeError, match="timeout"):
        unopened.lock("k", timeout=5)  # type: ignore[call-arg]


def test_a_policy_is_a_frozen_fact() -> None:
    """Equal settings are equal, and nobody changes them later."""
    assert Policy(ttl=5) == Policy(ttl=5)
    with pytest.raises(AttributeError):
        Policy().ttl = 5  # type: ignore[misc]
    assert Policy().waiting == Push()
    assert [Policy().shares, Policy(fair=True).shares, Policy(renew=False).shares] == [True, False, False]


async def test_nothing_is_sent_for_bad_input(monkeypatch: pytest.MonkeyPatch) -> None:
    """An open client refuses as well before it asks the server."""
    async with aiodlock.connect("memory://") as locks:
        for verb in ("join", "leave", "renew", "inspect"):
            monkeypatch.delattr(MemoryBackend, verb)
        for bad in (lambda: locks.lock(""), lambda: locks.lock("k", ttl=0)):
            with pytest.raises(ValueError, match="give"):
                bad()
        with pytest.raises(ConfigurationError):
            await locks.lock("k").acquire(-1)
        monkeypatch.undo()

"""Where a slot is: told by a map, corrected by redirections."""

from __future__ import annotations

import pytest
from redis.crc import key_slot

from aiodlock._core.line import LineId
from aiodlock.backends.redis.hosts import urls_of_hosts
from aiodlock.backends.redis.keys import Keys
from aiodlock.backends.redis.slots import Redirection, SlotMap
from aiodlock.errors import ConfigurationError

ASKED = ("10.0.0.9", 7000)


@pytest.mark.parametrize(
    ("error", "found"),
    [
        ("MOVED 3999 10.0.0.1:6381", Redirection(True, 3999, ("10.0.0.1", 6381))),
        ("ASK 3999 10.0.0.1:6381", Redirection(False, 3999, ("10.0.0.1", 6381))),
        ("MOVED 1 ::1:6381", Redirection(True, 1, ("::1", 6381))),
        ("MOVED 1 :6381", Redirection(True, 1, ("10.0.0.9", 6381))),
        ("MOVED 1 ?:6381", Redirection(True, 1, ("10.0.0.9", 6381))),
        ("TRYAGAIN Multiple keys request during rehashing of slot", None),
        ("ERR MOVED", None),
    ],
)
def test_an_error_is_a_redirection_or_not(error: str, found: Redirection | None) -> None:
    """A server without a name means the one that was asked."""
    assert Redirection.of(error, ASKED) == found


def test_a_map_knows_the_owner_of_every_slot() -> None:
    """And tells whether it has learned something new."""
    slots = SlotMap()
    reply = [
        [0, 5, [b"10.0.0.1", 1, b"id"], [b"10.0.0.4", 4, b"id"]],
        [6, 16383, [b"", 2, b"id"]],
    ]
    assert slots.owner(0) is None
    assert slots.learn(reply, ASKED)
    assert not slots.learn(reply, ASKED)
    assert slots.owner(5) == ("10.0.0.1", 1)
    assert slots.owner(6) == slots.owner(16383) == ("10.0.0.9", 2)
    assert slots.masters == (("10.0.0.1", 1), ("10.0.0.9", 2))
    assert slots.replicas == {("10.0.0.4", 4)}
    slots.move(6, ("10.0.0.1", 1))
    assert slots.owner(6) == ("10.0.0.1", 1)
    assert slots.learn(reply, ASKED)


@pytest.mark.parametrize("key", ["k", "{", "}", "{}", "a{b}c", "x" * 200, "锁"])
def test_a_channel_is_in_the_slot_of_its_line(key: str) -> None:
    """Whatever the user's key contains."""
    keys = Keys()
    name = keys.name(LineId("lock", key)).key
    assert key_slot(keys.channel_near(name, "client")) == key_slot(name)


@pytest.mark.parametrize(
    ("url", "urls"),
    [
        ("a+b://h1,h2:7", ["redis://h1", "redis://h2:7"]),
        ("a://u:p%40@h1,[::1]:7/3?x=1", ["redis://u:p%40@h1/3?x=1", "redis://u:p%40@[::1]:7/3?x=1"]),
    ],
)
def test_every_host_of_a_url_gets_one(url: str, urls: list[str]) -> None:
    assert urls_of_hosts(url, "redis") == urls


@pytest.mark.parametrize("url", ["a://", "a://u:s3cret@", "a://h1,", "a://u:s3cret@h1,,h2/0"])
def test_an_empty_host_is_refused_without_repeating_the_password(url: str) -> None:
    with pytest.raises(ConfigurationError, match="without hosts") as caught:
        urls_of_hosts(url, "redis")
    assert "s3cret" not in str(caught.value)

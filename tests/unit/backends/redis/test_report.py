"""What is said of several servers together, without a server."""

from __future__ import annotations

import asyncio

import pytest

from aiodlock.backends.base import Finding
from aiodlock.backends.redis.cluster import judge_slots
from aiodlock.backends.redis.report import combine, gather_reports, judge_servers
from aiodlock.backends.redis.slots import SlotMap
from aiodlock.errors import BackendUnavailableError

FINE, FULL = Finding("memory", "fine"), Finding("memory", "full", "error", "set a limit")


def test_what_is_the_same_everywhere_is_said_once() -> None:
    assert combine({"a": [FINE], "b": [FINE]}) == [FINE]
    assert combine({"a": [FULL], "b": [FULL]}) == [FULL]
    assert combine({}) == []


def test_the_worst_is_said_with_its_server() -> None:
    """The others are well, and not listed."""
    assert combine({"a": [FINE], "b": [FULL]}) == [Finding("memory", "full (b)", "error", "set a limit")]


def test_what_differs_is_said_of_each() -> None:
    other = Finding("memory", "better")
    assert combine({"a": [FINE], "b": [other], "c": [FINE]}) == [Finding("memory", "fine (a, c); better (b)")]


@pytest.mark.parametrize(("answered", "level"), [("abc", "ok"), ("ab", "warning"), ("a", "error"), ("", "error")])
def test_who_is_silent_is_named(answered: str, level: str) -> None:
    """A warning as long as enough are there."""
    finding = judge_servers([*answered], [*"abc"], needed=2, otherwise="nothing works")
    assert finding.level == level
    assert finding.found.startswith(f"{len(answered)} of 3 answer")
    assert all(server in finding.found.partition("silent")[2] for server in {*"abc"} - {*answered})
    assert ("nothing works" in finding.advice) == (level != "ok")


async def test_a_silent_server_is_left_out_and_a_mistake_is_not() -> None:
    async def look(error: Exception | None = None) -> list[Finding]:
        await asyncio.sleep(0)
        if error:
            raise error
        return [FINE]

    assert await gather_reports({"a": look(), "b": look(BackendUnavailableError("down"))}) == {"a": [FINE]}
    with pytest.raises(ZeroDivisionError):
        await gather_reports({"a": look(ZeroDivisionError())})


def slots(last: int, *, replicas: int) -> SlotMap:
    found = SlotMap()
    servers = [[b"h", number, b"id%d" % number] for number in range(1, replicas + 2)]
    found.learn([[0, last, *servers]], ("h", 1))
    return found


@pytest.mark.parametrize(
    ("last", "replicas", "level"), [(16_383, 1, "ok"), (16_383, 0, "warning"), (16_382, 1, "error")]
)
def test_slots_that_nobody_serves_are_an_error_and_a_master_alone_a_warning(
    last: int, replicas: int, level: str
) -> None:
    assert judge_slots(slots(last, replicas=replicas)).level == level

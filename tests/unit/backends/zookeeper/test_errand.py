"""A verb without a task: begun at once, told at once, and not torn by whoever stops listening."""

from __future__ import annotations

import asyncio

import pytest

from aiodlock.backends.zookeeper.errand import begin
from aiodlock.errors import BackendUnavailableError


async def _double(number: asyncio.Future[int], done: list[int]) -> int:
    done.append(0)
    done.append(2 * await number)
    return done[-1]


async def test_it_begins_before_anything_else_runs() -> None:
    """So its request is sent by the call."""
    number, done = asyncio.get_running_loop().create_future(), list[int]()
    reply = begin(_double(number, done))
    assert done == [0]
    number.set_result(21)
    assert await reply == 42


async def test_whoever_is_to_hear_of_it_does_so_in_the_step_in_which_it_ends() -> None:
    """Behind the callbacks that were there before it, and before those that came later."""
    number, done, told = asyncio.get_running_loop().create_future(), list[int](), list[int]()
    begin(_double(number, done)).then = told.append
    later = asyncio.Event()
    number.add_done_callback(lambda _: later.set() if told else None)
    number.set_result(21)
    await later.wait()
    assert told == [42]


async def test_an_error_is_its_answer() -> None:
    """Also one that comes before it has waited for anything."""
    number = asyncio.get_running_loop().create_future()
    number.set_exception(ConnectionError("lost"))
    reply = begin(_double(number, []))
    assert reply.done()
    with pytest.raises(ConnectionError, match="lost"):
        await reply


async def test_what_was_given_up_under_it_is_told_as_no_answer() -> None:
    """Nobody waits for ever, and no cancellation reaches whoever does."""
    number = asyncio.get_running_loop().create_future()
    reply = begin(_double(number, []))
    number.cancel()
    with pytest.raises(BackendUnavailableError):
        await reply


async def test_it_goes_on_when_nobody_listens_any_more() -> None:
    """What was begun on the server is seen through."""
    number, done = asyncio.get_running_loop().create_future(), list[int]()
    begin(_double(number, done)).future.cancel()
    number.set_result(21)
    await asyncio.sleep(0)
    assert done == [0, 42]

"""A verb that runs without a task: from the call to its first request, and from an answer to whoever waits for it."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from typing import Any, Generic, TypeVar

from aiodlock.backends.base import Reply
from aiodlock.errors import BackendUnavailableError

__all__ = ["begin"]

_T = TypeVar("_T")


def begin(work: Coroutine[Any, Any, _T]) -> Reply[_T]:
    """Begin a coroutine that awaits nothing but futures, at once, and return what comes of it.

    A task would take a step of the loop to begin, and more to tell its end. Whoever cancels the reply no longer hears
    of the work, which goes on; like all that it waits for it ends with the session at the latest.
    """
    errand = _Errand(work)
    errand.go_on()
    return errand.reply


class _Errand(Generic[_T]):
    __slots__ = ("reply", "work")

    def __init__(self, work: Coroutine[Any, Any, _T]) -> None:
        self.work = work
        self.reply: Reply[_T] = Reply()

    def go_on(self, _: object = None) -> None:
        try:
            awaited: asyncio.Future[Any] = self.work.send(None)
        except StopIteration as end:
            self.reply.arrive(end.value)
        except asyncio.CancelledError:  # no task of ours: what it waited for was given up
            self.reply.fail(BackendUnavailableError("given up before the server answered"))
        except Exception as error:
            self.reply.fail(error)
        else:
            awaited._asyncio_future_blocking = False  # so says a task that it will be woken
            awaited.add_done_callback(self.go_on)

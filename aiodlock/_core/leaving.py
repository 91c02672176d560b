"""Places that leave: in the background, while whoever released waits a little for the server's word."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine, Iterator
from types import coroutine
from typing import TYPE_CHECKING, Any, Final, cast

from aiodlock._core.cancel import finish

if TYPE_CHECKING:
    from aiodlock._core.place import Place

__all__ = ["GRACE", "NOTHING", "Leaving", "see_off"]

GRACE = 1.0  # how long a release waits for the server; then it goes on in the background
_MOST_STEPS = 4
_STEP = GRACE / _MOST_STEPS  # one timer for all: a timer each would cost as much as the rest of a release


class Leaving:
    """The places of a client that left and whose leaving is not confirmed yet, oldest first."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop
        self._since: dict[Place, int] = {}  # counted in steps of the timer
        self._steps = 0
        self._timer: asyncio.TimerHandle | None = None
        self._emptied: asyncio.Future[None] | None = None

    def __contains__(self, place: object) -> bool:
        return place in self._since

    def __iter__(self) -> Iterator[Place]:
        return iter(self._since)

    def __len__(self) -> int:
        return len(self._since)

    def add(self, place: Place) -> None:
        self._since[place] = self._steps
        if self._timer is None:
            self._timer = self._loop.call_later(_STEP, self._look)

    def discard(self, place: Place) -> None:
        self._since.pop(place, None)
        if self._emptied is not None and not self._since and not self._emptied.done():
            self._emptied.set_result(None)

    async def wait(self, *, within: float) -> None:
        """Wait until all have left, at most *within* seconds."""
        if self._since:
            self._emptied = self._loop.create_future()
            await asyncio.wait((self._emptied,), timeout=within)

    def stop(self) -> None:
        """Let everybody go on: nothing more is sent."""
        if self._timer is not None:
            self._timer.cancel()
        for place in self._since:
            _let_go_on(place)

    def _look(self) -> None:
        """Let those go on who have waited long enough."""
        self._timer = self._loop.call_later(_STEP, self._look) if self._since else None
        self._steps += 1
        for place, since in self._since.items():
            if since > self._steps - _MOST_STEPS:
                break
            _let_go_on(place)


def _let_go_on(place: Place) -> None:
    if place.left is not None and not place.left.done():
        place.left.set_result(None)


async def see_off(place: Place, left: asyncio.Future[None]) -> None:
    """Wait for what a release of *place* brought about, for `GRACE` at most; then let a cancellation through."""
    if left is not place.left:  # it became lighter instead
        await finish(left, within=GRACE)
        return
    try:
        await left
    except asyncio.CancelledError:
        if left.cancelled() and place in place.engine.leaving:
            place.left = asyncio.get_running_loop().create_future()
            await finish(place.left, within=GRACE)
        raise


@coroutine
def _nothing() -> Iterator[None]:
    """Wait for nothing. Ended once, it can be awaited any number of times on any loop, for less than a future costs."""
    yield from ()


NOTHING: Final = cast("Coroutine[Any, Any, None]", _nothing())
"""What a release waits for where the server has nothing to do."""
next(cast("Iterator[None]", NOTHING), None)

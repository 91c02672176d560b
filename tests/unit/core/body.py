"""A block's body for tests of loss, and what its caller must look like afterwards."""

from __future__ import annotations

import asyncio


class Body:
    """A block's body that counts how often it is cancelled."""

    def __init__(self) -> None:
        self.cancels = 0
        self.inside = asyncio.Event()

    async def stay(self, seconds: float = 1_000.0) -> None:
        """Stay inside until cancelled."""
        self.inside.set()
        try:
            await asyncio.sleep(seconds)
        except asyncio.CancelledError:
            self.cancels += 1
            raise

    async def stay_on(self) -> None:
        """Swallow a cancel, and stay a little longer."""
        try:
            await self.stay()
        except asyncio.CancelledError:
            await self.stay(1.0)


async def assert_unharmed() -> None:
    """The task is not cancelled, and its next awaits will not be either."""
    task = asyncio.current_task()
    assert task is not None
    assert task.cancelling() == 0
    for _ in range(5):
        await asyncio.sleep(0)

"""Blocks: how a task enters with a hold and leaves, and what leaves a block whose hold was lost.

A loss cancels each task inside once, through its outermost block; that block takes the cancel back and lets out an
outer cancel, the body's own error with a note, or `LockLostError`.
"""

from __future__ import annotations

import asyncio

import anyio.lowlevel

from aiodlock._core.leaving import see_off
from aiodlock._core.ownership import RELEASED, Ownership, Task
from aiodlock.errors import LockLostError

__all__ = ["Block"]


class Block(Ownership):
    """An ownership that a task can enter and leave."""

    __slots__ = ()

    def _begin_block(self, task: Task | None) -> None:
        """Be inside with *task*; only the outermost entry of a task is told of a loss, the others let it through."""
        assert task is not None
        own = self._own
        own._adopt()
        self._task = task
        if not any(block._task is task and block._block is not None for block in own._all_blocks):
            self._block = task.cancelling()
        if self is not own:
            own._blocks = (*own._blocks, self._this)

    async def _end_block(self, error: BaseException | None) -> None:
        """Leave the block: release, then let out what has to leave it. From its start no cancel of ours is sent."""
        was_outermost = self._block is not None
        left, is_lost = self._close_block()
        if is_lost:
            await self._let_out(error, was_outermost=was_outermost)
        elif left is not None:
            await see_off(self._place, left)

    def _close_block(self) -> tuple[asyncio.Future[None] | None, bool]:
        """Release; return what there is to wait for on the server, and whether a loss has to be let out."""
        own, self._block = self._own, None
        own._blocks = tuple(block for block in own._blocks if block is not self)
        if self._state is RELEASED:  # inside the block: nothing is left to do but to take a cancel back
            if self in self._cohort.owners.released:
                self._cohort.owners.released.remove(self)
            return None, own._loss is not None and self._cancelled
        own._is_lost(self._cohort.engine.now())
        return self._drop_entry(), own._loss is not None

    async def _let_out(self, error: BaseException | None, *, was_outermost: bool) -> None:
        """Let out of a lost block an outer cancel, the body's own error with a note, or `LockLostError`."""
        outer = self._cancelled and await self._take_back_cancel(error)
        loss = self._lost_error()
        if error is None or (self._cancelled and isinstance(error, asyncio.CancelledError)):
            # A cancelled scope knows its own errors only, and does not cancel a task that is being cancelled.
            await anyio.lowlevel.checkpoint_if_cancelled()
            if not outer:
                raise loss from error
        if error is None:
            raise asyncio.CancelledError
        if isinstance(error, asyncio.CancelledError):
            return
        if was_outermost and not isinstance(error, LockLostError):
            error.add_note(str(loss))

    async def _take_back_cancel(self, error: BaseException | None) -> bool:
        """Undo our cancel of this task; return whether somebody else cancelled it as well."""
        task = self._task
        assert task is not None
        undelivered = bool(getattr(task, "_must_cancel", False))
        if undelivered:
            # Python 3.11 and 3.12 deliver it at the next await even after uncancel(): take it here.
            try:
                await asyncio.sleep(0)
            except asyncio.CancelledError:
                pass
        outer = task.uncancel() > self._cancelling
        if outer and undelivered and error is not None:
            task.cancel()  # the outer one was taken with ours: give it back
            task.uncancel()
        return outer

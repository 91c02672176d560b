"""Broken twins of the tests of loss: each breaks one rule of `Hold`, and the test named beside it must fail."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

import anyio.lowlevel
import pytest

from aiodlock._core.hold import Hold
from aiodlock._core.ownership import Owners
from tests.unit.core import test_blocks, test_hold, test_loss, test_loss_and_cancels
from tests.unit.core.twins import Break, fails, set_to


def _no_books(patch: pytest.MonkeyPatch) -> None:
    async def keep(self: Hold, error: object) -> bool:
        return False

    patch.setattr(Hold, "_take_back_cancel", keep)


def _no_outer_cancel(patch: pytest.MonkeyPatch) -> None:
    take_back = Hold._take_back_cancel

    async def always_ours(self: Hold, error: BaseException | None) -> bool:
        await take_back(self, error)
        return False

    patch.setattr(Hold, "_take_back_cancel", always_ours)


def _two_cancels(patch: pytest.MonkeyPatch) -> None:
    cancel = Hold._cancel

    def again(self: Hold) -> None:
        cancel(self)
        asyncio.get_running_loop().call_later(0.1, cancel, self)

    patch.setattr(Hold, "_cancel", again)


def _loss_first(patch: pytest.MonkeyPatch) -> None:
    async def always_loss(self: Hold, error: object, *, was_outermost: bool) -> None:
        raise self._lost_error()

    patch.setattr(Hold, "_let_out", always_loss)


def _no_clock(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(Hold, "_is_lost", lambda self, now: self._loss is not None)


def _no_scope(patch: pytest.MonkeyPatch) -> None:
    async def look_away() -> None: ...

    patch.setattr(anyio.lowlevel, "checkpoint_if_cancelled", look_away)


def _first_out_ends(patch: pytest.MonkeyPatch) -> None:
    drop = Hold._drop_entry

    def drop_all(self: Hold) -> Any:
        self._own._entries = 1
        return drop(self)

    patch.setattr(Hold, "_drop_entry", drop_all)


def _no_blocks_kept(patch: pytest.MonkeyPatch) -> None:
    def current_only(self: Owners, task: Any) -> Hold | None:
        own = self.get(task)
        return own._all_blocks[-1] if own is not None and own._all_blocks else None

    patch.setattr(Owners, "innermost_block", current_only)


TWINS: dict[str, tuple[Break, Callable[..., Any]]] = {
    "the cancel is not taken back": (
        _no_books,
        test_loss.test_the_body_is_cancelled_once_and_the_error_leaves_the_block,
    ),
    "the body is not cancelled": (
        set_to(Hold, "_cancel", lambda self: None),
        test_loss.test_the_body_is_cancelled_once_and_the_error_leaves_the_block,
    ),
    "the body is cancelled twice": (
        _two_cancels,
        test_loss.test_a_body_that_swallows_the_cancel_is_not_cancelled_again,
    ),
    "the loss hides the body's error": (_loss_first, test_loss.test_the_bodys_own_error_is_kept_with_a_note),
    "the clock is not asked": (_no_clock, test_loss.test_a_frozen_process_says_lost_before_any_request),
    "a function is not told": (
        set_to(Hold, "_tell", lambda self, on_lost: None),
        test_loss.test_a_function_is_called_with_the_hold,
    ),
    "an outer cancel is hidden": (
        _no_outer_cancel,
        test_loss_and_cancels.test_asyncio_timeout_around_that_ends_with_the_loss,
    ),
    "a cancelled scope is hidden": (
        _no_scope,
        test_loss_and_cancels.test_an_anyio_scope_around_that_is_cancelled_with_the_loss,
    ),
    "every re-entry makes the error": (_loss_first, test_blocks.test_re_entries_let_the_cancel_through),
    "the first one out ends it": (
        _first_out_ends,
        test_blocks.test_a_child_that_outlives_its_parents_block_is_cancelled,
    ),
    "a block released inside is forgotten": (
        _no_blocks_kept,
        test_blocks.test_leaving_a_block_released_inside_is_a_no_op,
    ),
    "a hold may go back": (
        set_to(Hold, "_move", lambda self, state: setattr(self, "_state", state)),
        test_hold.test_only_the_written_moves_are_possible,
    ),
    "max_hold is forgotten": (
        set_to(Hold, "_set_limit", lambda self, max_hold: None),
        test_hold.test_a_max_hold_shorter_than_the_ttl,
    ),
    "a dropped hold is kept alive": (
        set_to(Hold, "_watch_handle", lambda self: None),
        test_hold.test_a_collected_hold_is_renewed_no_more,
    ),
    "a hold of a dead task is kept alive": (
        set_to(Hold, "_visit", lambda self, now: None),
        test_hold.test_a_hold_whose_task_is_done_is_renewed_no_more,
    ),
}


@pytest.mark.parametrize(("twin", "test"), TWINS.values(), ids=TWINS.keys())
@pytest.mark.filterwarnings("ignore::ResourceWarning")
async def test_a_twin_is_caught(
    stage: dict[str, object], monkeypatch: pytest.MonkeyPatch, twin: Break, test: Callable[..., Any]
) -> None:
    """The very test that passes on `Hold` fails on its twin."""
    twin(monkeypatch)
    await fails(test, stage)

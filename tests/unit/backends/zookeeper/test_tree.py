"""What the server keeps about a node, and what of it does not fit."""

from __future__ import annotations

from types import SimpleNamespace

import pytest

from aiodlock._core.fence import fence
from aiodlock.backends.zookeeper.tree import Stat
from aiodlock.errors import BackendDataError


def _stat(change: int) -> Stat:
    facts = {"created": 0, "version": 0, "ephemeral_owner": 0, "num_children": 0}
    return Stat.of(SimpleNamespace(created_zxid=change, **facts))


def test_an_epoch_that_does_not_fit_a_fence_is_refused() -> None:
    """After 65,536 elections: it says so rather than hand out a fence that is smaller than the last."""
    assert fence(_stat((1 << 48) - 1).epoch, 0) < 1 << 63
    with pytest.raises(BackendDataError, match="does not fit a fence"):
        _stat(1 << 48)

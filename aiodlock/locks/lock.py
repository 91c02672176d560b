"""The lock: a line of size 1, tickets of weight 1."""

from __future__ import annotations

from typing import TYPE_CHECKING

from aiodlock._core.cohort import Shape
from aiodlock._core.hold import Hold
from aiodlock._core.line import LineId
from aiodlock.locks.base import Synchronizer
from aiodlock.policy import Policy

if TYPE_CHECKING:
    from aiodlock.client import LockClient

__all__ = ["Lock"]

_ONE = Shape()


class Lock(Synchronizer[Hold]):
    """One task at a time, across tasks, processes and machines. Made by `LockClient.lock`."""

    def __init__(self, client: LockClient, key: str, policy: Policy, *, kind: str = "lock") -> None:
        super().__init__(client, LineId(kind, key), policy, _ONE)

"""Distributed locks for asyncio: fair, fenced, safe to cancel, the same on every backend."""

from aiodlock._core.hold import Hold
from aiodlock._core.line import Row
from aiodlock._core.stock import AlreadyTaken, Audit, Remaining, Returned, Sale, SoldOut, Taken
from aiodlock.client import LockClient, connect
from aiodlock.errors import (
    AcquireTimeoutError,
    AiodlockError,
    BackendDataError,
    BackendError,
    BackendUnavailableError,
    ClientClosedError,
    ConfigurationError,
    InvalidKeyError,
    LockError,
    LockLostError,
    MissingDependencyError,
    NotHeldError,
    QuorumError,
    TooManyWaitersError,
    UnsupportedError,
)
from aiodlock.inventory.stock import SegmentedStock
from aiodlock.locks.election import Election
from aiodlock.locks.latch import Latch
from aiodlock.locks.lock import Lock
from aiodlock.locks.multi import MultiHold, MultiLock
from aiodlock.locks.rwlock import ReadLock, ReadWriteLock, WriteHold, WriteLock
from aiodlock.locks.segmented import AnySegment, SegmentedLock, SegmentHold, SegmentLock
from aiodlock.locks.semaphore import Permit, Semaphore
from aiodlock.policy import Policy, Poll, Push, Retry

__all__ = [
    "AcquireTimeoutError",
    "AiodlockError",
    "AlreadyTaken",
    "AnySegment",
    "Audit",
    "BackendDataError",
    "BackendError",
    "BackendUnavailableError",
    "ClientClosedError",
    "ConfigurationError",
    "Election",
    "Hold",
    "InvalidKeyError",
    "Latch",
    "Lock",
    "LockClient",
    "LockError",
    "LockLostError",
    "MissingDependencyError",
    "MultiHold",
    "MultiLock",
    "NotHeldError",
    "Permit",
    "Policy",
    "Poll",
    "Push",
    "QuorumError",
    "ReadLock",
    "ReadWriteLock",
    "Remaining",
    "Retry",
    "Returned",
    "Row",
    "Sale",
    "SegmentHold",
    "SegmentLock",
    "SegmentedLock",
    "SegmentedStock",
    "Semaphore",
    "SoldOut",
    "Taken",
    "TooManyWaitersError",
    "UnsupportedError",
    "WriteHold",
    "WriteLock",
    "connect",
]

"""Distributed locks for asyncio: fair, fenced, safe to cancel, the same on every backend."""

from aiodlock._core.hold import Hold
from aiodlock._core.line import Row
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
from aiodlock.locks.lock import Lock
from aiodlock.policy import Policy, Poll, Push, Retry

__all__ = [
    "AcquireTimeoutError",
    "AiodlockError",
    "BackendDataError",
    "BackendError",
    "BackendUnavailableError",
    "ClientClosedError",
    "ConfigurationError",
    "Hold",
    "InvalidKeyError",
    "Lock",
    "LockClient",
    "LockError",
    "LockLostError",
    "MissingDependencyError",
    "NotHeldError",
    "Policy",
    "Poll",
    "Push",
    "QuorumError",
    "Retry",
    "Row",
    "TooManyWaitersError",
    "UnsupportedError",
    "connect",
]

"""Errors: their tree, their messages, and their way through pickling and copying."""

from __future__ import annotations

import copy
import pickle

import pytest

from aiodlock import errors
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

ONE_OF_EACH = [
    AiodlockError("what"),
    ConfigurationError("ttl=0"),
    InvalidKeyError("key ''"),
    MissingDependencyError("redis://", extra="redis"),
    UnsupportedError("no"),
    ClientClosedError("closed"),
    LockError("k", "message"),
    AcquireTimeoutError("k", waited=5.0, holder="web-3"),
    LockLostError("k", reason="refused"),
    NotHeldError("k", "released"),
    QuorumError("k", "two of five"),
    TooManyWaitersError("k", "full"),
    BackendError("failed"),
    BackendUnavailableError("no answer"),
    BackendDataError("nonsense"),
]
every_error = pytest.mark.parametrize("error", ONE_OF_EACH, ids=lambda error: type(error).__name__)


def test_every_error_is_here() -> None:
    """A new one joins the list above."""
    assert sorted(type(error).__name__ for error in ONE_OF_EACH) == sorted(errors.__all__)


@every_error
def test_every_error_pickles(error: AiodlockError) -> None:
    """With its message, its facts and its notes: a process pool passes them on."""
    error = copy.copy(error)
    error.add_note("a note")
    for protocol in range(pickle.HIGHEST_PROTOCOL + 1):
        again = pickle.loads(pickle.dumps(error, protocol))
        assert type(again) is type(error)
        assert str(again) == str(error)
        assert again.args == error.args
        assert vars(again) == vars(error)
        assert again.__notes__ == ["a note"]


@every_error
def test_every_error_copies(error: AiodlockError) -> None:
    """Many waiters get an error of their own, each with its own traceback."""
    again = copy.copy(error)
    assert again is not error
    assert (type(again), str(again), vars(again)) == (type(error), str(error), vars(error))


@pytest.mark.parametrize(
    ("kind", "builtin"),
    [
        (ConfigurationError, ValueError),
        (InvalidKeyError, ValueError),
        (MissingDependencyError, ImportError),
        (AcquireTimeoutError, TimeoutError),
        (BackendUnavailableError, ConnectionError),
        (AcquireTimeoutError, LockError),
        (LockLostError, LockError),
        (NotHeldError, LockError),
        (QuorumError, LockError),
        (TooManyWaitersError, LockError),
        (BackendUnavailableError, BackendError),
        (BackendDataError, BackendError),
    ],
)
def test_errors_are_caught_by_their_builtin_and_by_their_base(kind: type, builtin: type) -> None:
    """Code that knows nothing of us still catches what it knows."""
    assert issubclass(kind, builtin)
    assert issubclass(kind, AiodlockError)


@pytest.mark.parametrize(
    ("error", "message"),
    [
        (
            AcquireTimeoutError("stock:42", waited=5, holder="web-3"),
            "lock 'stock:42' not acquired within 5.00s, held by web-3",
        ),
        (AcquireTimeoutError("k", waited=0.5), "lock 'k' not acquired within 0.50s"),
        (
            LockLostError("k", reason="refused"),
            "lock 'k' was lost: refused; check its fence at the resource, then acquire again",
        ),
        (
            MissingDependencyError("zk://", extra="zookeeper"),
            "zk:// needs a driver that is not installed: pip install 'aiodlock[zookeeper]'",
        ),
    ],
    ids=lambda value: type(value).__name__,
)
def test_a_message_is_built_from_its_facts(error: AiodlockError, message: str) -> None:
    """What, which key, how long, who, and what to do next."""
    assert str(error) == message


def test_facts_are_attributes() -> None:
    """Nobody has to parse a message."""
    late = AcquireTimeoutError("k", waited=5, holder="web-3")
    assert (late.key, late.waited, late.holder) == ("k", 5, "web-3")
    assert (LockLostError("k", reason="r").key, LockLostError("k", reason="r").reason) == ("k", "r")
    assert MissingDependencyError("x", extra="redis").extra == "redis"

"""Every error aiodlock raises.

::

    AiodlockError
    ├── ConfigurationError      (ValueError)       a setting that cannot work
    ├── InvalidKeyError         (ValueError)       a key that is no key
    ├── MissingDependencyError  (ImportError)      an extra that is not installed
    ├── UnsupportedError                           this backend cannot do that
    ├── ClientClosedError                          the client is closed, or belongs elsewhere
    ├── LockError
    │   ├── AcquireTimeoutError (TimeoutError)     not inside within ``wait``
    │   ├── LockLostError                          it was ours and is not any more
    │   ├── NotHeldError                           released already
    │   ├── QuorumError                            too few nodes agreed
    │   └── TooManyWaitersError                    a limit, so that a process does not grow without end
    └── BackendError
        ├── BackendUnavailableError (ConnectionError)  no answer
        └── BackendDataError                           an answer that makes no sense

Errors carry their facts as attributes, build their message from them, and survive pickling.
"""

from __future__ import annotations

from typing import Any

__all__ = [
    "AcquireTimeoutError",
    "AiodlockError",
    "BackendDataError",
    "BackendError",
    "BackendUnavailableError",
    "ClientClosedError",
    "ConfigurationError",
    "InvalidKeyError",
    "LockError",
    "LockLostError",
    "MissingDependencyError",
    "NotHeldError",
    "QuorumError",
    "TooManyWaitersError",
    "UnsupportedError",
]


def _restore(kind: type[AiodlockError], args: tuple[Any, ...], facts: dict[str, Any]) -> AiodlockError:
    error = kind.__new__(kind, *args)
    error.args = args
    error.__dict__.update(facts)
    return error


class AiodlockError(Exception):
    """Base of everything this library raises."""

    def __reduce__(self) -> tuple[Any, ...]:
        return _restore, (type(self), self.args, self.__dict__)


class ConfigurationError(AiodlockError, ValueError):
    """A setting that cannot work; raised before any I/O."""


class InvalidKeyError(AiodlockError, ValueError):
    """A key must be a string of 1 to 255 UTF-8 bytes without control characters."""


class MissingDependencyError(AiodlockError, ImportError):
    """A backend needs a driver that is not installed."""

    def __init__(self, what: str, *, extra: str) -> None:
        super().__init__(f"{what} needs a driver that is not installed: pip install 'aiodlock[{extra}]'")
        self.extra = extra


class UnsupportedError(AiodlockError):
    """This backend, or this kind of hold, cannot do what was asked."""


class ClientClosedError(AiodlockError):
    """The client is closed, not started, or belongs to another process or event loop."""


class LockError(AiodlockError):
    """Base of what can go wrong with one lock; ``key`` names it."""

    def __init__(self, key: str, message: str) -> None:
        super().__init__(message)
        self.key = key


class AcquireTimeoutError(LockError, TimeoutError):
    """The lock was not acquired within ``wait``; nothing of the attempt is left behind."""

    def __init__(self, key: str, *, waited: float, holder: str | None = None) -> None:
        held = f", held by {holder}" if holder else ""
        super().__init__(key, f"lock {key!r} not acquired within {waited:.2f}s{held}")
        self.waited = waited
        self.holder = holder


class LockLostError(LockError):
    """The lock was held and is not any more; others may be inside."""

    def __init__(self, key: str, *, reason: str) -> None:
        super().__init__(key, f"lock {key!r} was lost: {reason}; check its fence at the resource, then acquire again")
        self.reason = reason


class NotHeldError(LockError):
    """The hold was released already, or never belonged to this block."""


class QuorumError(LockError):
    """Too few of the independent nodes agreed."""


class TooManyWaitersError(LockError):
    """The client's limit of waiting tasks, or a line's limit of tickets, is reached."""


class BackendError(AiodlockError):
    """The server side failed."""


class BackendUnavailableError(BackendError, ConnectionError):
    """No answer from the server; what was asked may or may not have happened there."""


class BackendDataError(BackendError):
    """The server answered with something that is not ours."""

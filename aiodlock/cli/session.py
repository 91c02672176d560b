"""What the commands that ask a server have in common."""

from __future__ import annotations

from aiodlock.client import LockClient, connect
from aiodlock.errors import AiodlockError, BackendUnavailableError, UnsupportedError

__all__ = ["Stop", "client_of", "explained"]


class Stop(Exception):
    """End the command with one line and this status."""

    def __init__(self, message: str, *, status: int = 1) -> None:
        super().__init__(message)
        self.status = status


def client_of(url: str) -> LockClient:
    """Return an unopened client of a server that other processes see as well."""
    locks = connect(url)
    if not locks.backend.capabilities.shared:
        raise UnsupportedError(
            f"{url.partition('://')[0]}:// lives inside one process, and this command is a process of its own: nobody "
            "else's locks are there. Give the URL of a server"
        )
    return locks


def explained(error: AiodlockError) -> str:
    """Return the line for *error*, with the next step where its message has none."""
    if isinstance(error, BackendUnavailableError):
        return f"{error}; check that the server runs and that the URL is right"
    return str(error)

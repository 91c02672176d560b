"""What a test does when its server is not installed."""

from __future__ import annotations

import os

from aiodlock.testing.servers.base import Server

__all__ = ["require"]


def require(kind: type[Server]) -> None:
    """Skip the running test with the install command if this server is not installed; with ``CI=true`` fail it.

    For a fixture's first line. Where nobody reads the list of skipped tests, a skip would hide that nothing was tested.
    """
    import pytest

    if missing := kind.missing():
        give_up = pytest.fail if os.environ.get("CI", "").lower() in {"1", "true"} else pytest.skip
        give_up(str(missing))

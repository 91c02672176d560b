"""Names of the user's tables and columns, which cannot be parameters: checked, then quoted."""

from __future__ import annotations

import re

from aiodlock.errors import ConfigurationError

__all__ = ["quoted"]

_NAME = re.compile(r"[A-Za-z_$][A-Za-z0-9_$]{0,63}(\.[A-Za-z_$][A-Za-z0-9_$]{0,63})?")


def quoted(name: str) -> str:
    """Return *name* of a table or column, with its database if it has one, ready to stand in a statement."""
    if not isinstance(name, str) or not _NAME.fullmatch(name):
        raise ConfigurationError(f"{name!r} is no name of a table or column: give letters, digits, _ and $")
    return ".".join(f"`{part}`" for part in name.split("."))

"""Which server takes writes, by its own word."""

from __future__ import annotations

import pytest

from aiodlock.backends.mysql.setup import is_writable


@pytest.mark.parametrize("answer", [0, "0", "OFF", "off"])
def test_off_is_said_as_a_number_or_a_word(answer: object) -> None:
    """MySQL and MariaDB up to 11, and MariaDB from 12.0 on."""
    assert is_writable(answer)


@pytest.mark.parametrize("answer", [1, "ON", "NO_LOCK", "NO_LOCK_NO_ADMIN", None])
def test_everything_else_is_no_primary(answer: object) -> None:
    assert not is_writable(answer)

"""Requests that arrive late and replies that never arrive leave nothing behind and do nothing twice."""

from __future__ import annotations

import pytest

from tests.integration.late import Late


@pytest.mark.usefixtures("scripts_are_loaded")
class TestLate(Late):
    verb = b"EVALSHA"

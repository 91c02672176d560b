"""Requests that arrive late and replies that never arrive leave nothing behind and do nothing twice."""

from __future__ import annotations

from tests.integration.late import Late


class TestLate(Late):
    verb = b"EVALSHA"

"""Requests that arrive late and replies that never arrive leave nothing behind and do nothing twice."""

from __future__ import annotations

import pytest

from aiodlock.testing.servers import RedisServer
from tests.integration.late import Late
from tests.integration.redis.scripts import load_scripts


@pytest.fixture(autouse=True)
def scripts_are_loaded(server: RedisServer) -> None:
    load_scripts(server)


class TestLate(Late):
    verb = b"EVALSHA"

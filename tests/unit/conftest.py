"""A module of unit tests that says ``LOOP = VirtualTimeLoop`` runs in virtual time."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping

import pytest


def pytest_asyncio_loop_factories(item: pytest.Function) -> Mapping[str, Callable[[], asyncio.AbstractEventLoop]]:
    return {"loop": getattr(item.module, "LOOP", asyncio.new_event_loop)}

"""Connecting again, whatever stands in its way, and closing meanwhile."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

import asyncmy
import pytest

from aiodlock import LockClient
from aiodlock._core.line import Ticket
from aiodlock.backends.mysql import MySQLBackend
from aiodlock.backends.mysql.address import Address
from aiodlock.errors import BackendUnavailableError
from aiodlock.testing.servers import MariaDBServer
from tests.integration.mysql.conftest import Admin, Client

Connect = Callable[..., Awaitable[Client]]
Make = Callable[..., Ticket]


class Swallowing:
    """The driver's connect, as `asyncio.wait_for` makes it on 3.11: a cancel that comes as it ends is swallowed."""

    def __init__(self) -> None:
        self.began = 0
        self.made: list[Any] = []
        self._connect = asyncmy.connect

    async def __call__(self, **settings: Any) -> Any:
        self.began += 1
        try:
            await asyncio.get_running_loop().create_future()
        except asyncio.CancelledError:
            self.made.append(await self._connect(**settings))
            return self.made[-1]


async def test_closing_while_it_connects_again_ends_and_leaves_no_connection(
    server: MariaDBServer, admin: Admin, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Although the driver swallows the cancellation, for verbs and for calls."""
    backend = MySQLBackend.from_url(server.url)
    await backend.open(lambda call: None)
    swallowing = Swallowing()
    monkeypatch.setattr(asyncmy, "connect", swallowing)
    assert backend._node._link
    assert backend._bell._link
    backend._node._link.abort("cut")
    backend._bell._link.abort("cut")
    async with asyncio.timeout(10):
        while swallowing.began < 2:  # noqa: ASYNC110
            await asyncio.sleep(0.01)
        await backend.aclose()
        while await admin.connections():  # noqa: ASYNC110
            await asyncio.sleep(0.01)
    assert backend._node._link is None


async def test_a_connect_that_takes_too_long_ends(server: MariaDBServer, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its time is over although the driver swallows that."""
    monkeypatch.setattr(asyncmy, "connect", Swallowing())
    with pytest.raises(BackendUnavailableError, match=r"no answer within 0\.2s"):
        await MySQLBackend.from_url(server.url, patience=0.2).open(lambda call: None)


@pytest.mark.parametrize("error", [KeyError("the vault is away"), ZeroDivisionError()])
@pytest.mark.parametrize("whose", ["credentials", "driver"])
async def test_connecting_goes_on_after_any_error(
    server: MariaDBServer, monkeypatch: pytest.MonkeyPatch, whose: str, error: Exception
) -> None:
    """Of the one who gives credentials, or of the driver: it is told, and tried again."""
    failures, connect = 0, asyncmy.connect

    def fail_now_and_then() -> None:
        nonlocal failures
        if failures:
            failures -= 1
            raise error

    def credentials() -> tuple[str, str]:
        if whose == "credentials":
            fail_now_and_then()
        return "root", ""

    async def connect_now_and_then(**settings: Any) -> Any:
        if whose == "driver":
            fail_now_and_then()
        return await connect(**settings)

    monkeypatch.setattr(asyncmy, "connect", connect_now_and_then)
    address = Address(host="127.0.0.1", port=server.port, database=server.database, credentials=credentials)
    backend = MySQLBackend(address)
    async with LockClient(backend) as locks:
        failures = 4
        assert backend._node._link
        assert backend._bell._link
        backend._node._link.abort("cut")
        backend._bell._link.abort("cut")
        async with asyncio.timeout(20):
            while not (backend._node._link and backend._bell.is_heard):  # noqa: ASYNC110
                await asyncio.sleep(0.01)
        await locks.ping()
        assert failures == 0

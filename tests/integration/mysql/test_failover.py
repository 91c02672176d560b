"""Another server behind the same host and port, with what was replicated or without it: what still holds then."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager

import pytest

import aiodlock
from aiodlock.backends.mysql import MySQLBackend
from aiodlock.backends.mysql.address import Address
from aiodlock.backends.mysql.link import Link
from aiodlock.backends.mysql.queries import literal
from aiodlock.errors import BackendUnavailableError
from aiodlock.testing.proxy import FaultProxy
from aiodlock.testing.servers import MariaDBServer, require

TTL = 10.0
TABLES = ("aiodlock_lines", "aiodlock_tickets", "aiodlock_mail")


class Pair:
    """A primary, the server that follows it, and the one address under which clients know them."""

    def __init__(self, old: MariaDBServer, new: MariaDBServer, name: FaultProxy) -> None:
        self.old, self.new, self.name = old, new, name
        self.url = old.url.replace(str(old.port), str(name.port))

    async def prepare(self) -> None:
        """Make the tables on both, as replication does."""
        for server in (self.old, self.new):
            await MySQLBackend.from_url(server.url).prepare()

    async def replicate(self) -> None:
        """Bring the rows of the old server to the new one."""
        async with admin(self.old) as source, admin(self.new) as target:
            for table in TABLES:
                for row in (await source.ask(f"SELECT * FROM {table}"))[0]:
                    values = ", ".join(_literal(value) for value in row)
                    await target.ask(f"INSERT INTO {table} VALUES ({values})")

    async def fail_over(self) -> None:
        """Let the old server die, and its name lead to the new one."""
        await asyncio.to_thread(self.old.crash)
        self.name.target = self.new.port


def _literal(value: object) -> str:
    match value:
        case None:
            return "NULL"
        case str():
            return literal(value.encode())
        case _:
            return literal(value)  # type: ignore[arg-type]


@contextmanager
def two_servers() -> Iterator[Pair]:
    require(MariaDBServer)
    with MariaDBServer() as old, MariaDBServer() as new, FaultProxy(old.port) as name:
        yield Pair(old, new, name)


@asynccontextmanager
async def admin(server: MariaDBServer) -> AsyncIterator[Link]:
    link = await Link.open(Address.from_url(server.url))
    try:
        yield link
    finally:
        await link.aclose()


async def test_what_was_replicated_is_held_on() -> None:
    """The holder keeps its hold and renews it there; nobody else enters; the next fence is larger."""
    with two_servers() as pair:
        await pair.prepare()
        async with aiodlock.connect(pair.url) as mine, aiodlock.connect(pair.url) as other:
            hold = await mine.lock("kept", ttl=TTL).acquire()
            waiting = asyncio.create_task(other.lock("kept", ttl=TTL).acquire())
            while len([row async for row in mine.inspect("kept")]) < 2:  # noqa: ASYNC110
                await asyncio.sleep(0.01)
            await pair.replicate()
            await pair.fail_over()
            await _until_renewed(pair.new, "kept")
            assert not hold.lost
            assert not waiting.done()
            await hold.release()
            async with asyncio.timeout(30):
                later = await waiting
            assert later.fence > hold.fence
            await later.release()


async def _until_refused(client: aiodlock.LockClient, reason: str) -> None:
    """Return when a call fails for that reason; on a busy machine it may fail for another one before."""
    async with asyncio.timeout(30):
        while True:
            with pytest.raises(BackendUnavailableError) as refused:
                await client.ping()
            if reason in str(refused.value):
                return
            await asyncio.sleep(0.01)


async def _until_renewed(server: MariaDBServer, key: str) -> None:
    """Return when the ticket inside has a longer life on *server* than it came with."""
    own = f"SELECT MAX(ends) FROM aiodlock_tickets WHERE line = 'lock:{key}' AND state = 1"
    question = f"SELECT COALESCE(({own}), (SELECT soonest FROM aiodlock_lines WHERE line = 'lock:{key}'))"
    async with admin(server) as link, asyncio.timeout(30):
        first = (await link.ask(question))[0][0][0]
        while (await link.ask(question))[0][0][0] <= first:  # noqa: ASYNC110
            await asyncio.sleep(0.01)


async def test_what_was_not_replicated_is_lost() -> None:
    """Another one may be inside at once; the old holder hears it with its next renewal, and has the smaller fence."""
    with two_servers() as pair:
        await pair.prepare()
        async with aiodlock.connect(pair.url) as mine, aiodlock.connect(pair.url) as other:
            hold = await mine.lock("gone", ttl=TTL).acquire()
            await pair.fail_over()
            async with asyncio.timeout(30):
                second = await other.lock("gone", ttl=TTL).acquire()
                await hold.wait_lost()
            assert second.fence > hold.fence
            assert not second.lost
            await second.release()


async def test_a_new_server_is_not_used_before_it_takes_writes() -> None:
    """Read-only it is refused, with the reason; the hold is lost at its end, not later, and then all goes on."""
    with two_servers() as pair:
        await pair.prepare()
        async with (
            admin(pair.new) as new,
            aiodlock.connect(pair.url, patience=0.5) as mine,
            aiodlock.connect(pair.new.url) as direct,
        ):
            hold = await mine.lock("early", ttl=3.0).acquire()
            await new.ask("SET GLOBAL read_only = ON")
            await pair.fail_over()
            async with asyncio.timeout(30):
                await hold.wait_lost()
            await _until_refused(mine, "read-only")
            assert [row async for row in direct.inspect("early")] == []
            await new.ask("SET GLOBAL read_only = OFF")
            async with asyncio.timeout(30):
                again = await mine.lock("early", ttl=TTL).acquire()
            assert again.fence > hold.fence
            await again.release()

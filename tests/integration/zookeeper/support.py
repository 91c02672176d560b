"""Clients with short sessions, and visitors that record what they believe."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager, suppress
from typing import Any

from aiozk import protocol

from aiodlock import BackendUnavailableError, Hold, LockClient, LockLostError
from aiodlock.backends.zookeeper import ZooKeeperBackend
from aiodlock.backends.zookeeper.session import Session
from aiodlock.backends.zookeeper.tree import NoNode
from aiodlock.backends.zookeeper.wire import Link, no_result
from aiodlock.testing.history import Event, Recorder, Violation, check_exclusion, check_fencing, stays
from aiodlock.testing.servers import ZooKeeperEnsemble, ZooKeeperServer

SESSION = 2.0
TICK = 0.2
LATE = 3.0  # a busy machine notices later; how late it is otherwise is measured by benchmarks.ends

figure = logging.getLogger("figures").info  # shown by --log-cli-level=INFO


def client(url: str, *, session: float = SESSION, tick: float = TICK, **settings: Any) -> LockClient:
    return LockClient(ZooKeeperBackend.from_url(url, session=session, tick=tick), **settings)


def session_of(client: LockClient) -> Session:
    assert isinstance(client.backend, ZooKeeperBackend)
    return client.backend._session


def url_of(*ports: int) -> str:
    return f"zk://{','.join(f'127.0.0.1:{port}' for port in ports)}/aiodlock"


async def nodes(client: LockClient, line: str) -> list[str]:
    """Return the names in a line, as the server has them now: a kind and a key, or the key of a lock."""
    assert isinstance(client.backend, ZooKeeperBackend)
    await client.backend._session.sync()
    try:
        return await client.backend._tree.children(f"/aiodlock/{line if '/' in line else f'lock/{line}'}")
    except NoNode:
        return []


async def delete(client: LockClient, *paths: str) -> None:
    """Delete nodes as an administrator would, all in one step."""
    assert isinstance(client.backend, ZooKeeperBackend)
    await client.backend._tree.change(*map(client.backend._tree.deletion, paths))


async def in_line(client: LockClient, line: str, count: int) -> None:
    """Return when so many stand in a line, see `nodes`."""

    async def is_so() -> bool:
        return len(await nodes(client, line)) == count

    await until(is_so)


async def give_up(entering: list[asyncio.Task[Hold]]) -> None:
    """End what still waits."""
    for task in entering:
        task.cancel()
    await asyncio.gather(*entering, return_exceptions=True)


async def answers(client: LockClient) -> bool:
    try:
        await client.ping()
    except BackendUnavailableError:
        return False
    return True


def is_parked(client: LockClient) -> bool:
    """Tell whether its ticket is watched over: before that a lost connection makes it join again, and so look."""
    assert isinstance(client.backend, ZooKeeperBackend)
    return all(stand._lookout._via > 0 for stand in client.backend._stands.values())


@asynccontextmanager
async def client_of(node: ZooKeeperServer, ensemble: ZooKeeperEnsemble, **settings: Any) -> AsyncIterator[LockClient]:
    """An open client that knows all servers and is connected to this one."""
    while True:
        async with client(ensemble.url, **settings) as found:
            if session_of(found).host[1] == node.port:
                yield found
                return


async def until(is_so: Callable[[], Awaitable[bool] | bool], *, within: float = 15.0, every: float = 0.01) -> None:
    async with asyncio.timeout(within):
        while not (await answer if isinstance(answer := is_so(), Awaitable) else answer):  # noqa: ASYNC110 - what a server does has no event here
            await asyncio.sleep(every)


async def expire(session: Session, server: ZooKeeperServer) -> None:
    """End a session behind its client's back: over another connection that says it is the same client."""
    old, password = session.id, session._password

    def link() -> Link:
        return Link("second", via=0, now=session.now, patience=5.0, on_watch=lambda *_: None, on_answer=lambda *_: None)

    for _ in range(20):
        second = (await asyncio.get_running_loop().create_connection(link, "127.0.0.1", server.port))[1]
        try:
            answer = await second.greet(session=old, password=password, session_time=session.seconds, last_zxid=0)
            if not answer.timeout:
                return  # it has ended
            await second.send(protocol.CloseRequest(), no_result)
        except BackendUnavailableError:
            pass  # its own client takes the session back as soon as it notices; or the server just hung up
        finally:
            await second.aclose()
    raise AssertionError("the session does not end")


class Visits:
    """What visitors of one key believed, in one history."""

    def __init__(self, key: str) -> None:
        self.key = key
        self.events: list[Event] = []

    def violations(self) -> list[Violation]:
        history = stays(self.events)
        return check_exclusion(history) + check_fencing(history)

    def count(self) -> int:
        return len(stays(self.events))

    async def stay(self, client: LockClient, *, until: asyncio.Event | None = None, **policy: Any) -> None:
        """Enter, and stay until told to go or the hold is lost; note until when it is believed, again and again."""
        record = Recorder(self.events.append, who=client.name)
        asked = record.now()
        with suppress(LockLostError):
            async with client.lock(self.key, **policy) as hold:
                facts: dict[str, Any] = {"key": self.key, "id": hold.fence}
                valid = record.now() + hold.remaining
                record("inside", **facts, asked=asked, valid_until=valid, fence=hold.fence)
                try:
                    while until is not None and not until.is_set():
                        await asyncio.sleep(0.01)
                        now, remaining = record.now(), hold.remaining
                        if remaining > 0:
                            record("renewed", **facts, valid_until=now + remaining)
                finally:
                    record("left", **facts)

    async def inside(self) -> None:
        """Return when somebody is inside."""
        await until(lambda: self.count() > 0)

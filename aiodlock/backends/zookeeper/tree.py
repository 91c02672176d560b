"""The tree of nodes, one method per request; what we create has our ACL."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any, NamedTuple, TypeAlias

from aiozk import exc, protocol

from aiodlock.backends.zookeeper.session import Session
from aiodlock.backends.zookeeper.wire import no_result
from aiodlock.errors import BackendDataError

__all__ = ["BadVersion", "NoNode", "NodeExists", "NotEmpty", "OnEvent", "Stat", "Tree"]

OnEvent: TypeAlias = Callable[[str, bool], None]
"""Is told the path that it watches, and whether that is gone."""

NoNode, NodeExists, BadVersion, NotEmpty = exc.NoNode, exc.NodeExists, exc.BadVersion, exc.NotEmpty

_EPHEMERAL, _SEQUENTIAL, _CONTAINER = 1, 2, 4
_LARGEST_EPOCH = 1 << 48


# aiozk sends the opcode of an ordinary node, which would stay for ever.
class _CreateContainer(protocol.CreateRequest):  # type: ignore[misc]
    opcode = 19


class _CreatedContainer(protocol.Create2Response):  # type: ignore[misc]
    opcode = 19


class Stat(NamedTuple):
    """What the server keeps about a node."""

    epoch: int  # the change that created it
    created: float  # seconds, by the server's clock
    version: int
    owner: int  # the session whose node it is; 0: nobody's
    children: int

    @classmethod
    def of(cls, stat: Any) -> Stat:
        if stat.created_zxid >= _LARGEST_EPOCH:
            raise BackendDataError(f"change number {stat.created_zxid} does not fit a fence: use a fresh ensemble")
        return cls(stat.created_zxid, stat.created / 1000, stat.version, stat.ephemeral_owner, stat.num_children)


class Tree:
    """Requests over a session, and who is to be told when something changes.

    A watch is for one event, over the present connection only; without it nobody is told. Whoever watches looks again
    after a reconnect.
    """

    def __init__(self, session: Session) -> None:
        self.session = session
        self.misses_lines = False  # whether the last line that we came to was not there
        self._acl = [protocol.AUTHED_UNRESTRICTED if session.address.credentials else protocol.UNRESTRICTED_ACCESS]
        self._watchers: dict[tuple[str, bool], dict[OnEvent, None]] = {}
        self._behind: float | None = None  # our clock against the server's

    # --- reading -----------------------------------------------------------------------------------------------

    def children(self, path: str, watch: OnEvent | None = None) -> asyncio.Future[list[str]]:
        """Return the names under *path*; *watch* is called when one comes or goes."""
        self._expect(path, watch, children=True)
        request = protocol.GetChildrenRequest(path=path, watch=watch is not None)
        return self.session.send(request, lambda reply: reply.children)

    def get(self, path: str, watch: OnEvent | None = None) -> asyncio.Future[tuple[bytes, Stat]]:
        """Return what a node holds; *watch* is called when it is changed or deleted."""
        self._expect(path, watch, children=False)
        request = protocol.GetDataRequest(path=path, watch=watch is not None)
        return self.session.send(request, lambda reply: (reply.data or b"", Stat.of(reply.stat)))

    def count(self, path: str) -> asyncio.Future[int]:
        """Return how many children a node has, without their names."""
        return self.session.send(protocol.ExistsRequest(path=path, watch=False), lambda reply: reply.stat.num_children)

    def owners(self, path: str) -> asyncio.Future[list[str]]:
        """Return who may do more with a node than read it."""
        request = protocol.GetACLRequest(path=path)
        return self.session.send(
            request, lambda reply: [f"{acl.id.scheme}:{acl.id.id}" for acl in reply.acl if acl.perms != acl.READ_PERM]
        )

    async def server_now(self) -> float:
        """Return the time by the server's clock, learnt from what it last created for us."""
        if self._behind is None:
            await self.make(self.session.address.root)
            path, _ = await self.create(f"{self.session.address.root}/time-", b"", sequential=True)
            await self.change(self.deletion(path))
        return self.session.now() + (self._behind or 0.0)

    # --- writing -----------------------------------------------------------------------------------------------

    def create(self, path: str, data: bytes, *, sequential: bool = False) -> asyncio.Future[tuple[str, Stat]]:
        """Create a node that goes with our session; return its path, with the number that the server added."""
        flags = _EPHEMERAL | _SEQUENTIAL if sequential else _EPHEMERAL
        return self.session.send(
            protocol.Create2Request(path=path, data=data, acl=self._acl, flags=flags), self._learn_time
        )

    def creation(self, path: str, data: bytes, *, sequential: bool = False) -> Any:
        """Return the same as a part of a change; there the server tells the path only."""
        flags = _EPHEMERAL | _SEQUENTIAL if sequential else _EPHEMERAL
        return protocol.CreateRequest(path=path, data=data, acl=self._acl, flags=flags)

    def setting(self, path: str, data: bytes, version: int = -1) -> Any:
        return protocol.SetDataRequest(path=path, data=data, version=version)

    def deletion(self, path: str, version: int = -1) -> Any:
        return protocol.DeleteRequest(path=path, version=version)

    def change(self, *requests: Any) -> asyncio.Future[list[Any]]:
        """Do all of it in one step, or nothing: then the error says why."""
        if len(requests) == 1:
            return self.session.send(requests[0], lambda reply: [reply])
        transaction = protocol.TransactionRequest()
        for request in requests:
            transaction.add(request)
        return self.session.send(transaction, _all_done)

    def create_lasting(self, path: str, data: bytes, *, container: bool = False) -> asyncio.Future[None]:
        """Create a node that stays; a container is removed by the server when it is empty."""
        kind = _CreateContainer if container else protocol.CreateRequest
        request = kind(path=path, data=data, acl=self._acl, flags=_CONTAINER if container else 0)
        return self.session.send(request, no_result)

    async def make(self, path: str, data: bytes = b"", *, container: bool = False) -> None:
        """Do so, with those above it; one that is there is left as it is."""
        try:
            await self.create_lasting(path, data, container=container)
        except NodeExists:
            pass
        except NoNode:
            await self.make(path.rpartition("/")[0])
            await self.make(path, data, container=container)

    # --- watches -----------------------------------------------------------------------------------------------

    def on_event(self, kind: int, path: str) -> None:
        """Tell those who watch *path*; once."""
        is_gone, is_children = kind == protocol.WatchEvent.DELETED, kind == protocol.WatchEvent.CHILDREN_CHANGED
        told = self._watchers.pop((path, is_children), {})
        if is_gone:
            told = told | self._watchers.pop((path, True), {})
        for watch in told:
            watch(path, is_gone)

    def forget_watches(self) -> None:
        """Expect no more events: the connection they would have come over is gone."""
        self._watchers.clear()

    def ignore(self, path: str, *watches: OnEvent) -> None:
        """Tell *watches* of no event at *path*."""
        for key in ((path, True), (path, False)):
            if watchers := self._watchers.get(key):
                for watch in watches:
                    watchers.pop(watch, None)
                if not watchers:
                    del self._watchers[key]

    def _expect(self, path: str, watch: OnEvent | None, *, children: bool) -> None:
        if watch is not None:
            self._watchers.setdefault((path, children), {})[watch] = None

    def _learn_time(self, reply: Any) -> tuple[str, Stat]:
        stat = Stat.of(reply.stat)
        self._behind = stat.created - self.session.now()
        return reply.path, stat


def _all_done(reply: Any) -> list[Any]:
    done: list[Any] = reply.responses
    if failed := [part for part in done if isinstance(part, exc.ResponseError) and part.error_code]:
        # The one that failed; those behind it were not tried, and say so.
        raise next((error for error in failed if not isinstance(error, exc.RuntimeInconsistency)), failed[0])
    return done

"""Who may touch our nodes, and what the doctor says about the servers."""

from __future__ import annotations

import pytest
from aiozk import protocol

from aiodlock import BackendError, connect
from aiodlock.backends.base import Diagnosing
from aiodlock.backends.zookeeper.backend import ZooKeeperBackend
from aiodlock.backends.zookeeper.session import Session
from aiodlock.backends.zookeeper.wire import Link, no_result
from aiodlock.testing.proxy import FaultProxy
from aiodlock.testing.servers import ZooKeeperEnsemble, ZooKeeperServer
from tests.integration.zookeeper.support import answers, client, in_line, until


async def _go_on_after_a_reconnect(proxy: FaultProxy, root: str, key: str) -> None:
    async with client(f"zk://user:secret@127.0.0.1:{proxy.port}/{root}", session=8.0) as mine:
        async with mine.lock(key):
            proxy.reset()
            await until(lambda: answers(mine))
        async with mine.lock(key, wait=2.0):
            pass


async def test_nodes_belong_to_their_user(server: ZooKeeperServer, proxy: FaultProxy, key: str) -> None:
    """Also after a reconnect; somebody else is refused with a hint, and changes nothing."""
    await _go_on_after_a_reconnect(proxy, "owned", key)
    async with client(f"zk://127.0.0.1:{server.port}/owned") as stranger:
        with pytest.raises(BackendError, match="give user and password"):
            await stranger.backend.inspect("*", "*")


async def test_that_finds_a_login_that_is_not_repeated(
    proxy: FaultProxy, key: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A connection has its own."""
    prepare = Session._prepare

    async def only_once(self: Session, link: Link) -> None:
        credentials = self.address.credentials
        if self.via > 1:
            object.__setattr__(self.address, "credentials", None)
        await prepare(self, link)
        object.__setattr__(self.address, "credentials", credentials)

    monkeypatch.setattr(Session, "_prepare", only_once)
    with pytest.raises(BackendError, match="InvalidACL"):
        await _go_on_after_a_reconnect(proxy, "owned-2", key)


async def test_the_doctor_looks_at_every_server(ensemble: ZooKeeperEnsemble, key: str) -> None:
    """Their versions and roles, the session they agreed to, the tick, and who may change our nodes."""
    async with connect(ensemble.url, session=100.0, tick=0.1) as locks, locks.lock(key):
        assert isinstance(locks.backend, Diagnosing)
        found = list(await locks.backend.diagnose())
    assert [finding.level for finding in found if finding.what == "server"] == ["ok"] * 3
    levels = {finding.what: finding.level for finding in found}
    assert levels == {"server": "ok", "ensemble": "ok", "session": "warning", "tick": "error", "access": "warning"}
    (session,) = [finding for finding in found if finding.what == "session"]
    assert "100s asked for, 60s agreed" in session.found
    assert "400 to 60000 ms" in session.advice


async def test_the_doctor_says_what_is_down(server: ZooKeeperServer, key: str) -> None:
    """A server that does not answer is a warning, and the others are looked at."""
    async with connect(f"zk://127.0.0.1:{server.port},127.0.0.1:9/aiodlock") as locks:
        assert isinstance(locks.backend, ZooKeeperBackend)
        await in_line(locks, key, 0)
        found = [finding for finding in await locks.backend.diagnose() if finding.what == "server"]
    assert sorted(finding.level for finding in found) == ["ok", "warning"]


async def test_the_doctor_says_that_a_root_is_somebody_elses(server: ZooKeeperServer, key: str) -> None:
    """As an error with advice, beside everything else that it found."""
    async with client(f"zk://user:secret@127.0.0.1:{server.port}/owned-3") as owner, owner.lock(key):
        pass
    async with client(f"zk://127.0.0.1:{server.port}/owned-3") as stranger:
        assert isinstance(stranger.backend, Diagnosing)
        found = {finding.what: finding for finding in await stranger.backend.diagnose()}
    assert (found["access"].level, found["access"].advice) == ("error", "give the URL its user and password")
    assert found["server"].level == "ok"


async def test_one_who_may_only_read_sees_who_holds(server: ZooKeeperServer, key: str) -> None:
    """He has to create nothing for it."""
    async with client(f"zk://user:secret@127.0.0.1:{server.port}/open") as owner, owner.lock(key):
        assert isinstance(owner.backend, ZooKeeperBackend)
        tree, name = owner.backend._tree, (await owner.backend._tree.children(f"/open/lock/{key}"))[0]
        for path in ("/open", "/open/lock", f"/open/lock/{key}", f"/open/lock/{key}/{name}"):
            acl = [protocol.AUTHED_UNRESTRICTED, protocol.WORLD_READABLE]
            await tree.session.send(protocol.SetACLRequest(path=path, acl=acl, version=-1), no_result)
        async with client(f"zk://127.0.0.1:{server.port}/open", name="guest") as guest:
            (row,) = [row async for row in guest.inspect(key)]
            assert (row.owner, row.inside) == (owner.name, True)
            assert 0 <= row.since < 60
            assert isinstance(guest.backend, Diagnosing)
            (access,) = [finding for finding in await guest.backend.diagnose() if finding.what == "access"]
            assert (access.level, "belongs to digest:user:" in access.found) == ("ok", True)

"""Who may touch our nodes, and what the doctor says about the servers."""

from __future__ import annotations

import pytest

from aiodlock import BackendError, connect
from aiodlock.backends.base import Diagnosing
from aiodlock.backends.zookeeper.backend import ZooKeeperBackend
from aiodlock.backends.zookeeper.session import Session
from aiodlock.backends.zookeeper.wire import Link
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
    with pytest.raises(TimeoutError):
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

"""Servers that belong together: a replica copies, sentinels replace, TLS is TLS; and nothing is left behind."""

from __future__ import annotations

import socket
import ssl
from collections.abc import Callable

import pytest

from aiodlock.testing.proxy import FaultProxy
from aiodlock.testing.servers import (
    RedisReplica,
    RedisSentinel,
    RedisServer,
    SentinelService,
    ServerFailedError,
    TlsRedisServer,
    require,
)
from aiodlock.testing.servers.resp import RefusedError, ask, info


def test_a_replica_has_what_its_master_has_and_can_be_cut_off_and_promoted() -> None:
    """Through a proxy; what it has not got when it is cut off is lost when it takes over."""
    require(RedisServer)
    with RedisServer() as master:
        ask(master.port, "SET", "before", 1)
        with FaultProxy(master.port) as copying, RedisReplica(of=copying.port) as replica:
            assert b"role:slave" in info(replica.port, "replication")
            assert ask(replica.port, "GET", "before") == b"1"
            with pytest.raises(RefusedError, match="READONLY"):
                ask(replica.port, "SET", "before", 2)
            copying.refuse()
            copying.reset()
            ask(master.port, "SET", "after", 1)
            replica.promote()
            assert ask(replica.port, "SET", "before", 2) == b"OK"
            assert ask(replica.port, "GET", "after") is None


def test_a_replica_without_a_master_does_not_get_ready(monkeypatch: pytest.MonkeyPatch) -> None:
    require(RedisServer)
    monkeypatch.setattr(RedisReplica, "ready_within", 0.5)
    with RedisServer() as master:
        gone = master.port
    with pytest.raises(ServerFailedError):
        RedisReplica(of=gone).__enter__()


@pytest.mark.long
def test_sentinels_replace_a_master_and_are_ended_together(state_of: Callable[[int], str]) -> None:
    """By command, and when it is killed; a healed service has all its copies again."""
    require(RedisSentinel)
    with SentinelService(down_after=2.0) as service:  # a busy server is not taken for a dead one
        first = service.master
        second = service.fail_over()
        assert second is not first
        service.heal()
        second.crash()
        third = service.replaced(second)
        assert third not in (None, second)
        service.heal()
        assert service.master is third
        assert b"connected_slaves:2" in info(third.port, "replication")
        assert [server.running for server in (*service.servers, *service.sentinels)] == [True] * 6
        pids = [server.pid for server in (*service.servers, *service.sentinels)]
    assert [state_of(pid) for pid in pids] == [""] * 6


def test_a_tls_server_proves_who_it_is() -> None:
    require(TlsRedisServer)
    with TlsRedisServer() as server:
        for authority, is_trusted in ((server.authority, True), (server.other_authority, False)):
            context = ssl.create_default_context(cafile=str(authority))
            with socket.create_connection(("127.0.0.1", server.tls_port), 5.0) as plain:
                try:
                    with context.wrap_socket(plain, server_hostname="127.0.0.1") as connection:
                        connection.sendall(b"PING\r\n")
                        assert (connection.recv(64), is_trusted) == (b"+PONG\r\n", True)
                except ssl.SSLCertVerificationError:
                    assert not is_trusted

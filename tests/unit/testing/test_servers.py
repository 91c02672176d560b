"""Servers in tests: started, crashed, paused, restarted, ended, and never left behind."""

from __future__ import annotations

import pickle
import shutil
import socket
import subprocess
import sys
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import pytest

from aiodlock.testing.servers import MissingServerError, RedisServer, Server, ServerFailedError, free_ports, require


def ask(server: Server, command: str, *, within: float = 5.0) -> bytes:
    with socket.create_connection(("127.0.0.1", server.port), within) as connection:
        connection.sendall(f"{command}\r\nQUIT\r\n".encode())
        with connection.makefile("rb") as replies:
            return replies.read().removesuffix(b"+OK\r\n")


@pytest.fixture(scope="module")
def redis() -> Iterator[RedisServer]:
    require(RedisServer)
    with RedisServer() as server:
        yield server


class NoSuchServer(RedisServer):
    program = "no-such-redis"
    install = "apt-get install no-such-redis"


class SilentServer(RedisServer):
    """Runs, and never listens."""

    ready_within = 1.0  # and a shell starts within it

    def command(self) -> Sequence[str]:
        return ("sh", "-c", "echo deaf; exec sleep 600")


def test_is_ready_when_started(redis: RedisServer, state_of: Callable[[int], str]) -> None:
    assert ask(redis, "PING") == b"+PONG\r\n"
    assert redis.url == f"redis://127.0.0.1:{redis.port}/0"
    assert redis.running
    assert state_of(redis.pid) in {"S", "R"}


def test_listens_on_loopback_only(redis: RedisServer) -> None:
    assert b"127.0.0.1\r\n" in ask(redis, "CONFIG GET bind")


def test_two_servers_share_nothing(redis: RedisServer) -> None:
    with RedisServer(arguments=("--maxmemory", "12mb")) as other:
        assert (other.port, other.directory) != (redis.port, redis.directory)
        assert b"12582912" in ask(other, "CONFIG GET maxmemory")
        assert b"12582912" not in ask(redis, "CONFIG GET maxmemory")


def test_starting_twice_is_refused(redis: RedisServer) -> None:
    with pytest.raises(RuntimeError, match="running already"):
        redis.start()


def test_durable_server_keeps_what_it_answered_over_a_crash(state_of: Callable[[int], str]) -> None:
    """Same port, same data, another process."""
    with RedisServer(durable=True) as server:
        port, pid = server.port, server.pid
        assert ask(server, "SET k v") == b"+OK\r\n"
        server.crash()
        assert state_of(pid) == ""
        assert not server.running
        server.start()
        assert (server.port, ask(server, "GET k")) == (port, b"$1\r\nv\r\n")
        assert server.pid != pid


def test_ordinary_server_forgets_over_a_restart() -> None:
    with RedisServer() as server:
        ask(server, "SET k v")
        server.restart()
        assert ask(server, "GET k") == b"$-1\r\n"


def test_paused_server_answers_nothing_until_resumed(redis: RedisServer, state_of: Callable[[int], str]) -> None:
    with redis.paused():
        assert state_of(redis.pid) == "T"
        with pytest.raises(TimeoutError):
            ask(redis, "PING", within=0.05)
    assert ask(redis, "PING") == b"+PONG\r\n"


def test_a_paused_server_can_be_stopped(state_of: Callable[[int], str]) -> None:
    server = RedisServer().start()
    pid, directory = server.pid, server.directory
    server.pause()
    server.close()
    assert state_of(pid) == ""
    assert not directory.exists()


def test_a_server_that_never_gets_ready_is_killed_and_its_log_shown(state_of: Callable[[int], str]) -> None:
    server = SilentServer()
    with pytest.raises(ServerFailedError, match="deaf"):
        server.start()
    assert state_of(server.pid) == ""
    server.close()


def test_a_taken_port_is_an_error_not_another_ones_server(redis: RedisServer) -> None:
    """The other Redis answers on that port; it must not pass for ours."""
    thief = RedisServer()
    thief.port = redis.port
    with pytest.raises(ServerFailedError, match="in use"), thief:
        pass
    assert not thief.directory.exists()


def test_missing_program_names_the_install_command() -> None:
    with pytest.raises(MissingServerError) as caught, NoSuchServer():
        pass
    assert "apt-get install no-such-redis" in str(caught.value)
    again = pickle.loads(pickle.dumps(caught.value))
    assert (again.program, again.install) == ("no-such-redis", "apt-get install no-such-redis")


@pytest.mark.parametrize(("ci", "outcome"), [("true", "Failed"), ("1", "Failed"), ("", "Skipped"), (None, "Skipped")])
def test_missing_program_fails_in_ci_and_skips_elsewhere(
    monkeypatch: pytest.MonkeyPatch, ci: str | None, outcome: str
) -> None:
    monkeypatch.delenv("CI", raising=False) if ci is None else monkeypatch.setenv("CI", ci)
    with pytest.raises(BaseException, match="apt-get install no-such-redis") as caught:
        require(NoSuchServer)
    assert type(caught.value).__name__ == outcome


def test_free_ports_are_different_and_outside_the_range_of_outgoing_connections() -> None:
    ports = free_ports(50)
    assert len(set(ports)) == 50
    assert all(1024 < port < 32768 for port in ports)


def test_two_processes_never_choose_the_same_port(environment: dict[str, str]) -> None:
    """Not even one after the other, of ports on which nobody listens yet."""
    program = "from aiodlock.testing.servers import free_ports; print(*free_ports(100))"
    ours = free_ports(100)
    run = subprocess.run([sys.executable, "-c", program], stdout=subprocess.PIPE, env=environment, check=True)
    theirs = set(map(int, run.stdout.split()))
    assert len(theirs) == 100
    assert not theirs.intersection(ours)


@pytest.mark.parametrize("ending", ["sys.exit()", "os.kill(os.getpid(), 9)", "os._exit(1)"])
def test_no_server_outlives_its_test_process(
    ending: str, await_death: Callable[[int], None], environment: dict[str, str]
) -> None:
    """However the process that started it goes, also with the server paused."""
    program = (
        "import os, sys; from aiodlock.testing.servers import RedisServer; s = RedisServer().start(); s.pause();"
        f"print(s.pid, s.directory, flush=True); {ending}"
    )
    with subprocess.Popen([sys.executable, "-c", program], stdout=subprocess.PIPE, env=environment) as process:
        pid, directory = process.communicate()[0].decode().split()
    await_death(int(pid))
    if ending != "sys.exit()":
        shutil.rmtree(directory)
    assert not Path(directory).exists()

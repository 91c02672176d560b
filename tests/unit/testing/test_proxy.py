"""The fault proxy against a real Redis: what the client sees, and what the server did."""

from __future__ import annotations

import asyncio
import contextlib
import socket
import struct
import threading
import time
from collections.abc import Callable, Iterator

import pytest

from aiodlock.testing.proxy import FaultProxy, Match
from aiodlock.testing.servers import RedisServer, require


class Client:
    """The least Redis client: inline commands, one line each way."""

    def __init__(self, port: int) -> None:
        self._socket = socket.create_connection(("127.0.0.1", port), 5.0)
        self._replies = self._socket.makefile("rb")

    def send(self, command: str) -> None:
        self._socket.sendall(command.encode() + b"\r\n")

    def receive(self, *, within: float = 5.0) -> bytes:
        self._socket.settimeout(within)
        return self._replies.readline()

    def receive_again(self) -> bytes:
        """Receive after a timeout: a file object refuses to be read on, so the raw socket is."""
        self._socket.settimeout(5.0)
        return self._socket.recv(100)

    def ask(self, command: str) -> bytes:
        self.send(command)
        return self.receive()

    def close(self) -> None:
        self._replies.close()
        self._socket.close()

    def reset(self) -> None:
        self._socket.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        self.close()


Connect = Callable[[int], Client]


@pytest.fixture(scope="module")
def server() -> Iterator[RedisServer]:
    require(RedisServer)
    with RedisServer() as server:
        yield server


@pytest.fixture
def connect() -> Iterator[Connect]:
    clients: list[Client] = []

    def connect(port: int) -> Client:
        clients.append(Client(port))
        return clients[-1]

    yield connect
    for client in clients:
        client.close()


@pytest.fixture
def proxy(server: RedisServer) -> Iterator[FaultProxy]:
    with FaultProxy(server.port) as proxy:
        yield proxy


@pytest.fixture(autouse=True)
def direct(server: RedisServer, connect: Connect) -> Client:
    """Return a client that sees what the server really has: at first nothing."""
    client = connect(server.port)
    assert client.ask("FLUSHALL") == b"+OK\r\n"
    return client


@pytest.fixture
def client(proxy: FaultProxy, connect: Connect) -> Client:
    return connect(proxy.port)


def number_of(direct: Client, key: str) -> int:
    return int(direct.ask(f"INCRBY {key} 0")[1:])


# --- forwarding --------------------------------------------------------------------------------------------


def test_without_faults_everything_passes_and_is_counted(client: Client, proxy: FaultProxy) -> None:
    assert [client.ask("INCR n") for _ in range(3)] == [b":1\r\n", b":2\r\n", b":3\r\n"]
    counts = proxy.counts
    assert (counts.connections, counts.requests, counts.replies) == (1, 3, 3)
    assert (counts.cut, counts.reset, counts.requests_dropped, counts.replies_dropped, counts.held_back) == (0,) * 5


def test_large_requests_and_replies_pass_whole(client: Client) -> None:
    value = "0123456789" * 100_000
    client.send(f"*3\r\n$3\r\nSET\r\n$1\r\nk\r\n${len(value)}\r\n{value}")
    assert client.receive() == b"+OK\r\n"
    assert client.ask("GET k") == f"${len(value)}\r\n".encode()
    assert client.receive() == f"{value}\r\n".encode()


def test_the_end_of_a_connection_passes_in_both_directions(
    client: Client, direct: Client, connect: Connect, proxy: FaultProxy
) -> None:
    assert client.ask("QUIT") == b"+OK\r\n"
    assert client.receive() == b""
    leaver = connect(proxy.port)
    assert leaver.ask("CLIENT SETNAME leaver") == b"+OK\r\n"
    leaver.close()
    _await_no_client(direct, "leaver")


def test_a_dead_server_resets_the_client(connect: Connect) -> None:
    with RedisServer() as mortal, FaultProxy(mortal.port) as proxy:
        mortal.crash()
        with pytest.raises(ConnectionResetError):
            connect(proxy.port).ask("PING")
        assert proxy.counts.unreachable == 1


@pytest.mark.parametrize("direction", ["requests", "replies"])
def test_delay_holds_up_one_direction(direction: str, client: Client, proxy: FaultProxy) -> None:
    assert client.ask("PING") == b"+PONG\r\n"
    proxy.delay(**{direction: 0.1})
    before = time.monotonic()
    assert client.ask("PING") == b"+PONG\r\n"
    assert time.monotonic() - before >= 0.1


def test_delays_overlap_and_keep_the_order(client: Client, proxy: FaultProxy) -> None:
    """A slow line, not a narrow one: ten requests in flight are late together."""
    before = time.monotonic()
    for number in range(10):
        proxy.delay(requests=0.5)  # a round trip through the proxy's loop, so that it reads each request by itself
        client.send(f"APPEND digits {number}")
    assert [client.receive() for _ in range(10)] == [b":%d\r\n" % length for length in range(1, 11)]
    assert 0.5 <= time.monotonic() - before < 10 * 0.5  # one after the other they would take longer
    proxy.heal()
    assert client.ask("GET digits") == b"$10\r\n"
    assert client.receive() == b"0123456789\r\n"


# --- ends of connections -----------------------------------------------------------------------------------


def test_cut_closes_both_sides(client: Client, proxy: FaultProxy, direct: Client) -> None:
    assert client.ask("CLIENT SETNAME victim") == b"+OK\r\n"
    proxy.cut()
    assert client.receive() == b""
    assert proxy.counts.cut == 1
    _await_no_client(direct, "victim")


def test_reset_resets_both_sides(client: Client, proxy: FaultProxy, direct: Client) -> None:
    assert client.ask("CLIENT SETNAME victim") == b"+OK\r\n"
    proxy.reset()
    with pytest.raises(ConnectionResetError):
        client.receive()
    assert proxy.counts.reset == 1
    _await_no_client(direct, "victim")


def test_after_a_cut_new_connections_pass(client: Client, proxy: FaultProxy, connect: Connect) -> None:
    client.ask("PING")
    proxy.cut()
    assert connect(proxy.port).ask("PING") == b"+PONG\r\n"


def test_refused_while_others_go_on_until_healed(client: Client, proxy: FaultProxy, connect: Connect) -> None:
    client.ask("PING")
    proxy.refuse()
    with pytest.raises(ConnectionRefusedError):
        connect(proxy.port)
    assert client.ask("PING") == b"+PONG\r\n"
    proxy.heal()
    assert connect(proxy.port).ask("PING") == b"+PONG\r\n"


# --- half-open ---------------------------------------------------------------------------------------------


def test_half_open_is_silence_until_healed(client: Client, proxy: FaultProxy, connect: Connect) -> None:
    client.ask("PING")
    proxy.half_open()
    client.send("INCR n")
    newcomer = connect(proxy.port)
    newcomer.send("PING")
    for silent in (client, newcomer):
        with pytest.raises(TimeoutError):
            silent.receive(within=0.05)
    proxy.heal()
    assert client.receive_again() == b":1\r\n"
    assert newcomer.receive_again() == b"+PONG\r\n"


def test_half_open_requests_never_reach_the_server(client: Client, proxy: FaultProxy, direct: Client) -> None:
    proxy.half_open(replies=False)
    client.send("INCR n")
    with pytest.raises(TimeoutError):
        client.receive(within=0.05)
    assert number_of(direct, "n") == 0


def test_half_open_replies_are_of_requests_that_were_done(client: Client, proxy: FaultProxy, direct: Client) -> None:
    proxy.half_open(requests=False)
    client.send("INCR n")
    proxy.wait_until(lambda counts: counts.requests == 1, within=5)
    with pytest.raises(TimeoutError):
        client.receive(within=0.05)
    assert number_of(direct, "n") == 1


def test_half_open_hides_the_end_of_the_client(client: Client, proxy: FaultProxy, direct: Client) -> None:
    """The server keeps the connection of a client that has gone, as it does behind a dead router."""
    assert client.ask("CLIENT SETNAME victim") == b"+OK\r\n"
    proxy.half_open()
    client.close()
    assert "victim" in _client_names(direct)
    proxy.heal()
    _await_no_client(direct, "victim")


# --- single requests ---------------------------------------------------------------------------------------


def increments(port: int, connect: Connect, *, attempts: int) -> list[bool]:
    """Ask once per attempt, on a new connection after every reset; tell which ones were answered."""
    answered, client = [], connect(port)
    for _ in range(attempts):
        try:
            answered.append(client.ask("INCR n") != b"")
        except ConnectionResetError:
            answered.append(False)
            client = connect(port)
    return answered


@pytest.mark.parametrize("every", [1, 2, 3, 7])
def test_dropped_replies_are_of_requests_that_were_done(
    every: int, proxy: FaultProxy, connect: Connect, direct: Client
) -> None:
    rule = proxy.drop_reply(match=b"INCR", every=every)
    answered = increments(proxy.port, connect, attempts=21)
    assert answered == [number % every != 0 for number in range(1, 22)]
    assert number_of(direct, "n") == 21
    assert rule.done == proxy.counts.replies_dropped == 21 // every


@pytest.mark.parametrize("every", [1, 2, 3, 7])
def test_dropped_requests_never_reach_the_server(
    every: int, proxy: FaultProxy, connect: Connect, direct: Client
) -> None:
    rule = proxy.drop_request(match=b"INCR", every=every)
    answered = increments(proxy.port, connect, attempts=21)
    assert answered == [number % every != 0 for number in range(1, 22)]
    assert number_of(direct, "n") == 21 - 21 // every
    assert rule.done == proxy.counts.requests_dropped == proxy.counts.reset == 21 // every


def test_a_client_that_repeats_itself_is_caught(proxy: FaultProxy, connect: Connect, direct: Client) -> None:
    """The broken twin counts twice; the one that names its operation counts once."""
    proxy.drop_reply(match=b"INCR", times=1)
    assert increments(proxy.port, connect, attempts=2) == [False, True]
    assert number_of(direct, "n") == 2
    proxy.drop_reply(match=b"SADD", times=1)
    with pytest.raises(ConnectionResetError):
        connect(proxy.port).ask("SADD operations o-1")
    assert connect(proxy.port).ask("SADD operations o-1") == b":0\r\n"
    assert direct.ask("SCARD operations") == b":1\r\n"


@pytest.mark.parametrize("match", [b"INCR", lambda request: request.startswith(b"INCR")])
def test_only_requests_that_match_are_harmed_and_only_so_often(
    match: Match, client: Client, proxy: FaultProxy, connect: Connect
) -> None:
    rule = proxy.drop_request(match=match, times=2)
    assert client.ask("PING") == b"+PONG\r\n"
    assert increments(proxy.port, connect, attempts=4) == [False, False, True, True]
    assert rule.done == 2


def test_a_matcher_that_fails_is_seen(server: RedisServer, connect: Connect) -> None:
    """A mistake in a test shows as one: the client is reset, and the error comes out, or is noted on the body's own."""

    def ask_through_a_broken_matcher() -> None:
        with FaultProxy(server.port) as proxy:
            proxy.drop_reply(match=lambda request: request[1_000_000] == 0)
            connect(proxy.port).ask("PING")

    with pytest.raises(ConnectionResetError) as caught:
        ask_through_a_broken_matcher()
    assert "IndexError" in "".join(caught.value.__notes__)
    with pytest.raises(IndexError), FaultProxy(server.port) as proxy:
        proxy.drop_reply(match=lambda request: request[1_000_000] == 0)
        with pytest.raises(ConnectionResetError):
            connect(proxy.port).ask("PING")


def test_replies_are_edited_on_later_connections_until_healed(
    client: Client, proxy: FaultProxy, connect: Connect
) -> None:
    """By what was made for each connection, piece by piece; an empty piece is not sent."""
    assert client.ask("PING") == b"+PONG\r\n"
    proxy.edit_replies(lambda: lambda reply: reply.replace(b":1", b":one").replace(b":2\r\n", b""))
    edited = connect(proxy.port)
    assert client.ask("INCR n") == b":1\r\n"
    assert edited.ask("INCR m") == b":one\r\n"
    edited.send("INCR m")
    proxy.wait_until(lambda counts: counts.requests == 4, within=5)
    assert edited.ask("INCR m") == b":3\r\n"
    proxy.heal()
    assert connect(proxy.port).ask("INCR p") == b":1\r\n"


def test_healing_takes_rules_back(client: Client, proxy: FaultProxy) -> None:
    proxy.drop_request()
    proxy.heal()
    assert client.ask("PING") == b"+PONG\r\n"


def test_every_zeroth_is_refused(proxy: FaultProxy) -> None:
    with pytest.raises(ValueError, match="from 1 on"):
        proxy.drop_reply(every=0)


# --- a request held back -----------------------------------------------------------------------------------

ENDS: dict[str, Callable[[Client, FaultProxy], None]] = {
    "client closes": lambda client, _: client.close(),
    "client resets": lambda client, _: client.reset(),
    "proxy cuts": lambda _, proxy: proxy.cut(),
    "proxy resets": lambda _, proxy: proxy.reset(),
}


@pytest.mark.parametrize("end", ENDS.values(), ids=ENDS.keys())
def test_a_request_arrives_after_its_client_has_gone(
    end: Callable[[Client, FaultProxy], None], client: Client, proxy: FaultProxy, connect: Connect, direct: Client
) -> None:
    """The join that comes after its leave."""
    late = proxy.hold_back(match=b"RPUSH")
    client.send("RPUSH line join")
    assert late.wait(within=5) == b"RPUSH line join\r\n"
    end(client, proxy)
    assert connect(proxy.port).ask("RPUSH line leave") == b":1\r\n"
    assert direct.ask("LLEN line") == b":1\r\n"
    late.deliver()
    assert direct.ask("LLEN line") == b":2\r\n"
    assert direct.ask("LINDEX line 1") == b"$4\r\n"
    assert direct.receive() == b"join\r\n"
    assert proxy.counts.held_back == 1


def test_a_client_that_waits_long_enough_gets_its_reply(client: Client, proxy: FaultProxy) -> None:
    late = proxy.hold_back(every=2)
    assert client.ask("INCR n") == b":1\r\n"
    client.send("INCR n")
    late.wait(within=5)
    late.deliver()
    assert client.receive() == b":2\r\n"


def test_what_the_same_connection_sends_waits_behind_it(client: Client, proxy: FaultProxy, connect: Connect) -> None:
    late = proxy.hold_back(match=b"SET")
    client.send("SET k first")
    late.wait(within=5)
    client.send("APPEND k -second")
    assert connect(proxy.port).ask("EXISTS k") == b":0\r\n"
    late.deliver()
    assert [client.receive(), client.receive()] == [b"+OK\r\n", b":12\r\n"]


def test_delivering_to_a_dead_server_is_an_error(connect: Connect) -> None:
    with RedisServer() as mortal, FaultProxy(mortal.port) as proxy:
        late = proxy.hold_back()
        client = connect(proxy.port)
        client.send("INCR n")
        late.wait(within=5)
        mortal.crash()
        assert client.receive() == b""
        with pytest.raises(ConnectionError, match="before the late request"):
            late.deliver()


def test_nothing_held_back_is_said_so(proxy: FaultProxy) -> None:
    late = proxy.hold_back()
    with pytest.raises(TimeoutError, match="no request"):
        late.wait(within=0.01)
    with pytest.raises(RuntimeError, match="wait"):
        late.deliver()


# --- the proxy itself --------------------------------------------------------------------------------------


def test_waiting_for_counts_is_bounded_and_says_what_was_seen(proxy: FaultProxy) -> None:
    with pytest.raises(TimeoutError, match="connections=0"):
        proxy.wait_until(lambda counts: counts.connections == 1, within=0.01)


async def test_the_loop_under_test_gets_no_task(server: RedisServer) -> None:
    """A proxy on the same loop would show up as an orphan in every leak check."""
    with FaultProxy(server.port) as proxy:
        reader, writer = await asyncio.open_connection("127.0.0.1", proxy.port)
        writer.write(b"PING\r\n")
        assert await reader.readline() == b"+PONG\r\n"
        assert asyncio.all_tasks() == {asyncio.current_task()}
        writer.close()
        await writer.wait_closed()


def test_nothing_is_left_of_a_closed_proxy(server: RedisServer, connect: Connect) -> None:
    """With a held request, a closed lane and a client that does not read: no thread, no connection, no listener."""
    before = threading.active_count()
    with FaultProxy(server.port) as proxy:
        late = proxy.hold_back(match=b"INCR")
        held, silent = connect(proxy.port), connect(proxy.port)
        held.send("INCR n")
        late.wait(within=5)
        proxy.half_open()
        silent.send("PING")
    assert threading.active_count() == before
    for client in (held, silent):
        with contextlib.suppress(ConnectionResetError):
            assert client.receive() == b""
    with pytest.raises(ConnectionRefusedError):
        connect(proxy.port)


def _client_names(direct: Client) -> str:
    length = int(direct.ask("CLIENT LIST")[1:])
    text = b"".join(iter(direct.receive, b"\r\n"))
    assert len(text) == length
    return text.decode()


def _await_no_client(direct: Client, name: str) -> None:
    """Ask the server until it has noticed; it reads its sockets between two commands."""
    end = time.monotonic() + 5
    while f"name={name} " in _client_names(direct):
        assert time.monotonic() < end, f"the server still has {name}"

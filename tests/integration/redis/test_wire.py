"""The wire: replies reach their own callers, nothing grows, and a dead connection is noticed and replaced."""

from __future__ import annotations

import asyncio
import itertools
import random
import struct
from collections.abc import Awaitable, Callable
from typing import Any

import hiredis
import pytest

from aiodlock._core.line import Called, Inside, Reconnected, Ticket
from aiodlock.backends.redis import RedisBackend, wire
from aiodlock.backends.redis.address import Address
from aiodlock.backends.redis.node import Node
from aiodlock.backends.redis.route import PING
from aiodlock.backends.redis.scripts import command, to_none
from aiodlock.backends.redis.wire import Link
from aiodlock.errors import BackendError, BackendUnavailableError
from aiodlock.testing.proxy import FaultProxy
from aiodlock.testing.servers import RedisServer, free_ports
from aiodlock.testing.servers.resp import ask
from tests.integration.redis.conftest import Client, Pair, opened, until
from tests.integration.told import Told, meet_when_closing, shorten_patience

Connect = Callable[..., Awaitable[Client]]
Make = Callable[..., Ticket]


def through(proxy: FaultProxy) -> str:
    return f"redis://127.0.0.1:{proxy.port}/0"


def link_of(client: Client) -> Link:
    link = client.backend._node._link
    assert link is not None
    return link


async def lost(client: Client) -> None:
    if link := client.backend._node._link:
        async with asyncio.timeout(20):
            await link.lost()


async def back(client: Told) -> None:
    async with asyncio.timeout(20):
        await client.reconnected.wait()
    client.reconnected.clear()


# --- replies -----------------------------------------------------------------------------------------------


async def echo_with_cancels(client: Client, seed: int) -> None:
    """Ask for many different words, give up on some of them at any time, and compare what the others got."""
    dice = random.Random(seed)
    asked: list[tuple[bytes, asyncio.Future[Any]]] = []
    for number in range(400):
        word = b"word %d" % number
        asked.append((word, asyncio.ensure_future(client.do("ECHO", word))))
        if dice.random() < 0.4:
            dice.choice(asked)[1].cancel()
        if dice.random() < 0.1:
            await asyncio.sleep(0)
    replies = await asyncio.gather(*(future for _, future in asked), return_exceptions=True)
    answered = [(word, reply) for (word, future), reply in zip(asked, replies, strict=True) if not future.cancelled()]
    assert len(answered) > 100
    assert all(word == reply for word, reply in answered)


@pytest.mark.parametrize("seed", range(3))
async def test_no_reply_reaches_another_caller_whoever_cancels(connect: Connect, proxy: FaultProxy, seed: int) -> None:
    proxy.delay(replies=0.005)
    await echo_with_cancels(await connect(through(proxy)), seed)


async def test_a_wire_that_forgets_cancelled_callers_is_found(client: Client, monkeypatch: pytest.MonkeyPatch) -> None:
    """The broken twin: without the cancelled, everybody behind them gets somebody else's reply."""
    read = Link._read

    def forgetful(self: Link) -> None:
        kept = [asked for asked in self._pending if not any(request.done() for request in asked)]
        self._pending.clear()
        self._pending.extend(kept)
        read(self)

    monkeypatch.setattr(Link, "_read", forgetful)
    with pytest.raises(AssertionError):
        await echo_with_cancels(client, 0)


async def test_calls_are_heard_in_their_place_between_the_answers(client: Client, ticket: Make) -> None:
    """Whoever is told to wait hears that before the call that lets him in, though both arrive together."""
    order: list[str] = []
    client.backend._calls.on_call = lambda call: order.append(type(call).__name__)
    holder, waiter = ticket(), ticket()
    await client.backend.leave(holder)  # the server knows the script from now on
    await client.backend.join(holder)
    waiting, leaving = client.backend.join(waiter), client.backend.leave(holder)
    waiting.then, leaving.then = lambda _: order.append("answer"), lambda _: order.append("left")
    await client.backend.ping()
    assert order == ["CompanyCame", "answer", "Called", "left"]


async def test_an_answer_that_makes_no_sense_fails_its_caller_only(client: Client) -> None:
    bad = client.backend._node.send(b"*1\r\n$4\r\nPING\r\n", lambda reply, via: 1 // 0)
    good = client.do("ECHO", "fine")
    with pytest.raises(BackendError, match="PONG") as caught:
        await bad
    assert isinstance(caught.value.__cause__, ZeroDivisionError)
    assert await good == b"fine"


# --- writes ------------------------------------------------------------------------------------------------


class Writes:
    """The writes that go to a connection's socket, counted on their way."""

    def __init__(self, client: Client, monkeypatch: pytest.MonkeyPatch) -> None:
        transport = link_of(client)._transport
        self.sizes: list[int] = []
        write = transport.write

        def counted(data: bytes) -> None:
            self.sizes.append(data.count(b"ECHO"))
            write(data)

        monkeypatch.setattr(transport, "write", counted)


async def test_a_tick_goes_out_in_chunks_and_a_single_command_at_once(
    client: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    await client.backend.ping()
    writes = Writes(client, monkeypatch)
    alone = client.do("ECHO", "x")
    assert writes.sizes == [1]
    await alone
    many = [client.do("ECHO", "x") for _ in range(wire.MOST + 5)]
    await asyncio.gather(*many)
    assert writes.sizes == [1, 1, wire.MOST, 4]
    many = [client.do("ECHO", "x") for _ in range(5)]
    await asyncio.gather(*many)
    assert writes.sizes[4:] == [5]  # the first of many does not travel alone twice
    for _ in range(2):
        await client.do("ECHO", "x")
    assert writes.sizes[5:] == [1, 1]


async def test_a_tick_like_the_last_goes_out_in_two_halves(client: Client, monkeypatch: pytest.MonkeyPatch) -> None:
    """So the server works on the first while the second is made."""
    await client.do("ECHO", "x")
    writes = Writes(client, monkeypatch)
    for _ in range(2):
        await asyncio.gather(*(client.do("ECHO", "x") for _ in range(wire._FEW + 1)))
    half = wire._FEW // 2
    assert writes.sizes == [1, wire._FEW, half, half + 1]


@pytest.mark.usefixtures("scripts_are_loaded")
async def test_who_has_company_lets_the_server_answer_others_first(
    client: Client, connect: Connect, ticket: Make, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Where somebody waits, a word goes ahead of the leave, in the same write; where nobody does, it travels alone."""
    transport, sent = link_of(client)._transport, list[bytes]()
    write, other = transport.write, await connect()
    monkeypatch.setattr(transport, "write", lambda data: (sent.append(data), write(data)))
    for has_company in (False, True):
        holder, waiter = ticket(), ticket()
        await client.backend.join(holder)
        if has_company:
            await other.backend.join(waiter)
            await until(lambda: len(client.calls) == 1)
        sent.clear()
        await client.backend.leave(holder)
        assert [data.startswith(PING) for data in sent] == [has_company]


async def test_commands_in_flight_are_bounded_and_the_rest_goes_in_order(
    connect: Connect, proxy: FaultProxy, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(wire, "_MOST_IN_FLIGHT", 100)
    monkeypatch.setattr(wire, "_MOST_WAITING", 300)
    client = await connect(through(proxy))
    link = link_of(client)
    proxy.half_open()
    asked = [client.do("ECHO", n) for n in range(400)]
    assert 100 - wire.MOST < len(link._pending) + len(link._out) <= 100
    sent = len(link._pending) + len(link._out)
    assert len(link._backlog) == 300
    asked[160].cancel()  # type: ignore[attr-defined]
    proxy.heal()
    replies = await asyncio.gather(*asked, return_exceptions=True)
    taken = sent + 300
    assert [int(r) for r in replies[:taken] if isinstance(r, bytes)] == [n for n in range(taken) if n != 160]
    assert all(isinstance(r, BackendUnavailableError) for r in replies[taken:])
    assert not link._pending


async def test_a_server_that_does_not_read_is_not_flooded(connect: Connect, server: RedisServer) -> None:
    client = await connect(patience=30.0)
    link = link_of(client)
    with server.paused():
        asked = [client.do("ECHO", b"x" * 20_000) for _ in range(900)]
        late = client.do("ECHO", "late")
        assert link._is_paused
        assert link._backlog
    await asyncio.gather(*asked)
    assert await late == b"late"


# --- the end of a connection -------------------------------------------------------------------------------


@pytest.mark.parametrize("end", ["cut", "reset"])
async def test_a_broken_connection_fails_what_is_open_and_is_replaced(
    connect: Connect, proxy: FaultProxy, ticket: Make, end: str
) -> None:
    client = await connect(through(proxy))
    first = await client.backend.join(ticket())
    proxy.half_open()
    asked = [client.do("ECHO", n) for n in range(10)]
    getattr(proxy, end)()
    proxy.heal()
    failed = await asyncio.gather(*asked, return_exceptions=True)
    assert all(isinstance(error, BackendUnavailableError) for error in failed)
    await back(client)
    again = await client.backend.join(ticket())
    assert (first.via, again.via) == (1, client.calls[-1].via)
    assert again.via > 1


async def test_while_there_is_no_connection_a_command_fails_at_once(connect: Connect, proxy: FaultProxy) -> None:
    client = await connect(through(proxy))
    proxy.refuse()
    proxy.cut()
    await lost(client)
    await asyncio.sleep(0)
    with pytest.raises(BackendUnavailableError):
        await client.backend.ping()
    proxy.heal()
    await back(client)
    await client.backend.ping()


async def pauses_between_tries(connect: Connect, proxy: FaultProxy, monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Return after how many failed tries it paused, when a server was away for some tries and later for a moment."""
    asked: list[int] = []
    monkeypatch.setattr("aiodlock.backends.redis.node.pause_after", lambda tries: asked.append(tries) or 0.001)
    client, dialled = await connect(through(proxy)), 0
    dial = client.backend._node._dial

    async def counted() -> Link:
        nonlocal dialled
        dialled += 1
        return await dial()

    monkeypatch.setattr(client.backend._node, "_dial", counted)
    proxy.refuse()
    proxy.cut()
    await until(lambda: dialled >= 5)
    proxy.heal()
    await back(client)
    proxy.cut()
    await back(client)
    assert len(asked) == dialled
    return asked


async def test_each_try_to_connect_is_after_a_longer_pause(
    connect: Connect, proxy: FaultProxy, monkeypatch: pytest.MonkeyPatch
) -> None:
    """And the first again after a connection that was made."""
    asked = await pauses_between_tries(connect, proxy, monkeypatch)
    assert asked == [*range(len(asked) - 1), 0]


async def test_who_tries_without_a_pause_is_found(
    connect: Connect, proxy: FaultProxy, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The broken twin."""

    async def redial(self: Node) -> Link:
        while True:
            try:
                return await self._dial()
            except BackendError:
                await asyncio.sleep(0)

    monkeypatch.setattr(Node, "_redial", redial)
    with pytest.raises(AssertionError):
        await pauses_between_tries(connect, proxy, monkeypatch)


async def test_reconnected_is_said_after_the_subscription_is_confirmed(
    connect: Connect, client: Client, proxy: FaultProxy, ticket: Make
) -> None:
    """Whoever joins on hearing it cannot miss a call."""
    cut_off = await connect(through(proxy))
    holder, waiter = ticket(), ticket()
    await client.backend.join(holder)
    heard: list[object] = []

    def on_call(call: object) -> None:
        heard.append(call)
        if isinstance(call, Reconnected):
            joined.append(asyncio.ensure_future(cut_off.backend.join(waiter)))
            cut_off.reconnected.set()

    joined: list[asyncio.Future[Any]] = []
    cut_off.backend._calls.on_call = on_call
    for _ in range(3):
        proxy.cut()
        await back(cut_off)
        subscribers = await client.do("PUBSUB", "NUMSUB", cut_off.backend._calls.channel)
        assert subscribers[1] == 1
    await asyncio.gather(*joined, return_exceptions=True)
    await client.backend.leave(holder)
    await cut_off.backend.ping()
    assert [type(call) for call in heard] == [Reconnected, Reconnected, Reconnected, Called]
    assert {call.via for call in heard[-2:]} == {joined[-1].result().via}  # type: ignore[attr-defined]


@pytest.mark.parametrize("busy", [False, True])
async def test_a_half_open_connection_is_noticed_soon(connect: Connect, proxy: FaultProxy, busy: bool) -> None:
    client = await connect(through(proxy), patience=60.0)
    shorten_patience(link_of(client), 0.3)
    proxy.half_open()
    asked = [client.do("ECHO", "x")] if busy else []
    await lost(client)
    assert link_reason(await asyncio.gather(*asked, return_exceptions=True)) == busy
    proxy.heal()
    await back(client)


def link_reason(failed: list[Any]) -> bool:
    return any("no reply in time" in str(error) for error in failed)


async def end_of_connection(*, in_doubt: bool) -> str:
    """Close a connection, with a reply outstanding if *in_doubt*; return what its peer, which says nothing, sees."""
    seen: asyncio.Future[str] = asyncio.get_running_loop().create_future()
    is_asked = asyncio.Event()

    async def hear(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            while await reader.read(1000):
                is_asked.set()
            seen.set_result("closed")
        except ConnectionResetError:
            seen.set_result("reset")
        finally:
            writer.close()

    async with asyncio.timeout(20), await asyncio.start_server(hear, "127.0.0.1") as peer:
        address = Address(host="127.0.0.1", port=peer.sockets[0].getsockname()[1])
        link = await address.connect(lambda: Link("peer", via=1, on_push=lambda push, via: None, patience=60.0))
        if in_doubt:
            asked = link.send(command("ECHO", "x"), to_none)
            await is_asked.wait()
            shorten_patience(link, 0.03)
            assert await link.lost() == "no reply in time"
            with pytest.raises(BackendUnavailableError):
                await asked
        else:
            await link.aclose("closed")
        return await seen


@pytest.mark.parametrize(("in_doubt", "end"), [(True, "reset"), (False, "closed")])
async def test_only_a_connection_in_doubt_is_reset(in_doubt: bool, end: str) -> None:
    """The server then knows at once that nobody hears what it still has to say."""
    assert await end_of_connection(in_doubt=in_doubt) == end


async def test_who_closes_politely_though_in_doubt_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    """The broken twin."""
    monkeypatch.setattr(wire, "_RESET", struct.pack("ii", 0, 0))
    assert await end_of_connection(in_doubt=True) == "closed"


async def test_without_its_check_a_half_open_connection_is_not_noticed(
    connect: Connect, proxy: FaultProxy, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The broken twin."""
    monkeypatch.setattr(Link, "_check", lambda self: None)
    client = await connect(through(proxy))
    shorten_patience(link_of(client), 0.1)
    proxy.half_open()
    asked = client.do("ECHO", "x")
    with pytest.raises(TimeoutError):
        async with asyncio.timeout(0.5):
            await asyncio.shield(asyncio.ensure_future(asked))
    proxy.heal()
    assert await asked == b"x"


async def test_a_slow_reply_is_waited_for_while_others_come(connect: Connect, proxy: FaultProxy) -> None:
    """A link on which something happens every now and then is not given up."""
    proxy.delay(replies=0.1)
    client = await connect(through(proxy), patience=3.0)
    shorten_patience(link_of(client), 2.0)
    for _ in range(40):
        await client.backend.ping()
    assert client.calls == []


async def test_an_idle_connection_is_asked_for_a_sign_of_life(connect: Connect, proxy: FaultProxy) -> None:
    client = await connect(through(proxy), patience=60.0)
    shorten_patience(link_of(client), 1.0)
    requests = proxy.counts.requests
    await asyncio.to_thread(proxy.wait_until, lambda counts: counts.requests >= requests + 2, within=20)
    assert client.calls == []


async def test_a_server_that_crashed_is_found_again(connect: Connect, ticket: Make) -> None:
    with RedisServer() as own:
        client = await connect(own.url)
        await asyncio.to_thread(own.crash)
        await lost(client)
        await asyncio.to_thread(own.start)
        await back(client)
        assert isinstance(await client.backend.join(ticket()), Inside)
        await client.backend.aclose()


async def test_a_demoted_server_is_left(connect: Connect, ticket: Make) -> None:
    """Its connection is replaced, as soon as the same address leads to a master."""
    with RedisServer() as own:
        client = await connect(own.url)
        mine = ticket()
        await client.backend.join(mine)
        await client.do("REPLICAOF", "127.0.0.1", free_ports(1)[0])
        with pytest.raises(BackendUnavailableError, match="READONLY"):
            await client.backend.renew([mine])
        await asyncio.to_thread(ask, own.port, "REPLICAOF", "NO", "ONE")
        await back(client)
        assert isinstance(await client.answer(mine), Inside)
        await client.backend.aclose()


# --- open and close ----------------------------------------------------------------------------------------


async def test_opening_without_a_server_raises_and_leaves_nothing() -> None:
    (port,) = free_ports(1)
    with pytest.raises(BackendUnavailableError, match=str(port)):
        async with opened(f"redis://127.0.0.1:{port}/0"):
            pass
    assert asyncio.all_tasks() == {asyncio.current_task()}


async def test_opening_gives_up_on_a_silent_server(proxy: FaultProxy) -> None:
    proxy.half_open()
    with pytest.raises(BackendUnavailableError):
        async with opened(through(proxy), patience=0.1):
            pass
    assert asyncio.all_tasks() == {asyncio.current_task()}


@pytest.mark.parametrize("state", ["alive", "half open", "refused"])
async def test_closing_takes_less_than_a_second_and_leaves_nothing(proxy: FaultProxy, state: str) -> None:
    async with opened(through(proxy), patience=30.0) as client:
        if state == "half open":
            proxy.half_open()
        if state == "refused":
            proxy.refuse()
            proxy.cut()
            await lost(client)
        asked = [] if state == "alive" else [client.do("ECHO", "x")]
        started = asyncio.get_running_loop().time()
        await client.backend.aclose()
        assert asyncio.get_running_loop().time() - started < 1.0
        for failed in asked:
            with pytest.raises(BackendUnavailableError):
                await failed
        with pytest.raises(BackendUnavailableError, match="closed"):
            await client.backend.ping()
    assert asyncio.all_tasks() == {asyncio.current_task()}


async def test_connections_are_closed_together(pair: Pair, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each may wait a while for a server that is frozen, and the times must not add up."""
    async with opened(pair.url, min_replicas=1):
        meet_when_closing(monkeypatch, 2)


@pytest.mark.parametrize("is_refused", [False, True], ids=["at once", "after a refusal"])
async def test_whoever_is_connected_again_is_told(proxy: FaultProxy, is_refused: bool) -> None:
    """What was sent before the first connection goes out with it; if that was refused, all have to look again."""
    told = Told()
    if is_refused:
        proxy.refuse()
    node = Node(
        Address(host="127.0.0.1", port=proxy.port),
        name="aiodlock",
        greet=lambda link: asyncio.sleep(0),
        patience=3.0,
        on_up=lambda via: told.on_call(Reconnected(via)),
    )
    node.start()
    (answer,) = await asyncio.gather(node.send(PING, lambda reply, via: via), return_exceptions=True)
    assert isinstance(answer, BackendUnavailableError) == is_refused
    proxy.heal()
    if is_refused:
        await back(told)
        answer = await node.send(PING, lambda reply, via: via)
    await node.aclose()
    assert told.calls == ([Reconnected(answer)] if is_refused else [])


async def test_a_cancelled_open_leaves_nothing(proxy: FaultProxy) -> None:
    """Cancelled after more and more time, until it is open before."""
    proxy.delay(replies=0.002)
    for steps in itertools.count():
        client = Client(RedisBackend.from_url(through(proxy)))
        opening = asyncio.ensure_future(client.backend.open(client.on_call))
        for _ in range(steps):
            await asyncio.sleep(0.0005)
        opening.cancel()
        await asyncio.wait({opening})
        await client.backend.aclose()
        assert asyncio.all_tasks() == {asyncio.current_task()}
        if not opening.cancelled():
            return


def test_the_reader_knows_pushes_from_replies() -> None:
    """What the wire relies on in hiredis: a type of their own, and none of it when data is missing."""
    reader = hiredis.Reader(notEnoughData=wire._MORE)
    reader.feed(b">2\r\n$1\r\na\r\n$1\r\nb\r\n*1\r\n:1\r\n-ERR no\r\n_\r\n#f\r\n$5\r\nhal")
    replies = [reader.gets() for _ in range(6)]
    kinds = [hiredis.PushNotification, list, hiredis.ReplyError, type(None), bool, object]
    assert [type(reply) for reply in replies] == kinds

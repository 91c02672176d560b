"""Where the sweep can strike."""

from __future__ import annotations

import asyncio
import socket

from tests.cancellation.trigger import Beating


async def _read_once() -> list[str]:
    """Hear something from a socket; return what the loop did."""
    loop, did = asyncio.get_running_loop(), list[str]()
    assert isinstance(loop, Beating)
    heard = loop.create_future()

    def read() -> None:
        did.append("read")
        loop.remove_reader(ours)
        heard.set_result(None)

    ours, theirs = socket.socketpair()
    with ours, theirs:
        theirs.send(b"news")
        loop.add_reader(ours, read)
        loop.on_beat = lambda: did.append("beat")
        await heard
    return did


def test_what_a_socket_brings_is_a_point_too() -> None:
    """Nobody plans such a callback; without it a sweep on real servers would strike no wait for an answer."""
    with asyncio.Runner(loop_factory=Beating) as runner:
        assert runner.run(_read_once())[:2] == ["beat", "read"]

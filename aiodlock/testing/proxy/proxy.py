"""The proxy itself: a thread with a loop, a listener, and the controls."""

from __future__ import annotations

import asyncio
import contextlib
import socket
import threading
from collections.abc import Callable, Coroutine
from typing import Self, TypeVar

from aiodlock.testing.proxy.controls import Controls, Counts, Edit
from aiodlock.testing.proxy.link import Link, reset
from aiodlock.testing.proxy.rules import Harm, HeldBack, Match, Rule
from aiodlock.testing.servers.ports import HOST, free_ports

__all__ = ["FaultProxy"]

_T = TypeVar("_T")
_AnyRule = TypeVar("_AnyRule", bound=Rule)


class FaultProxy:
    """A TCP proxy on ``port`` in front of the loopback port *target*.

    Every control may be called from any thread, and has taken effect when it returns. Faults concern present and
    later connections alike, until `heal`; `cut` and `reset` end the present ones: those counted in ``connections``. If
    a matcher raises, its connection is reset, and leaving the ``with`` block raises its error.
    """

    def __init__(self, target: int) -> None:
        self.target = target
        (self.port,) = free_ports(1)
        self._controls = Controls()
        self._links: set[Link] = set()
        self._tasks: set[asyncio.Task[None]] = set()
        self._listener: socket.socket | None = None
        # Not the policy's loop: how sockets end is the point here, and it differs between loops.
        self._loop = asyncio.SelectorEventLoop()
        self._thread = threading.Thread(target=self._loop.run_forever, name=f"fault-proxy-{self.port}", daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        self._do(self._listen)
        return self

    def __exit__(self, _: object, of_the_body: BaseException | None, __: object) -> None:
        self._run(self._shut_down())
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()
        for error in self._controls.errors:
            if of_the_body is None:
                raise error
            of_the_body.add_note(f"a matcher of the fault proxy raised {error!r}")

    @property
    def counts(self) -> Counts:
        """What it has done so far."""
        return self._controls.counts

    def wait_until(self, condition: Callable[[Counts], bool], *, within: float) -> Counts:
        """Return as soon as the counts fulfil the condition."""
        return self._controls.wait_until(condition, within=within)

    def delay(self, *, requests: float = 0.0, replies: float = 0.0) -> None:
        """Deliver what comes from now on so many seconds later, in order."""
        self._do(self._set_delay, requests, replies)

    def cut(self) -> None:
        """Close every present connection on both sides."""
        self._do(self._end_all, Link.cut)

    def reset(self) -> None:
        """Reset every present connection on both sides."""
        self._do(self._end_all, Link.reset)

    def refuse(self) -> None:
        """Refuse new connections as a dead server does, until `heal`."""
        self._do(self._stop_listening)

    def half_open(self, *, requests: bool = True, replies: bool = True) -> None:
        """Stop forwarding, and keep every socket; what is sent meanwhile arrives after `heal`."""
        self._do(self._close_lanes, requests, replies)

    def drop_request(self, *, match: Match = None, every: int = 1, times: int | None = None) -> Rule:
        """Reset the connection instead of forwarding every k-th request that matches: the server never hears of it."""
        return self._add(Rule(Harm.DROP_REQUEST, match=match, every=every, times=times))

    def drop_reply(self, *, match: Match = None, every: int = 1, times: int | None = None) -> Rule:
        """Forward every k-th request that matches, and reset the connection when the server answers.

        What else was under way on that connection is lost with it.
        """
        return self._add(Rule(Harm.DROP_REPLY, match=match, every=every, times=times))

    def hold_back(self, *, match: Match = None, every: int = 1) -> HeldBack:
        """Keep the next (or k-th) request that matches, until its `HeldBack.deliver`."""
        return self._add(HeldBack(match=match, every=every))

    def edit_replies(self, edit: Edit) -> None:
        """Change what the servers say on every later connection, until `heal`; see `Edit`."""
        self._do(setattr, self._controls, "edit", edit)

    def heal(self) -> None:
        """Take back all faults. A request already held back stays so."""
        self._do(self._clear)
        self._do(self._listen)

    # --- on the proxy's own loop ---------------------------------------------------------------------------

    def _set_delay(self, requests: float, replies: float) -> None:
        self._controls.requests.delay = requests
        self._controls.replies.delay = replies

    def _close_lanes(self, requests: bool, replies: bool) -> None:
        if requests:
            self._controls.requests.open.clear()
        if replies:
            self._controls.replies.open.clear()

    def _clear(self) -> None:
        self._controls.rules.clear()
        self._controls.edit = None
        for lane in (self._controls.requests, self._controls.replies):
            lane.delay = 0.0
            lane.open.set()

    def _end_all(self, end: Callable[[Link], None]) -> None:
        for link in self._links:
            end(link)

    def _listen(self) -> None:
        if self._listener is None:
            self._listener = socket.create_server((HOST, self.port))
            self._listener.setblocking(False)
            self._loop.add_reader(self._listener, self._accept, self._listener)

    def _stop_listening(self) -> None:
        if self._listener is not None:
            self._loop.remove_reader(self._listener)
            self._listener.close()
            self._listener = None

    def _accept(self, listener: socket.socket) -> None:
        # By hand: asyncio's own server accepts in steps, and loses the socket if it is closed between them.
        with contextlib.suppress(OSError):
            task = self._loop.create_task(self._serve(listener.accept()[0]))
            self._tasks.add(task)
            task.add_done_callback(self._tasks.discard)

    async def _serve(self, accepted: socket.socket) -> None:
        client = await asyncio.open_connection(sock=accepted)
        try:
            server = await asyncio.open_connection(HOST, self.target)
        except BaseException as error:
            reset(client[1])
            if not isinstance(error, OSError):
                raise
            self._controls.count("unreachable")
            return
        link = Link(self._controls, client=client, server=server)
        self._links.add(link)
        self._controls.count("connections")
        await link.run()
        self._links.discard(link)

    async def _shut_down(self) -> None:
        self._stop_listening()
        self._end_all(Link.cut)
        await asyncio.sleep(0)  # a task cancelled before its first step would not close the socket it was given
        tasks = asyncio.all_tasks() - {asyncio.current_task()}
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    # --- from the caller's thread to it --------------------------------------------------------------------

    def _run(self, coroutine: Coroutine[None, None, _T]) -> _T:
        return asyncio.run_coroutine_threadsafe(coroutine, self._loop).result()

    def _do(self, function: Callable[..., None], *arguments: object) -> None:
        async def run() -> None:
            function(*arguments)

        self._run(run())

    def _add(self, rule: _AnyRule) -> _AnyRule:
        self._do(self._controls.rules.append, rule)
        return rule

"""Calls without polling: one connection per client that sleeps on the server until somebody rings.

Whoever calls this client writes it mail in the transaction of the verb, and then ends the query in which the client
waits (``KILL QUERY``; the server knows the connection by a named lock that it holds, the bell). The query waits for
another named lock, the pillow, which our own connection for verbs holds. Mail is looked for in the same statement that
waits: no call is lost in between, nor while the connection is away. It is deleted after it was read, so a call can be
doubled, which the engine expects.
"""

from __future__ import annotations

import asyncio
import enum
from collections.abc import Callable

from aiodlock.backends.base import pause_after
from aiodlock.backends.mysql.address import Address
from aiodlock.backends.mysql.link import Link, StatementError
from aiodlock.backends.mysql.node import dial
from aiodlock.backends.mysql.queries import Rows, call, query
from aiodlock.errors import AiodlockError, BackendUnavailableError

__all__ = ["Bell", "pillow_of", "take"]

_SLEEP = 30  # a beat: a dead peer is noticed, what is over is cleared away
_ALONE = 0.05  # between two looks while the connection for verbs is lost
_FORGET = 100  # dead rows that one beat clears away at most


class _Woken(enum.Enum):
    BY_BELL = "somebody rang"
    BY_TIME = "nobody rang for a whole beat"
    ALONE = "the connection for verbs is lost"


class Bell:
    """One client's ear. *deliver* gets every row of mail as a call."""

    def __init__(
        self, address: Address, client: bytes, deliver: Callable[[tuple[object, ...]], None], *, patience: float
    ) -> None:
        self.is_heard = False  # whether a ring would wake us now
        self._address = address
        self._client = client
        self._deliver = deliver
        self._patience = patience
        self._read: set[int] = set()  # delivered, and not yet deleted
        self._task: asyncio.Task[None] | None = None
        self._link: Link | None = None

    async def open(self) -> None:
        """Listen from now on; where there is no connection to be had, try again and again in the background."""
        try:
            self._link = await self._dial()
        except BackendUnavailableError:
            pass
        self._task = asyncio.create_task(self._listen(), name=f"aiodlock: bell of {self._address}")

    async def aclose(self) -> None:
        self.is_heard = False
        if self._task is not None:
            self._task.cancel()
            await asyncio.wait({self._task})
        if self._link is not None:
            # It sleeps in a query and hears no goodbye.
            self._link.abort()

    async def _listen(self) -> None:
        tries = 0
        while True:
            try:
                self._link = self._link or await self._dial()
                self.is_heard, tries = True, 0
                await self._serve(self._link)
            except (AiodlockError, TimeoutError):
                self.is_heard, tries = False, tries + 1
                if self._link is not None:
                    self._link.abort()
                    self._link = None
                await asyncio.sleep(pause_after(tries))

    async def _serve(self, link: Link) -> None:
        while True:
            match await self._sleep(link):
                case _Woken.BY_TIME:
                    await self._insist(link, call("forget", _FORGET))
                case _Woken.ALONE:
                    await self._insist(link, query("get_up", pillow=pillow_of(self._client)))
                    await asyncio.sleep(_ALONE)

    async def _sleep(self, link: Link) -> _Woken:
        """Delete what was read, wait, and hand over what came.

        Mail is asked for before we sleep: when we are woken the server sends it with no word from us.
        """
        dropped = sorted(self._read)
        dropping = [link.ask(query("drop_mail", client=self._client, ids=dropped))] if dropped else []
        sleeping = link.ask(query("listen", client=self._client, pillow=pillow_of(self._client), seconds=_SLEEP))
        reading = link.ask(query("mail", client=self._client), self._hand_over)
        try:
            # The last answer is awaited first: a step of ours when we are woken would come before the mail is heard.
            async with asyncio.timeout(_SLEEP + self._patience):
                mail = await _unless_rung(reading)
            for drop in dropping:
                if await _unless_rung(drop) is not None:
                    self._read.difference_update(dropped)  # no more than that: what has come since is here already
            slept = await _unless_rung(sleeping)
        finally:
            for asked in (*dropping, sleeping, reading):
                asked.cancel()  # also where it has failed as well: nobody will ask it why
        if slept is None or mail is None or mail[0]:
            return _Woken.BY_BELL
        return {0: _Woken.BY_TIME, 1: _Woken.ALONE}.get(slept[0][0][0], _Woken.BY_BELL)

    def _hand_over(self, mail: Rows) -> None:
        """Deliver what came in the very step in which it arrives: somebody is inside by it."""
        for row in mail:
            if row[0] not in self._read:
                self._read.add(row[0])
                try:
                    self._deliver(row)
                except Exception as error:  # of whoever hears it: the stream goes on
                    told = {"message": "hearing a call failed", "exception": error}
                    asyncio.get_running_loop().call_exception_handler(told)

    async def _insist(self, link: Link, statement: str) -> None:
        """Ask again if somebody rang meanwhile: that ends whatever runs."""
        async with asyncio.timeout(self._patience):
            while True:
                try:
                    await link.ask(statement)
                    return
                except StatementError as error:
                    if not error.is_passing:
                        raise

    async def _dial(self) -> Link:
        return await dial(self._address, self._take_name, within=self._patience)

    async def _take_name(self, link: Link) -> None:
        await take(link, b"aiodlock:bell:" + self._client)


async def _unless_rung(asked: asyncio.Future[list[Rows]]) -> list[Rows] | None:
    """Return what was answered; None where a ring ended the query."""
    try:
        return await asked
    except StatementError as error:
        if not error.is_passing:
            raise
        return None


def pillow_of(client: bytes) -> bytes:
    """Return the name that the bell's connection waits for and the connection for verbs holds."""
    return b"aiodlock:pillow:" + client


async def take(link: Link, name: bytes) -> None:
    """Hold *name* for as long as *link* lives."""
    if (await link.ask(call("take", name)))[-1][0][0] != 1:
        raise BackendUnavailableError(f"{link.where}: an older connection of this client still holds {name.decode()}")

"""Calls without polling: one connection per client that sleeps on the server until somebody rings.

Whoever calls this client writes it mail in the transaction of the verb, and then ends the query in which the client
sleeps (``KILL QUERY``; the server knows whose connection it is by a named lock that it holds). Mail is read after every
waking and before every sleep, in one statement with falling asleep: no call is lost in between, nor while the connection
is away. It is deleted after it was read, so a call can be doubled, which the engine expects.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from aiodlock.backends.mysql.address import Address
from aiodlock.backends.mysql.link import Link, StatementError
from aiodlock.backends.mysql.node import dial, pause_after
from aiodlock.backends.mysql.queries import Rows, call, query
from aiodlock.errors import BackendError, BackendUnavailableError

__all__ = ["Bell"]

_SLEEP = 30.0  # a beat: a dead peer is noticed, what is over is cleared away
_FORGET = 100  # dead rows that one beat clears away at most


class Bell:
    """One client's ear. *deliver* gets every row of mail as a call."""

    def __init__(self, address: Address, client: bytes, deliver: Callable[[tuple[object, ...]], None], *, patience: float) -> None:
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
            except (BackendError, TimeoutError):
                self.is_heard, tries = False, tries + 1
                if self._link is not None:
                    self._link.abort()
                    self._link = None
                await asyncio.sleep(pause_after(tries))

    async def _serve(self, link: Link) -> None:
        while True:
            rung = await self._sleep(link)
            async with asyncio.timeout(self._patience):
                (mail,) = await _insist(link, query("mail", client=self._client))
                self._hand_over(mail)
                if not (mail or rung):
                    await _insist(link, call("forget", 0, _FORGET))

    async def _sleep(self, link: Link) -> bool:
        """Delete what was read and sleep until somebody rings; return whether somebody did."""
        listen = query("listen", client=self._client, seconds=_SLEEP)
        if self._read:
            listen = f"{query('drop_mail', client=self._client, ids=sorted(self._read))};{listen}"
        try:
            async with asyncio.timeout(_SLEEP + self._patience):
                answers = await link.ask(listen)
        except StatementError as error:
            if not error.is_passing:
                raise
            return True  # MariaDB says so by an error, MySQL by the answer 1
        self._read.clear()
        return bool(answers[-1][0][0])

    def _hand_over(self, mail: Rows) -> None:
        for row in mail:
            if row[0] not in self._read:
                self._read.add(row[0])
                self._deliver(row)

    async def _dial(self) -> Link:
        return await dial(self._address, self._take_name, within=self._patience)

    async def _take_name(self, link: Link) -> None:
        answer = await link.ask(call("ear", self._client))
        if answer[-1][0][0] != 1:
            raise BackendUnavailableError(f"{self._address}: an older connection of this client still holds its name")


async def _insist(link: Link, statement: str) -> list[Rows]:
    """Ask again if somebody rang meanwhile: that ends whatever runs."""
    while True:
        try:
            return await link.ask(statement)
        except StatementError as error:
            if not error.is_passing:
                raise

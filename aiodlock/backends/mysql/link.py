"""One connection to the server: statements go out, rows come back; in doubt it is aborted, not closed politely.

asyncmy connects: greeting, login, TLS. Then the stream is ours: an answer reaches its owner in the step in which it
arrives, and more can be sent before an answer has come.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable
from contextlib import suppress
from typing import Any, Protocol

import asyncmy
from asyncmy.constants.CLIENT import MULTI_STATEMENTS

from aiodlock.backends.mysql.address import Address
from aiodlock.backends.mysql.packets import GOODBYE, Prepared, Reader, Refusal, Result, Rows, command, preparation
from aiodlock.backends.mysql.queries import query, with_marks
from aiodlock.errors import (
    AiodlockError,
    BackendDataError,
    BackendError,
    BackendUnavailableError,
    MissingDependencyError,
)

__all__ = ["NO_TABLE", "Exchange", "Link", "StatementError"]

_BUFFER = 16 * 1024  # bytes that are read at once
_POLITE = 0.5  # seconds that closing waits for the server

_INTERRUPTED = 1317
# The server rolled back and says so: nothing has happened, and the same again will do.
_AGAIN = frozenset({1205, 1213, _INTERRUPTED})
# This connection, or this server, is of no more use: shutting down, killed, or no longer the primary.
_OVER = frozenset({1053, 1152, 1184, 1290, 1792, 1836, 1927, 3024, 4031})
NO_TABLE = 1146
_MISSING = frozenset({1049, NO_TABLE, 1305})
_DENIED = frozenset({1044, 1045, 1095, 1142, 1143, 1227, 1370})
_SETUP = {
    **dict.fromkeys(_MISSING, "run 'aiodlock mysql init' with a user who may create tables and procedures"),
    **dict.fromkeys(_DENIED, "grant SELECT, INSERT, UPDATE, DELETE and EXECUTE on the database to this user"),
}


class StatementError(BackendError):
    """The server refused one statement; the connection is well."""

    def __init__(self, code: int, message: str) -> None:
        super().__init__(f"{message}: {_SETUP[code]}" if code in _SETUP else message)
        self.code = code

    @property
    def is_passing(self) -> bool:
        """Whether nothing has happened, and the same may be sent again."""
        return self.code in _AGAIN


class Exchange(Protocol):
    """Whoever waits for what some statements answer."""

    def hear(self, result: Result) -> None:
        """Take the next result. It must not raise."""
        ...

    def fail(self, error: BackendError) -> None:
        """Take an error, and nothing more. A `StatementError`: the connection is well."""
        ...


class Link(asyncio.BufferedProtocol):
    """An open connection in autocommit mode. What is sent is answered in order; *on_lost* is told of its end."""

    def __init__(self, address: Address, transport: asyncio.Transport, reader: Reader) -> None:
        self.where = str(address)
        self.is_local = address.is_local
        self.on_lost: Callable[[str], None] = _nobody
        self._transport = transport
        self._reader = reader
        self._buffer = memoryview(bytearray(_BUFFER))
        self._pending: deque[Exchange] = deque()
        self.lost = ""  # why, as soon as it is
        self.prepared: dict[str, Prepared] = {}  # by the name in ``queries.sql``
        self._closed = asyncio.Event()

    @classmethod
    async def open(cls, address: Address) -> Link:
        """Connect and prepare the session, or raise; the caller bounds the time."""
        driver = await _connected(address)
        # The driver has greeted the server and logged in; from here on the stream is ours.
        link = cls(address, driver._transport, Reader(has_eof=not driver._deprecate_eof))
        driver._transport.set_protocol(link)
        if driver._stream_broken:
            link.connection_lost(None)
        driver._transport = None
        try:
            await link.ask(query("session"))
        except BaseException:
            link.abort()
            raise
        return link

    async def prepare(self, name: str) -> None:
        """Let the server keep a statement of ``queries.sql`` over a link that does nothing else meanwhile.

        Where it has no room for one more (``max_prepared_stmt_count``), `prepared` does without.
        """
        text, names = with_marks(name)
        kept = _Asked(None)
        self._reader.expect_kept()
        self.send(preparation(text), kept)
        with suppress(StatementError):
            (((number,),),) = await kept.future
            self.prepared[name] = Prepared(number, names)

    def send(self, packet: bytes, exchange: Exchange) -> None:
        """Send a command, behind whatever is under way."""
        if self.lost:
            exchange.fail(BackendUnavailableError(f"{self.where}: {self.lost}"))
            return
        self._pending.append(exchange)
        self._transport.write(packet)

    def ask(self, statements: str, at_once: Callable[[Rows], None] | None = None) -> asyncio.Future[list[Rows]]:
        """Send statements parted by semicolons; the future gets the rows of each result that has some.

        *at_once* hears them before, in the step in which they arrive. It must not raise.
        """
        asked = _Asked(at_once)
        self.send(command(statements), asked)
        return asked.future

    def abort(self, reason: str = "aborted") -> None:
        """End the connection at once: whatever was under way is in doubt."""
        self._end(reason)
        self._transport.abort()

    async def aclose(self) -> None:
        """Say goodbye, so that the server forgets us at once; at most half a second."""
        if self._pending:
            self.abort("closed")
        if not self.lost:
            self._transport.write(GOODBYE)
        try:
            async with asyncio.timeout(_POLITE):
                await self._closed.wait()
        except TimeoutError:
            self.abort("closed")

    # --- asyncio.BufferedProtocol ----------------------------------------------------------------------------

    def get_buffer(self, sizehint: int) -> memoryview:
        # One of our own: asyncio would get 256 KB from the system for every answer, however short, and give it back.
        return self._buffer

    def buffer_updated(self, nbytes: int) -> None:
        try:
            for answer in self._reader.feed(bytes(self._buffer[:nbytes])):
                self._hear(answer)
        except Exception as error:  # out of step, whatever shows it: nothing can be believed any more
            self.abort(f"unexpected answer: {error!r}")

    def connection_lost(self, error: Exception | None) -> None:
        self._end(str(error or "") or "closed by the server")
        self._closed.set()

    # --- inner -------------------------------------------------------------------------------------------------

    def _hear(self, answer: Result | Refusal) -> None:
        if isinstance(answer, Result):
            exchange = self._pending.popleft() if answer.is_last else self._pending[0]
            exchange.hear(answer)
        elif answer.code in _OVER or not self._pending:
            self.abort(answer.message)
        else:
            self._pending.popleft().fail(StatementError(answer.code, f"{self.where}: {answer.message}"))

    def _end(self, reason: str) -> None:
        if self.lost:
            return
        self.lost = reason
        self.on_lost(reason)
        while self._pending:
            self._pending.popleft().fail(BackendUnavailableError(f"{self.where}: {reason}, before the answer"))


class _Asked:
    """An exchange whose results are wanted together."""

    def __init__(self, at_once: Callable[[Rows], None] | None) -> None:
        self.future: asyncio.Future[list[Rows]] = asyncio.get_running_loop().create_future()
        self._at_once = at_once
        self._results: list[Rows] = []

    def hear(self, result: Result) -> None:
        if result.rows is not None:
            self._results.append(result.rows)
            if self._at_once is not None:
                self._at_once(result.rows)
        if result.is_last and not self.future.done():
            self.future.set_result(self._results)

    def fail(self, error: BackendError) -> None:
        if not self.future.done():
            self.future.set_exception(error)


async def _connected(address: Address) -> Any:
    """Let the driver connect and log in, in a task of its own: it can swallow a cancellation, and we must not."""
    connecting = asyncio.ensure_future(_connect(address))
    try:
        return await asyncio.shield(connecting)
    except asyncio.CancelledError:
        await _stop(connecting)
        if not connecting.cancelled() and connecting.exception() is None:
            connecting.result().close()
        raise


async def _stop(task: asyncio.Future[Any]) -> None:
    """Cancel *task* until it has ended: `asyncio.wait_for` of 3.11, which the driver uses, swallows some cancels."""
    while not task.done():
        task.cancel()
        with suppress(asyncio.CancelledError):  # a further one of our own, which is raised already
            await asyncio.sleep(0)


async def _connect(address: Address) -> Any:
    try:
        user, password = address.credentials()
    except Exception as error:  # of the user's own; the next try may do better
        raise BackendUnavailableError(f"{address}: asking for credentials failed: {error!r}") from error
    try:
        return await asyncmy.connect(
            host=address.host,
            port=address.port,
            user=user,
            password=password,
            database=address.database,
            ssl=address.tls,
            autocommit=True,
            client_flag=MULTI_STATEMENTS,
            program_name="aiodlock",
        )
    except Exception as error:  # whatever the driver stumbles over
        raise _not_opened(address, error) from error


def _nobody(reason: str) -> None:
    """Tell nobody."""


def _not_opened(address: Address, error: Exception) -> AiodlockError:
    code = error.args[0] if error.args and isinstance(error.args[0], int) else 0
    reason = error.args[-1] if error.args else repr(error)
    if isinstance(error, RuntimeError) and "cryptography" in str(reason):
        # MySQL 8's usual login, caching_sha2_password, without TLS.
        return MissingDependencyError(f"the login to {address}", extra="mysql")
    if code in _SETUP:
        return BackendDataError(f"{address}: {reason}: check the user, its password and its rights")
    return BackendUnavailableError(f"{address}: {reason or 'no answer'}")

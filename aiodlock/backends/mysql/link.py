"""One connection to the server: statements go out, rows come back; in doubt it is aborted, not closed politely."""

from __future__ import annotations

import asyncio
import ssl
from typing import Any

import asyncmy
from asyncmy.constants.CLIENT import MULTI_STATEMENTS
from asyncmy.constants.COMMAND import COM_QUERY
from asyncmy.errors import Error as DriverError

from aiodlock.backends.mysql.address import Address
from aiodlock.backends.mysql.queries import Rows, query
from aiodlock.errors import BackendDataError, BackendError, BackendUnavailableError

__all__ = ["Link", "StatementError"]

_INTERRUPTED = 1317
# The server rolled back and says so: nothing has happened, and the same again will do.
_AGAIN = frozenset({1205, 1213, _INTERRUPTED})
# This connection, or this server, is of no more use: shutting down, killed, or no longer the primary.
_OVER = frozenset({1053, 1152, 1184, 1290, 1792, 1836, 1927, 3024, 4031})
_MISSING = frozenset({1049, 1146, 1305})
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


class Link:
    """An open connection in autocommit mode. It is used by one task at a time."""

    def __init__(self, address: Address, connection: Any) -> None:
        self.where = str(address)
        self.is_local = address.is_local
        self._connection = connection
        self._reason = ""  # why we ended it ourselves

    @classmethod
    async def open(cls, address: Address) -> Link:
        """Connect and prepare the session, or raise; the caller bounds the time."""
        user, password = address.credentials()
        try:
            connection: Any = await asyncmy.connect(
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
        except (DriverError, OSError, ssl.SSLError, RuntimeError) as error:
            raise _not_opened(address, error) from error
        link = cls(address, connection)
        try:
            await link.ask(query("session"))
        except BaseException:
            link.abort()
            raise
        return link

    async def ask(self, statements: str) -> list[Rows]:
        """Send statements parted by semicolons, and return the rows of each result."""
        results = [await self.first(statements)]
        while self.has_more:
            results.append(await self.next())
        return [rows for rows in results if rows is not None]

    def write(self, statements: str) -> bool:
        """Send statements while nothing is under way, without a step of the loop; tell whether it could be done."""
        try:
            # It is a coroutine, but with nothing left to read it never waits.
            self._connection._execute_command(COM_QUERY, statements.encode()).send(None)
        except StopIteration:
            return True
        except Exception:
            return False  # who reads the answer hears why
        return False

    async def first(self, statements: str | None) -> Rows | None:
        """Send statements, unless `write` has, and return the rows of the first result; None: it has none."""
        if statements is None:
            return await self._read(self._connection.next_result())
        return await self._read(self._connection.query(statements))

    async def next(self) -> Rows | None:
        """Return the next result of what was sent. A call of a procedure ends with one that has no rows."""
        return await self._read(self._connection.next_result())

    @property
    def has_more(self) -> bool:
        result = self._connection._result
        return result is not None and bool(result.has_next)

    def abort(self, reason: str = "") -> None:
        """End the connection at once: whatever was under way is in doubt."""
        self._reason = self._reason or reason
        if transport := self._connection._transport:
            transport.abort()
        self._connection.close()

    async def aclose(self) -> None:
        """Say goodbye, so that the server forgets us at once; at most half a second."""
        try:
            async with asyncio.timeout(0.5):
                await self._connection.ensure_closed()
        except (DriverError, OSError, TimeoutError):
            self.abort()

    async def _read(self, reading: Any) -> Rows | None:
        try:
            await reading
        except (
            Exception
        ) as error:  # also what a driver raises that has lost its place: the connection is then of no use
            raise self._explain(error) from error
        result = self._connection._result
        return result.rows if result.field_count else None

    def _explain(self, error: Exception) -> BackendError:
        is_servers = isinstance(error, DriverError) and error.args and isinstance(error.args[0], int)
        code = error.args[0] if is_servers else 0
        message = f"{self.where}: {self._reason or (error.args[-1] if error.args else repr(error))}"
        # 2000 to 2999 are the driver's own: the connection is lost. So is it for everything that is no server's word.
        if code < 1000 or 2000 <= code < 3000 or code in _OVER:
            return BackendUnavailableError(message)
        return StatementError(code, message)


def _not_opened(address: Address, error: Exception) -> BackendError:
    code = error.args[0] if error.args and isinstance(error.args[0], int) else 0
    reason = error.args[-1] if error.args else repr(error)
    if code in _SETUP:
        return BackendDataError(f"{address}: {reason}: check the user, its password and its rights")
    return BackendUnavailableError(f"{address}: {reason or 'no answer'}")

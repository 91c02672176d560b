"""Making the tables and procedures, once per database and version."""

from __future__ import annotations

from aiodlock.backends.mysql.link import NO_TABLE, Link, StatementError
from aiodlock.backends.mysql.queries import VERSION, literal, procedures, query, tables
from aiodlock.errors import BackendDataError, BackendUnavailableError

__all__ = ["is_writable", "look", "make"]

_COLUMN_IS_THERE = 1060
_PATIENCE = 30  # seconds that who comes second waits for the first


async def look(link: Link) -> int:
    """Return the version that is there, 0 for none; raise where the server takes no writes, or has a newer one."""
    try:
        ((read_only, version),) = (await link.ask(query("state")))[-1]
    except StatementError as error:
        if error.code != NO_TABLE:
            raise
        return 0
    if not is_writable(read_only):
        raise BackendUnavailableError(f"{link.where}: the server is read-only, so it is not the primary")
    if (version or 0) > VERSION:
        raise BackendDataError(
            f"{link.where}: its tables are of version {version}, newer than {VERSION}: upgrade aiodlock"
        )
    return version or 0


def is_writable(read_only: object) -> bool:
    """Decide by what the server says of its read_only: 0, and from MariaDB 12.0 on OFF, among several kinds of ON."""
    return str(read_only).upper() in ("0", "OFF")


async def make(link: Link) -> None:
    """Make what is missing. Who comes second waits for the first, and finds it done."""
    # Given back with the connection if anything fails.
    ((is_first,),) = (await link.ask(f"SELECT GET_LOCK('aiodlock:setup', {_PATIENCE})"))[-1]
    if is_first != 1:
        raise BackendUnavailableError(f"{link.where}: somebody else has been setting it up for {_PATIENCE}s")
    if await look(link) < VERSION:
        for statement in (*tables(), *procedures()):
            await _do(link, statement)
        await link.ask(f"REPLACE INTO aiodlock_versions (version) VALUES ({literal(VERSION)})")
    await link.ask("SELECT RELEASE_LOCK('aiodlock:setup')")


async def _do(link: Link, statement: str) -> None:
    """Do what has to be done once; MySQL cannot say "if it is not there" of a column."""
    try:
        await link.ask(statement)
    except StatementError as error:
        if error.code != _COLUMN_IS_THERE:
            raise

"""``aiodlock mysql init``: make the tables and procedures, by a user who may."""

from __future__ import annotations

import asyncio
from typing import Annotated

import typer

from aiodlock.backends.base import Preparing
from aiodlock.backends.registry import backend_of
from aiodlock.cli.session import Stop

__all__ = ["init", "mysql"]

mysql = typer.Typer(help="MySQL and MariaDB: set up a database for locks.", rich_markup_mode="markdown")


@mysql.callback()
def _commands() -> None: ...


@mysql.command()
def init(
    url: Annotated[str, typer.Argument(help="The database, for example mysql://root@localhost/shop.")],
) -> None:
    """Make the tables and procedures that are missing; what is there stays.

    Clients do it by themselves when they connect, if their user may create tables and routines. Where he may not, run
    this once with one who may; theirs then needs SELECT, INSERT, UPDATE, DELETE and EXECUTE.
    """
    backend = backend_of(url)
    if not isinstance(backend, Preparing):
        raise Stop(f"{url.partition('://')[0]}:// needs no setting up", status=2)
    print(f"{backend.address}: {asyncio.run(_prepare(backend))}")


async def _prepare(backend: Preparing) -> str:
    return await backend.prepare()

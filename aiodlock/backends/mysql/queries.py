"""The SQL of the line: loaded from ``sql/``, filled in, and its answers decoded here and nowhere else."""

from __future__ import annotations

import re
from collections.abc import Sequence
from functools import cache
from importlib import resources
from typing import Any

from aiodlock._core.line import (
    Answer,
    AskedToGo,
    Call,
    Called,
    CompanyCame,
    Gone,
    GoneWhy,
    Inside,
    LineId,
    Opened,
    Row,
    TicketGone,
    TicketId,
    Waiting,
)
from aiodlock.backends.mysql.packets import Rows
from aiodlock.errors import BackendDataError

__all__ = [
    "VERSION",
    "Rows",
    "call",
    "line_name",
    "literal",
    "micros",
    "procedures",
    "query",
    "tables",
    "to_answer",
    "to_call",
    "to_int",
    "to_none",
    "to_row",
    "with_marks",
]

VERSION = 4  # of tables and procedures: grows with every change of sql/schema.sql, sql/verbs.sql and sql/stock.sql

_BLOCK = re.compile(r"^-- (name|part): (\w+)$", re.MULTILINE)
_COMMENT = re.compile(r"^--.*\n", re.MULTILINE)
_INCLUDE = re.compile(r"^ *-- include (\w+)$", re.MULTILINE)
_PLACE = re.compile(r"\{(\w+)\}")
_WHY = {
    b"buried": GoneWhy.BURIED,
    b"expired": GoneWhy.EXPIRED,
    b"heavy": GoneWhy.TOO_HEAVY,
    b"busy": GoneWhy.BUSY,
    b"full": GoneWhy.FULL,
}


# --- text --------------------------------------------------------------------------------------------------


def tables() -> list[str]:
    """Return the statements that make missing tables, and add columns: that fails (1060) where they are there."""
    return list(_blocks("schema")["name"].values())


def procedures() -> list[str]:
    """Return the statements that make the procedures anew."""
    return [*_procedures("verbs"), *_procedures("stock")]


def _procedures(file: str) -> list[str]:
    blocks = _blocks(file)

    def put_in(text: str) -> str:
        return _INCLUDE.sub(lambda found: put_in(blocks["part"][found[1]]), text)

    return [
        statement
        for name, text in blocks["name"].items()
        for statement in (f"DROP PROCEDURE IF EXISTS aiodlock_{name}", put_in(text))
    ]


def query(name: str, **values: bytes | float | Sequence[int]) -> str:
    """Return a statement of ``queries.sql``, filled in."""
    return _bare(name).format_map({key: literal(value) for key, value in values.items()})


def with_marks(name: str) -> tuple[str, list[str]]:
    """Return a statement of ``queries.sql`` with question marks for its values, and their names in order."""
    return _PLACE.sub("?", _bare(name)), _PLACE.findall(_bare(name))


def call(procedure: str, *arguments: bytes | float) -> str:
    """Return the call of one of our procedures."""
    return f"CALL aiodlock_{procedure}({', '.join(map(literal, arguments))})"


def literal(value: bytes | float | Sequence[int]) -> str:
    """Return *value* as SQL. Bytes are hexadecimal: in no mode and no character set does a character mean anything."""
    match value:
        case bytes():
            return f"0x{value.hex()}" if value else "''"
        case int() | float():
            return repr(+value)
        case _:
            return ", ".join(map(repr, map(int, value)))


@cache
def _bare(name: str) -> str:
    """Return a statement of ``queries.sql`` without its comments: it is sent again and again."""
    return _COMMENT.sub("", _blocks("queries")["name"][name])


@cache
def _blocks(name: str) -> dict[str, dict[str, str]]:
    text = resources.files(__package__).joinpath("sql", f"{name}.sql").read_text("utf-8")
    found: dict[str, dict[str, str]] = {"name": {}, "part": {}}
    _, *parts = _BLOCK.split(text)
    for kind, title, body in zip(parts[::3], parts[1::3], parts[2::3], strict=True):
        found[kind][title] = body.strip("\n")
    return found


# --- values ------------------------------------------------------------------------------------------------


def line_name(line: LineId) -> bytes:
    """Return what a line is called in the tables. Kinds have no colon, so no two lines share a name."""
    return f"{line.kind}:{line.key}".encode()


def micros(seconds: float) -> int:
    """Return a time as the procedures take it, at least one microsecond."""
    return max(1, round(seconds * 1e6))


def to_none(rows: Rows, via: int) -> None:
    """Take what answers nothing."""


def to_int(rows: Rows, via: int) -> int:
    """Return one number."""
    return int(rows[0][0])


def to_answer(rows: Rows, via: int) -> Answer:
    """Return what a verb said of a ticket."""
    text, holder = rows[0]
    owner = None if holder is None else bytes(holder).decode(errors="replace")
    match _bytes(text).split():
        case [b"inside", epoch, left, company, size]:
            return Inside(int(epoch), int(left) / 1e6, company == b"1", int(size), via)
        case [b"waiting", last, look_again, ahead, size]:
            return Waiting(int(ahead), max(0.0, int(look_again) / 1e6), int(last), owner, int(size), via)
        case [why] if why in _WHY:
            return Gone(_WHY[why], owner, via)
        case other:
            raise BackendDataError(f"an answer {other!r} that this version does not know: run 'aiodlock mysql init'")


def to_row(row: tuple[Any, ...]) -> Row:
    """Return a ticket as `inspect` shows it."""
    line, ticket, state, owner, weight, since, remaining, epoch = row
    kind, _, key = bytes(line).decode().partition(":")
    return Row(
        kind=kind,
        key=key,
        id=TicketId(bytes(ticket).decode()),
        owner=bytes(owner).decode(errors="replace"),
        inside=state == 1,
        weight=weight,
        since=since / 1e6,
        remaining=remaining / 1e6,
        epoch=epoch or None,
    )


def to_call(row: tuple[Any, ...], via: int) -> Call:
    """Return what a row of mail says."""
    _, word, line, ticket, epoch, company, reason = row
    where = LineId(*bytes(line).decode().split(":", 1))
    who = TicketId(bytes(ticket).decode())
    match _bytes(word):
        case b"I":
            return Called(where, who, epoch, bool(company), via)
        case b"C":
            return CompanyCame(who, via)
        case b"G":
            return TicketGone(who, via)
        case b"A":
            return AskedToGo(who, bytes(reason).decode(errors="replace"), via)
        case b"O":
            return Opened(where, via)
        case other:
            raise BackendDataError(f"mail with a word {other!r} that this version does not know: upgrade aiodlock")


def _bytes(text: str | bytes) -> bytes:
    return text.encode() if isinstance(text, str) else bytes(text)

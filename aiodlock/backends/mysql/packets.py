"""What the server sends after a statement, cut into results: a pure function from bytes to facts, kept between chunks.

asyncmy reads a packet with several coroutines; most answers of ours are one packet, read here in one step.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple, TypeAlias

__all__ = ["GOODBYE", "OutOfStepError", "Prepared", "Reader", "Refusal", "Result", "Rows", "command", "preparation"]

Rows: TypeAlias = Sequence[tuple[Any, ...]]

GOODBYE = b"\x01\x00\x00\x00\x01"  # the packet that ends a session

_OK, _NULL, _EOF, _ERR = 0x00, 0xFB, 0xFE, 0xFF
_MORE_RESULTS = 0x0008  # a bit of the server's status
_LONGEST = 0xFFFFFF  # a packet of this length goes on in the next one
_QUERY, _PREPARE, _EXECUTE = b"\x03", b"\x16", 0x17
_KEPT = struct.Struct("<xIHH")  # answer to a preparation: the statement's number, its columns, its parameters
_EXECUTION = struct.Struct("<BIBI")  # the command, the statement's number, no cursor, once
_WHOLE = struct.Struct("<q")
_NUMBER_SENT, _BYTES_SENT = b"\x08\x00", b"\xfc\x00"  # kinds of values: a wide number; bytes in no character set
_WIDTHS = {0xFC: 2, 0xFD: 3, 0xFE: 8}  # bytes of a number that does not fit into one
_NUMBERS = frozenset({1, 2, 3, 8, 9, 13})  # types of columns: whole numbers, wide and narrow
_TYPE, _CHARSET = -6, slice(-12, -10)  # where a column's definition says it, from the end
_BINARY = b"\x3f\x00"  # the character set of what has none


class OutOfStepError(Exception):
    """What came is no answer to what was asked; the connection is of no more use."""


class Result(NamedTuple):
    """One result; a statement, and each statement inside a procedure that selects, has one."""

    rows: Rows | None  # None: it has none, it only did something
    is_last: bool  # of all that one command asked for
    touched: int = 0  # rows that it changed
    made: int = 0  # what it gave to LAST_INSERT_ID


class Refusal(NamedTuple):
    """An error in place of a result; nothing more comes for this command."""

    code: int
    message: str


class Reader:
    """Where we are in the stream. *has_eof*: whether the server ends column definitions with a packet of their own."""

    def __init__(self, *, has_eof: bool) -> None:
        self._has_eof = has_eof
        self._data = b""
        self._sequence = 1  # of the next packet; 1 begins an answer
        self._definitions = 0  # of columns, that are still to come
        self._columns: list[Callable[[bytes], Any]] | None = None  # how to read each; None: outside a result with rows
        self._rows: list[tuple[Any, ...]] = []
        self._prepares = False

    def expect_kept(self) -> None:
        """Know that the next answer is to a preparation; its row says the number of the statement."""
        self._prepares = True

    def feed(self, data: bytes) -> list[Result | Refusal]:
        """Return what is complete now. Whole numbers are int, text is str, NULL is None, the rest bytes as it came."""
        data = self._data + data if self._data else data
        found: list[Result | Refusal] = []
        at, end = 0, len(data)
        while end - at >= 4:
            length = int.from_bytes(data[at : at + 3], "little")
            if end - at - 4 < length:
                break
            found += self._packet(data[at + 4 : at + 4 + length], data[at + 3])
            at += 4 + length
        self._data = data[at:]
        return found

    def _packet(self, packet: bytes, sequence: int) -> tuple[Result | Refusal, ...]:
        first = packet[0] if packet else _NULL
        if first == _ERR:  # also unasked, with any number: a server that shuts down says so
            return (self._answered(_refusal(packet)),)
        if sequence != self._sequence or len(packet) == _LONGEST:
            raise OutOfStepError(f"packet {sequence} of {len(packet)} bytes where number {self._sequence} was due")
        self._sequence = (sequence + 1) & 0xFF
        if self._columns is None:
            return self._begin(packet, first)
        if self._definitions:
            self._definitions -= 1
            if first != _EOF:
                self._columns.append(_column(packet))
            if self._prepares and not self._definitions:
                return (self._answered(Result(self._rows, is_last=True)),)
        elif first == _EOF:  # no row begins so: it would be longer than a packet
            return (
                self._answered(Result(self._rows, _is_last(packet, 3 if self._has_eof else _behind_counts(packet)))),
            )
        else:
            self._rows.append(_row(packet, self._columns))
        return ()

    def _begin(self, packet: bytes, first: int) -> tuple[Result | Refusal, ...]:
        if first == _OK and self._prepares:
            number, columns, parameters = _KEPT.unpack_from(packet)
            self._rows.append((number,))
            self._definitions = sum(count + self._has_eof for count in (parameters, columns) if count)
            self._columns = []
            return ()
        if first == _OK:
            touched, at = _number(packet, 1)
            made, at = _number(packet, at)
            return (self._answered(Result(None, _is_last(packet, at), touched, made)),)
        if first == _NULL:
            raise OutOfStepError("the server asks for a file")
        self._definitions, self._columns = _number(packet, 0)[0] + self._has_eof, []
        return ()

    def _answered(self, answer: Result | Refusal) -> Result | Refusal:
        if isinstance(answer, Refusal) or answer.is_last:
            self._sequence = 1
        self._columns, self._rows, self._definitions, self._prepares = None, [], 0, False
        return answer


def command(statements: str) -> bytes:
    """Return the packet that asks for *statements*."""
    return _packed(_QUERY + statements.encode())


def preparation(statement: str) -> bytes:
    """Return the packet that asks to keep *statement*, whose parameters are question marks."""
    return _packed(_PREPARE + statement.encode())


class Prepared:
    """A statement that the server keeps for one connection, parsed: only its values are sent."""

    def __init__(self, number: int, names: Sequence[str]) -> None:
        self._names = names  # of its parameters, in order
        nothing_is_null = bytes((len(names) + 7) // 8)
        self._head = _EXECUTION.pack(_EXECUTE, number, 0, 1) + nothing_is_null + b"\x01"

    def command(self, values: Mapping[str, bytes | int]) -> bytes:
        """Return the packet that asks for it with these *values*."""
        given = [values[name] for name in self._names]
        kinds = [_NUMBER_SENT if isinstance(value, int) else _BYTES_SENT for value in given]
        return _packed(self._head + b"".join(kinds) + b"".join(map(_value, given)))


def _packed(body: bytes) -> bytes:
    if len(body) >= _LONGEST:
        raise ValueError(f"statements of {len(body)} bytes do not fit into a packet")
    return len(body).to_bytes(3, "little") + b"\x00" + body


def _value(value: bytes | int) -> bytes:
    if isinstance(value, int):
        return _WHOLE.pack(value)
    length = len(value)
    return (bytes((length,)) if length < _NULL else b"\xfc" + length.to_bytes(2, "little")) + value


def _refusal(packet: bytes) -> Refusal:
    text = packet[9:] if packet[3:4] == b"#" else packet[3:]  # behind the mark come five characters of SQL state
    return Refusal(int.from_bytes(packet[1:3], "little"), text.decode(errors="replace"))


def _behind_counts(packet: bytes) -> int:
    """Return where the status is, behind the rows touched and the number made."""
    return _number(packet, _number(packet, 1)[1])[1]


def _is_last(packet: bytes, status: int) -> bool:
    return not int.from_bytes(packet[status : status + 2], "little") & _MORE_RESULTS


def _number(packet: bytes, at: int) -> tuple[int, int]:
    """Return the number at *at*, and where it ends."""
    first = packet[at]
    if first < _NULL:
        return first, at + 1
    width = _WIDTHS[first]
    return int.from_bytes(packet[at + 1 : at + 1 + width], "little"), at + 1 + width


def _column(definition: bytes) -> Callable[[bytes], Any]:
    if definition[_TYPE] in _NUMBERS:
        return int
    return bytes if definition[_CHARSET] == _BINARY else bytes.decode


def _row(packet: bytes, columns: list[Callable[[bytes], Any]]) -> tuple[Any, ...]:
    values: list[Any] = []
    at = 0
    for read in columns:
        if packet[at] == _NULL:
            values.append(None)
            at += 1
            continue
        length, at = _number(packet, at)
        values.append(read(packet[at : at + length]))
        at += length
    if at != len(packet):
        raise OutOfStepError("a row that does not end where its packet does")
    return tuple(values)

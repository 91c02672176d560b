"""The server's packets, cut at every byte, give the same results; what is out of step is refused."""

from __future__ import annotations

import pytest

from aiodlock.backends.mysql.packets import OutOfStepError, Prepared, Reader, Refusal, Result, command, preparation

MORE, LAST = b"\x08\x00", b"\x00\x00"
NUMBER, BLOB, TEXT = 8, 252, 253


def packets(*payloads: bytes) -> bytes:
    return b"".join(
        len(payload).to_bytes(3, "little") + bytes([number]) + payload for number, payload in enumerate(payloads, 1)
    )


def column(kind: int, charset: int = 63) -> bytes:
    tail = charset.to_bytes(2, "little") + bytes(4) + bytes([kind]) + bytes(5)
    return b"\x03def\x00\x00\x00\x01a\x00\x0c" + tail


def text(*values: bytes | None) -> bytes:
    return b"".join(b"\xfb" if value is None else _length(len(value)) + value for value in values)


def _length(count: int) -> bytes:
    return bytes([count]) if count < 251 else b"\xfc" + count.to_bytes(2, "little")


OK = b"\x00\x01\xfc\x10\x27"  # one row touched, number 10,000 made; the status follows
LONG = b"x" * 300
TABLE = (b"\x03", column(NUMBER), column(BLOB), column(TEXT, 45))
ROWS = (text(b"-7", None, "ü".encode()), text(b"12", LONG, b""))
FOUND = [(-7, None, "ü"), (12, LONG, "")]

STREAMS = {
    "done": (True, (OK + LAST + b"\x00\x00",), [Result(None, True, touched=1, made=10_000)]),
    "a call": (
        True,
        (*TABLE, b"\xfe\x00\x00" + MORE, *ROWS, b"\xfe\x00\x00" + MORE, OK + LAST),
        [Result(FOUND, False), Result(None, True, touched=1, made=10_000)],
    ),
    "without packets between": (
        False,
        (*TABLE, *ROWS, b"\xfe\x00\x00" + MORE + b"\x00\x00", OK + LAST),
        [Result(FOUND, False), Result(None, True, touched=1, made=10_000)],
    ),
    "no rows": (True, (*TABLE, b"\xfe\x00\x00" + LAST, b"\xfe\x00\x00" + LAST), [Result([], True)]),
    "refused": (True, (b"\xff\xbd\x04#40001deadlock",), [Refusal(1213, "deadlock")]),
    "refused among rows": (
        True,
        (*TABLE, b"\xfe\x00\x00" + LAST, ROWS[0], b"\xff\x25\x05#70100ended"),
        [Refusal(1317, "ended")],
    ),
}


@pytest.mark.parametrize("name", STREAMS)
def test_a_stream_cut_anywhere_says_the_same(name: str) -> None:
    """And what follows it begins anew."""
    has_eof, payloads, expected = STREAMS[name]
    stream = packets(*payloads)
    for at in range(len(stream)):
        reader = Reader(has_eof=has_eof)
        assert reader.feed(stream[:at]) + reader.feed(stream[at:]) == expected
        assert reader.feed(stream) == expected


KEPT = b"\x00\x07\x00\x00\x00\x00\x00\x02\x00\x00\x00\x00"  # statement 7: no column, two parameters


@pytest.mark.parametrize("has_eof", [True, False])
def test_a_preparation_cut_anywhere_says_its_number(has_eof: bool) -> None:
    """And what follows it is an answer as always."""
    stream = packets(KEPT, column(NUMBER), column(BLOB), *([b"\xfe\x00\x00" + LAST] if has_eof else []))
    for at in range(len(stream)):
        reader = Reader(has_eof=has_eof)
        reader.expect_kept()
        assert reader.feed(stream[:at]) + reader.feed(stream[at:]) == [Result([(7,)], True)]
        assert reader.feed(packets(OK + LAST)) == [Result(None, True, touched=1, made=10_000)]


def test_a_preparation_that_is_refused_is_over() -> None:
    """The next answer is read as always."""
    reader = Reader(has_eof=True)
    reader.expect_kept()
    assert reader.feed(packets(b"\xff\xb5\x05#42000too many")) == [Refusal(1461, "too many")]
    assert reader.feed(packets(OK + LAST)) == [Result(None, True, touched=1, made=10_000)]


def test_what_the_server_keeps_is_sent_as_values() -> None:
    """Numbers are eight bytes, the rest bytes with their length, each as often as its name stands in the statement."""
    head = b"\x17\x07\x00\x00\x00" + b"\x00" + b"\x01\x00\x00\x00" + b"\x00" + b"\x01"
    kinds = b"\xfc\x00" + b"\x08\x00" + b"\xfc\x00"
    body = head + kinds + _length(300) + LONG + b"\xfe" + b"\xff" * 7 + _length(300) + LONG
    sent = Prepared(7, ["name", "number", "name"]).command({"name": LONG, "number": -2})
    assert sent == len(body).to_bytes(3, "little") + b"\x00" + body
    assert preparation("DO ?") == b"\x05\x00\x00\x00\x16DO ?"


@pytest.mark.parametrize(
    "stream",
    [
        packets(OK + LAST).replace(b"\x00\x00\x01", b"\x00\x00\x02", 1),
        packets(b"\xfbfile"),
        packets(b""),
        packets(b"\x01", column(NUMBER), b"\xfe\x00\x00" + LAST, b"\x05123"),
    ],
)
def test_what_is_no_answer_is_an_error(stream: bytes) -> None:
    """A wrong number, a file asked for, nothing at all, a row that is cut short."""
    reader = Reader(has_eof=True)
    with pytest.raises((OutOfStepError, IndexError)):
        reader.feed(stream)


def test_a_statement_is_one_packet() -> None:
    assert command("DO 0") == b"\x05\x00\x00\x00\x03DO 0"
    with pytest.raises(ValueError, match="do not fit"):
        command("x" * 2**24)

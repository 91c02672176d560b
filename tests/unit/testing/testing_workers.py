"""What the worker processes of these tests run."""

from __future__ import annotations

import asyncio
import signal
import socket
import time

from aiodlock.testing.history import Recorder


def count(record: Recorder, *, to: int) -> None:
    for number in range(to):
        record("counted", number=number)


async def count_in_a_loop(record: Recorder, *, to: int) -> None:
    for number in range(to):
        await asyncio.sleep(0)
        record("counted", number=number)


def count_for_ever(record: Recorder) -> None:
    number = 0
    while True:
        record("counted", number=number)
        number += 1


def deaf(record: Recorder) -> None:
    """Ignore the polite signal."""
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    record("ready")
    while True:
        signal.pause()


def fail(record: Recorder) -> None:
    record("ready")
    raise ValueError("no such thing")


def hold_once(record: Recorder, *, port: int, ttl: float) -> None:
    """Take a plain Redis lock with a lease, stay until told to go, write the fence to an unguarded log, and leave."""
    with socket.create_connection(("127.0.0.1", port)) as connection, connection.makefile("rb") as replies:

        def ask(command: str) -> bytes:
            connection.sendall(command.encode() + b"\r\n")
            return replies.readline()

        asked = record.now()
        while ask(f"SET lock {record.who} NX PX {ttl * 1000:.0f}") != b"+OK\r\n":
            time.sleep(0.01)
            asked = record.now()
        fence = int(ask("INCR fences")[1:])
        record("inside", key="lock", id=1, asked=asked, valid_until=asked + ttl * 0.99 - 0.002, fence=fence)
        ask(f"BLMOVE go:{record.who} gone LEFT LEFT 0")
        replies.readline()
        ask(f"RPUSH log {fence}")
        record("left", key="lock", id=1)

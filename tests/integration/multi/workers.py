"""What the processes run that take the same members in opposite orders."""

from __future__ import annotations

import asyncio
from contextlib import nullcontext
from pathlib import Path
from typing import Any
from unittest.mock import patch

from aiodlock.errors import AcquireTimeoutError
from aiodlock.testing.history import Recorder
from tests.integration.multi.backends import opened

__all__ = ["as_asked", "visit"]


def as_asked() -> Any:
    """The broken twin: members are taken in the order in which they were named."""
    return patch("aiodlock.locks.multi._in_order", lambda members: members)


async def visit(
    record: Recorder,
    *,
    urls: dict[str, str],
    key: str,
    order: list[str],
    visits: int,
    wait: float,
    twin: bool,
    start: str,
) -> None:
    """Enter all of them again and again when the file *start* is there; give up where one takes longer than *wait*."""
    async with opened(urls, record.who) as mine:
        record("connected")
        while not Path(start).exists():  # noqa: ASYNC110, ASYNC240
            await asyncio.sleep(0.005)
        with as_asked() if twin else nullcontext():
            multi = mine.multi(dict.fromkeys(urls, key), order=order)
        for _ in range(visits):
            asked = record.now()
            try:
                async with await multi.acquire(wait) as hold:
                    valid = record.now() + hold.remaining
                    ids = {name: member.fence for name, member in zip(sorted(order), hold.holds, strict=True)}
                    for name, fence in ids.items():
                        record("inside", key=name, id=fence, asked=asked, valid_until=valid, fence=fence)
                    for name, fence in ids.items():
                        record("left", key=name, id=fence)
            except AcquireTimeoutError as error:
                record("stuck", message=str(error))
                return

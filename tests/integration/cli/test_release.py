"""release: who is named is who loses it."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence

import pytest

import aiodlock
from aiodlock._core.line import Row
from aiodlock.backends.memory import MemoryBackend
from aiodlock.cli import release
from aiodlock.cli.release import Kind


class _PassedOn(MemoryBackend):
    """A server on which, just after the first look, a lock passes on."""

    def __init__(self, pass_on: Callable[[], Awaitable[None]]) -> None:
        super().__init__("release")
        self._pass_on: Callable[[], Awaitable[None]] | None = pass_on

    async def inspect(self, kind: str, pattern: str) -> Sequence[Row]:
        rows = await super().inspect(kind, pattern)
        if pass_on := self._pass_on:
            self._pass_on = None
            await pass_on()
        return rows


async def test_the_next_holder_keeps_it(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    """It passes on between look and release: only the one who was seen, and is named, would have lost it."""
    async with aiodlock.connect("memory://release", name="a") as one, aiodlock.connect("memory://release") as two:
        first, second = await one.lock("k").acquire(), list[aiodlock.Hold]()

        async def pass_on() -> None:
            await first.release()
            second.append(await two.lock("k").acquire())

        monkeypatch.setattr(release, "client_of", lambda url: aiodlock.LockClient(_PassedOn(pass_on)))
        await release._release("memory://release", "k", force=True, kinds=[Kind.LOCK])
        assert capsys.readouterr().out == "lock 'k' was taken from a\n"
        second[0].check()
        await second[0].release()

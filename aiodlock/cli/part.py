"""One process of a sale, as the one who started it sees it."""

from __future__ import annotations

import asyncio
import json
import sys
from collections import Counter
from contextlib import suppress

from aiodlock.cli.parts import UNAVAILABLE, Sale
from aiodlock.errors import BackendUnavailableError

__all__ = ["Part"]

_MOST_VAIN = 20  # starts in a row that end without a server: then it is not only being started again
_PAUSE = 0.5


class Part:
    """One process of the sale; started again when it was killed, until it is done."""

    def __init__(self, role: str, sale: Sale, number: int = 0) -> None:
        self.role = role
        self.facts: dict[str, int] = {}  # what it told last
        self.waits: Counter[int] = Counter()  # how many buyers waited, by bin, in all its lives
        self.is_over = False
        self.is_at_work = False  # has told something since it was started
        self._command = (sys.executable, "-m", "aiodlock.cli.parts", role, str(number))
        self._sale = sale
        self._process: asyncio.subprocess.Process | None = None
        self._is_struck = False

    async def run(self) -> None:
        """Run it until it ends by itself.

        Cancellation: its process is killed.
        """
        vain = 0
        while not self.is_over:
            code = await self._live()
            if code == 0:
                self.is_over = True
            elif self._is_struck:  # -9, or anything if it was about to end by itself: see `Popen.send_signal`
                vain = 0
            elif code == UNAVAILABLE and vain < _MOST_VAIN:
                vain += 1
                await asyncio.sleep(_PAUSE)
            else:
                raise BackendUnavailableError(f"the {self.role} ended with status {code}: see what it said above")

    async def strike(self) -> bool:
        """End its process at once, as a crash does."""
        self._is_struck = self._kill()
        return self._is_struck

    async def _live(self) -> int:
        """Start it, listen to what it tells, and return the status it ended with."""
        pipe = asyncio.subprocess.PIPE
        process = await asyncio.create_subprocess_exec(*self._command, stdin=pipe, stdout=pipe)
        self._process, self._is_struck = process, False
        assert process.stdin is not None
        assert process.stdout is not None
        try:
            process.stdin.write(self._sale.encode())  # not an argument: it has passwords, and all see those
            process.stdin.close()
            async for line in process.stdout:
                self._hear(line)
            return await process.wait()
        finally:
            self.is_at_work = False
            if self._kill():
                await process.wait()

    def _hear(self, line: bytes) -> None:
        with suppress(ValueError):  # half a line: it was killed while it spoke
            facts = json.loads(line)
            self.waits.update({int(number): count for number, count in facts.pop("waits", {}).items()})
            self.facts, self.is_at_work = facts, True

    def _kill(self) -> bool:
        if self._process is None or self._process.returncode is not None:
            return False
        with suppress(ProcessLookupError):
            self._process.kill()
        return True

"""Workers: functions run in Python processes of their own, which a test can pause and kill.

::

    async def contend(record, *, url, key):                 # in a module the test can import
        ...
        record("inside", key=key, ...)

    with Worker("tests.workers:contend", url=server.url, key="k") as worker:
        worker.await_event("inside", within=5)
        with worker.paused(): ...
        worker.kill()
    worker.events()                                         # everything it recorded before

Threads share the tester's memory and tasks its loop; only a process can be frozen or die like a real one.
"""

from __future__ import annotations

import asyncio
import importlib
import inspect
import json
import os
import sys
import tempfile
import time
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Self

from aiodlock.errors import AiodlockError
from aiodlock.testing.child import Child
from aiodlock.testing.history.record import Event, Json, JsonLines, Recorder, read

__all__ = ["Worker", "WorkerFailedError"]


class WorkerFailedError(AiodlockError):
    """A worker ended by an error of its own; the end of what it printed is in the message."""


class Worker:
    """One process that runs *function*, given as ``module:function``, with JSON *arguments* and a recorder.

    The function may be a coroutine function; its first argument is the recorder, under the name *who*. Leaving the
    ``with`` block kills the process if it still runs; its events stay readable.
    """

    def __init__(self, function: str, /, *, who: str | None = None, **arguments: Json) -> None:
        self.who = who or function.rpartition(":")[2]
        self._directory = tempfile.TemporaryDirectory(prefix="worker-", ignore_cleanup_errors=True)
        self._file.touch()
        self._kept: list[Event] | None = None
        order = json.dumps([function, self.who, str(self._file), arguments])
        # -c and not -m: a module that the package has imported already must not run as a second copy of itself.
        program = "from aiodlock.testing.processes import _main; _main()"
        path = os.pathsep.join(entry or os.getcwd() for entry in sys.path)
        self._child = Child(
            [sys.executable, "-c", program, order],
            cwd=Path.cwd(),
            output=self._log,
            env=os.environ | {"PYTHONPATH": path},
        )

    @property
    def pid(self) -> int:
        return self._child.pid

    @property
    def running(self) -> bool:
        return self._child.running

    def events(self) -> list[Event]:
        """Return what it has recorded so far."""
        return read(self._file) if self._kept is None else self._kept

    def await_event(self, what: str, *, within: float, count: int = 1) -> Event:
        """Return the *count*-th event of that name as soon as it is recorded."""
        end = time.monotonic() + within
        while True:
            ended = not self.running
            found = [event for event in self.events() if event.what == what]
            if len(found) >= count:
                return found[count - 1]
            if ended or time.monotonic() > end:
                state = "ended" if ended else f"still runs after {within:g}s"
                raise WorkerFailedError(f"{self!r} {state} without event {what!r} number {count}: {self._said()}")
            time.sleep(0.002)

    def pause(self) -> None:
        self._child.pause()

    def resume(self) -> None:
        self._child.resume()

    def paused(self) -> AbstractContextManager[None]:
        """Freeze it for the time of a ``with`` block."""
        return self._child.paused()

    def kill(self) -> None:
        """End it at once, as a crash does."""
        self._child.kill()

    def close(self) -> None:
        """Kill it if it still runs, keep its events and remove its files."""
        self.kill()
        self._kept = self.events()
        self._directory.cleanup()

    def join(self, *, within: float) -> list[Event]:
        """Return all its events when the function has returned, or raise what it died of."""
        if self._child.wait(within=within):
            raise WorkerFailedError(f"{self!r} ended with {self._child.returncode}: {self._said()}")
        return self.events()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def __repr__(self) -> str:
        return f"<Worker {self.who} pid {self.pid}>"

    @property
    def _file(self) -> Path:
        return Path(self._directory.name) / "events.jsonl"

    @property
    def _log(self) -> Path:
        return Path(self._directory.name) / "log"

    def _said(self) -> str:
        return self._log.read_text(errors="replace")[-2000:]


def _main() -> None:
    target, who, path, arguments = json.loads(sys.argv[1])
    module, _, name = target.partition(":")
    function = getattr(importlib.import_module(module), name)
    result = function(Recorder(JsonLines(Path(path)), who=who), **arguments)
    if inspect.iscoroutine(result):
        asyncio.run(result)

"""What every server in a test can do: start, stop, crash, restart, pause."""

from __future__ import annotations

import abc
import contextlib
import shutil
import tempfile
import time
from collections.abc import Sequence
from contextlib import AbstractContextManager
from pathlib import Path
from typing import ClassVar, Generic, Self, TypeVar

from aiodlock.errors import AiodlockError
from aiodlock.testing.child import Child
from aiodlock.testing.servers.ports import HOST, free_ports

__all__ = ["Group", "MissingServerError", "Server", "ServerFailedError"]


class MissingServerError(AiodlockError):
    """A server's program is not installed; ``install`` is the command that does it."""

    def __init__(self, program: str, *, install: str) -> None:
        super().__init__(f"{program} is not installed: {install}")
        self.program = program
        self.install = install


class ServerFailedError(AiodlockError):
    """A server ended or stayed silent instead of getting ready; the end of its log is in the message."""


class Server(abc.ABC):
    """A server process with its own directory and port, kept over crash and restart.

    A kind of server says which ``program`` it needs, its ``command``, how to ask whether it ``is_ready``, and
    its ``url``; its ``__init__`` may write what it reads into ``directory``.
    Leaving the ``with`` block ends it and removes that.
    """

    program: ClassVar[str]
    install: ClassVar[str]
    ready_within: ClassVar[float] = 60.0  # a JVM on a busy machine takes many times its usual second

    def __init__(self) -> None:
        self._directory = tempfile.TemporaryDirectory(prefix=f"{self.program}-", ignore_cleanup_errors=True)
        self._child: Child | None = None
        (self.port,) = free_ports(1)

    @property
    def directory(self) -> Path:
        return Path(self._directory.name)

    @property
    def log(self) -> Path:
        return self.directory / "log"

    @property
    def pid(self) -> int:
        return self._process.pid

    @property
    def running(self) -> bool:
        return self._child is not None and self._child.running

    @property
    @abc.abstractmethod
    def url(self) -> str: ...

    @classmethod
    def missing(cls) -> MissingServerError | None:
        """Return what is not installed on this machine, or None."""
        return None if shutil.which(cls.program) else MissingServerError(cls.program, install=cls.install)

    @abc.abstractmethod
    def command(self) -> Sequence[str]:
        """Return what to run; called at every start."""

    @abc.abstractmethod
    def is_ready(self) -> bool:
        """Ask the server itself; `OSError` means not yet."""

    def start(self) -> Self:
        """Start it and return when it is ready; after a stop or crash with the same port and data."""
        if missing := self.missing():
            raise missing
        if self.running:
            raise RuntimeError(f"{self!r} is running already")
        self._child = Child(self.command(), cwd=self.directory, output=self.log)
        self._await_ready(self._child)
        return self

    def stop(self) -> None:
        """End it as an operator would; killed if it has not ended after five seconds. The data stays."""
        if self._child is not None:
            self._child.stop()

    def crash(self) -> None:
        """Kill it; the data is what it has on disk."""
        self._process.kill()

    def restart(self) -> None:
        """Stop, then start on the same port with the same data."""
        self.stop()
        self.start()

    def pause(self) -> None:
        """Freeze it: connections stay open, new ones are accepted by the kernel, and nothing is answered."""
        self._process.pause()

    def resume(self) -> None:
        self._process.resume()

    def paused(self) -> AbstractContextManager[None]:
        """Pause it for the time of a ``with`` block."""
        return self._process.paused()

    def close(self) -> None:
        """Stop it and remove its directory."""
        self.stop()
        self._directory.cleanup()

    def __enter__(self) -> Self:
        try:
            return self.start()
        except BaseException:
            self.close()
            raise

    def __exit__(self, *_: object) -> None:
        self.close()

    def __repr__(self) -> str:
        state = f"pid {self.pid}" if self.running else "down"
        return f"<{type(self).__name__} {HOST}:{self.port} {state}>"

    @property
    def _process(self) -> Child:
        if self._child is None:
            raise RuntimeError(f"{self!r} was never started")
        return self._child

    def _await_ready(self, child: Child) -> None:
        end = time.monotonic() + self.ready_within
        while child.running and time.monotonic() < end:
            with contextlib.suppress(OSError):
                if self.is_ready():
                    return
            time.sleep(0.005)
        child.kill()
        raise ServerFailedError(f"{self.program} did not get ready: {self.log.read_text(errors='replace')[-2000:]}")


_ServerT = TypeVar("_ServerT", bound=Server)


class Group(Generic[_ServerT]):
    """Servers that are started and ended together."""

    nodes: Sequence[_ServerT]

    def start(self) -> Self:
        for node in self.nodes:
            node.start()
        return self

    def close(self) -> None:
        for node in self.nodes:
            if node.running:
                node.crash()  # nothing is kept, so there is nothing to wait for
            node.close()

    def __enter__(self) -> Self:
        try:
            return self.start()
        except BaseException:
            self.close()
            raise

    def __exit__(self, *_: object) -> None:
        self.close()

"""``aiodlock hold``: run a command while holding a lock."""

from __future__ import annotations

import asyncio
import math
import os
import signal
from asyncio.subprocess import Process
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from typing import Annotated, Self

import typer

from aiodlock._core.cancel import finish
from aiodlock._core.hold import Hold
from aiodlock.cli.session import Stop, client_of, explained
from aiodlock.cli.show import tell
from aiodlock.cli.terminal import Terminal, signal_group
from aiodlock.errors import AcquireTimeoutError, AiodlockError, LockLostError
from aiodlock.locks.lock import Lock

__all__ = ["hold", "run_holding"]

# As env, nohup and timeout of every Unix have it, so that a script can tell our failures from the command's.
_TOO_LATE, _FAILED, _NOT_RUNNABLE, _NOT_FOUND, _SIGNALLED = 124, 125, 126, 127, 128

_PASSED_ON = (signal.SIGHUP, signal.SIGINT, signal.SIGQUIT, signal.SIGTERM, signal.SIGUSR1, signal.SIGUSR2)


def hold(
    url: Annotated[str, typer.Argument(help="The server, for example redis://localhost:6379/0.")],
    key: Annotated[str, typer.Argument(help="What to lock.")],
    command: Annotated[list[str], typer.Argument(metavar="COMMAND", help="After --: what to run while holding it.")],
    ttl: Annotated[float, typer.Option(help="Lease in seconds, renewed while the command runs.")] = 30.0,
    wait: Annotated[
        float | None, typer.Option(help="Seconds to wait for the lock; 0 tries once.", show_default="for ever")
    ] = None,
    grace: Annotated[float, typer.Option(min=0.0, help="Seconds between SIGTERM and SIGKILL when it is lost.")] = 5.0,
) -> int:
    """Run a command while holding a lock; its exit status is passed on.

    The command finds the fence of its hold in AIODLOCK_FENCE. When the lock is lost the command is ended and the status
    is 125, as for every failure of our own; 124: not acquired within --wait; 126 and 127: the command cannot be run.
    """
    return asyncio.run(_hold(url, key, command, ttl=ttl, wait=wait, grace=grace))


async def _hold(url: str, key: str, command: Sequence[str], *, ttl: float, wait: float | None, grace: float) -> int:
    try:
        locks = client_of(url)
        lock = locks.lock(key, ttl=ttl, wait=wait)
        async with locks:
            return await run_holding(lock, command, grace=grace)
    except AcquireTimeoutError as error:
        raise Stop(f"{error}: give it more --wait, or see 'aiodlock inspect'", status=_TOO_LATE) from error
    except LockLostError as error:
        raise Stop(f"{error}; the command was ended", status=_FAILED) from error
    except AiodlockError as error:
        raise Stop(explained(error), status=_FAILED) from error


async def run_holding(lock: Lock, command: Sequence[str], *, grace: float = 5.0) -> int:
    """Acquire, run, release; return the exit status as a shell would. Raise `LockLostError` after ending the command.

    A command that may not be signalled is another user's to end: `Stop` says so.

    Cancellation: the command is ended, then the lock released.
    """
    with _Signals() as signals:
        try:
            async with lock as held:
                signals.hold_back()
                starting = asyncio.ensure_future(_start(command, held))
                try:
                    # Seen through whatever happens: a start torn in the middle would leave what the command started.
                    await finish(starting, within=math.inf)
                    process = starting.result()
                    with signals.passed_to(process.pid):
                        status = await process.wait()
                finally:
                    if starting.exception() is None:
                        await _end(starting.result(), grace)
        except asyncio.CancelledError:
            if signals.ended_wait is None:
                raise
            return _SIGNALLED + signals.ended_wait
    return _SIGNALLED - status if status < 0 else status


async def _start(command: Sequence[str], held: Hold) -> Process:
    environment = {**os.environ, "AIODLOCK_KEY": held.key, "AIODLOCK_FENCE": str(held.fence)}
    try:
        # A group of its own: losing the lock has to end the command's children as well.
        return await asyncio.create_subprocess_exec(*command, env=environment, process_group=0)
    except FileNotFoundError as error:
        raise Stop(f"no command {command[0]!r}: check its name and PATH", status=_NOT_FOUND) from error
    except (OSError, ValueError) as error:
        raise Stop(f"cannot run {command[0]!r}: {error}", status=_NOT_RUNNABLE) from error


async def _end(process: Process, grace: float) -> None:
    """End a command that still runs, with everything it started: SIGTERM, and SIGKILL to whoever is left."""
    if process.returncode is not None:
        return
    signal_group(process.pid, signal.SIGTERM)
    signal_group(process.pid, signal.SIGCONT)  # one that stands still would not hear it
    try:
        async with asyncio.timeout(grace):
            await process.wait()
    except TimeoutError:
        pass
    finally:
        is_killed = signal_group(process.pid, signal.SIGKILL)
    if not is_killed and process.returncode is None:
        with suppress(PermissionError):
            process._transport.close()  # type: ignore[attr-defined] # collected open, it would try to kill, and complain
        raise Stop(f"process {process.pid} could not be ended, it is another user's: see to it", status=_FAILED)
    await process.wait()


class _Signals:
    """Signals to us: passed on to the command; before there is one, they end the wait for the lock."""

    def __init__(self) -> None:
        self.ended_wait: int | None = None
        self._held_back: list[int] | None = None
        self._group: int | None = None
        self._task = asyncio.current_task()
        self._loop = asyncio.get_running_loop()
        self._numbers = [number for number in _PASSED_ON if signal.getsignal(number) is not signal.SIG_IGN]  # nohup

    def __enter__(self) -> Self:
        for number in self._numbers:
            self._loop.add_signal_handler(number, self._receive, number)
        return self

    def __exit__(self, *_: object) -> None:
        for number in self._numbers:
            self._loop.remove_signal_handler(number)

    def hold_back(self) -> None:
        """Keep what comes while the command starts."""
        self._held_back = []

    @contextmanager
    def passed_to(self, group: int) -> Iterator[None]:
        """Send on to *group* what was held back and what comes; lend it the terminal."""
        self._group = group
        for number in self._held_back or ():
            self._receive(number)
        with Terminal(group) as terminal:
            self._loop.add_signal_handler(signal.SIGCHLD, terminal.look)
            try:
                yield
            finally:
                self._loop.remove_signal_handler(signal.SIGCHLD)

    def _receive(self, number: int) -> None:
        if self._group is not None:
            if not signal_group(self._group, number):
                tell(f"{signal.Signals(number).name} was not passed on to process {self._group}: it is another user's")
        elif self._held_back is not None:
            self._held_back.append(number)
        elif self._task is not None:
            self.ended_wait = number
            self._task.cancel()

"""hold, in a process and on a terminal: status and signals pass through, and the command never outlives the lock.

Where no other process is needed the lock is in memory; `HOLD` is what the command does after connecting.
"""

from __future__ import annotations

import asyncio
import errno
import os
import signal
import subprocess
import sys
from collections.abc import AsyncIterator, Sequence
from pathlib import Path

import pytest

import aiodlock
from aiodlock.cli import hold
from aiodlock.cli.hold import run_holding
from aiodlock.cli.session import Stop
from tests.integration.cli.support import OnScreen, heeding, until_signalled

HOLD = """
import asyncio, sys, aiodlock
from aiodlock.cli.hold import run_holding
async def main():
    async with aiodlock.connect("memory://") as locks:
        return await run_holding(locks.lock("k"), sys.argv[1:])
sys.exit(asyncio.run(main()))
"""
HOLDING = (sys.executable, "-c", HOLD)


class Pipe:
    """A named pipe: whoever opens one side waits for the other, so that two processes meet."""

    def __init__(self, path: Path) -> None:
        self.path = path
        os.mkfifo(path)

    async def read(self) -> str:
        """Return everything that is written, when the last writer is gone."""
        return await asyncio.to_thread(self.path.read_text)


@pytest.fixture
def pipe(tmp_path: Path) -> Pipe:
    return Pipe(tmp_path / "pipe")


@pytest.fixture
def life(tmp_path: Path) -> Pipe:
    """A pipe that a command keeps open: read to its end, the command and its children are gone."""
    return Pipe(tmp_path / "life")


# --- in process: what happens to the lock ------------------------------------------------------------------


@pytest.mark.parametrize("status", [0, 1, 125, 255])
async def test_the_exit_status_is_passed_on(status: int) -> None:
    """Whatever the command ends with."""
    async with aiodlock.connect("memory://") as locks:
        assert await run_holding(locks.lock("k"), ["sh", "-c", f"exit {status}"]) == status


async def test_a_command_that_dies_of_a_signal_ends_as_in_a_shell() -> None:
    """128 and the signal's number."""
    async with aiodlock.connect("memory://") as locks:
        assert await run_holding(locks.lock("k"), ["sh", "-c", "kill -KILL $$"]) == 128 + signal.SIGKILL


async def test_the_lock_is_held_as_long_as_the_command_runs(pipe: Pipe) -> None:
    """Another client finds it taken while the command runs, and free afterwards."""
    async with aiodlock.connect("memory://hold", name="us") as locks, aiodlock.connect("memory://hold") as others:
        running = asyncio.create_task(run_holding(locks.lock("k"), ["sh", "-c", f"echo >{pipe.path}; cat {pipe.path}"]))
        await pipe.read()
        assert await others.lock("k").holder() == "us"
        await asyncio.to_thread(pipe.path.write_text, "go")
        assert await running == 0
        assert await others.lock("k").holder() is None


async def test_the_command_knows_key_and_fence(pipe: Pipe) -> None:
    """In its environment, so that it can pass the fence on to what it writes to."""
    async with aiodlock.connect("memory://") as locks:
        show = ["sh", "-c", f'echo "$AIODLOCK_KEY $AIODLOCK_FENCE" >{pipe.path}']
        running = asyncio.create_task(run_holding(locks.lock("order:42"), show))
        key, fence = (await pipe.read()).split()
        await running
        async with locks.lock("order:42") as later:
            assert (key, int(fence) < later.fence) == ("order:42", True)


@pytest.mark.parametrize(
    ("command", "status", "word"),
    [(["no-such-command"], 127, "PATH"), (["/dev/null"], 126, "Permission denied"), (["a\0b"], 126, "null")],
)
async def test_what_cannot_be_run_leaves_the_lock_free(command: list[str], status: int, word: str) -> None:
    """The statuses of every Unix wrapper, and one line."""
    async with aiodlock.connect("memory://") as locks:
        with pytest.raises(Stop, match=word) as stop:
            await run_holding(locks.lock("k"), command)
        assert stop.value.status == status
        assert not await locks.lock("k").locked()


async def _lose_while_running(script: str, pipe: Pipe, *, grace: float) -> str:
    """Run *script*, and when it has written to *pipe* have somebody else take the lock away; return what it wrote."""
    async with aiodlock.connect("memory://lost") as locks, aiodlock.connect("memory://lost") as others:
        running = asyncio.create_task(run_holding(locks.lock("k"), ["sh", "-c", script], grace=grace))
        written = await pipe.read()
        assert await others.lock("k").force_release() == 1
        with pytest.raises(aiodlock.LockLostError):
            await running
        return written


async def test_a_lost_lock_ends_the_command(pipe: Pipe, life: Pipe) -> None:
    """It is asked first, and may put its things in order."""
    script = f"exec 3>{life.path}; trap 'echo tidy >&3; exit' TERM; echo >{pipe.path}; read line <{pipe.path}"
    ending = asyncio.create_task(life.read())
    await _lose_while_running(script, pipe, grace=30.0)
    assert await ending == "tidy\n"


async def test_a_command_that_will_not_end_is_killed_with_its_children(pipe: Pipe, life: Pipe) -> None:
    """Neither the command nor what it started outlives the grace."""
    script = f"exec 3>{life.path}; trap '' TERM; sleep 100 & echo >{pipe.path}; wait"
    ending = asyncio.create_task(life.read())
    await _lose_while_running(script, pipe, grace=0.1)
    assert await ending == ""


async def test_children_of_a_command_that_ends_are_not_left(pipe: Pipe, life: Pipe) -> None:
    """A command that obeys SIGTERM leaves nobody behind who does not."""
    script = f"exec 3>{life.path}; (trap '' TERM; sleep 100) & echo >{pipe.path}; wait"
    ending = asyncio.create_task(life.read())
    await _lose_while_running(script, pipe, grace=30.0)
    assert await ending == ""


async def test_children_left_behind_are_noticed(pipe: Pipe, life: Pipe, monkeypatch: pytest.MonkeyPatch) -> None:
    """The broken twin ends the command alone: its child keeps the pipe open."""

    async def end(process: asyncio.subprocess.Process, grace: float) -> None:
        process.kill()
        await process.wait()

    monkeypatch.setattr(hold, "_end", end)
    script = f"exec 3>{life.path}; sleep 100 & echo $! >{pipe.path}; wait"
    ending = asyncio.create_task(life.read())
    child = int(await _lose_while_running(script, pipe, grace=30.0))
    assert not ending.done()
    os.kill(child, signal.SIGKILL)
    assert await ending == ""


async def test_cancelled_it_ends_the_command_and_releases(pipe: Pipe, life: Pipe) -> None:
    """Nothing is left behind: no process, no ticket."""
    async with aiodlock.connect("memory://") as locks:
        script = f"exec 3>{life.path}; echo >{pipe.path}; sleep 100"
        ending = asyncio.create_task(life.read())
        running = asyncio.create_task(run_holding(locks.lock("k"), ["sh", "-c", script]))
        await pipe.read()
        running.cancel()
        with pytest.raises(asyncio.CancelledError):
            await running
        assert await ending == ""
        assert [row async for row in locks.inspect()] == []


@pytest.fixture(params=["nobody", "its children"])
async def foreign(
    request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch
) -> AsyncIterator[list[asyncio.subprocess.Process]]:
    """Commands that have become another user's, as sudo does: of their groups we may signal nobody, or not them."""
    started, start, kill = list[asyncio.subprocess.Process](), hold._start, os.kill

    async def recorded(command: Sequence[str], held: aiodlock.Hold) -> asyncio.subprocess.Process:
        started.append(await start(command, held))
        return started[-1]

    def refuse(pid: int, number: int) -> None:
        if pid in [process.pid for process in started]:
            raise PermissionError(errno.EPERM, "Operation not permitted")
        kill(pid, number)

    with monkeypatch.context() as denied:
        denied.setattr(hold, "_start", recorded)
        denied.setattr(os, "kill", refuse)
        denied.setattr(os, "killpg", refuse if request.param == "nobody" else lambda group, number: None)
        yield started
    for process in started:
        os.killpg(process.pid, signal.SIGKILL)
        await process.wait()


async def test_a_command_of_another_user_that_cannot_be_ended_is_told(
    foreign: list[asyncio.subprocess.Process], pipe: Pipe, capsys: pytest.CaptureFixture[str]
) -> None:
    """A signal that cannot be passed on is one line; so is the command that runs on after the loss, and why."""
    async with aiodlock.connect("memory://lost") as locks, aiodlock.connect("memory://lost") as others:
        script = f"echo >{pipe.path}; sleep 100"
        running = asyncio.create_task(run_holding(locks.lock("k"), ["sh", "-c", script], grace=0))
        await pipe.read()
        os.kill(os.getpid(), signal.SIGUSR1)
        await others.lock("k").force_release()
        with pytest.raises(Stop, match="could not be ended, it is another user's") as stop:
            await running
    assert stop.value.status == 125
    assert "lock 'k' was lost" in stop.value.__notes__[0]
    said = f"aiodlock: SIGUSR1 was not passed on to process {foreign[0].pid}: it is another user's\n"
    assert capsys.readouterr().err == said


@pytest.fixture
def half_started(monkeypatch: pytest.MonkeyPatch) -> tuple[asyncio.Event, asyncio.Event]:
    """A start that has run the command and has not returned: two events, it is so, and go on.

    Torn there it kills the command alone, as asyncio does.
    """
    started, go_on = asyncio.Event(), asyncio.Event()
    start = hold._start

    async def half(command: Sequence[str], held: aiodlock.Hold) -> asyncio.subprocess.Process:
        process = await start(command, held)
        started.set()
        try:
            await go_on.wait()
        except asyncio.CancelledError:
            process.kill()
            raise
        return process

    monkeypatch.setattr(hold, "_start", half)
    return started, go_on


async def test_a_signal_while_it_starts_reaches_the_command(
    half_started: tuple[asyncio.Event, asyncio.Event], pipe: Pipe
) -> None:
    """It is kept until there is somebody to send it to."""
    started, go_on = half_started
    async with aiodlock.connect("memory://") as locks:
        script = f"trap 'exit 40' USR1; echo >{pipe.path}; read line <{pipe.path}"
        running = asyncio.create_task(run_holding(locks.lock("k"), ["sh", "-c", script]))
        await started.wait()
        await pipe.read()
        os.kill(os.getpid(), signal.SIGUSR1)
        asyncio.get_running_loop().call_later(0, go_on.set)
        assert await running == 40


async def _lose_while_starting(half_started: tuple[asyncio.Event, asyncio.Event], pipe: Pipe, life: Pipe) -> str:
    """Cancel in the middle of a start, and return the id of a child of the command."""
    started, go_on = half_started
    async with aiodlock.connect("memory://") as locks:
        script = f"exec 3>{life.path}; sleep 100 & echo $! >{pipe.path}; wait"
        running = asyncio.create_task(run_holding(locks.lock("k"), ["sh", "-c", script]))
        await started.wait()
        child = await pipe.read()
        running.cancel()
        asyncio.get_running_loop().call_soon(go_on.set)
        with pytest.raises(asyncio.CancelledError):
            await running
        assert not await locks.lock("k").locked()
    return child


async def test_cancelled_while_it_starts_it_leaves_nobody(
    half_started: tuple[asyncio.Event, asyncio.Event], pipe: Pipe, life: Pipe
) -> None:
    """The start is seen through, then everything is ended: a frozen process loses its lock just there."""
    ending = asyncio.create_task(life.read())
    await _lose_while_starting(half_started, pipe, life)
    assert await ending == ""


async def test_a_torn_start_is_noticed(
    half_started: tuple[asyncio.Event, asyncio.Event], pipe: Pipe, life: Pipe, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The broken twin lets the cancel into the start: the child stays."""

    async def torn(work: asyncio.Future[None], *, within: float) -> None:
        await asyncio.gather(work)

    monkeypatch.setattr(hold, "finish", torn)
    ending = asyncio.create_task(life.read())
    child = int(await _lose_while_starting(half_started, pipe, life))
    assert not ending.done()
    os.kill(child, signal.SIGKILL)
    assert await ending == ""


# --- as a process: signals and terminals -------------------------------------------------------------------


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGUSR1])
def test_signals_reach_the_command(number: signal.Signals, pipe: Pipe) -> None:
    """It decides what to do; we go on and pass its status on."""
    script = f"trap 'exit 40' {number.name[3:]}; echo >{pipe.path}; read line <{pipe.path}"
    with subprocess.Popen([*heeding(number), *HOLDING, "sh", "-c", script]) as process:
        pipe.path.read_text()
        process.send_signal(number)
        assert process.wait(30) == 40


def test_a_command_that_dies_of_a_passed_signal(pipe: Pipe) -> None:
    """The status is that of a shell, and there is no traceback."""
    command = [*heeding(signal.SIGINT), *HOLDING, *until_signalled(f"open('{pipe.path}', 'w').close()")]
    with subprocess.Popen(command, stderr=subprocess.PIPE) as process:
        pipe.path.read_text()
        process.send_signal(signal.SIGINT)
        said = process.communicate(timeout=30)[1]
    assert (process.returncode, said) == (130, b"")


def test_an_ignored_signal_stays_ignored(pipe: Pipe) -> None:
    """Under nohup a hang-up reaches nobody: neither us nor the command."""
    script = f"echo >{pipe.path}; cat {pipe.path}; exit 3"
    with subprocess.Popen(["sh", "-c", "trap '' HUP; exec \"$@\"", "sh", *HOLDING, "sh", "-c", script]) as process:
        pipe.path.read_text()
        process.send_signal(signal.SIGHUP)
        pipe.path.write_text("go")
        assert process.wait(30) == 3


def test_a_signal_while_waiting_ends_the_wait(pipe: Pipe) -> None:
    """Nothing is run, and the status says which signal it was."""
    program = f"""
import asyncio, sys, aiodlock
from aiodlock.cli.hold import run_holding
async def main():
    async with aiodlock.connect("memory://") as locks:
        async with locks.lock("k"):
            waiting = asyncio.create_task(run_holding(locks.lock("k"), ["touch", "{pipe.path}.run"]))
            await asyncio.sleep(0)
            open("{pipe.path}", "w").close()
            return await waiting
sys.exit(asyncio.run(main()))
"""
    with subprocess.Popen([sys.executable, "-c", program]) as process:
        pipe.path.read_text()
        process.send_signal(signal.SIGTERM)
        assert process.wait(30) == 128 + signal.SIGTERM
    assert not Path(f"{pipe.path}.run").exists()


def test_the_command_has_the_terminal(screen: OnScreen) -> None:
    """It reads what is typed, as if it had been started from the shell."""
    shown = screen(*HOLDING, "sh", "-c", 'echo ready; read line; echo "got $line"; exit 7')
    shown.expect("ready")
    shown.press("hello\n")
    shown.expect("got hello")
    assert shown.wait() == 7


def test_ctrl_c_reaches_the_command_once(screen: OnScreen) -> None:
    """The terminal sends it to the command's group, we do not send it again."""
    script = "trap 'n=$((n+1))' INT; echo ready; read line; echo interrupted $n; read line; echo interrupted $n"
    shown = screen(*HOLDING, "bash", "-c", script)
    shown.expect("ready")
    shown.press("\x03")
    shown.press("a\n")
    shown.expect("interrupted 1")
    shown.press("b\n")
    shown.expect("interrupted 1")
    assert shown.wait() == 0


def test_ctrl_c_ends_a_plain_command(screen: OnScreen) -> None:
    """As it would without us."""
    shown = screen(*HOLDING, "sh", "-c", "echo ready; exec sleep 100")
    shown.expect("ready")
    shown.press("\x03")
    assert shown.wait() == 130


# A thread tells of SIGCONT: stopped just before it reads, the main one would run a handler only after a line has come.
# Each of them writes a whole line at once.
STOPPABLE = """
import os, signal, sys, threading
signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGCONT})
def tell():
    while signal.sigwait({signal.SIGCONT}):
        os.write(1, b"goes on\\n")
threading.Thread(target=tell, daemon=True).start()
os.write(1, b"is ready\\n")
os.write(1, b"got " + os.read(0, 100))
sys.exit(5)
"""


def test_ctrl_z_stops_the_job_and_fg_goes_on(screen: OnScreen, tmp_path: Path) -> None:
    """The shell gets its prompt back; in the foreground again, the command reads on."""
    (tmp_path / "hold.py").write_text(HOLD)
    (tmp_path / "command.py").write_text(STOPPABLE)
    shown = screen("bash", "--norc", "--noprofile", "-i", env={"PS1": "prompt> "})
    shown.expect("prompt> ")
    shown.press(f"{sys.executable} {tmp_path}/hold.py {sys.executable} {tmp_path}/command.py\n")
    shown.expect("is ready")
    shown.press("\x1a")
    shown.expect("Stopped")
    shown.expect("prompt> ")
    shown.press("fg\n")
    shown.expect("goes on")
    shown.press("hello\n")
    shown.expect("got hello")
    shown.expect("prompt> ")
    shown.press("echo status=$?\n")
    shown.expect("status=5")

"""Workers: processes that record, freeze, die, and are never left behind."""

from __future__ import annotations

import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from aiodlock.testing.child import Child
from aiodlock.testing.processes import Worker, WorkerFailedError


@pytest.fixture(autouse=True)
def workers_are_importable(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(Path(__file__).parent)


def await_line(log: Path) -> str:
    """Return the first line a process has printed, once it is there."""
    end = time.monotonic() + 10
    while "\n" not in log.read_text():
        assert time.monotonic() < end, "nothing printed"
        time.sleep(0.002)
    return log.read_text()


def numbers(worker: Worker) -> list[object]:
    return [event.facts["number"] for event in worker.events() if event.what == "counted"]


@pytest.mark.parametrize("function", ["count", "count_in_a_loop"])
def test_runs_functions_and_coroutine_functions(function: str) -> None:
    with Worker(f"testing_workers:{function}", who="w-1", to=5) as worker:
        events = worker.join(within=10)
    assert [(event.who, event.what, event.facts) for event in events] == [
        ("w-1", "counted", {"number": number}) for number in range(5)
    ]
    assert worker.events() == events


def test_stamps_of_two_processes_are_on_one_clock() -> None:
    with Worker("testing_workers:count", to=1) as first:
        (before,) = first.join(within=10)
    with Worker("testing_workers:count", to=1) as second:
        (after,) = second.join(within=10)
    assert before.at < after.at


def test_killed_worker_keeps_every_event_it_recorded() -> None:
    """Killed in the middle of writing: what is there is whole and without a gap."""
    with Worker("testing_workers:count_for_ever") as worker:
        worker.await_event("counted", within=10, count=500)
        worker.kill()
        assert not worker.running
        seen = numbers(worker)
    assert seen == list(range(len(seen)))
    assert len(seen) >= 500


def test_paused_worker_stands_still_until_resumed(state_of: Callable[[int], str]) -> None:
    with Worker("testing_workers:count_for_ever") as worker:
        worker.await_event("counted", within=10)
        with worker.paused():
            assert state_of(worker.pid) == "T"
            seen = len(worker.events())
            assert len(worker.events()) == seen
        worker.await_event("counted", within=10, count=seen + 1)


def test_failed_worker_shows_its_traceback() -> None:
    with Worker("testing_workers:fail") as worker:
        assert worker.await_event("ready", within=10).facts == {}
        with pytest.raises(WorkerFailedError, match="no such thing"):
            worker.join(within=10)
        with pytest.raises(WorkerFailedError, match="ended without event 'inside'"):
            worker.await_event("inside", within=10)


def test_waiting_for_an_event_is_bounded() -> None:
    with Worker("testing_workers:deaf") as worker:
        worker.await_event("ready", within=10)
        with pytest.raises(WorkerFailedError, match="still runs"):
            worker.await_event("inside", within=0.01)
        with pytest.raises(TimeoutError, match=str(worker.pid)):
            worker.join(within=0.01)


def test_leaving_the_block_kills_also_a_paused_worker(state_of: Callable[[int], str]) -> None:
    with Worker("testing_workers:deaf") as worker:
        worker.await_event("ready", within=10)
        worker.pause()
    assert state_of(worker.pid) == ""


def test_a_child_that_ignores_the_polite_signal_is_killed_after_the_grace(tmp_path: Path) -> None:
    code = "import signal; signal.signal(15, signal.SIG_IGN); print('deaf', flush=True); signal.pause()"
    child = Child([sys.executable, "-c", code], cwd=tmp_path, output=tmp_path / "log")
    await_line(tmp_path / "log")
    child.stop(grace=0.05)
    assert child.returncode == -signal.SIGKILL


def test_a_child_that_hears_the_polite_signal_ends_by_it_also_when_paused(tmp_path: Path) -> None:
    child = Child(["sleep", "600"], cwd=tmp_path, output=tmp_path / "log")
    child.pause()
    child.stop()
    assert child.returncode == -signal.SIGTERM


def test_signals_reach_what_a_wrapper_script_started(tmp_path: Path, await_death: Callable[[int], None]) -> None:
    child = Child(["sh", "-c", "sleep 600 & echo $!; wait"], cwd=tmp_path, output=tmp_path / "log")
    grandchild = int(await_line(tmp_path / "log"))
    child.kill()
    await_death(grandchild)


def test_no_worker_outlives_its_test_process(await_death: Callable[[int], None], environment: dict[str, str]) -> None:
    program = (
        "import os; from aiodlock.testing.processes import Worker; w = Worker('testing_workers:deaf');"
        "w.await_event('ready', within=10); w.pause(); print(w.pid, w._file.parent, flush=True);"
        "os.kill(os.getpid(), 9)"
    )
    with subprocess.Popen([sys.executable, "-c", program], stdout=subprocess.PIPE, env=environment) as process:
        pid, directory = process.communicate()[0].decode().split()
    await_death(int(pid))
    shutil.rmtree(directory)

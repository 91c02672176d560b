"""Nothing is left behind: a test fails if it leaves a task running, or an error that nobody looked at."""

from __future__ import annotations

import asyncio
import gc
import logging
import signal
from collections.abc import AsyncIterator, Iterator

import pytest
from hypothesis import HealthCheck, settings

# The same examples in every run: what fails then is a change, not a chance. A busy machine is no failure.
settings.register_profile(
    "same", database=None, deadline=None, derandomize=True, suppress_health_check=[HealthCheck.too_slow]
)
settings.load_profile("same")


def pytest_configure() -> None:
    # Who is started in the background may have been told to ignore it, and what we start would inherit that.
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.default_int_handler)


def pytest_collection_finish() -> None:
    # What was imported until here is never garbage; leaving it out makes the collection after each test cheap.
    gc.collect()
    gc.freeze()


class _Complaints(logging.Handler):
    """What asyncio could only log: exceptions never retrieved, tasks destroyed while pending, callbacks that raised."""

    def __init__(self) -> None:
        super().__init__(logging.ERROR)
        self.heard: list[str] = []

    def emit(self, record: logging.LogRecord) -> None:
        self.heard.append(self.format(record))


@pytest.fixture(autouse=True)
def no_unretrieved_exception() -> Iterator[None]:
    """Fail the test if any loop, also one that it made itself, reports an error that nobody took."""
    complaints, logger = _Complaints(), logging.getLogger("asyncio")
    logger.addHandler(complaints)
    yield
    gc.collect()  # an exception in a reference cycle is reported when it is collected: here, not in a later test
    logger.removeHandler(complaints)
    if complaints.heard:
        pytest.fail("asyncio reported:\n" + "\n".join(complaints.heard), pytrace=False)


@pytest.fixture
async def no_leaked_task() -> AsyncIterator[None]:
    """Fail the test if a task that it, or one of its fixtures, started is still there when all of them have ended."""
    before = asyncio.all_tasks()
    yield
    leaked = asyncio.all_tasks() - before - {asyncio.current_task()}
    if leaked:
        pytest.fail("tasks left behind:\n" + "\n".join(map(repr, leaked)), pytrace=False)


@pytest.fixture(autouse=True)
def _watch_tasks(request: pytest.FixtureRequest, no_unretrieved_exception: None) -> None:
    if request.node.get_closest_marker("asyncio"):
        request.getfixturevalue("no_leaked_task")

"""The checks of conftest.py catch what they are there for."""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[2]

TWINS = """
import asyncio

async def sleeps():
    await asyncio.Event().wait()

async def fails():
    raise ValueError("nobody looks")

async def test_task_left_running():
    asyncio.get_running_loop().left = asyncio.create_task(sleeps())

async def test_exception_never_retrieved():
    asyncio.create_task(fails())
    await asyncio.sleep(0)

async def test_callback_raises():
    asyncio.get_running_loop().call_soon(int, "x")
    await asyncio.sleep(0)

def test_own_loop_exception_never_retrieved():
    async def main():
        asyncio.create_task(fails())
        await asyncio.sleep(0)
    asyncio.run(main())

async def test_clean():
    task = asyncio.create_task(sleeps())
    task.cancel()
    await asyncio.wait({task})
"""


def test_what_is_left_behind_fails_the_test_that_left_it(tmp_path: Path) -> None:
    """Each leaky twin errs, by its own name; the clean one passes."""
    shutil.copy(ROOT / "tests" / "conftest.py", tmp_path)
    (tmp_path / "test_twins.py").write_text(TWINS)
    command = [sys.executable, "-m", "pytest", "-rA", "-p", "no:cacheprovider", "-c", str(ROOT / "pyproject.toml")]

    report = subprocess.run([*command, f"--rootdir={tmp_path}", tmp_path], capture_output=True, text=True, check=False)

    erred = set(re.findall(r"^ERROR .*::(\w+)", report.stdout, re.MULTILINE))
    assert erred == set(re.findall(r"def (test_\w+)", TWINS)) - {"test_clean"}, report.stdout
    assert re.search(r"^PASSED .*::test_clean$", report.stdout, re.MULTILINE), report.stdout

"""The pages do not rot: every Python block on them runs, and every file they name is there.

A block with ``asyncio.run(`` is a program, one with ``def test_`` a test file. The others are pieces: those of one page
run one after the other, as its reader would type them, with a client `locks` and something to write to.
"""

from __future__ import annotations

import ast
import asyncio
import inspect
import re
import subprocess
import sys
import textwrap
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

import aiodlock

ROOT = Path(__file__).parents[2]
PAGES = [str(path.relative_to(ROOT)) for path in (ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md")))]

_BLOCK = re.compile(r"^(?P<indent> *)```python[^\n]*\n(?P<source>.*?)^(?P=indent)```$", re.MULTILINE | re.DOTALL)
_PATH = re.compile(r"`((?:aiodlock|benchmarks|examples|tests)/[\w./]+)`")
_NUMBERS = {"A": 11, "B": 4, "C": 11, "D": 8, "E": 7, "F": 7}


@dataclass(frozen=True, slots=True)
class Block:
    """A piece of Python on a page, and the line on which it begins."""

    source: str
    line: int

    @property
    def kind(self) -> str:
        if "--8<--" in self.source:
            return "example"  # included, and run by a test of its own
        return "program" if "asyncio.run(" in self.source else "test" if "def test_" in self.source else "piece"


def blocks_of(text: str) -> list[Block]:
    """Return the Python blocks of a page."""
    found = _BLOCK.finditer(text)
    return [Block(textwrap.dedent(m["source"]), text.count("\n", 0, m.start("source"))) for m in found]


BLOCKS = [(page, block) for page in PAGES for block in blocks_of((ROOT / page).read_text())]


def _all(kind: str) -> list[Any]:
    return [pytest.param(block, id=f"{page}:{block.line}") for page, block in BLOCKS if block.kind == kind]


class Ledger:
    """What the pieces write to."""

    async def write(self, entry: object, *, fence: int) -> None:
        assert fence > 0


async def run_pieces(page: str, text: str) -> int:
    """Run the pieces of *text* in order and return how many there were; an error shows the line of the page."""
    pieces = [block for block in blocks_of(text) if block.kind == "piece"]
    async with asyncio.timeout(10), aiodlock.connect("memory://") as locks:
        names = {"aiodlock": aiodlock, "asyncio": asyncio, "locks": locks, "ledger": Ledger(), "order": 42}
        for piece in pieces:
            source = "\n" * piece.line + piece.source
            code = compile(source, page, "exec", flags=ast.PyCF_ALLOW_TOP_LEVEL_AWAIT)
            outcome = eval(code, names)
            if inspect.iscoroutine(outcome):
                await outcome
    return len(pieces)


def run_python(*arguments: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-W", "error", *arguments]
    return subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=50, check=False)


def run_pytest(file: str) -> subprocess.CompletedProcess[str]:
    return run_python("-m", "pytest", "-q", "-p", "no:cacheprovider", "-c", "pyproject.toml", file)


@pytest.mark.parametrize("page", PAGES)
async def test_the_pieces_of_a_page_run(page: str) -> None:
    """From its first line to its last, in one go."""
    pieces = sum(block.kind == "piece" for other, block in BLOCKS if other == page)
    assert await run_pieces(page, (ROOT / page).read_text()) == pieces


@pytest.mark.parametrize("block", _all("program"))
def test_a_program_on_a_page_runs(block: Block) -> None:
    """It ends by itself and complains of nothing."""
    ended = run_python("-c", block.source)
    assert (ended.returncode, ended.stderr) == (0, "")


@pytest.mark.parametrize("block", _all("test"))
def test_a_test_on_a_page_passes(block: Block, tmp_path: Path) -> None:
    """It does under pytest, with asyncio_mode=auto."""
    (file := tmp_path / "test_page.py").write_text(block.source)
    ended = run_pytest(str(file))
    assert (ended.returncode, " passed" in ended.stdout) == (0, True), ended.stdout + ended.stderr


def test_the_testing_example_passes_under_pytest() -> None:
    """The file is a program and a test file."""
    ended = run_pytest("examples/12_testing.py")
    assert "2 passed" in ended.stdout, ended.stdout + ended.stderr


@pytest.mark.parametrize("page", PAGES)
def test_the_files_that_a_page_names_are_there(page: str) -> None:
    """Whoever moves a test moves its name in the table of features too."""
    named = _PATH.findall((ROOT / page).read_text())
    assert [path for path in named if not (ROOT / path).exists()] == []


def test_every_feature_has_its_line() -> None:
    """All numbers, in order, each once; what is there is shown by something."""
    rows = re.findall(r"^\| ([A-F]\d+) \|.*\| (.*) \|(.*)\|$", (ROOT / "docs/features.md").read_text(), re.MULTILINE)
    numbers = [f"{letter}{n}" for letter, most in _NUMBERS.items() for n in range(1, most + 1)]
    assert [number for number, _, _ in rows] == numbers
    assert [number for number, today, shown in rows if "there" in today.split(";")[0] and not shown.strip()] == []


# --- the broken twins --------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "piece",
    [
        "locks.look('a')",
        "async with locks.lock('a', timeout=5):\n    pass",
        "async with locks.lock('a') as hold:\n    hold.fense",
        "if True print()",
        "assert await locks.lock('a').locked()",
    ],
)
async def test_a_piece_that_is_wrong_is_caught(piece: str) -> None:
    """A name, a setting, an attribute, the grammar, an outcome; the error names the page."""
    with pytest.raises((AssertionError, AttributeError, SyntaxError, TypeError)):
        await run_pieces("twin.md", f"# Twin\n\n```python\n{piece}\n```\n")


def test_every_block_is_found() -> None:
    """Also indented ones and those with a title; and the pages have some of every kind."""
    text = 'a\n```python title="x"\n1\n```\n\n- b\n\n    ```python\n    2\n    ```\n\n```sh\n3\n```\n'
    assert [(block.source, block.line) for block in blocks_of(text)] == [("1\n", 2), ("2\n", 8)]
    assert {block.kind for _, block in BLOCKS} == {"example", "piece", "program", "test"}

"""Every acceptance case, and where it is tested.

The cases are behaviours of the lock libraries of other worlds, numbered 1 to 63. A case is tested by a conformance
check or a test that carries its number, or it has a line here that says why not.
"""

from __future__ import annotations

import ast
from collections import defaultdict
from pathlib import Path

from aiodlock.testing.conformance import CHECKS, STOCK_CHECKS

TESTS = Path(__file__).parents[1]

NOT_HERE = {
    47: "a permit is released by its own hold only: there is no release by a list of ids",
}


def marked_in(source: str) -> dict[int, list[str]]:
    """Return the tests of a module by the numbers they carry."""
    found = defaultdict(list)
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            for mark in node.decorator_list:
                match mark:
                    case ast.Call(func=ast.Name("acceptance"), args=numbers):
                        for number in numbers:
                            found[ast.literal_eval(number)].append(node.name)
    return found


def where_tested() -> dict[int, list[str]]:
    """Return where each number is tested."""
    where: defaultdict[int, list[str]] = defaultdict(list)
    for check in (*CHECKS, *STOCK_CHECKS):
        for number in check.acceptance:
            where[number].append(f"conformance: {check.name}")
    for path in sorted(TESTS.rglob("test_*.py")):
        for number, names in marked_in(path.read_text()).items():
            where[number] += [f"{path.relative_to(TESTS)}: {name}" for name in names]
    return where


def test_every_case_is_tested_or_has_a_reason() -> None:
    """And none has both: a reason goes when the test comes."""
    where = where_tested()
    assert sorted([*where, *NOT_HERE]) == list(range(1, 64))


def test_a_mark_is_found() -> None:
    """The broken twin: without the mark nothing is found."""
    source = "@acceptance(7, 8)\nasync def test_a(): ...\n@other(9)\ndef test_b(): ..."
    assert marked_in(source) == {7: ["test_a"], 8: ["test_a"]}
    assert marked_in(source.replace("@acceptance(7, 8)", "")) == {}

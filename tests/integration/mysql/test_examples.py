"""The four classic schemes run as their readers run them, and print the flaw and its cure."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from aiodlock.testing.servers import MariaDBServer

EXAMPLES = Path(__file__).parents[3] / "examples" / "mysql"

PRINTS = {
    "unique_index": (
        "classic: the holder died, and nobody gets in\naiodlock: the holder died, and the next one gets in\n"
    ),
    "version_column": "careless: 5 sold, left: 99\nversioned: 5 more sold, left: 94\n",
    "for_update": (
        "free after five bookings: 5\n"
        "NOWAIT: lock 'seats.id=1' not acquired within 0.00s\n"
        "another row is free; connections held: 2\n"
        "no index finds rows of 'seats' by 'row_name'='A': the whole table would be locked; "
        "CREATE INDEX … ON seats (row_name), or give a value of the column's type\n"
    ),
    "lock_table": "classic: first and second are inside\naiodlock: the second one got None - it is held by first\n",
}


def outcome_of(example: Path, url: str) -> str:
    ended = subprocess.run(
        [sys.executable, str(example)],
        env=os.environ | {"AIODLOCK_URL": url, "PYTHONIOENCODING": "utf-8"},
        capture_output=True,
        encoding="utf-8",
        timeout=50,
        check=False,
    )
    return ended.stdout + (ended.stderr if ended.returncode else "")  # the driver logs the server's notes


def test_every_example_is_known() -> None:
    assert sorted(PRINTS) == sorted(path.stem for path in EXAMPLES.glob("*.py"))


@pytest.mark.parametrize("name", PRINTS)
def test_an_example_prints_what_it_promises(name: str, server: MariaDBServer) -> None:
    assert outcome_of(EXAMPLES / f"{name}.py", server.url) == PRINTS[name]


@pytest.mark.long
@pytest.mark.parametrize(
    ("name", "right", "wrong"),
    [
        ("version_column", 'return {"amount": row["amount"] - count}', 'return {"amount": row["amount"]}'),
        ("lock_table", "ttl=3)", "ttl=3, renew=False)"),
    ],
)
def test_an_example_without_its_cure_is_caught(
    name: str, right: str, wrong: str, server: MariaDBServer, tmp_path: Path
) -> None:
    """The broken twins."""
    source = (EXAMPLES / f"{name}.py").read_text(encoding="utf-8")
    assert right in source
    twin = tmp_path / "twin.py"
    twin.write_text(source.replace(right, wrong), encoding="utf-8")
    assert outcome_of(twin, server.url) != PRINTS[name]

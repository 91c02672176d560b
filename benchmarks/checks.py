"""Numbers beside the floors they must not miss: what every ``--check`` prints and fails by."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from benchmarks.options import Parser, show
from benchmarks.report import number, table

__all__ = ["Check", "add_options", "conclude"]


@dataclass(frozen=True, slots=True)
class Check:
    """One number and what it must not miss; without a floor it is shown only. None: it could not be measured."""

    name: str
    value: float | None
    least: float | None = None
    most: float | None = None
    spread: str = ""

    @property
    def holds(self) -> bool:
        if self.value is None:
            return not self.floor
        return (self.least is None or self.value >= self.least) and (self.most is None or self.value <= self.most)

    @property
    def floor(self) -> str:
        return f">= {self.least:g}" if self.least is not None else f"<= {self.most:g}" if self.most is not None else ""

    @property
    def verdict(self) -> str:
        return "" if not self.floor else "ok" if self.holds else "MISSED"


def add_options(parser: Parser) -> None:
    parser.add_argument("--check", action="store_true", help="exit with 1 if a floor is missed")
    parser.add_argument("--json", type=Path, help="write the numbers to this file")


def conclude(checks: Sequence[Check], *, must_hold: bool, path: Path | None = None) -> int:
    """Print every number beside its floor, write them to *path*, and return the exit status."""
    if path is not None:
        path.write_text(json.dumps([dataclasses.asdict(check) for check in checks], indent=1) + "\n")
    rows = [[check.name, number(check.value), check.spread, check.floor, check.verdict] for check in checks]
    show(table(["", "measured", "spread", "floor", ""], rows))
    return 1 if must_hold and not all(check.holds for check in checks) else 0

"""What came of a sale, in every form it is asked for: a table on the terminal, JSON, a picture, a page."""

from __future__ import annotations

import io
import json
import re
from dataclasses import dataclass
from pathlib import Path

from rich.console import Console
from rich.text import Text

from aiodlock.cli.report import Page
from aiodlock.cli.session import Stop
from aiodlock.cli.show import console, table

__all__ = ["Forms"]

_PICTURE_WIDTH = 92
_GOOD = {"oversold": "0", "balanced": "yes"}  # by column; anything else there is a bug, and shown as one


@dataclass(frozen=True, slots=True)
class Forms:
    """In which forms a result is wanted."""

    as_json: bool
    svg: Path | None
    report: Path | None

    def tell(self, page: Page) -> None:
        """Print it, and save what is to be saved."""
        if self.as_json:
            print(json.dumps(page.figures))
        else:
            _show(page, console())
        if self.svg is not None:
            _save_picture(page, self.svg)
        if self.report is not None:
            page.save(self.report)


def _show(page: Page, out: Console) -> None:
    drawn = table(*page.columns, left=0 if page.columns[0] else 1, title=page.title)
    for row in page.rows:
        drawn.add_row(*(_coloured(column, cell) for column, cell in zip(page.columns, row, strict=True)))
    out.print(drawn)
    out.print(page.story)


def _coloured(column: str, cell: str) -> Text:
    if column not in _GOOD:
        return Text(cell)
    return Text(cell, style="green" if cell == _GOOD[column] else "bold red")


def _save_picture(page: Page, svg: Path) -> None:
    paper = Console(record=True, file=io.StringIO(), width=_PICTURE_WIDTH, highlight=False)
    _show(page, paper)
    picture = paper.export_svg(title="aiodlock seckill")
    try:
        # A picture in a page loads nothing from elsewhere: the reader's own monospaced font will do.
        svg.write_text(re.sub(r"\s*@font-face\s*{.*?}", "", picture, flags=re.DOTALL))
    except OSError as error:
        raise Stop(f"cannot save the picture: {error}") from error

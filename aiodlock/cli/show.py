"""How things look on a terminal, and without one."""

from __future__ import annotations

import sys

from rich import box
from rich.console import Console
from rich.table import Table
from rich.text import Text

__all__ = ["clean", "console", "seconds", "table", "tell", "text"]

_PLAIN_WIDTH = 160  # a pipe has no width of its own; rich would fold everything to 80


def console(*, stderr: bool = False) -> Console:
    """Return where to print."""
    out = Console(stderr=stderr, highlight=False)
    if not out.is_terminal:
        out.width = _PLAIN_WIDTH
    return out


def table(*columns: str, left: int = 1, title: str | None = None) -> Table:
    """Return an empty table: the first *left* columns hold words, the others numbers."""
    made = Table(box=box.SIMPLE_HEAD, title=title, title_justify="left", title_style="bold")
    for place, column in enumerate(columns):
        made.add_column(column, justify="left" if place < left else "right", no_wrap=place >= left)
    return made


def clean(raw: str) -> str:
    """Return what others have chosen (keys, names) without anything that a terminal would obey."""
    return "".join(c if c.isprintable() else "�" for c in raw)


def text(raw: str) -> Text:
    """Return *raw* cleaned, and with no markup in it."""
    return Text(clean(raw))


def tell(message: str) -> None:
    """Print one line on stderr, whatever the message contains."""
    print("aiodlock:", clean(" ".join(message.split())), file=sys.stderr)


def seconds(value: float) -> str:
    """Return a time as people read it."""
    if value < 0.9995:
        return f"{value * 1000:.3g} ms" if value else "0"
    return f"{value:.1f} s" if value < 60 else f"{value // 60:.0f} min {value % 60:02.0f} s"

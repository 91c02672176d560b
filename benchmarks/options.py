"""What the scripts of this folder have in common at their command line: a mistake is one line, and so is a cut pipe."""

from __future__ import annotations

import argparse
import math
import os
import sys
from typing import NoReturn, TypeVar

__all__ = ["Parser", "count", "seconds", "show"]

_T = TypeVar("_T", int, float)


class Parser(argparse.ArgumentParser):
    """Says what is wrong in one line, without a screen of usage."""

    def error(self, message: str) -> NoReturn:
        self.exit(2, f"{self.prog}: {message}: see '{self.prog} --help'\n")


def count(text: str) -> int:
    """Read a number of rounds."""
    return _within(int(text), 1)


def seconds(text: str) -> float:
    """Read the length of something."""
    return _within(float(text), 0)


def _within(value: _T, least: float) -> _T:
    if not least <= value < math.inf:
        raise argparse.ArgumentTypeError(f"{value:g} is not at least {least:g} and finite")
    return value


def show(text: str) -> None:
    """Print; who reads only the beginning, as head does, sees no error."""
    try:
        print(text, flush=True)
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())  # for what is flushed at the end

"""What the scripts of this folder have in common at their command line: a mistake is one line, and so is a cut pipe."""

from __future__ import annotations

import argparse
import math
import os
import sys
from typing import NoReturn, TypeVar

__all__ = ["Parser", "count", "count_or_none", "seconds", "show"]

_T = TypeVar("_T", int, float)


class Parser(argparse.ArgumentParser):
    """Says what is wrong in one line, without a screen of usage."""

    def error(self, message: str) -> NoReturn:
        self.exit(2, f"{self.prog}: {message}: see '{self.prog} --help'\n")


def count(text: str) -> int:
    """Read a number of things, at least one."""
    return _read(int, text, least=1)


def count_or_none(text: str) -> int:
    """Read a number of things that may be none."""
    return _read(int, text, least=0)


def seconds(text: str) -> float:
    """Read the length of something."""
    return _read(float, text, least=0)


def _read(kind: type[_T], text: str, *, least: int) -> _T:
    try:
        value = kind(text)
    except ValueError:
        value = kind(least - 1)
    if not least <= value < math.inf:
        raise argparse.ArgumentTypeError(f"{text!r} is no finite number of at least {least}")
    return value


def show(text: str) -> None:
    """Print; who reads only the beginning, as head does, sees no error."""
    try:
        print(text, flush=True)
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())  # for what is flushed at the end

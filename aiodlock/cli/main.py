"""The commands, and what becomes of an error: one line that says what to do, and a status that is not zero."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Sequence
from importlib.metadata import version
from typing import Annotated

import typer

from aiodlock.cli.bench import bench
from aiodlock.cli.doctor import doctor
from aiodlock.cli.hold import hold
from aiodlock.cli.inspect import inspect
from aiodlock.cli.mysql import mysql
from aiodlock.cli.release import release
from aiodlock.cli.seckill import seckill
from aiodlock.cli.session import Stop, explained
from aiodlock.cli.show import tell
from aiodlock.errors import AiodlockError

__all__ = ["app", "run"]

_INTERRUPTED = 130

# The base of all wrong usage, which typer does not export.
_UsageError: type[Exception] = typer.BadParameter.__bases__[0]

app = typer.Typer(
    help="Distributed locks: look at them, hold one around a command, try them in a flash sale.",
    add_completion=False,
    pretty_exceptions_enable=False,
    rich_markup_mode="markdown",  # paragraphs flow, and brackets are brackets
)
app.command()(seckill)
app.command()(inspect)
app.command()(hold)
app.command()(release)
app.command()(doctor)
app.add_typer(mysql, name="mysql")
# Everything after the word, --help too, is for the harness.
app.command(add_help_option=False, context_settings={"allow_extra_args": True, "ignore_unknown_options": True})(bench)


def _print_version(wanted: bool) -> None:
    if wanted:
        print(f"aiodlock {version('aiodlock')}")
        raise typer.Exit


@app.callback()
def _options(
    _: Annotated[bool, typer.Option("--version", callback=_print_version, is_eager=True, help="Print it.")] = False,
) -> None: ...


def run(arguments: Sequence[str]) -> int:
    """Run one command and return its exit status."""
    try:
        status = app(list(arguments) or ["--help"], prog_name="aiodlock", standalone_mode=False)
    except (KeyboardInterrupt, asyncio.CancelledError, typer.Abort):
        return _INTERRUPTED
    except Stop as stop:
        return _fail("; ".join((str(stop), *getattr(stop, "__notes__", ()))), stop.status)
    except AiodlockError as error:
        return _fail(explained(error), 1)
    except _UsageError as error:
        return _fail(_usage(error), 2)
    except Exception as error:
        if sys.flags.dev_mode:
            raise
        where = "python -X dev -m aiodlock … shows where: please report it"
        return _fail(f"unexpected {type(error).__name__}: {error}; {where}", 1)
    return status if isinstance(status, int) else 0


def _usage(error: Exception) -> str:
    context = getattr(error, "ctx", None)
    path = context.command_path if context else "aiodlock"
    message = getattr(error, "format_message", error.__str__)()
    return f"{message.rstrip('.')}: see '{path} --help'"


def _fail(message: str, status: int) -> int:
    tell(message)
    return status

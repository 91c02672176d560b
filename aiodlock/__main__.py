"""``python -m aiodlock``, and the ``aiodlock`` script."""

from __future__ import annotations

import sys

__all__ = ["main"]


def main() -> None:
    """Run the command line, or say in one line how to install it."""
    try:
        from aiodlock.cli.main import run
    except ModuleNotFoundError as error:
        if (error.name or "").partition(".")[0] not in {"rich", "typer"}:
            raise
        sys.exit(f"aiodlock: the command line needs {error.name}: pip install 'aiodlock[cli]'")
    sys.exit(run(sys.argv[1:]))


if __name__ == "__main__":
    main()

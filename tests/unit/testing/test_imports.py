"""Users without our drivers, and programs without a test runner, can import all of `aiodlock.testing`."""

from __future__ import annotations

import subprocess
import sys

MODULES = ("child", "history", "processes", "proxy", "servers")


def test_importing_needs_no_driver_and_no_test_runner(environment: dict[str, str]) -> None:
    program = (
        f"import sys, {', '.join(f'aiodlock.testing.{name}' for name in MODULES)};"
        "print({'redis', 'hiredis', 'pytest', 'hypothesis'} & set(sys.modules))"
    )
    done = subprocess.run([sys.executable, "-c", program], check=True, capture_output=True, env=environment)
    assert done.stdout == b"set()\n"

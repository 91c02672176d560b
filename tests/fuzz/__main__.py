"""Run one seed and print its trace: ``python -m tests.fuzz SEED``."""

from __future__ import annotations

import sys

from tests.fuzz.world import play

verdict = play(int(sys.argv[1]))
print(verdict)  # noqa: T201
sys.exit(bool(verdict.violations))

"""Every question that the harness can ask, by name."""

from __future__ import annotations

from benchmarks.scenarios import c100, c1000, g, i, m, u1, u100, w
from benchmarks.scenarios.base import Scenario

__all__ = ["SCENARIOS", "Scenario"]

_GROUPS: tuple[tuple[Scenario, ...], ...] = tuple(module.SCENARIOS for module in (u1, u100, c100, c1000, m, w, i, g))

SCENARIOS: dict[str, Scenario] = {scenario.name: scenario for group in _GROUPS for scenario in group}

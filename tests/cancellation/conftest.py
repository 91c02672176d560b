"""Counts what all sweeps of a session struck, and prints it at the end."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from tests.cancellation.sweep import Report

Expect = Callable[[Report, str], None]
ExpectNothing = Callable[[Report], None]

_OURS: pytest.StashKey[Report] = pytest.StashKey()
_TWINS: pytest.StashKey[Report] = pytest.StashKey()

_SORTS = ("orphan", "swallowed", "miscounted", "task")


@pytest.fixture
def expect_nothing(pytestconfig: pytest.Config) -> ExpectNothing:
    """Fail if a sweep of ours found anything."""

    def expect(report: Report) -> None:
        _add(pytestconfig, _OURS, report)
        assert report.points, "nothing was swept"
        assert not report.faults, f"{len(report.faults)} faults:\n" + "\n".join(report.faults[:20])

    return expect


@pytest.fixture
def expect(pytestconfig: pytest.Config) -> Expect:
    """Fail if the sweep of a broken twin does not find what is wrong with it."""

    def expect(report: Report, sort: str) -> None:
        _add(pytestconfig, _TWINS, report)
        assert report.count(sort), f"{sort!r} not found at {report.points} points, but:\n" + "\n".join(
            report.faults[:20]
        )

    return expect


@pytest.fixture
def hasty(monkeypatch: pytest.MonkeyPatch) -> pytest.MonkeyPatch:
    """Give up soon on a broken twin on real servers."""
    monkeypatch.setattr("tests.cancellation.real._SOON", 0.5)
    monkeypatch.setattr("tests.cancellation.real._WITHIN", 0.1)
    monkeypatch.setattr("aiodlock._core.engine.CLOSING", 0.1)
    return monkeypatch


def _add(config: pytest.Config, key: pytest.StashKey[Report], report: Report) -> None:
    total = config.stash.setdefault(key, Report())
    total += report


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter, config: pytest.Config) -> None:
    for name, key in {"aiodlock": _OURS, "broken twins": _TWINS}.items():
        if (total := config.stash.get(key, None)) is not None:
            found = ", ".join(f"{total.count(sort)} {sort}" for sort in _SORTS)
            terminalreporter.write_line(
                f"cancelled at {total.points:,} points in {total.cells:,} cells: {name}: {found}, "
                f"{len(total.faults):,} faults in all"
            )

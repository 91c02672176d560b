"""The example of several servers prints the same on real ones."""

from __future__ import annotations

import re

import pytest

from tests.integration.test_examples import EXAMPLES, PRINTS, outcome_of


@pytest.mark.parametrize("ledger", ["mysql", "zk"])
def test_the_example_prints_what_it_promises(
    direct: dict[str, str], ledger: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A lock in a database, or in ZooKeeper, and one in Redis."""
    monkeypatch.setenv("AIODLOCK_LEDGER_URL", direct[ledger])
    printed = outcome_of(EXAMPLES / "21_several_backends.py", direct["redis"])
    assert re.fullmatch(PRINTS["21_several_backends"], printed), printed

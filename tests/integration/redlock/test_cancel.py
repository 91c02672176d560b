"""A cancel at any step of an acquire or release leaves nothing on any of the servers."""

from __future__ import annotations

import pytest

from aiodlock._core.place import Place
from aiodlock.testing.servers import IndependentMasters
from tests.integration.redlock.conftest import Connect, until_empty
from tests.integration.steps import sweep


@pytest.mark.parametrize("taken", [False, True], ids=["free", "taken"])
async def test_a_cancel_at_any_step_leaves_nothing(
    connect: Connect, shared_masters: IndependentMasters, key: str, taken: bool
) -> None:
    locks, other = await connect(shared_masters.nodes), await connect(shared_masters.nodes)
    cancelled, left = await sweep(locks, other, key, taken=taken)
    assert cancelled > 5
    assert left == []
    for client in (locks, other):
        await client.aclose()
    for node in shared_masters.nodes:
        await until_empty(node, key)


async def test_a_client_that_never_leaves_is_found(
    connect: Connect, shared_masters: IndependentMasters, key: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The broken twin: what a cancelled visitor got stays its."""
    monkeypatch.setattr(Place, "_send_leave", lambda self: self._left(None))
    locks, other = await connect(shared_masters.nodes), await connect(shared_masters.nodes)
    with pytest.raises(TimeoutError):
        await sweep(locks, other, key, taken=False)
    monkeypatch.undo()

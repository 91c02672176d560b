"""One suite over every backend."""
import pytest
from aiodlock.testing.conformance import CHECKS, Check, MemoryWorld, World, run

WORLDS = {"memory": MemoryWorld}

@pytest.mark.parametrize("check", CHECKS, ids=repr)
@pytest.mark.parametrize("world", WORLDS.values(), ids=WORLDS.keys())
def test_conformance(world, check):
    run(check, world())

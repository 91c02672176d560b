"""The conformance suite: what every backend must do, so that locks behave the same on all of them.

::

    from aiodlock.testing.conformance import CHECKS, World, run

    class MyWorld(World):
        def connect(self, **settings):
            return LockClient(MyBackend("127.0.0.1"), **settings)

    @pytest.mark.parametrize("check", CHECKS, ids=repr)
    def test_my_backend(check):
        run(check, MyWorld())

`STOCK_CHECKS` are for backends that keep stock as well. A check that `needs` faults also wants `World.trouble`. Time
passes as the world says: really, or virtually as in `MemoryWorld`.
"""

from aiodlock.testing.conformance import (
    election,
    faults,
    latch,
    lease,
    lock,
    multi,
    order,
    rwlock,
    segmented,
    semaphore,
    stock,
    verbs,
)
from aiodlock.testing.conformance.check import Check, run
from aiodlock.testing.conformance.world import MemoryWorld, Trouble, World

__all__ = ["CHECKS", "STOCK_CHECKS", "Check", "MemoryWorld", "Trouble", "World", "run"]

CHECKS = [
    thing
    for module in (verbs, lock, lease, order, faults, rwlock, semaphore, latch, multi, segmented, election)
    for thing in vars(module).values()
    if isinstance(thing, Check)
]

STOCK_CHECKS = [thing for thing in vars(stock).values() if isinstance(thing, Check)]

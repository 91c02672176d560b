"""For your tests and ours: clocks, faults, real servers, a fault proxy, worker processes, histories and their checkers.

Nothing here needs a driver. `servers`, `proxy`, `processes` and `history` are packages of their own.
"""

from aiodlock.testing.clock import FakeClock, LoopClock, VirtualTimeLoop, run_virtual, settle
from aiodlock.testing.faults import Faults, HeldBack

__all__ = ["FakeClock", "Faults", "HeldBack", "LoopClock", "VirtualTimeLoop", "run_virtual", "settle"]

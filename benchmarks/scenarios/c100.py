"""C100: a hundred tasks of one process want the same key."""

from benchmarks.scenarios.crowd import Crowd

SCENARIOS = (
    Crowd(name="C100", question="100 tasks on one key, empty section", tasks=100, limit="asyncio"),
    Crowd(name="C100ms", question="100 tasks on one key, 1 ms section", tasks=100, section=0.001, limit="asyncio"),
)

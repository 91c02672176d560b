"""C1000: a thousand tasks of one process want the same key, as in a rush.

Locks that open a connection or a thread per waiter need seconds to do so; hence the longer window for rivals.
"""

from benchmarks.scenarios.crowd import Crowd

SCENARIOS = (
    Crowd(name="C1000", question="1000 tasks on one key, empty section", tasks=1000, rival_seconds=20, limit="asyncio"),
    Crowd(
        name="C1000ms",
        question="1000 tasks on one key, 1 ms section",
        tasks=1000,
        section=0.001,
        rival_seconds=20,
        limit="asyncio",
    ),
)

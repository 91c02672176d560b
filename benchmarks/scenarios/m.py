"""M: four processes with fifty tasks each want the same key.

A lock of one process runs all 200 tasks in one: that is the bound, not a comparison. The window is long enough for
some hundred turns of each process: how fast a machine is in one of them is luck, and would look like unfairness.
"""

from benchmarks.scenarios.crowd import Crowd

SCENARIOS = (
    Crowd(
        name="M",
        question="4 processes x 50 tasks on one key, empty section",
        processes=4,
        tasks=50,
        seconds=6,
        limit="asyncio",
    ),
    Crowd(
        name="Mms",
        question="4 processes x 50 tasks on one key, 1 ms section",
        processes=4,
        tasks=50,
        section=0.001,
        seconds=6,
        limit="asyncio",
    ),
)

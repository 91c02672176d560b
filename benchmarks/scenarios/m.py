"""M: four processes with fifty tasks each want the same key.

A lock of one process runs all 200 tasks in one: that is the bound, not a comparison.
"""

from benchmarks.scenarios.crowd import Crowd

SCENARIOS = (
    Crowd(
        name="M", question="4 processes x 50 tasks on one key, empty section", processes=4, tasks=50, limit="asyncio"
    ),
    Crowd(
        name="Mms",
        question="4 processes x 50 tasks on one key, 1 ms section",
        processes=4,
        tasks=50,
        section=0.001,
        limit="asyncio",
    ),
)

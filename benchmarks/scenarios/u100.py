"""U100, U1000: do many uncontended locks get in each other's way? As many keys as tasks."""

from benchmarks.scenarios.crowd import Crowd

SCENARIOS = (
    Crowd(name="U100", question="100 tasks, each on its own key", tasks=100, keys=100, limit="own scripts -P 64"),
    Crowd(name="U1000", question="1000 tasks, each on its own key", tasks=1000, keys=1000, limit="own scripts -P 64"),
)

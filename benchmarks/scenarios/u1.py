"""U1: what does a lock cost that nobody else wants? One task, a thousand keys in turn."""

from benchmarks.scenarios.crowd import Crowd

SCENARIOS = (Crowd(name="U1", question="one task, uncontended, 1000 keys in turn", keys=1000, limit="blocking-socket"),)

"""What is said of a server's settings, without a server."""

from __future__ import annotations

import pytest

from aiodlock.backends.base import Finding
from aiodlock.backends.redis.checks import Replicas, judge_memory, judge_replicas, judge_version, judge_writes
from aiodlock.backends.redis.discovery import Told
from aiodlock.backends.redis.sentinel import judge_sentinels

INFO = """role:master
connected_slaves:3
slave0:ip=127.0.0.1,port=7001,state=online,offset=900,lag=0
slave1:ip=127.0.0.1,port=7002,state=online,offset=1000,lag=4
slave2:ip=127.0.0.1,port=7003,state=wait_bgsave,offset=0,lag=0
master_repl_offset:1000
"""


def test_replicas_are_read() -> None:
    """One that still copies is not in step."""
    assert Replicas.of(INFO) == Replicas(online=2, lag=4, behind=100)
    assert Replicas.of("role:master\r\nconnected_slaves:0\r\nmaster_repl_offset:0\r\n") == Replicas(online=0)


def memory(policy: str, limit: int) -> Finding:
    return judge_memory({"maxmemory-policy": policy, "maxmemory": str(limit)})


@pytest.mark.parametrize(
    ("finding", "level"),
    [
        (judge_version({"server": "redis", "version": "7.0.15"}), "ok"),
        (judge_version({"server": "valkey", "version": "8.0.1"}), "ok"),
        (judge_version({"version": "6.2.0"}), "warning"),
        (judge_version({}), "warning"),
        (memory("noeviction", 10), "ok"),
        (memory("volatile-lru", 0), "warning"),
        (memory("volatile-ttl", 10), "error"),
        (memory("allkeys-lru", 10), "error"),
        (judge_memory({}), "ok"),
        (judge_memory({"maxmemory": "10"}), "ok"),
        (judge_memory({"maxmemory-policy": "allkeys-lru"}), "warning"),
        (judge_replicas(Replicas(0), 0), "ok"),
        (judge_replicas(Replicas(0), 1), "error"),
        (judge_replicas(Replicas(2, lag=1), 2), "ok"),
        (judge_replicas(Replicas(2, lag=9), 1), "warning"),
        (judge_replicas(None, 1), "ok"),
        (judge_writes({"min-replicas-to-write": "0"}, Replicas(0), 0), "ok"),
        (judge_writes({"min-replicas-to-write": "0"}, Replicas(2), 0), "warning"),
        (judge_writes({"min-replicas-to-write": "1"}, Replicas(2), 0), "ok"),
        (judge_writes({"min-replicas-to-write": "0"}, Replicas(2), 1), "ok"),
        (judge_writes({}, Replicas(2), 0), "ok"),
        (judge_writes({"min-slaves-to-write": "0"}, Replicas(2), 0), "ok"),
        (judge_sentinels([Told(1, "h", 1)] * 3), "ok"),
        (judge_sentinels([Told(1, "h", 1), Told(1, "h", 1), OSError()]), "warning"),
        (judge_sentinels([Told(1, "h", 1), Told(1, "h", 1), Told(2, "h", 2)]), "warning"),
        (judge_sentinels([Told(1, "h", 1), OSError(), OSError()]), "error"),
    ],
    ids=lambda value: value.found if isinstance(value, Finding) else value,
)
def test_what_is_not_well_is_said_with_advice(finding: Finding, level: str) -> None:
    """A level for each, and something to do wherever it is not well."""
    assert finding.level == level
    assert finding.found
    assert finding.advice or level == "ok"

"""The doctor looks at every one of the independent servers."""

from __future__ import annotations

import pytest

import aiodlock
from aiodlock.cli.doctor import examine
from aiodlock.cli.session import Stop
from aiodlock.testing.servers import IndependentMasters, RedisServer, free_ports


async def findings_of(*ports: int) -> dict[str, tuple[str, str]]:
    url = f"redlock://{','.join(f'127.0.0.1:{port}' for port in ports)}"
    async with aiodlock.connect(url, patience=1.0) as locks:
        return {f.what: (f.level, f.found) for f in await locks.backend.diagnose()}  # type: ignore[attr-defined]


async def test_servers_as_they_are_installed_are_well(shared_masters: IndependentMasters) -> None:
    """Of replicas nothing is said: they would take over without what they have not got."""
    findings = await findings_of(*(node.port for node in shared_masters.nodes))
    assert {what: level for what, (level, _) in findings.items()} == dict.fromkeys(
        ["servers", "version", "memory", "rights"], "ok"
    )
    assert findings["servers"][1] == "5 of 5 answer"


async def test_one_that_is_away_is_a_warning(shared_masters: IndependentMasters) -> None:
    """A majority is there; the others are looked at."""
    (nobody,) = free_ports(1)
    findings = await findings_of(nobody, *(node.port for node in shared_masters.nodes[1:]))
    level, found = findings["servers"]
    assert (level, found) == ("warning", f"4 of 5 answer, silent: redis://127.0.0.1:{nobody}/0")
    assert findings["rights"] == ("ok", "all that locks need")


async def test_one_that_throws_keys_away_is_named(
    shared_masters: IndependentMasters, capsys: pytest.CaptureFixture[str]
) -> None:
    with RedisServer(arguments=("--maxmemory", "20mb", "--maxmemory-policy", "allkeys-lru")) as sick:
        hosts = ",".join(f"127.0.0.1:{node.port}" for node in (sick, *shared_masters.nodes[:2]))
        with pytest.raises(Stop, match="1 of these checks failed"):
            await examine(aiodlock.connect(f"redlock://{hosts}"))
    told = next(line for line in capsys.readouterr().out.splitlines() if line.startswith("error    memory"))
    assert str(sick.port) in told

"""Many cells, round by round: round 1 of every peer, then round 2, so that a slow minute hits them all."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from aiodlock.testing.servers import MariaDBServer, RedisServer, ZooKeeperServer
from benchmarks import limits
from benchmarks.cell import Cell, CellFailedError
from benchmarks.distance import far_away
from benchmarks.environments import EnvironmentFailedError, interpreter
from benchmarks.mysql_observer import MysqlObserver
from benchmarks.observer import Observer
from benchmarks.others import Meter
from benchmarks.peers import Peer, Role
from benchmarks.redis_observer import RedisObserver
from benchmarks.results import Results, Row
from benchmarks.scenarios import Scenario
from benchmarks.zookeeper_observer import ZooKeeperObserver

__all__ = ["Plan", "run"]


_CROWD = ("--max-connections=4000", "--back-log=1000", "--table-open-cache=4000", "--thread-cache-size=100")


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """What to measure."""

    cells: tuple[tuple[Scenario, tuple[Peer, ...]], ...]  # each scenario, and who takes part
    rounds: int
    seconds: float | None = None  # None: the scenario's own window
    rival_seconds: float | None = None
    loop: str = "asyncio"
    distance: float = 0.0  # seconds of a round trip, made by a proxy; 0: as near as it is
    limits: bool = True  # measure the machine as well

    @property
    def peers(self) -> tuple[Peer, ...]:
        return tuple({peer.name: peer for _, peers in self.cells for peer in peers}.values())

    def window(self, peer: Peer, scenario: Scenario) -> float:
        if peer.role is Role.RIVAL:
            return self.rival_seconds or self.seconds or scenario.rival_seconds or scenario.seconds
        return self.seconds or scenario.seconds


@dataclass(frozen=True, slots=True)
class _Ground:
    """The servers of a run, by kind. Observers look from nearby, also where the locks are kept at a distance."""

    urls: Mapping[str, str]
    observers: Mapping[str, Observer]


async def run(plan: Plan, say: Callable[[str], None]) -> Results:
    """Measure every cell of *plan*; *say* is told of each before it starts."""
    results = Results()
    pythons = _interpreters(plan, results, say)
    with _ground(plan) as ground:
        results.server_version = "; ".join(observer.version for observer in ground.observers.values())
        for number in range(1, plan.rounds + 1):
            await _round(plan, number, pythons, ground, results, say)
    return results


async def _round(
    plan: Plan,
    number: int,
    pythons: Mapping[str, Path],
    ground: _Ground,
    results: Results,
    say: Callable[[str], None],
) -> None:
    if plan.limits and "redis" in ground.urls:
        say(f"round {number}/{plan.rounds}: limits")
        results.limits[number] = await limits.measure(ground.urls["redis"], near=not plan.distance)
    for scenario, peers in plan.cells:
        for peer in _rotated([peer for peer in peers if peer.name in pythons], number):
            say(f"round {number}/{plan.rounds}: {scenario.name} {peer.name}")
            cell = Cell(
                peer=peer,
                scenario=scenario,
                seconds=plan.window(peer, scenario),
                python=pythons[peer.name],
                loop=plan.loop,
                url=ground.urls.get(peer.server or ""),
                observer=ground.observers.get(peer.server or ""),
            )
            results.rows.append(await _row(cell, number))


async def _row(cell: Cell, number: int) -> Row:
    meter, row = Meter.start(cell.observer), Row(number, cell.scenario.name, cell.peer.name)
    try:
        sample = await cell.run()
    except CellFailedError as error:
        return replace(row, failure=str(error), others=meter.cores())
    return replace(row, sample=sample, others=meter.cores())


def _interpreters(plan: Plan, results: Results, say: Callable[[str], None]) -> dict[str, Path]:
    pythons: dict[str, Path] = {}
    for peer in plan.peers:
        say(f"environment of {peer.name}")
        try:
            pythons[peer.name] = interpreter(peer)
        except EnvironmentFailedError as error:
            results.missing[peer.name] = str(error)
    return pythons


@contextlib.contextmanager
def _ground(plan: Plan) -> Iterator[_Ground]:
    needed = {peer.server for peer in plan.peers}
    with contextlib.ExitStack() as stack:
        urls: dict[str, str] = {}
        observers: dict[str, Observer] = {}
        if "redis" in needed:
            urls["redis"] = stack.enter_context(RedisServer()).url
            observers["redis"] = stack.enter_context(contextlib.closing(RedisObserver(urls["redis"])))
        if "mysql" in needed:
            database = stack.enter_context(MariaDBServer(arguments=_CROWD))
            urls["mysql"] = database.url
            observers["mysql"] = stack.enter_context(contextlib.closing(MysqlObserver(database)))
        if plan.distance:
            urls = {kind: stack.enter_context(far_away(url, plan.distance)) for kind, url in urls.items()}
        if "zookeeper" in needed:  # not moved away: how far it is would be asked in Redis' language
            keeper = stack.enter_context(ZooKeeperServer(empty_for=60.0))
            urls["zookeeper"], observers["zookeeper"] = keeper.url, ZooKeeperObserver(keeper)
        yield _Ground(urls, observers)


def _rotated(peers: Sequence[Peer], by: int) -> list[Peer]:
    """Return the peers with another one first, so that no place in the order favours anybody."""
    by %= len(peers) or 1
    return [*peers[by:], *peers[:by]]

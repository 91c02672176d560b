"""Locks beside others on the same server, each figure beside its floor: ``python -m benchmarks.floors redis --check``.

A table is measured in one interleaved run. ``--row`` picks some of its rows; with ``--json`` each run adds its rounds
to the file, and all that is in it is judged: so a table can be measured in parts, and ``--rounds 0`` only judges.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from benchmarks.checks import Check, conclude
from benchmarks.figures import Spread
from benchmarks.kept import keep, kept
from benchmarks.matrix import Plan
from benchmarks.options import Parser, count_or_none, seconds
from benchmarks.peers import PEERS, Peer
from benchmarks.report import number
from benchmarks.results import Results
from benchmarks.run import measured
from benchmarks.scenarios import SCENARIOS
from benchmarks.summary import best, merged

__all__ = ["TABLES", "Floor", "Table", "judged", "main"]

_REDIS, _REDIS_FAIR = "aiodlock-redis", "aiodlock-redis-fair"
_ZOOKEEPER, _MYSQL = "aiodlock-zookeeper", "aiodlock-mysql"
_REDIS_RIVALS = (
    "redis-py",
    "redis-py-1ms",
    "python-redis-lock",
    "redis-lock-py",
    "coredis-1ms",
    "pottery",
    "aioredlock",
)
_ZOOKEEPER_RIVALS = ("kazoo", "aiozk")
_MYSQL_RIVALS = ("mysql-getlock", "mysql-insert", "mysql-forupdate")


@dataclass(frozen=True, slots=True)
class Floor:
    """One column of one cell, or how many times that of others it is, and what that must not miss."""

    scenario: str
    peer: str
    column: str = "value"
    over: tuple[str, ...] = ()  # locks or a limit: the best of them
    over_in: str = ""  # the scenario that they are measured in, if it is another one
    least: float | None = None
    most: float | None = None


@dataclass(frozen=True, slots=True)
class Table:
    """The floors of one server, a row for each scenario."""

    floors: tuple[Floor, ...]
    distance: float = 0.0  # seconds of a round trip, made by a proxy

    def rows(self, names: Iterable[str]) -> list[Floor]:
        return [floor for floor in self.floors if floor.scenario in names]


TABLES: Mapping[str, Table] = {
    "redis": Table(
        (
            Floor("C1000", _REDIS, over=_REDIS_RIVALS, least=100),
            Floor("C1000", _REDIS, over=("asyncio",), least=0.8),
            Floor("C1000", _REDIS, "jain", least=0.99),
            Floor("C1000", _REDIS, "commands", most=0.01),
            Floor("M", _REDIS, over=_REDIS_RIVALS, least=40),
            Floor("M", _REDIS, "slowest_to_fastest", least=0.95),
            Floor("M", _REDIS, "commands", most=0.2),
            Floor("M", _REDIS, "violations", most=0),
            Floor("Mms", _REDIS, "wait_p99", over=(_REDIS_FAIR,), most=1.2),
            Floor("U100", _REDIS, over=("redis-py",), least=10),
            Floor("U100", _REDIS, over=("own scripts -P 64",), least=0.25),
            Floor("U100", _REDIS, over=("pair -P 64",)),
            Floor("U100", _REDIS, "connections", most=1),
            Floor("U1", _REDIS, over=("redis-py",), least=1.15),
            Floor("U1", "aiodlock-redis-nowait", over=("redis-py",), least=1.8),
            Floor("U1", "aiodlock-redis-linger", over=("redis-py",), least=120),
            Floor("W", _REDIS, over=("blocking-socket",), most=1.6),
            Floor("W", _REDIS, over=("redis-py",), most=0.01),
            Floor("I10000", _REDIS, most=0.1),
            Floor("I10000", _REDIS, "commands", most=1),
            Floor("I10000", _REDIS, "connections", most=1),
            Floor("G10000", _REDIS_FAIR, over=(_REDIS_FAIR,), over_in="G10", most=3),
        )
    ),
    "far": Table(
        (
            Floor("C100", _REDIS, over=("redis-py",), least=500),
            Floor("M", _REDIS, over=("redis-py",), least=80),
            Floor("W", _REDIS, over=("round trip",), most=1.4),
        ),
        distance=0.0025,
    ),
    "zookeeper": Table(
        (
            Floor("C1000", _ZOOKEEPER, over=_ZOOKEEPER_RIVALS, least=50),
            Floor("M", _ZOOKEEPER, over=_ZOOKEEPER_RIVALS, least=50),
            Floor("U1", _ZOOKEEPER, over=_ZOOKEEPER_RIVALS, least=0.8),
            Floor("C100", _ZOOKEEPER, "commands", most=0.1),
            Floor("W", _ZOOKEEPER, over=_ZOOKEEPER_RIVALS, most=1.3),
        )
    ),
    "mysql": Table(
        (
            Floor("C1000", _MYSQL, over=_MYSQL_RIVALS, least=20),
            Floor("C1000", _MYSQL, "connections", most=3),  # two of the process, one of the line that is waited for
            Floor("M", _MYSQL, over=_MYSQL_RIVALS, least=15),
            Floor("U1", _MYSQL, over=_MYSQL_RIVALS, least=0.5),
            Floor("W", _MYSQL, over=("mysql-getlock",), most=2.5),
        )
    ),
}


def main(arguments: Sequence[str] | None = None) -> int:
    """Measure, print, and with ``--check`` fail if a floor is missed."""
    parser = _parser()
    options = parser.parse_args(arguments)
    checks: list[Check] = []
    for name in dict.fromkeys(options.table):
        table = TABLES[name]
        floors = table.rows(options.row or [floor.scenario for floor in table.floors])
        if not floors:
            parser.error(f"none of these rows is in the table {name}")
        wanted = plan(table, floors, options.rounds, options.seconds)
        found = judged(floors, _results(name, wanted, options.json, parser))
        checks += [replace(check, name=f"{name} {check.name}") for check in found]
    return conclude(checks, must_hold=options.check)


def plan(table: Table, floors: Iterable[Floor], rounds: int, window: float | None) -> Plan:
    """Return what has to be measured for *floors*: each scenario, with everybody whom they name in it."""
    cells: dict[str, dict[str, Peer]] = {}
    for floor in floors:
        others = [(floor.over_in or floor.scenario, name) for name in floor.over if name in PEERS]
        for scenario, peer in ((floor.scenario, floor.peer), *others):
            cells.setdefault(scenario, {})[peer] = PEERS[peer]
    named = tuple((SCENARIOS[scenario], tuple(peers.values())) for scenario, peers in cells.items())
    return Plan(cells=named, rounds=rounds, seconds=window, distance=table.distance)


def judged(floors: Iterable[Floor], results: Results) -> list[Check]:
    """Hold what was measured against the floors; ratios are formed within a round."""
    return [(_compared if floor.over else _alone)(floor, results) for floor in floors]


def _alone(floor: Floor, results: Results) -> Check:
    figures = list(results.column(floor.scenario, floor.peer, floor.column).values())
    value = merged(floor.column, figures)
    spread = f"{number(min(figures))}-{number(max(figures))}" if figures else ""
    what = SCENARIOS[floor.scenario].unit if floor.column == "value" else floor.column.replace("_", " ")
    return Check(f"{floor.scenario} {floor.peer}: {what}", value, floor.least, floor.most, spread)


def _compared(floor: Floor, results: Results) -> Check:
    ours = results.column(floor.scenario, floor.peer, floor.column)
    who, theirs = _best(floor, results)
    rounds = ours.keys() & theirs.keys()
    ratios = [ours[n] / theirs[n] for n in rounds if ours[n] >= 0 < theirs[n]]  # less than nothing is noise
    column = "" if floor.column == "value" else f" {floor.column.replace('_', ' ')}"
    name = f"{floor.scenario} {floor.peer}:{column} x {who} {floor.over_in}".rstrip()
    if not ratios:
        return Check(name, None, floor.least, floor.most)
    ratio, own, other = (Spread.of(list(figures)) for figures in (ratios, ours.values(), theirs.values()))
    spread = f"{number(ratio.least)}-{number(ratio.most)}, {number(own.median)} against {number(other.median)}"
    return Check(name, ratio.median, floor.least, floor.most, spread)


def _best(floor: Floor, results: Results) -> tuple[str, Mapping[int, float]]:
    """Return the best of those to compare with, and its figures; a limit's in the scenario's terms."""
    scenario = SCENARIOS[floor.over_in or floor.scenario]
    if floor.over[0] not in PEERS:
        rates = results.limit(floor.over[0])
        return floor.over[0], rates if scenario.more_is_better else {n: 1e6 / rate for n, rate in rates.items()}
    who = best(results, scenario, floor.over)
    return who or "others", results.column(scenario.name, who, floor.column)


def _results(name: str, plan: Plan, path: Path | None, parser: Parser) -> Results:
    results = measured(plan, parser) if plan.rounds else Results()
    for peer, why in results.missing.items():
        print(f"not measured: {peer}: {why}", file=sys.stderr)
    if path is None:
        return results
    if plan.rounds:
        keep(path, name, plan, plan.peers[0].name, results)
    return kept(path).get(name, results)


def _parser() -> Parser:
    parser = Parser(prog="python -m benchmarks.floors", description=(__doc__ or "").splitlines()[0])
    parser.add_argument("table", nargs="+", choices=TABLES, help=", ".join(TABLES))
    rows = dict.fromkeys(floor.scenario for table in TABLES.values() for floor in table.floors)
    parser.add_argument("--row", action="append", choices=rows, metavar="NAME", help="may be repeated (default: all)")
    parser.add_argument(
        "--rounds", type=count_or_none, default=5, help="interleaved rounds; 0: only judge what is in --json"
    )
    parser.add_argument("--seconds", type=seconds, help="length of a window (default: the scenario's)")
    parser.add_argument("--check", action="store_true", help="exit with 1 if a floor is missed")
    parser.add_argument("--json", type=Path, help="add every round to this file, and judge all that is in it")
    return parser


if __name__ == "__main__":
    sys.exit(main())

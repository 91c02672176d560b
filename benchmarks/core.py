"""The core against asyncio.Lock, each number beside its floor: ``python -m benchmarks.core [--check]``.

Everything on ``memory://`` and the stock loop. Rounds are interleaved, the order of the two sides alternates, and
ratios are formed within a round. Beside them stands the ratio by CPU time, which leaves out the time that other
processes ran on our core, though not how much they slow it.
"""

from __future__ import annotations

import asyncio
import json
import subprocess
import sys
from collections.abc import Sequence

from benchmarks.checks import Check, add_options, conclude
from benchmarks.core_races import RACES, Lap, Race, lap
from benchmarks.environments import ROOT
from benchmarks.figures import Spread
from benchmarks.options import Parser, count, seconds
from benchmarks.report import number

__all__ = ["main"]

_PARKED, _HELD = 100_000, 10_000
_HELD_SECONDS = 4.0  # longer than a ttl, so that a hold nobody renews is seen to be lost


def main(arguments: Sequence[str] | None = None) -> int:
    """Measure, print, and with ``--check`` fail if a floor is missed."""
    options = _parser().parse_args(arguments)
    checks = [*_races(options.rounds, options.seconds), *_parked(options.idle_seconds), *_held()]
    return conclude(checks, must_hold=options.check, path=options.json)


def _parser() -> Parser:
    parser = Parser(prog="python -m benchmarks.core", description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--rounds", type=count, default=11)
    parser.add_argument("--seconds", type=seconds, default=0.5, help="length of one side's lap")
    parser.add_argument("--idle-seconds", type=seconds, default=10.0, help="how long the parked waiters are watched")
    add_options(parser)
    return parser


def _races(rounds: int, seconds: float) -> list[Check]:
    laps: dict[Race, list[tuple[Lap, Lap]]] = {race: [] for race in RACES}
    for turn in range(rounds):
        for race in RACES:
            laps[race].append(_both_sides(race, seconds, ours_first=turn % 2 == 1))
    return [check for race in RACES for check in _judged(race, laps[race])]


def _both_sides(race: Race, seconds: float, *, ours_first: bool) -> tuple[Lap, Lap]:
    sides = {ours: asyncio.run(lap(race, ours=ours, seconds=seconds)) for ours in (ours_first, not ours_first)}
    return sides[True], sides[False]


def _judged(race: Race, laps: Sequence[tuple[Lap, Lap]]) -> list[Check]:
    ratio = Spread.of([ours.per_second / theirs.per_second for ours, theirs in laps])
    ours = Spread.of([ours.per_second for ours, _ in laps])
    theirs = Spread.of([theirs.per_second for _, theirs in laps])
    by_cpu = Spread.of([theirs.cpu / ours.cpu for ours, theirs in laps])
    rates = f"{number(ours.median)}/s against {number(theirs.median)}/s"
    spread = f"{ratio.least:.2f}-{ratio.most:.2f}, {rates}; by CPU {by_cpu.median:.2f}"
    return [
        Check(f"{race.name}: x {race.rival}", ratio.median, least=race.floor, spread=spread),
        Check(f"{race.name}: Jain, worst round", min(ours.jain for ours, _ in laps), least=0.99),
        Check(f"{race.name}: violations", sum(ours.violations for ours, _ in laps), most=0),
    ]


def _parked(seconds: float) -> list[Check]:
    facts = _in_own_process("parked", _PARKED, seconds)
    return [
        Check(f"{_PARKED:,} parked waiters: tasks of ours", facts["tasks"], most=10),
        Check(f"{_PARKED:,} parked waiters: bytes each, above the caller's task", facts["bytes"], most=1024),
        Check(f"{_PARKED:,} parked waiters: CPU % over {seconds:g} s", 100 * facts["cpu"], most=1.0),
    ]


def _held() -> list[Check]:
    facts = _in_own_process("held", _HELD, _HELD_SECONDS)
    return [
        Check(f"{_HELD:,} held locks: tasks more than for one", facts["tasks"] - facts["tasks_of_one"], most=0),
        Check(f"{_HELD:,} held locks: timers more than for one", facts["timers"] - facts["timers_of_one"], most=0),
        Check(f"{_HELD:,} held locks: lost, though renewed", facts["lost"], most=0),
        Check(f"{_HELD:,} held locks: CPU % while renewed every second", 100 * facts["cpu"]),
    ]


def _in_own_process(part: str, count: int, seconds: float) -> dict[str, float]:
    command = [sys.executable, "-m", "benchmarks.core_waiters", part, str(count), str(seconds)]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    if done.returncode:
        raise RuntimeError(f"{part}: {done.stderr.strip().splitlines()[-1:]}")
    facts: dict[str, float] = json.loads(done.stdout)
    return facts


if __name__ == "__main__":
    sys.exit(main())

"""The command line: which locks, which scenarios, how many rounds; tables on stdout, everything as JSON on request."""

from __future__ import annotations

import argparse
import asyncio
import os
import statistics
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

from aiodlock.testing.servers import MissingServerError, ServerFailedError
from benchmarks.kept import keep
from benchmarks.matrix import Plan, run
from benchmarks.options import Parser, count, seconds, show
from benchmarks.peers import PEERS, Role
from benchmarks.report import limits_table, tables
from benchmarks.results import Results
from benchmarks.scenarios import SCENARIOS
from benchmarks.summary import Line, summarise

__all__ = ["main", "measured"]

_SHORT_PEERS = ("redis-py", "python-redis-lock", "aiodlock-memory", "aiodlock-redis")
_SHORT_SCENARIOS = ("U1", "U100", "C100", "C1000", "M", "W")
_SHORT_ROUNDS, _SHORT_SECONDS = 3, 1.0
_ROUNDS = 5
_INTERRUPTED = 130


def main(arguments: Sequence[str] | None = None) -> int:
    """Measure and print; non-zero if one of our own locks failed or let two in."""
    parser = _parser()
    options = parser.parse_args(arguments)
    if options.list:
        show(_lists())
        return 0
    plan = _plan(options)
    if not plan.peers:
        parser.error("none of these locks can take part in these scenarios")
    rivals = [peer.name for peer in plan.peers if peer.role is Role.RIVAL]
    baseline = options.baseline or (rivals or [plan.peers[0].name])[0]
    results = measured(plan, parser)
    if options.json:
        keep(options.json, "", plan, baseline, results)
    lines = summarise(results, baseline)
    show("\n\n".join(_told(results, lines, baseline)))
    return 1 if any(map(_is_bad, lines)) else 0


def measured(plan: Plan, parser: Parser) -> Results:
    """Run *plan* and tell of its progress; whatever hinders it ends the script with one line."""
    try:
        return asyncio.run(run(plan, lambda text: print(text, file=sys.stderr, flush=True)))
    except (MissingServerError, ServerFailedError) as error:
        parser.exit(1, f"{parser.prog}: {error}\n")
    except KeyboardInterrupt:
        parser.exit(_INTERRUPTED)


def _parser() -> Parser:
    parser = Parser(prog="python -m benchmarks", description="Without options: a short matrix.")
    parser.add_argument("--peer", action="append", choices=PEERS, metavar="NAME", help="a lock; may be repeated")
    parser.add_argument("--scenario", action="append", choices=SCENARIOS, metavar="NAME", help="may be repeated")
    parser.add_argument(
        "--rounds", type=count, help=f"interleaved rounds (default {_ROUNDS}, short matrix {_SHORT_ROUNDS})"
    )
    parser.add_argument("--seconds", type=seconds, help="length of a window (default: the scenario's)")
    parser.add_argument("--rival-seconds", type=seconds, help="that of others' locks (default: --seconds)")
    parser.add_argument("--loop", choices=("asyncio", "uvloop"), default="asyncio")
    parser.add_argument("--baseline", choices=PEERS, metavar="NAME", help="whom to compare with (default: first rival)")
    parser.add_argument("--distance", type=seconds, default=0.0, help="seconds of a round trip, made by a proxy")
    parser.add_argument("--no-limits", action="store_true", help="leave out what bounds a scenario")
    parser.add_argument("--json", type=Path, help="add every round, and the summary, to this file")
    parser.add_argument("--list", action="store_true", help="print the names of all locks and scenarios")
    return parser


def _plan(options: argparse.Namespace) -> Plan:
    short = not (options.peer or options.scenario)
    scenarios = tuple(SCENARIOS[name] for name in options.scenario or _SHORT_SCENARIOS)
    names = [*(options.peer or _SHORT_PEERS), *([options.baseline] if options.baseline else [])]
    if not options.no_limits:
        names += [scenario.limit for scenario in scenarios if scenario.limit in PEERS]
    peers = [PEERS[name] for name in dict.fromkeys(names)]
    return Plan(
        cells=tuple((scenario, tuple(filter(scenario.suits, peers))) for scenario in scenarios),
        rounds=options.rounds or (_SHORT_ROUNDS if short else _ROUNDS),
        seconds=options.seconds or (_SHORT_SECONDS if short else None),
        rival_seconds=options.rival_seconds,
        loop=options.loop,
        distance=options.distance,
        limits=not options.no_limits,
    )


def _told(results: Results, lines: Sequence[Line], baseline: str) -> list[str]:
    told = [tables(lines, baseline)]
    if results.limits:
        told.append(limits_table(list(results.limits.values())))
    if loads := [row.others for row in results.rows if row.others is not None]:
        used = f"{statistics.median(loads):.2f} cores (most {max(loads):.2f}) of {os.cpu_count()}"
        told.append(f"others used {used} meanwhile")
    return told + [f"not measured: {name}: {why}" for name, why in results.missing.items()]


def _is_bad(line: Line) -> bool:
    peer = PEERS[line.peer]
    return peer.role is Role.OURS and (line.middle is None or bool(line.middle.violations))


def _lists() -> str:
    needs = {peer.name: f" ({', '.join(peer.requires)})" if peer.requires else "" for peer in PEERS.values()}
    return "\n\n".join(
        (
            _listed({scenario.name: scenario.question for scenario in SCENARIOS.values()}),
            _listed({peer.name: peer.note + needs[peer.name] for peer in PEERS.values()}),
        )
    )


def _listed(notes: Mapping[str, str]) -> str:
    width = max(map(len, notes))
    return "\n".join(f"{name:<{width}}  {note}" for name, note in notes.items())

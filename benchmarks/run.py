"""The command line: which locks, which scenarios, how many rounds; tables on stdout, everything as JSON on request."""

from __future__ import annotations

import argparse
import asyncio
import dataclasses
import json
import os
import platform
import statistics
import sys
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path

from benchmarks.matrix import Plan, Results, run
from benchmarks.peers import PEERS, Peer, Role
from benchmarks.report import limits_table, tables
from benchmarks.scenarios import SCENARIOS
from benchmarks.summary import Line, summarise

__all__ = ["main"]

_SHORT_PEERS = ("redis-py", "python-redis-lock", "aiodlock-memory", "aiodlock-redis")
_SHORT_SCENARIOS = ("U1", "U100", "C100", "C1000", "M", "W")
_SHORT_ROUNDS, _SHORT_SECONDS = 3, 1.0
_ROUNDS = 5


def main(arguments: Sequence[str] | None = None) -> int:
    """Measure and print; non-zero if one of our own locks failed or let two in."""
    options = _parser().parse_args(arguments)
    if options.list:
        _print_lists()
        return 0
    plan = _plan(options)
    baseline = options.baseline or next(
        (peer.name for peer in plan.peers if peer.role is Role.RIVAL), plan.peers[0].name
    )
    results = asyncio.run(run(plan, lambda text: print(text, file=sys.stderr, flush=True)))
    lines = summarise(results, baseline)
    if options.json:
        options.json.write_text(json.dumps(_everything(plan, baseline, results, lines), indent=1) + "\n")
    print(tables(lines, baseline))
    if results.limits:
        print("\n" + limits_table(results.limits))
    if loads := [row.others for row in results.rows if row.others is not None]:
        print(
            f"\nothers used {statistics.median(loads):.2f} cores (most {max(loads):.2f}) of {os.cpu_count()} meanwhile"
        )
    for name, why in results.missing.items():
        print(f"\nnot measured: {name}: {why}")
    return 1 if any(map(_is_bad, lines)) else 0


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description="Without options: a short matrix.")
    parser.add_argument("--peer", action="append", choices=PEERS, metavar="NAME", help="a lock; may be repeated")
    parser.add_argument("--scenario", action="append", choices=SCENARIOS, metavar="NAME", help="may be repeated")
    parser.add_argument(
        "--rounds", type=int, help=f"interleaved rounds (default {_ROUNDS}, short matrix {_SHORT_ROUNDS})"
    )
    parser.add_argument("--seconds", type=float, help="length of a window (default: the scenario's)")
    parser.add_argument("--rival-seconds", type=float, help="length of a window for others' locks (default: --seconds)")
    parser.add_argument("--loop", choices=("asyncio", "uvloop"), default="asyncio")
    parser.add_argument("--baseline", choices=PEERS, metavar="NAME", help="whom to compare with (default: first rival)")
    parser.add_argument("--distance", type=float, default=0.0, help="seconds of a round trip, made by a proxy")
    parser.add_argument("--no-limits", action="store_true", help="leave out what bounds a scenario")
    parser.add_argument("--json", type=Path, help="write every round, and the summary, to this file")
    parser.add_argument("--list", action="store_true", help="print the names of all locks and scenarios")
    return parser


def _plan(options: argparse.Namespace) -> Plan:
    short = not (options.peer or options.scenario)
    scenarios = tuple(SCENARIOS[name] for name in options.scenario or _SHORT_SCENARIOS)
    names = [*(options.peer or _SHORT_PEERS), *([options.baseline] if options.baseline else [])]
    if not options.no_limits:
        names += [scenario.limit for scenario in scenarios if scenario.limit in PEERS]
    return Plan(
        peers=tuple(PEERS[name] for name in dict.fromkeys(names)),
        scenarios=scenarios,
        rounds=options.rounds or (_SHORT_ROUNDS if short else _ROUNDS),
        seconds=options.seconds or (_SHORT_SECONDS if short else None),
        rival_seconds=options.rival_seconds,
        loop=options.loop,
        distance=options.distance,
        limits=not options.no_limits,
    )


def _everything(plan: Plan, baseline: str, results: Results, lines: Sequence[Line]) -> dict[str, object]:
    return {
        "when": datetime.now(UTC).isoformat(timespec="seconds"),
        "machine": {
            "system": platform.system(),
            "machine": platform.machine(),
            "cpus": os.cpu_count(),
            "python": platform.python_version(),
            "redis": results.server_version,
        },
        "settings": {
            "rounds": plan.rounds,
            "seconds": plan.seconds,
            "rival_seconds": plan.rival_seconds,
            "loop": plan.loop,
            "distance": plan.distance,
            "baseline": baseline,
        },
        "missing": results.missing,
        "limits": results.limits,
        "rounds": [dataclasses.asdict(row) for row in results.rows],
        "summary": [{**dataclasses.asdict(line), "role": PEERS[line.peer].role.value} for line in lines],
    }


def _is_bad(line: Line) -> bool:
    peer = PEERS[line.peer]
    return peer.role is Role.OURS and (line.middle is None or bool(line.middle.violations))


def _print_lists() -> None:
    for scenario in SCENARIOS.values():
        print(f"{scenario.name:<10}{scenario.question}")
    print()
    for peer in PEERS.values():
        print(f"{peer.name:<24}{_described(peer)}")


def _described(peer: Peer) -> str:
    return peer.note + (f" ({', '.join(peer.requires)})" if peer.requires else "")

"""Results as JSON: a list of runs, one on a line. Every run adds its own: a long table can be measured in parts."""

from __future__ import annotations

import dataclasses
import json
import os
import platform
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from benchmarks.figures import Sample
from benchmarks.matrix import Plan
from benchmarks.peers import PEERS
from benchmarks.results import Results, Row
from benchmarks.summary import summarise

__all__ = ["keep", "kept"]


def keep(path: Path, name: str, plan: Plan, baseline: str, results: Results) -> None:
    """Add a run to the file; those of one *name* measured the same things under the same terms."""
    runs = [*_runs(path), _run(name, plan, baseline, results)]
    path.write_text("[\n" + ",\n".join(map(json.dumps, runs)) + "\n]\n")


def kept(path: Path) -> dict[str, Results]:
    """Return the results of all runs in the file, by name."""
    found: dict[str, Results] = {}
    for run in _runs(path):
        found.setdefault(run.get("name", ""), Results()).add(_results(run))
    return found


def _runs(path: Path) -> list[dict[str, Any]]:
    return json.loads(path.read_text()) if path.exists() and path.stat().st_size else []


def _run(name: str, plan: Plan, baseline: str, results: Results) -> dict[str, Any]:
    run = {
        "name": name,
        "when": datetime.now(UTC).isoformat(timespec="seconds"),
        "machine": {
            "system": platform.system(),
            "machine": platform.machine(),
            "cpus": os.cpu_count(),
            "python": platform.python_version(),
            "servers": results.server_version,
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
        "summary": [
            {**dataclasses.asdict(line), "role": PEERS[line.peer].role.value} for line in summarise(results, baseline)
        ],
    }
    return _slim(run)  # type: ignore[no-any-return]


def _slim(value: Any) -> Any:
    """Leave out what is not there, and digits that mean nothing."""
    match value:
        case dict():
            return {key: _slim(one) for key, one in value.items() if one not in (None, "", ())}
        case list() | tuple():
            return [_slim(one) for one in value]
        case float():
            return float(f"{value:.6g}")
    return value


def _results(run: dict[str, Any]) -> Results:
    return Results(
        rows=[Row(**{**row, "sample": Sample(**row["sample"]) if "sample" in row else None}) for row in run["rounds"]],
        limits={int(number): rates for number, rates in run["limits"].items()},
        missing=run["missing"],
        server_version=run["machine"].get("servers", ""),
    )

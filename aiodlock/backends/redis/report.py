"""What is found on several servers, as one report: the same is said once, what is worse somewhere with its server."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Mapping, Sequence
from typing import TypeAlias

from aiodlock.backends.base import Finding
from aiodlock.errors import BackendError

__all__ = ["Reports", "combine", "gather_reports", "judge_servers"]

Reports: TypeAlias = "Mapping[str, Sequence[Finding]]"
"""What was found on each server that answered, by its address; of all the same things in the same order."""

_LEVELS = ("ok", "warning", "error")


async def gather_reports(asked: Mapping[str, Awaitable[Sequence[Finding]]]) -> dict[str, Sequence[Finding]]:
    """Return what those found that answered; the others are left out."""
    found: dict[str, Sequence[Finding]] = {}
    for server, answer in zip(asked, await asyncio.gather(*asked.values(), return_exceptions=True), strict=True):
        if not isinstance(answer, BaseException):
            found[server] = answer
        elif not isinstance(answer, BackendError):
            raise answer
    return found


def judge_servers(answered: Sequence[str], all_: Sequence[str], *, needed: int, otherwise: str) -> Finding:
    """Say which servers are silent; without *needed* of them it is an error, because *otherwise*."""
    silent = [server for server in all_ if server not in answered]
    found = f"{len(answered)} of {len(all_)} answer"
    if not silent:
        return Finding("servers", found)
    found, advice = f"{found}, silent: {', '.join(silent)}", f"start the others: {otherwise}"
    return Finding("servers", found, "warning" if len(answered) >= needed else "error", advice)


def combine(reports: Reports) -> list[Finding]:
    """Return one finding for each thing that was looked at: the worst, and where it is so if not everywhere."""
    return [_worst(dict(zip(reports, findings, strict=True))) for findings in zip(*reports.values(), strict=True)]


def _worst(findings: Mapping[str, Finding]) -> Finding:
    worst = max(findings.values(), key=lambda finding: _LEVELS.index(finding.level))
    if all(finding == worst for finding in findings.values()):
        return worst
    same = {server: finding for server, finding in findings.items() if finding.level == worst.level}
    texts = dict.fromkeys(finding.found for finding in same.values())
    where = {text: ", ".join(server for server in same if same[server].found == text) for text in texts}
    found = "; ".join(f"{text} ({servers})" for text, servers in where.items())
    return Finding(worst.what, found, worst.level, worst.advice)

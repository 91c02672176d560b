"""The witness: sees what every process believes and what the server does, and keeps it for the judge."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING

from aiodlock._core.fence import split
from aiodlock._core.hold import Hold
from aiodlock._core.line import LineId
from aiodlock.testing.history import Event, Recorder, Violation

if TYPE_CHECKING:
    from tests.fuzz.process import Process


class Witness:
    """Keeps the history of all processes, by the server's clock, and a trace to read."""

    def __init__(self, now: Callable[[], float]) -> None:
        self.now = now
        self.events: list[Event] = []
        self.violations: list[Violation] = []
        self.sizes: dict[str, int] = {}  # of every line that was entered
        self.accepted: dict[str, list[int]] = {}  # by line: the fences that its guarded resource accepted
        self.ran: list[tuple[str, float]] = []  # line and instant of each function that ran under its lock
        self.broken: dict[tuple[str, int], float] = {}  # line and epoch: since when the server has not kept its word
        self.sections = 0
        self._trace: list[tuple[float, str, tuple[object, ...]]] = []
        self._inside: dict[tuple[str, int], tuple[Recorder, Process, Hold]] = {}

    def note(self, who: str, *what: object) -> None:
        self._trace.append((self.now(), who, what))

    def accuse(self, rule: str, message: str) -> None:
        self.violations.append(Violation(rule, f"{message} at {self.now():.6f}"))

    @property
    def trace(self) -> str:
        """What happened, the same in every run of a seed: ids are shown without their random part."""
        lines = [f"{at:13.6f} {who:8} {' '.join(map(str, what))}" for at, who, what in self._trace]
        return re.sub(r"\b[0-9a-f]{16}-", "#", "\n".join(lines))

    # --- sections ----------------------------------------------------------------------------------------------

    def entered(self, process: Process, hold: Hold, *, asked: float) -> None:
        """See a task inside, by a fresh ownership, since now."""
        record = Recorder(self.events.append, who=process.name, now=self.now)
        self._inside[_id(hold)] = record, process, hold._own
        self.sections += 1
        self._record(hold, asked=asked, weight=hold._place.ticket.weight)
        self.note(process.name, "inside", *_id(hold), f"until {process.true_time(hold._own._deadline):.6f}")

    def becomes_lighter(self, process: Process, hold: Hold) -> None:
        """See a writer that is about to let readers in."""
        self._record(hold, asked=self.now(), weight=1)
        self.note(process.name, "only reads", *_id(hold))

    def looked(self, own: Hold) -> None:
        """See until when this ownership is believed by now."""
        if seen := self._inside.get(_id(own)):
            record, process, _ = seen
            line, fence = _id(own)
            record("renewed", key=line, id=fence, valid_until=process.true_time(own._deadline))

    def left(self, own: Hold, why: str) -> None:
        """See the end of a belief: lost, or about to be released."""
        self.looked(own)
        if seen := self._inside.pop(_id(own), None):
            line, fence = _id(own)
            seen[0]("left", key=line, id=fence)
            self.note(seen[1].name, why, line, fence)

    def died(self, process: Process) -> None:
        """See what the process believed last."""
        for _, of, own in list(self._inside.values()):
            if of is process:
                self.looked(own)
        self.note(process.name, "died")

    def ran_under(self, lines: Iterable[LineId]) -> None:
        """See a function run."""
        self.ran += [(_name(line), self.now()) for line in lines]

    def _record(self, hold: Hold, *, asked: float, weight: int) -> None:
        (line, fence), own = _id(hold), hold._own
        record, process, _ = self._inside[line, fence]
        self.sizes[line] = hold._place.ticket.size
        until = process.true_time(own._deadline)
        record("inside", key=line, id=fence, asked=asked, valid_until=until, fence=fence, weight=weight)

    # --- what the server and a guarded resource do -------------------------------------------------------------

    def server_broke_word(self, line: LineId, epoch: int) -> None:
        self.broken.setdefault((_name(line), epoch), self.now())

    def write(self, process: Process, hold: Hold) -> None:
        """Write at once to a resource that accepts no older fence, if alone inside: that has to be accepted."""
        (line, fence), ticket = _id(hold), hold._place.ticket
        if ticket.weight < ticket.size:
            return
        log = self.accepted.setdefault(line, [])
        if not log or fence >= log[-1]:
            log.append(fence)
        elif (line, split(fence)[0]) not in self.broken:
            self.accuse("write refused", f"{process.name} is inside {line} by {fence} after {log[-1]}")


def _name(line: LineId) -> str:
    return f"{line.kind}/{line.key}"


def _id(hold: Hold) -> tuple[str, int]:
    return _name(hold._cohort.line), hold.fence

"""The witness: sees what every process believes and what the server does, and keeps it for the judge."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from aiodlock._core.fence import split
from aiodlock._core.hold import Hold
from aiodlock.testing.history import Event, Recorder, Violation

if TYPE_CHECKING:
    from tests.fuzz.process import Process


class Witness:
    """Keeps the history of all processes, by the server's clock, and a trace to read."""

    def __init__(self, now: Callable[[], float]) -> None:
        self.now = now
        self.events: list[Event] = []
        self.violations: list[Violation] = []
        self.accepted: dict[str, list[int]] = {}  # by key: the fences that its guarded resource accepted
        self.ran: list[tuple[str, float]] = []  # key and instant of each function that ran under its lock
        self.forced: dict[tuple[str, int], float] = {}  # key and epoch: since when the server has not kept its word
        self.sections = 0
        self._trace: list[tuple[float, str, tuple[object, ...]]] = []
        self._inside: dict[tuple[str, int], tuple[Recorder, Process, Hold]] = {}

    def note(self, who: str, *what: object) -> None:
        self._trace.append((self.now(), who, what))

    def accuse(self, rule: str, message: str) -> None:
        self.violations.append(Violation(rule, f"{message} at {self.now():.6f}"))

    @property
    def trace(self) -> list[str]:
        return [f"{at:13.6f} {who:8} {' '.join(map(str, what))}" for at, who, what in self._trace]

    # --- sections ----------------------------------------------------------------------------------------------

    def entered(self, process: Process, hold: Hold, *, asked: float, weight: int = 1) -> None:
        """See a task inside, by a fresh ownership, since now."""
        record = Recorder(self.events.append, who=process.name, now=self.now)
        self._inside[hold.key, hold.fence] = record, process, hold._own
        until = process.true_time(hold._own._deadline)
        record("inside", key=hold.key, id=hold.fence, asked=asked, valid_until=until, fence=hold.fence, weight=weight)
        self.note(process.name, "inside", hold.key, hold.fence, f"until {until:.6f}")
        self.sections += 1

    def looked(self, own: Hold) -> None:
        """See until when this ownership is believed by now."""
        if seen := self._inside.get((own.key, own.fence)):
            record, process, _ = seen
            record("renewed", key=own.key, id=own.fence, valid_until=process.true_time(own._deadline))

    def left(self, own: Hold, why: str) -> None:
        """See the end of a belief: released, lost, or about to be."""
        self.looked(own)
        if seen := self._inside.pop((own.key, own.fence), None):
            seen[0]("left", key=own.key, id=own.fence)
            self.note(seen[1].name, why, own.key, own.fence)

    def died(self, process: Process) -> None:
        """See what the process believed last."""
        for _, of, own in list(self._inside.values()):
            if of is process:
                self.looked(own)
        self.note(process.name, "died")

    # --- the guarded resource ----------------------------------------------------------------------------------

    def write(self, process: Process, hold: Hold) -> None:
        """Write at once to a resource that accepts no older fence: who is inside has to be accepted."""
        log = self.accepted.setdefault(hold.key, [])
        if log and hold.fence < log[-1]:
            self.note(process.name, "write refused", hold.key, hold.fence)
            if (hold.key, split(hold.fence)[0]) not in self.forced:
                self.accuse("write refused", f"{process.name} is inside {hold.key!r} by {hold.fence} after {log[-1]}")
        else:
            log.append(hold.fence)

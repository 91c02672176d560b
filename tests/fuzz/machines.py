"""The machines of the simulation: a server that is watched, and each client's connection to it."""

from __future__ import annotations

from collections.abc import Awaitable, Sequence
from typing import TYPE_CHECKING

from aiodlock._core.line import Answer, Call, Called, LineId, Ticket, TicketId
from aiodlock.backends.base import OnCall
from aiodlock.backends.memory import MemoryBackend, MemoryServer
from aiodlock.clock import Clock
from aiodlock.testing.hostile import HostileNetwork

if TYPE_CHECKING:
    from aiodlock._core.engine import Engine
    from tests.fuzz.process import Process
    from tests.fuzz.witness import Witness


def short(ticket_id: TicketId) -> str:
    """Return what is the same in every run of a seed."""
    return "#" + ticket_id.rpartition("-")[2]


class WatchedServer(MemoryServer):
    """A memory server that tells what it does, and can be made to break its word."""

    def __init__(self, clock: Clock, witness: Witness) -> None:
        super().__init__(clock=clock)
        self._witness = witness
        self._ended: set[tuple[MemoryBackend | None, TicketId]] = set()  # who made which ticket leave

    def join(self, ticket: Ticket, client: MemoryBackend, *, queue: bool, instead_of: TicketId | None) -> Answer:
        answer = super().join(ticket, client, queue=queue, instead_of=instead_of)
        instead = (f"instead of {short(instead_of)}",) if instead_of else ()
        self._witness.note("server", "join", ticket.owner + short(ticket.id), *instead, answer)
        if instead_of:
            self._ended.add((client, instead_of))
        if ticket.id in self._lines[ticket.line].stands and isinstance(client, Connection):
            self._look_for_orphan(ticket, client)
        return answer

    def leave(self, ticket: Ticket, client: MemoryBackend | None, *, bury: bool) -> None:
        stand = self._lines[ticket.line].stands.get(ticket.id) if ticket.line in self._lines else None
        if stand is not None and stand.epoch is not None and stand.client is not client:
            self._witness.server_broke_word(ticket.line, stand.epoch)
        super().leave(ticket, client, bury=bury)
        self._witness.note("server", "leave", (ticket.owner or "?") + short(ticket.id), "buried" if bury else "")
        if ticket.owner:  # not in answer to a call, nor by force
            self._ended.add((client, ticket.id))

    def renew(self, tickets: Sequence[Ticket]) -> list[Answer | None]:
        answers = super().renew(tickets)
        for ticket, answer in zip(tickets, answers, strict=True):
            self._witness.note("server", "renew", ticket.owner + short(ticket.id), answer)
        return answers

    def stands(self) -> list[tuple[LineId, TicketId, Connection]]:
        """Return every ticket that lives, waiting or inside."""
        now = self.clock.now()
        return [
            (line_id, stand.ticket.id, stand.client)
            for line_id, line in self._lines.items()
            for stand in line.stands.values()
            if stand.ends > now and isinstance(stand.client, Connection)
        ]

    # --- what it should not do ---------------------------------------------------------------------------------

    def end_one(self, pick: int) -> None:
        """End the ticket of somebody inside: its next renewal is refused."""
        inside = [(name, stand) for name, line in self._lines.items() for stand in line.inside.values()]
        if inside:
            _, stand = inside[pick % len(inside)]
            self.leave(stand.ticket, None, bury=False)

    def forget_everything(self) -> None:
        """Restart without data."""
        self._witness.note("server", "forgets everything")
        for name, line in self._lines.items():
            for stand in line.inside.values():
                self._witness.server_broke_word(name, stand.epoch or 0)
        self._lines.clear()
        self._ended.clear()  # with them the tombstones

    def _look_for_orphan(self, ticket: Ticket, client: Connection) -> None:
        """Accuse a join that stands though its client, alive and open, neither knows it nor will make it leave.

        One that never had its leave confirmed was given up after a whole ttl without an answer: that may be.
        """
        if client.minds(ticket.id) or (ticket.id in client.sent_leaves and (client, ticket.id) not in self._ended):
            return
        self._witness.accuse("orphan", f"{ticket.owner}{short(ticket.id)} stands and nobody knows it")


class Connection(MemoryBackend):
    """A client's backend: what the server says reaches the process as its next step, if it lives."""

    def __init__(self, process: Process, server: WatchedServer, witness: Witness) -> None:
        super().__init__(server=server)
        self.process = process
        self.engine: Engine | None = None
        self.sent_leaves: set[TicketId] = set()
        self._watched = server
        self._witness = witness

    async def open(self, on_call: OnCall) -> None:
        def hear(call: Call) -> None:
            self._witness.note(self.process.name, "hears", call)
            if isinstance(call, Called) and not self.minds(call.id):
                self._expect_leaving(call)
            on_call(call)

        await super().open(lambda call: self.process.do(hear, call))

    def leave(self, ticket: Ticket, *, bury: bool = False) -> Awaitable[None]:
        self.sent_leaves.add(ticket.id)
        return super().leave(ticket, bury=bury)

    def minds(self, ticket_id: TicketId) -> bool:
        """Say whether somebody here will make this ticket leave, or is not there to do it."""
        engine = self.engine
        if engine is None or not engine.is_open or self.process.is_dead:
            return True
        return ticket_id in engine.places or any(place.ticket.id == ticket_id for place in engine.leaving)

    def _expect_leaving(self, call: Called) -> None:
        """Look whether a ticket that was called for nobody has left soon, if nothing hindered it."""
        network, process = self.network, self.process
        assert isinstance(network, HostileNetwork)

        def look() -> None:
            hindered = (True, network.cuts, process.frozen) != before or self.minds(call.id)
            if not hindered and any(call.id == ticket_id for _, ticket_id, _ in self._watched.stands()):
                self._witness.accuse("orphan called", f"{process.name}{short(call.id)} was called for nobody")

        before = network.is_up, network.cuts, process.frozen
        most = network.weather.late if network.weather.is_late else network.weather.delay
        queued = network._connection.last_arrival - self._watched.clock.now() if network._connection else 0.0
        process.after(max(0.0, queued) + 2 * most, look)

"""Random verbs of two clients, compared step by step with a plain model; it finds scripts with one fault."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Awaitable, Callable
from dataclasses import replace
from itertools import count
from typing import TypeVar

import pytest

from aiodlock._core.line import Answer, Gone, GoneWhy, Inside, LineId, Ticket, TicketId
from aiodlock.backends.redis import backend as backend_module
from aiodlock.backends.redis.scripts import Script
from aiodlock.errors import BackendDataError
from tests.integration.redis.conftest import Client
from tests.integration.redis.model import Ambiguous, Model, Stand

T = TypeVar("T")
Connect = Callable[..., Awaitable[Client]]

SHAPES = [(1, [1]), (2**30, [1, 1, 2**30]), (3, [1, 2, 3, 4])]
LONG, SHORT = 60.0, 0.05
SEEDS, STEPS = 120, 30
_lines = count(1)


class Run:
    """One seed: a line, two clients, a model, and random steps."""

    def __init__(self, seed: int, clients: list[Client]) -> None:
        self.dice = random.Random(seed)
        self.clients = clients
        self.line = LineId("lock", f"model-{next(_lines)}" + "x" * self.dice.choice([0, 90]))
        self.model = Model(self.line)
        self.size, self.weights = self.dice.choice(SHAPES)
        self.ids = count(1)
        self.steps = [
            *[self.join] * 8, *[self.stand_again] * 2, *[self.look] * 2, *[self.renew] * 3, *[self.leave] * 5,
            self.bury, self.change_weight, self.change_size, self.revoke, *[self.pass_time] * 2,
        ]  # fmt: skip

    async def go(self) -> bool:
        """Run to the end, or to the first step in which a life ended; tell which."""
        try:
            if self.dice.random() < 0.5:
                await self.hand_over()
            for _ in range(STEPS):
                await self.out_of_doubt()
                await self.dice.choice(self.steps)()
        except Ambiguous:
            return False
        return True

    async def step(
        self, verb: Callable[[], Awaitable[T]], act: Callable[[], object], *, own: TicketId | None = None
    ) -> T:
        """Do *verb* between two looks at the clock; compare calls and rows with what *act* makes of the model."""
        before = await self.time()
        answer = await verb()
        rows = await self.clients[0].backend.inspect(self.line.kind, self.line.key)
        fields = await self.fields()
        heard = [await client.told() for client in self.clients]
        self.model.begin((before, await self.time()))
        act()
        granted = (own, answer.epoch) if own and isinstance(answer, Inside) else None
        self.model.check_calls(heard, granted)
        self.model.check_rows(list(rows))
        self.model.check_fields(fields)
        return answer

    async def fields(self) -> list[bytes]:
        """Return what the line consists of on the server."""
        return await self.clients[0].do("HKEYS", self.clients[0].key(self.line))

    # --- the server's time -----------------------------------------------------------------------------------

    async def time(self) -> float:
        seconds, micros = await self.clients[0].do("TIME")
        return int(seconds) + int(micros) / 1e6

    async def out_of_doubt(self) -> None:
        """Let lives that could end during the next step end before it."""
        soon = await self.time() + 0.02
        await self.reach(max((s.ends[1] for s in self.model.stands if s.ends[0] < soon), default=0.0))

    async def pass_time(self) -> None:
        await self.outlive()
        await self.dice.choice([self.renew, self.look, self.join])()  # by the dead themselves, or by others

    async def outlive(self) -> None:
        soon = await self.time() + 2 * SHORT
        await self.reach(max((s.ends[1] for s in self.model.stands if s.ends[0] < soon), default=0.0))

    async def reach(self, instant: float) -> None:
        while True:
            left = instant - await self.time()
            if left <= 0:
                return
            await asyncio.sleep(left)

    # --- steps -----------------------------------------------------------------------------------------------

    def ticket(self) -> Ticket:
        number = next(self.ids)
        ttl = self.dice.choice([LONG, LONG, LONG, SHORT])
        size = self.size + (self.dice.random() < 0.1)
        weight = self.dice.choice(self.weights)
        return Ticket.of(self.line, TicketId(f"t{number}"), weight=weight, size=size, ttl=ttl, owner=f"o{number}")

    def any_stand(self) -> Stand:
        """Return somebody in line, or a stand that is in none."""
        if self.model.stands and self.dice.random() < 0.95:
            return self.dice.choice(self.model.stands)
        return self.nobody()

    def nobody(self) -> Stand:
        return Stand(self.ticket(), self.dice.randrange(2), 1, (0.0, 0.0))

    async def join(self, ticket: Ticket | None = None, client: int | None = None, old: Stand | None = None) -> None:
        ticket = ticket or self.ticket()
        client = self.dice.randrange(2) if client is None else client
        queue = self.dice.random() < 0.8
        instead_of = old.ticket.id if old else None
        expected: list[object] = []
        answer = await self.step(
            lambda: self.clients[client].backend.join(ticket, queue=queue, instead_of=instead_of),
            lambda: expected.append(self.model.join(ticket, client, queue=queue, instead_of=instead_of)),
            own=ticket.id,
        )
        assert expected == [answer.why if isinstance(answer, Gone) else type(answer)]
        self.model.check_answer(ticket, answer)

    async def stand_again(self) -> None:
        old = self.any_stand()
        await self.join(client=old.client, old=old)

    async def look(self) -> None:
        if self.dice.random() < 0.3 and self.model.expired:
            await self.join(replace(self.ticket(), id=self.dice.choice(sorted(self.model.expired))))
        elif self.model.stands:
            stand = self.any_stand()
            await self.join(stand.ticket, stand.client)

    async def renew(self) -> None:
        stands = self.dice.sample(self.model.stands, self.dice.randint(0, len(self.model.stands)))
        tickets = [s.ticket.wishing(ttl=self.dice.choice([s.ticket.ttl, SHORT])) for s in stands] + [self.ticket()]
        client = self.clients[self.dice.randrange(2)]
        answers = await self.step(lambda: client.backend.renew(tickets), lambda: self.renewed(tickets))
        for ticket, answer in zip(tickets, answers, strict=True):
            known = self.model.find(ticket.id)
            self.model.check_answer(known.ticket if known else ticket, answer)

    def renewed(self, tickets: list[Ticket]) -> None:
        for ticket in tickets:
            if stand := self.model.find(ticket.id):
                stand.ticket = stand.ticket.wishing(ttl=ticket.ttl)
                self.model.keep(stand, ticket.ttl)

    async def leave(self) -> None:
        stand = self.any_stand()
        client = stand.client if self.dice.random() < 0.8 else 1 - stand.client
        await self.step(
            lambda: self.clients[client].backend.leave(stand.ticket), lambda: self.model.leave(stand.ticket.id, client)
        )

    async def hand_over(self) -> None:
        """The first two of a line, before anybody has died there: one leaves, and either may be dead."""
        await self.join()
        await self.join()
        await self.outlive()
        await self.leave()

    async def bury(self) -> None:
        """A join that is overtaken by its leave, or that never came."""
        stand = self.dice.choice([self.any_stand, self.nobody])()
        await self.step(
            lambda: self.clients[stand.client].backend.leave(stand.ticket, bury=True),
            lambda: self.model.bury(stand.ticket.id, stand.client),
        )
        await self.join(stand.ticket, stand.client)

    async def change_weight(self) -> None:
        stand, weight = self.any_stand(), self.dice.choice(self.weights)
        answer: Answer = await self.step(
            lambda: self.clients[0].backend.change_weight(stand.ticket, weight), lambda: self.lightened(stand, weight)
        )
        if stand.inside and stand in self.model.stands:
            self.model.check_answer(stand.ticket, answer)
        else:
            assert answer == Gone(GoneWhy.EXPIRED, None, 1)

    def lightened(self, stand: Stand, weight: int) -> None:
        if stand.inside:
            stand.weight = min(stand.weight, weight)
            self.model.let_in()

    async def change_size(self) -> None:
        size = self.dice.choice([self.size, self.size, 1, 2, 5])
        await self.step(lambda: self.clients[0].backend.change_size(self.line, size), lambda: self.model.resize(size))

    async def revoke(self) -> None:
        asked = await self.step(
            lambda: self.clients[1].backend.revoke(self.line, "go"), lambda: self.model.expect_asked("go")
        )
        assert asked == len(self.model.inside)


async def run(clients: list[Client], seeds: int) -> int:
    return sum([await Run(seed, clients).go() for seed in range(seeds)])


async def test_the_scripts_do_what_the_model_does(connect: Connect) -> None:
    """Every answer, every call and every row of every step; most seeds run to their end."""
    clients = [await connect(), await connect()]
    assert await run(clients, SEEDS) > SEEDS / 2


FAULTS = {
    "no tombstone": ("if remembered > 0 then bury", "if false then bury"),
    "overtaking": ("local fits = line.first == '' and", "local fits ="),
    "the expired come back": ("if is_over(records[id]) then expire(id) end", ""),
    "the expired are forgotten": ("bury(id, 2, now + KEPT)", ""),
    "a life is shortened": (
        "math.max(record.ends, now + tonumber(ARGV[3 * i - 1]))",
        "now + tonumber(ARGV[3 * i - 1])",
    ),
    "an epoch twice": ("line.last = math.max(line.last + 1, math.floor(now / 16))", "line.last = math.floor(now / 16)"),
    "any join resizes": ("if line.inside + line.waiting == 0 then line.size", "if true then line.size"),
    "company is not told": ("elseif line.first == id then line.telling = line.head end", "end"),
    "nobody is called": ("publish(channel, 'I '", "local _ = ('I '"),
    "one forgets who waits": ("line.waiting == 0 and ONE or TWO", "ONE"),
    "two forget the third": (
        "if line.waiting > 1 or line.grave ~= '' then return end",
        "if line.grave ~= '' then return end",
    ),
    "one forgets the buried": (
        "if line.waiting > 1 or line.grave ~= '' then return end",
        "if line.waiting > 1 then return end",
    ),
    "one has another's epoch": ("if not r or r.epoch ~= line.last then return end", "if not r then return end"),
    "two lose the first when a third comes": (
        "line.changed[id] = record, last, 1, true",
        "line.changed[id] = record, last, 1, nil",
    ),
    "two lose the second when one is buried": (
        "line.changed[line.first] = record, 2, id, true",
        "line.changed[line.first] = record, 2, id, nil",
    ),
    "two leave their fields behind": ("line.removed[line.head], line.removed[line.first] = true, true", ""),
    "two are not linked": ("record.next = line.first\n", ""),
    "two are not linked back": (
        "record.prev, line.changed[line.first] = record, 2, id",
        "record.prev, line.changed[line.first] = record, 2, ''",
    ),
    "two change places": ("line.first, r.client, r.owner)", "line.head, r.client, r.owner)"),
    "one leaves for another unheard": (
        "if head == id and own == client and now < ends",
        "if head == id and now < ends",
    ),
    "one who leaves is any one": (
        "if head == id and own == client and now < ends",
        "if own == client and now < ends",
    ),
    "one who is dead leaves": ("own == client and now < ends and", "own == client and"),
    "left to the dead": ("now < ends and now < life then", "now < ends then"),
    "left with the same epoch": (
        "        last = math.max(last + 1, math.floor(now / 16))\n        header = struct.pack(LONE",
        "        header = struct.pack(LONE",
    ),
    "left to one who is not called": ("call(channel, first, last, false)", ""),
    "handed to one of many as to one": ("if waiting == 1 and grave == '' then", "if grave == '' then"),
    "the buried go with the last": ("== 0 and line.graves <= now then", "== 0 then"),
    "handed to one of several": ("if weight == size and ends > now then", "if ends > now then"),
    "handed to the heir's heir": ("first, next, tail, '', '', grave", "next, next, tail, '', '', grave"),
    "handed on, and waiting still": ("waiting - 1, serial", "waiting, serial"),
    "the dead stay inside": ("if now < line.soonest then return end", "if true then return end"),
    "standing again keeps the old": ("part(instead_of, client)\n", ""),
    "the too heavy stay": ("if record.weight > new then part(id) end", ""),
    "the list loses its tail": ("touch(next) else line.tail = prev end", "touch(next) end"),
}


def break_scripts(monkeypatch: pytest.MonkeyPatch, old: str, new: str) -> None:
    broken = 0
    for name in ("JOIN", "LEAVE", "RENEW", "WEIGHT", "SIZE", "REVOKE"):
        script: Script = getattr(backend_module, f"_{name}")
        if old in script.text:
            broken += 1
            worse = Script.of(script.name, script.text.replace(old, new))
            monkeypatch.setattr(backend_module, f"_{name}", worse)
    assert broken, "the fault is not in the scripts any more"


@pytest.mark.parametrize("fault", FAULTS)
async def test_the_model_finds_a_script_with_a_fault(
    fault: str, connect: Connect, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The broken twins, on the same seeds: the fault is found, and nothing else."""
    break_scripts(monkeypatch, *FAULTS[fault])
    clients = [await connect(), await connect()]
    with pytest.raises((AssertionError, BackendDataError, ValueError)):
        await run(clients, SEEDS)

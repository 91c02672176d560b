"""A stock whose segments are on several servers: one protocol over segments that know nothing of each other.

An order lives in the segment of its buyer, whole: articles, memory, outbox, one order per buyer. It is taken there in
one atomic step or not at all. Where the segment has too little, articles are *brought* there from others, in the name
of nobody; then the order is tried again. So no order is ever in two places, and only three things cross segments:

claims     An order id belongs to the buyer who used it first. The segment of the *order* says who that is.
articles   Each segment counts all that it ever sent to each other one. `send` counts up; `arrive` tells the target the
           count, and it takes in what is new to it. Lost, late or doubled, neither does harm: sent again it only
           brings more, and what has not arrived is on its way until anybody tells the target.
the sale   Segment 0 says whether it is open, and each answer of it has a growing number. Who finds a segment that has
           not heard of the last one tells it.

Sold out is what was proven: all segments were looked at, twice, and nothing had come in anywhere between the looks
(`Look.came_in`, the change number). Then at the instant between them all had together no more than at the first look.

docs/explanation/spread-stock.md has every message, and why each order ends exactly once.
"""

from __future__ import annotations

import asyncio
from collections import defaultdict
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

from aiodlock._core.routing import segment_of
from aiodlock._core.segment import (
    Arrivals,
    Count,
    Draw,
    Look,
    Moves,
    Page,
    Refusal,
    Segment,
    draws,
    levelled,
)
from aiodlock._core.stock import (
    AlreadyTaken,
    Audit,
    Differs,
    Entry,
    Remaining,
    Returned,
    Sale,
    SoldOut,
    Take,
    Taken,
    Terms,
)
from aiodlock.errors import BackendUnavailableError

__all__ = ["SpreadStockroom"]

_T = TypeVar("_T")

_ROUNDS = 20  # tries of an order whose articles others have fetched meanwhile, before it has to be sent again
_RECOUNTS = 10
_NOBODY = ""  # whom no order is given to, and who may ask whose it is


@dataclass(frozen=True, slots=True)
class _Survey:
    """All segments, each looked at once."""

    looks: Sequence[Look]

    @property
    def left(self) -> list[int]:
        return [look.left for look in self.looks]

    @property
    def on_their_way(self) -> int:
        return sum(look.sent - look.arrived for look in self.looks)

    @property
    def total(self) -> int:
        return sum(self.left) + self.on_their_way

    def lacks(self, quantity: int) -> bool:
        """Whether an order could not be served: proven for all the time until a later survey that `is_as` this one."""
        return not self.looks[0].is_open or self.total < quantity

    def is_as(self, before: _Survey) -> bool:
        """Whether nothing has come in anywhere since, so that there can only be less."""
        pairs = zip(self.looks, before.looks, strict=True)
        return all((now.sale, now.came_in) == (then.sale, then.came_in) for now, then in pairs)


class _OtherTermsError(Exception):
    def __init__(self, found: Differs) -> None:
        self.found = found


# --- the stock ---------------------------------------------------------------------------------------------


class SpreadStockroom:
    """The stock of one key, each segment on the server where its own key leads to."""

    def __init__(self, terms: Terms, segments: Sequence[Segment]) -> None:
        self._terms = terms
        self._segments = segments
        self._seen: _Survey | None = None  # the last look at all of them

    async def load(self, quantity: int, operation: str) -> bool | Differs:
        async def verb() -> bool:
            (is_done,) = await self._ask(self._segments[0].load(quantity, operation))
            if is_done:
                await self._level()
            return bool(is_done)

        return await self._or_differs(verb)

    async def add(self, quantity: int, operation: str) -> bool | Differs:
        async def verb() -> bool:
            (is_done,) = await self._ask(self._segments[0].add(quantity, operation))
            # Nobody sells any more when somebody was told that the sale is closed.
            await (self._level() if is_done else self._look_around())
            return bool(is_done)

        return await self._or_differs(verb)

    async def take(self, takes: Sequence[Take]) -> Sequence[Sale] | Differs:
        return await self._or_differs(lambda: self._take(takes))

    async def confirm(self, order: str, buyer: str) -> Taken | Returned | AlreadyTaken | Differs:
        async def verb() -> Taken | Returned | AlreadyTaken:
            kept: Taken | Returned | AlreadyTaken
            (kept,) = await self._ask(self._home(buyer).confirm(order, buyer))
            if kept != Returned(0):
                return kept
            (owner,) = await self._claim([(order, _NOBODY)])  # it may live elsewhere: with whom?
            return AlreadyTaken(order, owner) if owner not in {buyer, _NOBODY} else kept

        return await self._or_differs(verb)

    async def put_back(self, order: str, buyer: str) -> Returned | AlreadyTaken | Differs:
        async def verb() -> Returned | AlreadyTaken | Differs:
            (owner,) = await self._claim([(order, buyer)])
            return AlreadyTaken(order, owner) if owner != buyer else await self._home(buyer).put_back(order, buyer)

        return await self._or_differs(verb)

    async def remaining(self) -> Remaining | Differs:
        """Return what is left; at one instant, unless so much is sold that nobody can look in time."""

        async def verb() -> Remaining:
            looks = await self._look_around()
            for _ in range(_RECOUNTS):
                before = looks
                if _Survey(looks).on_their_way:
                    await self._bring_home(looks[0].born)
                looks = await self._look_around()
                if looks == before:
                    break
            return Remaining(tuple(look.left for look in looks))

        return await self._or_differs(verb)

    async def rebalance(self) -> Remaining | Differs:
        found = await self._or_differs(self._level)
        return found if isinstance(found, Differs) else await self.remaining()

    async def audit(self) -> Audit | Differs:
        return await self._or_differs(self._audit)

    async def close(self) -> Remaining | Differs:
        async def verb() -> None:
            await self._ask(self._segments[0].close())
            await self._look_around()

        found = await self._or_differs(verb)
        return found if isinstance(found, Differs) else await self.remaining()

    async def outbox(self, done: str, most: int) -> Sequence[Entry] | Differs:
        return await self._or_differs(lambda: self._read(done, most))

    # --- orders ------------------------------------------------------------------------------------------------

    async def _take(self, takes: Sequence[Take]) -> list[Sale]:
        owners = await self._claim([(take.order, take.buyer) for take in takes])
        answers: dict[int, Sale] = {}
        waiting: dict[int, Take] = {}
        for at, (take, owner) in enumerate(zip(takes, owners, strict=True)):
            if owner == take.buyer:
                waiting[at] = take
            else:
                answers[at] = AlreadyTaken(take.order, owner)
        await self._serve(waiting, answers)
        return [answers[at] for at in range(len(takes))]

    async def _serve(self, waiting: dict[int, Take], answers: dict[int, Sale]) -> None:
        """Try the orders where they live, look around, bring there what is missing, and so on until all are answered.

        A refusal is what two looks and a try between them prove: the order was unknown and there was too little for it.
        The first look may be an old one: when everything is sold, each refusal needs only one more.
        """
        brought: dict[int, Arrivals] = {}
        for _ in range(_ROUNDS):
            before = self._seen  # now: others may look while we try
            tried = await self._try(waiting, brought)
            short = {at: waiting[at] for at, sale in tried.items() if sale is None}
            refused: dict[int, Refusal] = {at: one for at, one in tried.items() if isinstance(one, AlreadyTaken)}
            answers.update((at, sale) for at, sale in tried.items() if sale is not None)
            survey = _Survey(await self._look_around()) if short else None
            if survey is not None and before is not None and survey.is_as(before):
                refused |= {at: SoldOut(survey.total) for at, take in short.items() if before.lacks(take.quantity)}
            answers.update(await self._refuse(waiting, refused))
            waiting = {at: take for at, take in short.items() if at not in refused}
            self._seen = survey or self._seen
            if not waiting or survey is None:
                return
            brought = await self._fetch(waiting.values(), survey)
        raise BackendUnavailableError(f"others took what was brought for orders of {self._terms.key!r}: ask again")

    async def _try(self, waiting: Mapping[int, Take], brought: Mapping[int, Arrivals]) -> dict[int, Sale | None]:
        homes = _grouped((take.home, at) for at, take in waiting.items())
        nothing = Arrivals(0)
        sales = await self._ask(
            *(
                self._segments[home].take([waiting[at] for at in group], brought.get(home, nothing))
                for home, group in homes
            )
        )
        return _ungrouped(homes, sales)

    async def _refuse(self, takes: Mapping[int, Take], refused: Mapping[int, Refusal]) -> dict[int, Sale]:
        """Return what the refused answer; where a copy of the order may be on its way, it will meet the refusal."""
        homes = _grouped((takes[at].home, at) for at in refused if takes[at].again)
        kept = await self._ask(
            *(self._segments[home].refuse([(takes[at], refused[at]) for at in group]) for home, group in homes)
        )
        return {**refused, **_ungrouped(homes, kept)}

    async def _claim(self, orders: Sequence[tuple[str, str]]) -> list[str]:
        places = _grouped((segment_of(order, len(self._segments)), at) for at, (order, _) in enumerate(orders))
        owners = await self._ask(
            *(self._segments[place].claim([orders[at] for at in group]) for place, group in places)
        )
        by_position: dict[int, str] = _ungrouped(places, owners)
        return [by_position[at] for at in range(len(orders))]

    def _home(self, buyer: str) -> Segment:
        return self._segments[segment_of(buyer, len(self._segments))]

    # --- articles ----------------------------------------------------------------------------------------------

    async def _fetch(self, takes: Iterable[Take], survey: _Survey) -> dict[int, Arrivals]:
        """Send to the homes of these orders what they lack; it arrives with the next try."""
        wanted: dict[int, int] = defaultdict(int)
        for take in takes:
            if not survey.lacks(take.quantity):
                wanted[take.home] += take.quantity
        if survey.on_their_way and sum(wanted.values()) > sum(survey.left):
            await self._bring_home(survey.looks[0].born)
        return await self._send(draws(survey.left, wanted), survey.looks[0].born)

    async def _send(self, plan: Sequence[Draw], born: int) -> dict[int, Arrivals]:
        counts = await self._ask(*(self._segments[one.source].send(one.target, one.quantity) for one in plan))
        targets = _grouped((one.target, (one.source, count)) for one, count in zip(plan, counts, strict=True))
        return {target: Arrivals(born, tuple(sent)) for target, sent in targets}

    async def _bring_home(self, born: int) -> None:
        """Tell every segment of what is on its way to it, whoever sent it."""
        moves: list[Moves] = await self._ask(*(segment.moves() for segment in self._segments))
        late = _grouped(
            (target, (source, count))
            for source, one in enumerate(moves)
            for target, count in one.sent.items()
            if count > moves[target].arrived.get(source, 0)
        )
        await self._ask(*(self._segments[target].arrive(Arrivals(born, tuple(sent))) for target, sent in late))

    async def _level(self) -> None:
        looks = await self._look_around()
        brought = await self._send(levelled([look.left for look in looks]), looks[0].born)
        await self._ask(*(self._segments[target].arrive(arrivals) for target, arrivals in brought.items()))

    # --- looking -----------------------------------------------------------------------------------------------

    async def _look_around(self) -> list[Look]:
        """Look at all segments when all have heard of the sale what segment 0 says."""
        for _ in range(_ROUNDS):
            looks = await self._look()
            news = looks[0]
            late = [segment for segment, look in zip(self._segments, looks, strict=True) if look.sale < news.sale]
            if not late:
                return looks
            await self._ask(*(segment.tell(news) for segment in late))
        raise BackendUnavailableError(f"the sale of {self._terms.key!r} is opened and closed all the time: ask again")

    async def _look(self) -> list[Look]:
        return await self._ask(*(segment.look() for segment in self._segments))

    async def _audit(self) -> Audit:
        """Count when nothing is on its way; what still seems so when nothing moves any more, a server has forgotten."""
        before: list[Count] = []
        for _ in range(_RECOUNTS):
            counts: list[Count] = [(await self._ask(segment.count()))[0] for segment in self._segments]
            if counts == before or not sum(count.sent for count in counts):
                return _sum_of([count.audit for count in counts])
            before = counts
            await self._bring_home((await self._look())[0].born)
        raise BackendUnavailableError(
            f"articles of {self._terms.key!r} moved during each of {_RECOUNTS} counts: audit when less is sold"
        )

    async def _read(self, done: str, most: int) -> list[Entry]:
        """Read all outboxes up to one instant: whatever is written later, anywhere, has a larger id."""
        pages: list[Page] = await self._ask(*(segment.read(done, most, 0) for segment in self._segments))
        last = max((_instant(entry) for page in pages for entry in page.entries), default=0)
        late = [at for at, page in enumerate(pages) if page.until < last]
        again = await self._ask(*(self._segments[at].read("", most, last) for at in late))
        for at, page in zip(late, again, strict=True):
            pages[at] = page
        until = min(page.until for page in pages)
        found = (entry for page in pages for entry in page.entries if _instant(entry) <= until)
        entries = sorted(found, key=_instant)
        while most < len(entries) and _instant(entries[most - 1]) == _instant(entries[most]):
            most += 1  # equal ids are done with together
        return entries[:most]

    # --- asking ------------------------------------------------------------------------------------------------

    async def _ask(self, *asked: Awaitable[Any]) -> list[Any]:
        """Wait for all answers, also if one is an error: nothing of a verb is under way when it is repeated."""
        answers = await asyncio.gather(*asked, return_exceptions=True)
        for answer in answers:
            if isinstance(answer, BaseException):
                raise answer
            if isinstance(answer, Differs):
                raise _OtherTermsError(answer)
        return answers

    async def _or_differs(self, verb: Callable[[], Awaitable[_T]]) -> _T | Differs:
        try:
            return await verb()
        except _OtherTermsError as other:
            return other.found


def _grouped(pairs: Iterable[tuple[int, _T]]) -> list[tuple[int, list[_T]]]:
    groups: dict[int, list[_T]] = {}
    for key, value in pairs:
        groups.setdefault(key, []).append(value)
    return list(groups.items())


def _ungrouped(groups: Sequence[tuple[int, list[int]]], answers: Sequence[Sequence[_T]]) -> dict[int, _T]:
    """Return each answer by the position that it was asked for."""
    return {
        at: one for (_, group), some in zip(groups, answers, strict=True) for at, one in zip(group, some, strict=True)
    }


def _sum_of(audits: Sequence[Audit]) -> Audit:
    return Audit(
        sum(one.loaded for one in audits),
        sum(one.accepted for one in audits),
        sum(one.returned for one in audits),
        sum(one.forgotten for one in audits),
        sum(one.orders for one in audits),
        tuple(left for one in audits for left in one.segments),
        sum(one.outbox for one in audits),
    )


def _instant(entry: Entry) -> int:
    return int(entry.id.partition("-")[0])

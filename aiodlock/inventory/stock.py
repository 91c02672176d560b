"""The stock of one key, in segments: taken from by orders, each exactly once, never oversold."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from functools import partial
from typing import TYPE_CHECKING, TypeVar

from aiodlock._core.routing import segment_of
from aiodlock._core.stock import (
    AlreadyTaken,
    Audit,
    Differs,
    Entry,
    Remaining,
    Returned,
    Sale,
    Taken,
    Terms,
)
from aiodlock.backends.base import Stocking, Stockroom
from aiodlock.errors import ConfigurationError, UnsupportedError
from aiodlock.events import StockReturned
from aiodlock.inventory.checkout import Checkout
from aiodlock.policy import check_count, check_flag, check_key, check_seconds

if TYPE_CHECKING:
    from aiodlock.client import LockClient

__all__ = ["SegmentedStock"]

_T = TypeVar("_T")

_MOST_SEGMENTS = 1024
_LONGEST_MEMORY = 30 * 86_400.0


class SegmentedStock:
    """The stock of one key. Made by `LockClient.stock`.

    `take` remembers every order by its id for `memory` seconds: asked again, it answers the same and takes nothing
    twice. Everybody who uses a key has to give the same terms; others are refused.
    """

    def __init__(
        self,
        client: LockClient,
        key: str,
        *,
        segments: int = 1,
        memory: float = 3600.0,
        once_per_buyer: bool = False,
        outbox: bool = False,
        patience: float = 5.0,
    ) -> None:
        self._client = client
        self._terms = Terms(
            key,
            check_count("segments", segments, most=_MOST_SEGMENTS),
            check_seconds("memory", memory, least=1.0, most=_LONGEST_MEMORY),
            check_flag("once_per_buyer", once_per_buyer),
            check_flag("outbox", outbox),
        )
        self._patience = check_seconds("patience", patience, least=0.05, most=3600.0)
        self._room = _room_of(client, self._terms)
        self._checkout: Checkout | None = None

    def __repr__(self) -> str:
        return f"<SegmentedStock {self.key!r} of {self.segments}>"

    @property
    def key(self) -> str:
        """What is sold."""
        return self._terms.key

    @property
    def segments(self) -> int:
        """Over how many segments it is spread."""
        return self._terms.segments

    def segment_of(self, buyer: str) -> int:
        """Return the segment that *buyer* is served from while it has something: as a segmented lock routes."""
        return segment_of(buyer, self._terms.segments)

    async def load(self, quantity: int) -> bool:
        """Open the sale with *quantity*, unless it is open already; return whether this call did.

        So every worker may call it when it starts. A closed sale is opened again.

        Cancellation: it is done or not; asked again it says False where it was done.
        """
        operation = self._client._at_work().new_id()
        return await self._ask(partial(self._room.load, check_count("quantity", quantity, least=0), operation))

    async def add(self, quantity: int) -> None:
        """Add to an open sale, spread over the segments; exactly once, also after a lost reply.

        Cancellation: it is done or not; a request on its way is seen through.
        """
        operation = self._client._at_work().new_id()
        if not await self._ask(partial(self._room.add, check_count("quantity", quantity), operation)):
            raise ConfigurationError(f"the sale of {self.key!r} is not open: load() it first")

    async def take(self, *, buyer: str, order: str, quantity: int = 1) -> Sale:
        """Take *quantity* for an order: `Taken`, `SoldOut`, `AlreadyTaken`, or `Returned` if it was put back.

        The buyer's own segment is tried first, then the others. Under one *order* id it is done at most once, however
        often it is asked for. Without an answer from the server within `patience`: `BackendUnavailableError`; the
        order may be taken or not, and can be taken again under its id, or put back.

        Cancellation: the order may be taken or not; take it again under its id, or put it back.
        """
        return await (self._checkout or self._open_checkout()).take(buyer, order, quantity)

    async def reserve(self, *, buyer: str, order: str, hold_for: float, quantity: int = 1) -> Sale:
        """Take *quantity* for *hold_for* seconds: unless it is confirmed until then, it goes back by itself.

        `take` of the same order confirms it too. Asked again, it says the same, and its time runs on from the first.

        Cancellation: the order may be reserved or not; it goes back by itself.
        """
        check_seconds("hold_for", hold_for, least=0.05, most=self._terms.memory)
        return await (self._checkout or self._open_checkout()).take(buyer, order, quantity, hold_for)

    async def confirm(self, *, buyer: str, order: str) -> Taken | Returned | AlreadyTaken:
        """Keep a reservation for good; `Returned` says that it is too late, or that there is no such order.

        `AlreadyTaken` says that the order is another buyer's, and nothing was done.

        Cancellation: it is confirmed or not; ask again.
        """
        return await self._ask(partial(self._room.confirm, _named("order", order), _named("buyer", buyer)))

    async def put_back(self, *, buyer: str, order: str) -> Returned | AlreadyTaken:
        """Give back what an order has; a take of it that arrives later is `Returned` and takes nothing.

        `AlreadyTaken` says that the order is another buyer's, and nothing was done.

        Cancellation: it is put back or not; ask again.
        """
        verb = partial(self._room.put_back, _named("order", order), _named("buyer", buyer))
        answer: Returned | AlreadyTaken = await self._ask(verb)
        if isinstance(answer, Returned) and answer.quantity:
            self._client._at_work().emit(StockReturned(self.key, order, answer.quantity))
        return answer

    async def remaining(self) -> Remaining:
        """Return what is left in all and in each segment, at one instant.

        Cancellation: nothing is left behind.
        """
        return await self._ask(self._room.remaining)

    async def rebalance(self) -> Remaining:
        """Spread what is left evenly over the segments, and return it.

        Cancellation: it is done or not; nothing is left half done.
        """
        return await self._ask(self._room.rebalance)

    async def audit(self) -> Audit:
        """Return the books, counted again order by order; `is_balanced` tells whether they agree.

        Cancellation: nothing is left behind.
        """
        return await self._ask(self._room.audit)

    async def close(self) -> Remaining:
        """End the sale and return what is left; every further take is `SoldOut`.

        Orders can be confirmed and put back as long as they are remembered; then the server forgets all of it, and
        another sale of the key begins from nothing. What stands in the outbox stays until it is read.

        Cancellation: it is closed or not; ask again.
        """
        return await self._ask(self._room.close)

    async def read_outbox(self, done: str = "", *, most: int = 100) -> Sequence[Entry]:
        """Drop the entries of the outbox up to the id *done*, and return the next ones: what `OutboxRelay` does.

        Cancellation: what was done with is dropped or not; ask again.
        """
        return await self._ask(partial(self._room.outbox, done, check_count("most", most)))

    def _open_checkout(self) -> Checkout:
        at_work = self._client._at_work
        self._checkout = Checkout(at_work, self._room, self._terms, patience=self._patience)
        return self._checkout

    async def _ask(self, verb: Callable[[], Awaitable[_T | Differs]]) -> _T:
        """Ask until there is an answer: every verb of a stockroom can be repeated."""
        engine = self._client._at_work()
        answer = await engine.ask(engine.repeat(verb, within=self._patience))
        if isinstance(answer, Differs):
            raise answer.refusal(self._terms)
        return answer


def _room_of(client: LockClient, terms: Terms) -> Stockroom:
    if not isinstance(client.backend, Stocking):
        raise UnsupportedError(f"{client.backend.address} keeps no stock: use memory://, redis:// or mysql://")
    return client.backend.stock(terms)


def _named(what: str, name: str) -> str:
    return check_key(name, what)

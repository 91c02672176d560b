"""The stock of one key on a memory server: the ledger itself."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from typing import TYPE_CHECKING, TypeVar

from aiodlock._core.ledger import Ledger
from aiodlock._core.stock import AlreadyTaken, Audit, Differs, Entry, Remaining, Returned, Sale, Take, Taken, Terms

if TYPE_CHECKING:
    from aiodlock.backends.memory.backend import MemoryBackend

__all__ = ["MemoryStockroom"]

_T = TypeVar("_T")


class MemoryStockroom:
    """The stock of one key on a memory server."""

    def __init__(self, backend: MemoryBackend, terms: Terms) -> None:
        self._backend = backend
        self._terms = terms

    def load(self, quantity: int, operation: str) -> Awaitable[bool | Differs]:
        return self._do("restock", lambda ledger, now: ledger.load(quantity, operation, now))

    def add(self, quantity: int, operation: str) -> Awaitable[bool | Differs]:
        return self._do("restock", lambda ledger, now: ledger.add(quantity, operation, now))

    def take(self, takes: Sequence[Take]) -> Awaitable[Sequence[Sale] | Differs]:
        return self._do("take", lambda ledger, now: ledger.take(takes, now))

    def confirm(self, order: str, buyer: str) -> Awaitable[Taken | Returned | AlreadyTaken | Differs]:
        return self._do("confirm", lambda ledger, now: ledger.confirm(order, buyer, now))

    def put_back(self, order: str, buyer: str) -> Awaitable[Returned | AlreadyTaken | Differs]:
        return self._do("put_back", lambda ledger, now: ledger.put_back(order, buyer, now))

    def remaining(self) -> Awaitable[Remaining | Differs]:
        return self._do("restock", lambda ledger, now: ledger.remaining(now))

    def rebalance(self) -> Awaitable[Remaining | Differs]:
        return self._do("restock", lambda ledger, now: ledger.rebalance(now))

    def audit(self) -> Awaitable[Audit | Differs]:
        return self._do("audit", lambda ledger, now: ledger.audit(now))

    def close(self) -> Awaitable[Remaining | Differs]:
        return self._do("restock", lambda ledger, now: ledger.close(now))

    def outbox(self, done: str, most: int) -> Awaitable[Sequence[Entry] | Differs]:
        return self._do("outbox", lambda ledger, now: ledger.outbox(done, most, now))

    def _do(self, verb: str, act: Callable[[Ledger, float], _T]) -> Awaitable[_T | Differs]:
        return self._backend.network.carry(verb, lambda: self._act(act))

    def _act(self, act: Callable[[Ledger, float], _T]) -> _T | Differs:
        server = self._backend.server
        ledger = server.ledger(self._terms)
        return act(ledger, server.clock.now()) if ledger.terms == self._terms else Differs(ledger.terms)

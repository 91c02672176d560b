"""One movement of one order, as it travels through Kafka: JSON, keyed by order."""

from __future__ import annotations

import json
from dataclasses import dataclass

from aiodlock._core.stock import Move, Movement
from aiodlock.errors import BackendDataError

__all__ = ["Message"]


@dataclass(frozen=True, slots=True)
class Message:
    """A movement, and the key of its stock."""

    stock: str
    movement: Movement

    @property
    def key(self) -> bytes:
        """What decides the partition: all movements of an order come in order."""
        return self.movement.order.encode()

    def encode(self) -> bytes:
        """Return it as JSON."""
        one = self.movement
        facts = {"stock": self.stock, "move": one.move.value, "order": one.order, "buyer": one.buyer}
        return json.dumps(facts | {"quantity": one.quantity, "segment": one.segment}).encode()

    @classmethod
    def decode(cls, value: bytes | None) -> Message:
        """Read it; raise `BackendDataError` for what is none of ours."""
        try:
            facts = json.loads(value or b"")
            names, numbers = ("stock", "order", "buyer"), ("quantity", "segment")
            if not all(type(facts[name]) is str and len(facts[name].encode()) <= 255 for name in names):
                raise ValueError("a name is no string of 255 bytes at most")
            if not all(type(facts[number]) is int and 0 <= facts[number] < 1 << 31 for number in numbers):
                raise ValueError("a number is none")
            move = Move(facts["move"])
        except (ValueError, KeyError, TypeError) as error:
            raise BackendDataError(f"no message about an order: {error!r}") from error
        order, buyer, quantity, segment = (facts[name] for name in ("order", "buyer", "quantity", "segment"))
        return cls(facts["stock"], Movement(move, order, buyer, quantity, segment))

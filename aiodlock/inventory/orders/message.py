"""One movement of one order, as it travels through Kafka: JSON, keyed by order."""

from __future__ import annotations

import json
from dataclasses import dataclass

from aiodlock._core.stock import Move, Movement
from aiodlock.errors import BackendDataError

__all__ = ["Message"]

_MOVES = {move.value: move for move in Move}
_LONGEST, _LARGEST = 255, 1 << 31  # what a column takes

_pack = json.JSONEncoder(check_circular=False).encode


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
        facts = {
            "stock": self.stock,
            "move": one.move.value,
            "order": one.order,
            "buyer": one.buyer,
            "quantity": one.quantity,
            "segment": one.segment,
        }
        return _pack(facts).encode()

    @classmethod
    def decode(cls, value: bytes | None) -> Message:
        """Read it; raise `BackendDataError` for what is none of ours."""
        try:
            facts = json.loads(value or b"")
            move = _MOVES[facts["move"]]
            names = [facts["stock"], facts["order"], facts["buyer"]]
            numbers = [facts["quantity"], facts["segment"]]
        except (ValueError, KeyError, TypeError, RecursionError) as error:
            raise BackendDataError(f"no message about an order: {error!r}") from error
        if not all(map(_is_name, names)) or not all(map(_is_number, numbers)):
            raise BackendDataError("a message about an order with a name or number that no row can have")
        return cls(names[0], Movement(move, names[1], names[2], *numbers))


def _is_name(name: object) -> bool:
    if type(name) is not str or len(name) > _LONGEST:
        return False
    try:
        return name.isascii() or len(name.encode()) <= _LONGEST
    except UnicodeEncodeError:  # half a character, which JSON can say
        return False


def _is_number(number: object) -> bool:
    return type(number) is int and 0 <= number < _LARGEST

"""What a ticket's node holds: who has it and how long it lives, readable by anybody with a ZooKeeper client."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any

__all__ = ["Record"]

_written = json.JSONEncoder(ensure_ascii=False, separators=(",", ":")).encode


@dataclass(frozen=True, slots=True, kw_only=True)
class Record:
    """The data of a node, JSON. Somebody else's node, whatever it holds, has that as its owner."""

    owner: str
    key: str = ""
    ttl: float = 0.0
    session: float = 0.0  # the session's time-out
    inside: bool = False  # let in after it had waited
    epoch: int | None = None  # of the node that this one stands for, after a downgrade
    asks: int = 0  # how often it was asked to go
    asked: str = ""  # why, the last time

    @property
    def life(self) -> float:
        """How long it lasts unless its client is heard of."""
        return min(self.ttl, self.session)

    def encode(self) -> bytes:
        told = {name: value for name in self.__slots__ if (value := getattr(self, name)) or name == "owner"}
        return _written(told).encode()

    @classmethod
    def decode(cls, data: bytes | None) -> Record:
        try:
            told: Any = json.loads(data or b"")
            return cls(**told)
        except (TypeError, ValueError):
            return cls(owner=(data or b"").decode(errors="replace"))

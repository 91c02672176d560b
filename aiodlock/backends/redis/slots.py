"""Slots: which server of a cluster keeps which part of the keys, as told by the servers themselves."""

from __future__ import annotations

from typing import Any, NamedTuple, TypeAlias

from redis.cluster import parse_cluster_slots
from redis.crc import REDIS_CLUSTER_HASH_SLOTS

__all__ = ["Redirection", "SlotMap", "Spot"]

Spot: TypeAlias = tuple[str, int]  # host and port as the cluster announces them


class Redirection(NamedTuple):
    """An answer that means: ask there. For good (``MOVED``), or for this command only (``ASK``)."""

    is_for_good: bool
    slot: int
    spot: Spot

    @classmethod
    def of(cls, error: str, asked: Spot) -> Redirection | None:
        """Read an error reply of the server at *asked*; None if it is something else."""
        match error.split(" "):
            case ["MOVED" | "ASK" as code, slot, where, *_]:
                host, _, port = where.rpartition(":")
                # A server that does not know its own name means: the one that you asked, on this port.
                return cls(code == "MOVED", int(slot), (host if host not in ("", "?") else asked[0], int(port)))
        return None


class SlotMap:
    """The owner of every slot, as far as known."""

    def __init__(self) -> None:
        self.masters: tuple[Spot, ...] = ()
        self.replicas: frozenset[Spot] = frozenset()
        self._owners: list[Spot | None] = [None] * REDIS_CLUSTER_HASH_SLOTS

    @property
    def unserved(self) -> int:
        """How many slots nobody keeps."""
        return self._owners.count(None)

    def owner(self, slot: int) -> Spot | None:
        return self._owners[slot]

    def move(self, slot: int, to: Spot) -> None:
        """Take from a redirection where one slot is now."""
        self._owners[slot] = to

    def learn(self, reply: Any, asked: Spot) -> bool:
        """Take over what the server at *asked* said to ``CLUSTER SLOTS``; return whether a slot has another owner."""
        found: list[Spot | None] = [None] * REDIS_CLUSTER_HASH_SLOTS
        ranges = parse_cluster_slots(reply, current_host=asked[0])
        for (first, last), servers in ranges.items():
            found[first : last + 1] = [servers["primary"]] * (last + 1 - first)
        has_changed = found != self._owners
        self._owners = found
        self.masters = tuple(dict.fromkeys(servers["primary"] for servers in ranges.values()))
        self.replicas = frozenset(spot for servers in ranges.values() for spot in servers["replicas"])
        return has_changed

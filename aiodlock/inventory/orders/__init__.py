"""What becomes of orders: from the outbox of a stock through Kafka into rows of MySQL, each exactly once.

The request of a buyer ends with `stock.take`. Everything after it happens here, in the background, and is tried again
until it is done:

    take ──► outbox ──► OutboxRelay ──► Kafka ──► OrderWriter ──► row and offset in one transaction

Each part is imported when it is asked for, so that it needs its own driver and no other: a relay no database.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from aiodlock.inventory.orders.access import Access
    from aiodlock.inventory.orders.books import Reconciliation, reconcile
    from aiodlock.inventory.orders.landing import Rows
    from aiodlock.inventory.orders.message import Message
    from aiodlock.inventory.orders.publisher import Publisher
    from aiodlock.inventory.orders.relay import OutboxRelay
    from aiodlock.inventory.orders.topics import make_topics
    from aiodlock.inventory.orders.writer import OrderWriter

__all__ = [
    "Access",
    "Message",
    "OrderWriter",
    "OutboxRelay",
    "Publisher",
    "Reconciliation",
    "Rows",
    "make_topics",
    "reconcile",
]

_HOMES = {
    "Access": "access",
    "Message": "message",
    "OrderWriter": "writer",
    "OutboxRelay": "relay",
    "Publisher": "publisher",
    "Reconciliation": "books",
    "Rows": "landing",
    "make_topics": "topics",
    "reconcile": "books",
}


def __getattr__(name: str) -> object:
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"{__name__}.{_HOMES[name]}"), name)

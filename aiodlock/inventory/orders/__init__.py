"""What becomes of orders: from the outbox of a stock through Kafka into rows of MySQL, each exactly once.

The request of a buyer ends with `stock.take`. Everything after it happens here, in the background, and is tried again
until it is done:

    take ──► outbox ──► OutboxRelay ──► Kafka ──► OrderWriter ──► row and offset in one transaction
"""

from aiodlock.inventory.orders.books import Reconciliation, reconcile
from aiodlock.inventory.orders.message import Message
from aiodlock.inventory.orders.publisher import Publisher
from aiodlock.inventory.orders.relay import OutboxRelay
from aiodlock.inventory.orders.topics import make_topics
from aiodlock.inventory.orders.writer import OrderWriter, Rows

__all__ = [
    "Message",
    "OrderWriter",
    "OutboxRelay",
    "Publisher",
    "Reconciliation",
    "Rows",
    "make_topics",
    "reconcile",
]

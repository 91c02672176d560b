"""Do stock, outbox, topic and rows agree?"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from aiodlock._core.stock import Audit
from aiodlock.inventory.orders.writer import Rows

if TYPE_CHECKING:
    from aiodlock.inventory.orders.writer import OrderWriter
    from aiodlock.inventory.stock import SegmentedStock

__all__ = ["Reconciliation", "reconcile"]

_MOST_ENTRIES = 100_000


@dataclass(frozen=True, slots=True)
class Reconciliation:
    """The books of a stock, how many movements are on their way, and the rows of its orders.

    `in_outbox` are not in Kafka yet, `in_topic` not in the database.
    """

    stock: Audit
    in_outbox: int
    in_topic: int
    rows: Rows

    @property
    def is_settled(self) -> bool:
        """Whether nothing is on its way any more."""
        return not self.in_outbox and not self.in_topic

    @property
    def is_balanced(self) -> bool:
        """Whether the rows have what the stock gave away: to be asked when everything is settled."""
        taken = self.stock.accepted - self.stock.returned
        return self.stock.is_balanced and (self.rows.quantity, self.rows.returned) == (taken, self.stock.returned)


async def reconcile(stock: SegmentedStock, writer: OrderWriter) -> Reconciliation:
    """Look at all four; exact when nothing is sold meanwhile.

    Cancellation: nothing is left behind.
    """
    entries = await stock.read_outbox(most=_MOST_ENTRIES)
    in_topic = await writer.lag()
    in_outbox = sum(len(entry.movements) for entry in entries)
    return Reconciliation(await stock.audit(), in_outbox, in_topic, await writer.rows(stock.key))

"""Do stock, outbox, topic and rows agree?"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from aiodlock._core.stock import Audit
    from aiodlock.inventory.orders.landing import Rows
    from aiodlock.inventory.orders.writer import OrderWriter
    from aiodlock.inventory.stock import SegmentedStock

__all__ = ["Reconciliation", "reconcile"]


@dataclass(frozen=True, slots=True)
class Reconciliation:
    """The books of a stock, what is on its way, and the rows of its orders.

    `in_topic` messages are not in the database: of all writers together, and of every stock whose topic it is.
    """

    stock: Audit
    in_topic: int
    rows: Rows

    @property
    def in_outbox(self) -> int:
        """How many entries of the outbox are not in Kafka yet, each with the movements of one step."""
        return self.stock.outbox

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
    """Look at all four; exact when nothing is sold meanwhile. Any writer of the topic will do, at work or not.

    In the order in which a movement travels: what leaves one place during the look is seen in the next.

    Cancellation: nothing is left behind.
    """
    audit = await stock.audit()
    in_topic = await writer.lag()
    return Reconciliation(audit, in_topic, await writer.rows(stock.key))

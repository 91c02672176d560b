"""Stock that is never oversold, and what becomes of its orders."""

from aiodlock._core.stock import AlreadyTaken, Audit, Remaining, Returned, Sale, SoldOut, Taken
from aiodlock.inventory.stock import SegmentedStock

__all__ = ["AlreadyTaken", "Audit", "Remaining", "Returned", "Sale", "SegmentedStock", "SoldOut", "Taken"]

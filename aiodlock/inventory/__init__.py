"""Stock that is never oversold, and what becomes of its orders."""

from aiodlock._core.stock import AlreadyTaken, Audit, Remaining, Returned, Sale, SoldOut, Taken
from aiodlock.inventory.locked import LockedSale
from aiodlock.inventory.stock import SegmentedStock

__all__ = ["AlreadyTaken", "Audit", "LockedSale", "Remaining", "Returned", "Sale", "SegmentedStock", "SoldOut", "Taken"]

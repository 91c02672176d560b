"""Lines kept in this process: the reference that every other backend is compared with, and users' test double."""

from aiodlock.backends.memory.backend import MemoryBackend
from aiodlock.backends.memory.network import Network
from aiodlock.backends.memory.server import MemoryServer
from aiodlock.backends.memory.stock import MemoryStockroom

__all__ = ["MemoryBackend", "MemoryServer", "MemoryStockroom", "Network"]

"""Lines kept in the tables of a MySQL or MariaDB database, and the classic locks for tables of your own."""

from aiodlock.backends.mysql.backend import MySQLBackend
from aiodlock.backends.mysql.lock_table import LockTable, LockTableColumns
from aiodlock.backends.mysql.rows import RowLock, Versioned

__all__ = ["LockTable", "LockTableColumns", "MySQLBackend", "RowLock", "Versioned"]

"""Lines kept in the tables of a MySQL or MariaDB database."""

from aiodlock.backends.mysql.backend import MySQLBackend

__all__ = ["MySQLBackend"]

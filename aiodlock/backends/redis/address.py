"""Where a Redis server is and how to be let in: read from a URL by redis-py, without echoing secrets."""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, TypeAlias, TypeVar

from redis.asyncio.connection import Connection, SSLConnection, parse_url
from redis.exceptions import RedisError

from aiodlock.backends.redis.scripts import command
from aiodlock.errors import ConfigurationError

__all__ = ["Address", "Credentials"]

_P = TypeVar("_P", bound=asyncio.Protocol)
Credentials: TypeAlias = Callable[[], tuple[str | None, str]]

_OURS = frozenset({"host", "port", "path", "db", "username", "password"})


@dataclass(frozen=True, slots=True, kw_only=True)
class Address:
    """One server: host and port, or the path of a unix socket; *tls* makes it ``rediss://``.

    *credentials* returns user (or None) and password; it is asked at every connect, so that they may change.
    """

    host: str = "localhost"
    port: int = 6379
    path: str | None = None
    db: int = 0
    tls: ssl.SSLContext | None = field(default=None, repr=False)
    credentials: Credentials | None = field(default=None, repr=False)

    def __str__(self) -> str:
        if self.path:
            return f"unix://{self.path}?db={self.db}"
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"{'rediss' if self.tls else 'redis'}://{host}:{self.port}/{self.db}"

    @classmethod
    def from_url(cls, url: str, *, unverified: bool = False) -> Address:
        """Read ``redis://``, ``rediss://`` or ``unix://``; *unverified* allows TLS that does not check the server."""
        try:
            options: dict[str, Any] = dict(parse_url(url))
            kind = options.pop("connection_class", Connection)
            tls = _context(options) if kind is SSLConnection else None
        except (OSError, RedisError, TypeError, ValueError) as error:
            # Only the kind of error: the text may repeat the URL, and with it the password.
            raise ConfigurationError(f"Redis URL cannot be used: {type(error).__name__}; {_HINT}") from None
        if unknown := sorted(options.keys() - _OURS):
            raise ConfigurationError(f"Redis URL has options that are not supported: {', '.join(unknown)}; {_HINT}")
        if tls and not (unverified or (tls.verify_mode is ssl.CERT_REQUIRED and tls.check_hostname)):
            raise ConfigurationError("Redis URL switches off the check of the certificate: give unverified=True")
        user, password = options.pop("username", None), options.pop("password", "")
        return cls(tls=tls, credentials=(lambda: (user, password)) if user or password else None, **options)

    async def connect(self, protocol: Callable[[], _P]) -> _P:
        """Open a connection; nothing is said on it yet."""
        loop = asyncio.get_running_loop()
        if self.path:
            return (await loop.create_unix_connection(protocol, self.path))[1]
        name = self.host if self.tls else None
        return (await loop.create_connection(protocol, self.host, self.port, ssl=self.tls, server_hostname=name))[1]

    def greeting(self, name: str) -> tuple[bytes, ...]:
        """Return the packed commands that begin a connection: RESP3, user, client name, database."""
        user, password = self.credentials() if self.credentials else (None, "")
        login = ("AUTH", user or "default", password) if self.credentials else ()
        return command("HELLO", 3, *login, "SETNAME", name), *((command("SELECT", self.db),) if self.db else ())


_HINT = "give redis://user:password@host:port/db, rediss://… or unix:///path?db=0"


def _context(options: dict[str, Any]) -> ssl.SSLContext:
    """Return redis-py's TLS context for the ``ssl_…`` options, taken out of *options*."""
    own = {name: options.pop(name) for name in list(options) if name.startswith("ssl_")}
    context: ssl.SSLContext = SSLConnection(**own).ssl_context.get()
    return context

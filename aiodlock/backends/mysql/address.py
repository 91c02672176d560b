"""Where a MySQL or MariaDB server is and how to be let in: read from a URL, without echoing secrets."""

from __future__ import annotations

import ipaddress
import ssl
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TypeAlias
from urllib.parse import parse_qsl, unquote, urlsplit

from aiodlock.errors import ConfigurationError

__all__ = ["Address", "Credentials"]

Credentials: TypeAlias = Callable[[], tuple[str, str]]

_HINT = "give mysql://user:password@host:port/database, or mysqls://… for TLS"


@dataclass(frozen=True, slots=True, kw_only=True)
class Address:
    """One database on one server; *tls* makes it ``mysqls://``.

    *plaintext* allows to speak in clear to another machine. *credentials* returns user and password; it is asked at
    every connect, so that they may change.
    """

    host: str = "localhost"
    port: int = 3306
    database: str = ""
    tls: ssl.SSLContext | None = field(default=None, repr=False)
    plaintext: bool = False
    credentials: Credentials = field(default=lambda: ("root", ""), repr=False)

    def __post_init__(self) -> None:
        if not (self.tls or self.plaintext or self.is_local):
            raise ConfigurationError(
                f"{self} would send everything in clear: give mysqls://, or plaintext=True (in a URL ?plaintext=true)"
            )

    def __str__(self) -> str:
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"{'mysqls' if self.tls else 'mysql'}://{host}:{self.port}/{self.database}"

    @property
    def is_local(self) -> bool:
        """Whether what is said stays on this machine."""
        try:
            return ipaddress.ip_address(self.host).is_loopback
        except ValueError:
            return self.host == "localhost"

    @classmethod
    def from_url(cls, url: str, *, unverified: bool = False, plaintext: bool = False) -> Address:
        """Read ``mysql://`` or ``mysqls://``; ``?ca=`` names a file with the authority of the server's certificate.

        Without TLS only this machine is spoken to, unless *plaintext* or ``?plaintext=true`` asks for more.
        *unverified* allows TLS that does not check the server.
        """
        try:
            parts = urlsplit(url)
            port, host = parts.port or 3306, parts.hostname or "localhost"
            options = dict(parse_qsl(parts.query, strict_parsing=True)) if parts.query else {}
        except ValueError as error:
            # Only the kind of error: the text may repeat the URL, and with it the password.
            raise ConfigurationError(f"MySQL URL cannot be used: {type(error).__name__}; {_HINT}") from None
        database = unquote(parts.path[1:])
        if not database or "/" in database:
            raise ConfigurationError(f"MySQL URL names no database: {_HINT}")
        ca = options.pop("ca", None)
        plaintext = options.pop("plaintext", "") == "true" or plaintext
        if options:
            raise ConfigurationError(
                f"MySQL URL has options that are not supported: {', '.join(sorted(options))}; {_HINT}"
            )
        tls = _context(ca, unverified=unverified) if parts.scheme == "mysqls" else None
        user, password = unquote(parts.username or "root"), unquote(parts.password or "")
        return cls(
            host=host,
            port=port,
            database=database,
            tls=tls,
            plaintext=plaintext,
            credentials=lambda: (user, password),
        )


def _context(ca: str | None, *, unverified: bool) -> ssl.SSLContext:
    try:
        context = ssl.create_default_context(cafile=ca)
    except OSError as error:
        raise ConfigurationError(f"the file with the certificate authority, {ca!r}, cannot be read: {error}") from error
    if unverified:
        context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    return context

"""Where the master is: asked of all sentinels at once, and the newest configuration is believed."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple
from urllib.parse import parse_qsl, urlencode, urlsplit

from aiodlock.backends.redis.address import Address
from aiodlock.backends.redis.scripts import command, to_none
from aiodlock.backends.redis.wire import Link
from aiodlock.errors import BackendUnavailableError, ConfigurationError

__all__ = ["Sentinels", "Told"]

_PORT = 26379
_HINT = "give redis+sentinel://user:password@host1:port,host2,host3/service/db"


class Told(NamedTuple):
    """What one sentinel says: the number of its configuration, and the master in it."""

    epoch: int
    host: str
    port: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Sentinels:
    """The sentinels of one *service*; *server* is how to be let in by the master, wherever it is.

    *patience*: how long to wait for a sentinel that says nothing.
    """

    service: str
    sentinels: tuple[Address, ...]
    server: Address = field(default_factory=Address)
    patience: float = 0.5

    def __str__(self) -> str:
        scheme = "rediss+sentinel" if self.server.tls else "redis+sentinel"
        hosts = sorted(str(sentinel).partition("://")[2].partition("/")[0] for sentinel in self.sentinels)
        return f"{scheme}://{','.join(hosts)}/{self.service}/{self.server.db}"

    @classmethod
    def from_url(cls, url: str, *, unverified: bool = False) -> Sentinels:
        """Read ``redis+sentinel://`` or, with TLS to sentinels and servers, ``rediss+sentinel://``.

        User and password are for the servers; those for the sentinels are options, ``sentinel_username`` and
        ``sentinel_password``.
        """
        scheme, _, rest = url.partition("+sentinel://")
        parts = urlsplit(f"//{rest}")
        login, _, hosts = parts.netloc.rpartition("@")
        service, _, db = parts.path.strip("/").partition("/")
        if not (service and all(hosts.split(",")) and (db or "0").isdigit()):
            raise ConfigurationError(f"Redis URL names no sentinels, no service or no number of a database: {_HINT}")
        options = dict(parse_qsl(parts.query))
        user, password = (options.pop(f"sentinel_{name}", "") for name in ("username", "password"))
        query = urlencode(options)

        def address(login: str, host: str, db: str = "") -> Address:
            return Address.from_url(f"{scheme}://{login}{host}/{db}?{query}", unverified=unverified)

        own = replace(address("", "sentinel"), credentials=(lambda: (user or None, password)) if password else None)
        return cls(
            service=service,
            sentinels=tuple(_at(own, address("", host), host) for host in hosts.split(",")),
            server=address(f"{login}@" if login else "", "master", db),
        )

    async def connect(self, protocol: Callable[[], Link]) -> Link:
        """Open a connection to the master of this moment; whether it is one, its greeting tells."""
        told = await self.master()
        return await replace(self.server, host=told.host, port=told.port).connect(protocol)

    def greeting(self, name: str) -> tuple[bytes, ...]:
        return self.server.greeting(name)

    async def master(self) -> Told:
        """Return the newest of what the sentinels say that answer in time."""
        answers = await self.ask()
        told = [answer for answer in answers if isinstance(answer, Told)]
        if not told:
            reasons = "; ".join(sorted({str(answer) for answer in answers}))
            raise BackendUnavailableError(f"{self}: no sentinel names a master: {reasons}")
        return max(told)

    async def ask(self) -> list[Told | Exception]:
        """Return what each of the sentinels says, or why it says nothing."""
        asked = [asyncio.ensure_future(self._ask(sentinel)) for sentinel in self.sentinels]
        try:
            return await asyncio.gather(*asked)
        finally:
            for one in asked:
                one.cancel()

    async def _ask(self, sentinel: Address) -> Told | Exception:
        link: Link | None = None
        try:
            async with asyncio.timeout(self.patience):
                link = await sentinel.connect(lambda: _link(sentinel))
                for payload in sentinel.greeting("aiodlock"):
                    await link.send(payload, to_none)
                # While a failover goes on, the address in what is said of the master is still the old one.
                epoch = await link.send(command("SENTINEL", "MASTER", self.service), _to_epoch)
                name = await link.send(command("SENTINEL", "GET-MASTER-ADDR-BY-NAME", self.service), _to_name)
                return Told(epoch, *name)
        except TimeoutError:
            return BackendUnavailableError(f"{sentinel}: no answer in time")
        except Exception as error:
            return error
        finally:
            if link is not None:
                link.abort("asked")


def _link(sentinel: Address) -> Link:
    return Link(str(sentinel), via=0, on_push=lambda push, via: None, patience=10.0)


def _at(own: Address, found: Address, host: str) -> Address:
    """Return *own* at the host and port of *found*; a sentinel's default port is not a server's."""
    has_port = host.rpartition("]")[2].rpartition(":")[2].isdigit() and ":" in host.rpartition("]")[2]
    return replace(own, host=found.host, port=found.port if has_port else _PORT)


def _to_epoch(reply: Any, via: int) -> int:
    facts = reply if isinstance(reply, dict) else dict(zip(reply[::2], reply[1::2], strict=True))
    return int(facts[b"config-epoch"])


def _to_name(reply: Any, via: int) -> tuple[str, int]:
    return reply[0].decode(), int(reply[1])

"""Where the master is: asked of all sentinels at once, and the newest configuration is believed."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple
from urllib.parse import parse_qsl, urlencode, urlsplit

from aiodlock.backends.redis.address import Address, Credentials
from aiodlock.backends.redis.hosts import urls_of_hosts
from aiodlock.backends.redis.scripts import command, to_none
from aiodlock.backends.redis.wire import Link
from aiodlock.errors import BackendUnavailableError, ConfigurationError

__all__ = ["Sentinels", "Told"]

_PORT = 26379
_LEAST = 0.05  # seconds
_HINT = "give redis+sentinel://user:password@host1:port,host2,host3/service/db"


class Told(NamedTuple):
    """What one sentinel says: the number of its configuration, and the master in it."""

    epoch: int
    host: str
    port: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Sentinels:
    """The sentinels of one *service*; *server* is how to be let in by the master, wherever it is.

    *patience*: how long a sentinel may take to answer.
    """

    service: str
    sentinels: tuple[Address, ...]
    server: Address = field(default_factory=Address)
    patience: float = 1.0

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
        service, _, db = parts.path.strip("/").partition("/")
        if not service or not (db or "0").isdigit():
            raise ConfigurationError(f"Redis URL names no service, or no number of a database: {_HINT}")
        options = dict(parse_qsl(parts.query))
        user, password = (options.pop(f"sentinel_{name}", "") for name in ("username", "password"))
        urls = urls_of_hosts(f"{scheme}+sentinel://{parts.netloc}/{db}?{urlencode(options)}", scheme)
        found = [Address.from_url(one, unverified=unverified) for one in urls]
        ports = [urlsplit(one).port or _PORT for one in urls]
        login: Credentials | None = (lambda: (user or None, password)) if password else None
        sentinels = (replace(one, port=port, db=0, credentials=login) for one, port in zip(found, ports, strict=True))
        return cls(service=service, sentinels=tuple(sentinels), server=found[0])

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
        """Return what each of the sentinels says, or why it says nothing.

        When most of them have named a master the others get as long again: one that hangs must not hold everybody up.
        """
        loop = asyncio.get_running_loop()
        began = loop.time()
        asked = [asyncio.ensure_future(self._ask(sentinel)) for sentinel in self.sentinels]
        silent, told = set(asked), 0
        try:
            while silent and told <= len(asked) // 2:
                spoken, silent = await asyncio.wait(silent, return_when=asyncio.FIRST_COMPLETED)
                told += sum(isinstance(one.result(), Told) for one in spoken)
            if silent:
                await asyncio.wait(silent, timeout=max(_LEAST, loop.time() - began))
        finally:
            for one in asked:
                one.cancel()
            await asyncio.wait(asked)
        return [one.result() if not one.cancelled() else _late(self) for one in asked]

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
            return _late(sentinel)
        except Exception as error:
            return error
        finally:
            if link is not None:
                link.abort("asked")


def _late(whose: object) -> BackendUnavailableError:
    return BackendUnavailableError(f"{whose}: no answer in time")


def _link(sentinel: Address) -> Link:
    return Link(str(sentinel), via=0, on_push=lambda push, via: None, patience=10.0)


def _to_epoch(reply: Any, via: int) -> int:
    facts = reply if isinstance(reply, dict) else dict(zip(reply[::2], reply[1::2], strict=True))
    return int(facts[b"config-epoch"])


def _to_name(reply: Any, via: int) -> tuple[str, int]:
    return reply[0].decode(), int(reply[1])

"""Servers that a sale starts for itself, where none are given; its Redis may then be killed as well."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import replace

from aiodlock.cli.parts import Sale
from aiodlock.testing.servers import KafkaServer, MariaDBServer, RedisServer

__all__ = ["with_own_servers"]


@contextmanager
def with_own_servers(sale: Sale) -> Iterator[tuple[Sale, RedisServer | None]]:
    """Start what *sale* does not name, and end it again; return the sale with all names, and our Redis if it has ours.

    That Redis has every answered write on disk: what it said before it was killed is true when it is back.
    """
    for kind, given in ((RedisServer, sale.backend), (KafkaServer, sale.orders), (MariaDBServer, sale.into)):
        if not given and (missing := kind.missing()):
            raise missing
    with ExitStack() as stack:
        redis = None if sale.backend else stack.enter_context(RedisServer(durable=True))
        yield (
            replace(
                sale,
                backend=redis.url if redis else sale.backend,
                orders=sale.orders or stack.enter_context(KafkaServer()).bootstrap,
                into=sale.into or stack.enter_context(MariaDBServer()).url,
            ),
            redis,
        )

"""A server far away: a proxy in front of it that holds everything back for a while."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from urllib.parse import urlsplit

from aiodlock.testing.proxy import FaultProxy
from benchmarks.limits import round_trip

__all__ = ["far_away"]

_TRIED = (1.0, 0.8, 0.6, 0.4, 0.2)  # of the delay asked for
_PINGS = 40


@contextlib.contextmanager
def far_away(url: str, distance: float) -> Iterator[str]:
    """Yield the URL of a proxy through which a round trip to *url* takes about *distance* seconds.

    Timers are late by up to a millisecond each way, so the delay is the one that comes closest when measured.
    """
    address = urlsplit(url)
    with FaultProxy(address.port or 6379) as proxy:
        far = url.replace(f":{address.port}", f":{proxy.port}")

        def missed_by(delay: float) -> float:
            proxy.delay(requests=delay / 2, replies=delay / 2)
            return abs(round_trip(far, count=_PINGS) - distance)

        delay = min((share * distance for share in _TRIED), key=missed_by)
        proxy.delay(requests=delay / 2, replies=delay / 2)
        yield far

"""Stock against what people write today, each number beside its floor: ``python -m benchmarks.stock [--check]``.

10,000 articles, 20,000 buyers, 1,000 at a time, one process, a Redis of its own. Rounds are interleaved, and ratios are
formed within a round; beside them stands the ratio by CPU time of this process. The rival of `stock.take` is a script
per order that decrements a number, through redis-py: it knows no orders, so a lost reply costs it an article. The rival
of the sale under locks is redis-py's Lock. With ``--on mysql`` the server is a MariaDB, and the rival an UPDATE per
order that is guarded (`WHERE rest >= 1`), through asyncmy: it knows no orders either.
"""

from __future__ import annotations

import asyncio
import gc
import itertools
import sys
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from dataclasses import dataclass
from functools import partial

import asyncmy
from redis.asyncio import Redis
from redis.asyncio.lock import Lock

import aiodlock
from aiodlock.backends.mysql.address import Address
from aiodlock.inventory import LockedSale
from aiodlock.testing.servers import MariaDBServer, RedisServer
from benchmarks.checks import Check, add_options, conclude
from benchmarks.figures import Spread
from benchmarks.options import Parser, count
from benchmarks.report import number

__all__ = ["main", "rounds"]

_DECREMENT = "if tonumber(redis.call('GET', KEYS[1])) > 0 then redis.call('DECR', KEYS[1]) return 1 end return 0"
_SEGMENTS = 10  # of the sale under locks
_SALES = 9  # at most, in one round of one way
_POOL = 32  # connections of the guarded UPDATE: more of them are slower
_keys = map("bench-{}".format, itertools.count(1))

Buy = Callable[[str], Awaitable[bool | None]]  # None: not served in time


@dataclass(frozen=True, slots=True)
class Crowd:
    """How much is sold, to how many, how many at a time, and how long a way may take that does not come to an end."""

    stock: int = 10_000
    buyers: int = 20_000
    at_once: int = 1_000
    seconds: float = 4.0


@dataclass(frozen=True, slots=True)
class Sold:
    """How one round of one way went."""

    per_second: float  # buyers served, refused ones too
    cpu: float  # seconds of this process for each of them
    oversold: int
    unsold: int


async def rush(buy: Buy, crowd: Crowd) -> Sold:
    """Let buyers in until all are served, or the crowd's seconds are over."""
    buyers = iter(range(crowd.buyers))
    served = sold = 0
    began, cpu = time.perf_counter(), time.process_time()

    async def lane() -> None:
        nonlocal served, sold
        for buyer in buyers:
            if time.perf_counter() - began > crowd.seconds:
                return
            got = await buy(f"buyer-{buyer}")
            served += got is not None
            sold += bool(got)

    await asyncio.gather(*(lane() for _ in range(crowd.at_once)))
    took = time.perf_counter() - began
    unsold = max(0, min(crowd.stock, crowd.buyers) - sold) if served == crowd.buyers else 0
    cpu = (time.process_time() - cpu) / max(1, served)
    return Sold(served / took, cpu, max(0, sold - crowd.stock), unsold)


# --- ways to sell ------------------------------------------------------------------------------------------


@asynccontextmanager
async def take(url: str, crowd: Crowd, *, segments: int) -> AsyncIterator[Buy]:
    """Sell by `stock.take`, complete: orders remembered, one per buyer, written to the outbox."""
    async with aiodlock.connect(url) as locks:
        stock = locks.stock(next(_keys), segments=segments, once_per_buyer=True, outbox=True)
        await stock.load(crowd.stock)

        async def buy(buyer: str) -> bool:
            return isinstance(await stock.take(buyer=buyer, order=f"order-of-{buyer}"), aiodlock.Taken)

        yield buy
        assert (await stock.audit()).is_balanced


def _redis_py(url: str, crowd: Crowd) -> Redis:
    """Return a client that may have as many connections as it wants, and is not cut off while they are made."""
    return Redis.from_url(url, max_connections=2 * crowd.at_once, socket_connect_timeout=60, socket_timeout=60)


async def _warm(redis: Redis, crowd: Crowd) -> None:
    """Make all connections before the sale begins."""
    await asyncio.gather(*(redis.ping() for _ in range(crowd.at_once)))


@asynccontextmanager
async def decrement(url: str, crowd: Crowd) -> AsyncIterator[Buy]:
    """Sell by a script per order through redis-py."""
    async with _redis_py(url, crowd) as redis:
        key, script = next(_keys), redis.register_script(_DECREMENT)
        await redis.set(key, crowd.stock)
        await _warm(redis, crowd)

        async def buy(buyer: str) -> bool:
            return bool(await script(keys=[key]))

        yield buy


@asynccontextmanager
async def guarded_update(url: str, crowd: Crowd) -> AsyncIterator[Buy]:
    """Sell by a guarded UPDATE per order through asyncmy."""
    at, shelf = Address.from_url(url), next(_keys).replace("-", "_")
    where = {"host": at.host, "port": at.port, "user": at.credentials()[0], "db": at.database}
    async with asyncmy.create_pool(**where, minsize=_POOL, maxsize=_POOL, autocommit=True) as pool:

        async def run(statement: str) -> int:
            async with pool.acquire() as connection, connection.cursor() as cursor:
                return int(await cursor.execute(statement))

        await run(f"CREATE TABLE {shelf} (id INT PRIMARY KEY, rest INT NOT NULL)")
        await run(f"INSERT INTO {shelf} VALUES (1, {crowd.stock})")

        async def buy(buyer: str) -> bool:
            return bool(await run(f"UPDATE {shelf} SET rest = rest - 1 WHERE id = 1 AND rest >= 1"))

        yield buy


class Shelf:
    """Stock in the shop's own hands: reading and writing cost a round trip each, the same for every lock."""

    def __init__(self, stock: int, segments: int, trip: Callable[[], Awaitable[None]]) -> None:
        self._left = [stock // segments] * segments
        self._trip = trip

    async def sell(self, segment: int) -> bool:
        left = self._left[segment]
        await self._trip()
        if left == 0:
            return False
        await self._trip()
        self._left[segment] = left - 1
        return True


@asynccontextmanager
async def under_locks(url: str, crowd: Crowd, *, segments: int) -> AsyncIterator[Buy]:
    """Sell under a segmented lock."""
    async with aiodlock.connect(url) as locks:
        shelf = Shelf(crowd.stock, segments, locks.backend.ping)
        sale = LockedSale(locks.segmented(next(_keys), segments=segments))
        yield partial(sale.buy, sell=lambda hold: shelf.sell(hold.segment))


@asynccontextmanager
async def under_their_locks(url: str, crowd: Crowd) -> AsyncIterator[Buy]:
    """Sell under redis-py's Lock, on as many segments."""
    async with _redis_py(url, crowd) as redis, aiodlock.connect(url) as locks:
        shelf, key = Shelf(crowd.stock, _SEGMENTS, locks.backend.ping), next(_keys)
        await _warm(redis, crowd)

        async def buy(buyer: str) -> bool | None:
            segment = hash(buyer) % _SEGMENTS
            lock = redis.lock(f"{key}:{segment}", timeout=30.0, sleep=0.01, blocking_timeout=crowd.seconds)
            if not await lock.acquire():
                return None
            try:
                return await shelf.sell(segment)
            finally:
                await lock.release()

        try:
            yield buy
        finally:
            # The class keeps the first client it was used with, and so a thousand dead connections, which every later
            # way would pay for in garbage collection.
            Lock.lua_release = Lock.lua_extend = Lock.lua_reacquire = None


Way = Callable[[str, Crowd], AbstractAsyncContextManager[Buy]]
Ratios = Sequence[tuple[str, str, float | None]]  # ours, theirs, the floor; none: it is only told
WAYS: dict[str, Way] = {
    "script through redis-py": decrement,
    "take, 1 segment": partial(take, segments=1),
    "take, 16 segments": partial(take, segments=16),
    "take, 100 segments": partial(take, segments=100),
    "redis-py Lock": under_their_locks,
    "one lock": partial(under_locks, segments=1),
    "locks": partial(under_locks, segments=_SEGMENTS),
}
RATIOS: Ratios = (
    ("take, 1 segment", "script through redis-py", 12.0),
    ("take, 16 segments", "script through redis-py", 12.0),
    ("take, 100 segments", "take, 1 segment", 0.3),
    ("locks", "redis-py Lock", 300.0),
    ("locks", "one lock", 2.0),
)
ON_MYSQL: dict[str, Way] = {
    "UPDATE through asyncmy": guarded_update,
    "take, 1 segment": partial(take, segments=1),
    "take, 16 segments": partial(take, segments=16),
    "take, 100 segments": partial(take, segments=100),
}
MYSQL_RATIOS: Ratios = (
    ("take, 1 segment", "UPDATE through asyncmy", None),
    ("take, 16 segments", "UPDATE through asyncmy", None),
    ("take, 100 segments", "take, 1 segment", None),
)
SERVERS: dict[str, tuple[type[RedisServer] | type[MariaDBServer], dict[str, Way], Ratios]] = {
    "redis": (RedisServer, WAYS, RATIOS),
    "mysql": (MariaDBServer, ON_MYSQL, MYSQL_RATIOS),
}


async def _several(way: Way, url: str, crowd: Crowd) -> Sold:
    """Sell out again and again for a while, and return the middle: a sale of a fifth of a second has its luck."""
    sales: list[Sold] = []
    began = time.perf_counter()
    while not sales or (len(sales) < _SALES and time.perf_counter() - began < crowd.seconds):
        async with way(url, crowd) as buy:
            gc.collect()  # what another way left behind, a thousand connections, is not this one's to clear away
            sales.append(await rush(buy, crowd))
    rate, cpu = (
        Spread.of(figures).median for figures in zip(*((one.per_second, one.cpu) for one in sales), strict=True)
    )
    return Sold(rate, cpu, sum(sold.oversold for sold in sales), sum(sold.unsold for sold in sales))


async def rounds(count: int, crowd: Crowd, *, on: str = "redis") -> list[Check]:
    """Run every way so many times, and hold the ratios against their floors."""
    kind, ways, ratios = SERVERS[on]
    found: dict[str, list[Sold]] = {way: [] for way in ways}
    with kind() as server:
        for turn in range(count):
            for name, way in list(ways.items())[:: 1 if turn % 2 else -1]:
                found[name].append(await _several(way, server.url, crowd))
    ours = [
        sold
        for name, sales in found.items()
        if not name.endswith(("redis-py", "redis-py Lock", "asyncmy"))
        for sold in sales
    ]
    return [
        *(_ratio(found, *ratio) for ratio in ratios),
        Check("oversold, all rounds of ours", sum(sold.oversold for sold in ours), most=0),
        Check("unsold, all rounds of ours", sum(sold.unsold for sold in ours), most=0),
    ]


def _ratio(found: dict[str, list[Sold]], ours: str, theirs: str, floor: float | None) -> Check:
    pairs = list(zip(found[ours], found[theirs], strict=True))
    ratio = Spread.of([one.per_second / other.per_second for one, other in pairs])
    rates = [Spread.of([sold.per_second for sold in found[name]]).median for name in (ours, theirs)]
    by_cpu = Spread.of([other.cpu / one.cpu for one, other in pairs]).median
    against = f"{number(rates[0])}/s against {number(rates[1])}/s; by CPU {by_cpu:.2f}"
    spread = f"{ratio.least:.2f}-{ratio.most:.2f}, {against}"
    return Check(f"{ours}: x {theirs}", ratio.median, least=floor, spread=spread)


def main(arguments: Sequence[str] | None = None) -> int:
    """Measure, print, and with ``--check`` fail if a floor is missed."""
    parser = Parser(prog="python -m benchmarks.stock", description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--rounds", type=count, default=5)
    parser.add_argument("--on", choices=SERVERS, default="redis", help="where the stock is")
    add_options(parser)
    options = parser.parse_args(arguments)
    checks = asyncio.run(rounds(options.rounds, Crowd(), on=options.on))
    return conclude(checks, must_hold=options.check, path=options.json)


if __name__ == "__main__":
    sys.exit(main())

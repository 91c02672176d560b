"""How long after a holder's end is the next one inside? ``python -m benchmarks.ends mysql`` (or redis, zookeeper).

Killed or paused: counted from the end of its lease, as the server tells it just before. Closed (``aclose()``) or sent
SIGTERM, with a clean exit: counted from that moment. The one who waits is in this process, the holder in another one.
A lease of ZooKeeper is its session, which the server ends a tick later; there, too, a follower is killed under a client
that waits, counted until that is answered again in the same session.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import statistics
import time
from collections.abc import Callable, Mapping

import aiodlock
from aiodlock import LockClient
from aiodlock.testing.history import Recorder
from aiodlock.testing.processes import Worker
from aiodlock.testing.servers import MariaDBServer, RedisServer, ZooKeeperEnsemble, ZooKeeperServer
from benchmarks.options import Parser, count

__all__ = ["hold", "main"]

_FLOOR = {"mysql": 0.2, "redis": 0.2, "zookeeper": 0.2 + 0.3}  # seconds
_FLOOR_OF_A_FOLLOWER = 0.5  # seconds
_TTL = {"mysql": 1.5, "redis": 1.5, "zookeeper": 4.0}
_SETTINGS: Mapping[str, dict[str, float]] = {"zookeeper": {"session": 4.0, "tick": 0.2}}
_SERVERS: Mapping[str, Callable[[], MariaDBServer | RedisServer | ZooKeeperServer]] = {
    "mysql": MariaDBServer,
    "redis": RedisServer,
    "zookeeper": ZooKeeperServer,
}
_FATES = ("killed", "paused", "closed", "SIGTERM")


async def hold(record: Recorder, *, url: str, key: str, ttl: float, closes: bool, settings: dict[str, float]) -> None:
    """Hold *key* until SIGTERM; with *closes* another task then closes the client, otherwise the block is left."""
    told = asyncio.Event()
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, told.set)
    async with aiodlock.connect(url, name=record.who, **settings) as locks:
        closing = asyncio.create_task(_close_when(told, locks)) if closes else None
        with contextlib.suppress(aiodlock.LockLostError):
            async with locks.lock(key, ttl=ttl):
                record("inside")
                await (asyncio.Event() if closes else told).wait()
        if closing is not None:
            await closing


async def _close_when(told: asyncio.Event, locks: LockClient) -> None:
    await told.wait()
    await locks.aclose()


async def _next_in_after(fate: str, kind: str, url: str, locks: LockClient, key: str) -> float:
    """Return the seconds from the holder's end to the next one's entry."""
    ttl, settings, closes = _TTL[kind], _SETTINGS.get(kind, {}), fate == "closed"
    worker = Worker("benchmarks.ends:hold", who="holder", url=url, key=key, ttl=ttl, closes=closes, settings=settings)
    with worker:
        await asyncio.to_thread(worker.await_event, "inside", within=30)
        waiting = asyncio.create_task(locks.lock(key, ttl=ttl).acquire())
        await asyncio.sleep(1.3 * ttl)  # past the first renewal
        end = time.monotonic()
        if fate in ("killed", "paused"):
            rows = [row async for row in locks.inspect(key) if row.inside]
            end = time.monotonic() + rows[0].remaining
            (worker.kill if fate == "killed" else worker.pause)()
        else:
            os.kill(worker.pid, signal.SIGTERM)
        held = await waiting
        entered = time.monotonic()
        await held.release()
    return entered - end


async def _measure(kind: str, rounds: int) -> bool:
    is_kept = True
    with _SERVERS[kind]() as server:
        async with aiodlock.connect(server.url, name="next") as locks:
            for fate in _FATES:
                took = [
                    await _next_in_after(fate, kind, server.url, locks, f"{fate}-{number}") for number in range(rounds)
                ]
                is_kept = is_kept and statistics.median(took) <= _FLOOR[kind]
                since = "the end of the lease" if fate in ("killed", "paused") else "the signal"
                print(f"{fate:8} next in {statistics.median(took):6.3f} s after {since} (most {max(took):.3f})")
    return is_kept


async def _usable_after(ensemble: ZooKeeperEnsemble, holder: LockClient, key: str) -> float:
    """Kill the follower of a client that waits; return the seconds until that is answered again."""
    followers = ensemble.followers
    url = f"zk://{','.join(f'127.0.0.1:{node.port}' for node in followers)}/aiodlock"
    async with holder.lock(key), aiodlock.connect(url, **_SETTINGS["zookeeper"]) as locks:
        session = locks.backend._session  # type: ignore[attr-defined]
        follower = next(node for node in followers if node.port == session.host[1])
        waiting, own = asyncio.create_task(locks.lock(key).acquire()), session.id
        while not [row async for row in holder.inspect(key) if not row.inside]:  # noqa: ASYNC110 - of another client
            await asyncio.sleep(0.01)
        follower.crash()
        end = time.monotonic()
        while not await _answers(locks):  # noqa: ASYNC110 - measured from outside
            await asyncio.sleep(0.005)
        took = time.monotonic() - end
        assert session.id == own
        waiting.cancel()
        await asyncio.wait({waiting})
    await asyncio.to_thread(follower.start)
    await asyncio.to_thread(ensemble.wait_until_whole)
    return took


async def _answers(locks: LockClient) -> bool:
    try:
        await locks.ping()
    except aiodlock.BackendUnavailableError:
        return False
    return True


async def _measure_followers(rounds: int) -> bool:
    with ZooKeeperEnsemble() as ensemble:
        async with aiodlock.connect(ensemble.leader.url, name="holder") as holder:
            took = [await _usable_after(ensemble, holder, f"follower-{number}") for number in range(rounds)]
    print(f"follower killed: usable again after {statistics.median(took):6.3f} s (most {max(took):.3f})")
    return statistics.median(took) <= _FLOOR_OF_A_FOLLOWER


def main() -> int:
    parser = Parser(prog="python -m benchmarks.ends", description=__doc__)
    parser.add_argument("backend", choices=sorted(_SERVERS))
    parser.add_argument("--rounds", type=count, default=5)
    parser.add_argument("--check", action="store_true", help=f"fail if a median is above {_FLOOR} s")
    options = parser.parse_args()
    is_kept = asyncio.run(_measure(options.backend, options.rounds))
    if options.backend == "zookeeper":
        is_kept = asyncio.run(_measure_followers(options.rounds)) and is_kept
    return 1 if options.check and not is_kept else 0


if __name__ == "__main__":
    raise SystemExit(main())

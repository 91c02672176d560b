"""What the machine allows, measured in the same run: raw round trips and Redis' own benchmark, no lock library."""

from __future__ import annotations

import asyncio
import contextlib
import csv
import io
import shutil
import time
from urllib.parse import urlsplit

from benchmarks.own_scripts import own_scripts
from benchmarks.resp import Wire

__all__ = ["measure", "round_trip"]

_ROUND_TRIPS, _FAR_ROUND_TRIPS = 2_000, 200
_ONE_BY_ONE, _PIPELINED = ("1", 4_000), ("64", 60_000)  # commands in flight, commands in all
_PAIRS = 10_000
_RELEASE = "if redis.call('get', KEYS[1]) == ARGV[1] then return redis.call('del', KEYS[1]) end return 0"
_KEY = "limit:__rand_int__"


async def measure(url: str, *, near: bool = True) -> dict[str, float]:
    """Return operations per second of each limit, by name.

    Of a server that is not *near* the round trip only; those of ``redis-benchmark`` only where it is installed.
    """
    rates = {"round trip": 1 / round_trip(url, count=_ROUND_TRIPS if near else _FAR_ROUND_TRIPS)}
    if not near:
        return rates
    rates["own scripts -P 64"] = await asyncio.to_thread(own_scripts, url, in_flight=64, pairs=_PAIRS)
    if shutil.which("redis-benchmark") is None:
        return rates
    sha = _load(url)
    for depth, count in (_ONE_BY_ONE, _PIPELINED):
        rates[f"PING -P {depth}"] = await _redis_benchmark(url, depth, count, "PING")
        set_ = await _redis_benchmark(url, depth, count, "SET", _KEY, "token", "NX", "PX", "30000")
        release = await _redis_benchmark(url, depth, count, "EVALSHA", sha, "1", _KEY, "token")
        rates[f"SET -P {depth}"] = set_
        rates[f"pair -P {depth}"] = 1 / (1 / set_ + 1 / release)  # the two calls of the simplest lock
    return rates


def round_trip(url: str, *, count: int) -> float:
    """Return the seconds from a PING to its answer on a blocking socket."""
    with contextlib.closing(Wire(url)) as wire:
        start = time.perf_counter()
        for _ in range(count):
            wire.call("PING")
        return (time.perf_counter() - start) / count


def _load(url: str) -> str:
    with contextlib.closing(Wire(url)) as wire:
        sha = wire.call("SCRIPT", "LOAD", _RELEASE)
    assert isinstance(sha, bytes)
    return sha.decode()


async def _redis_benchmark(url: str, depth: str, count: int, *command: str) -> float:
    address = urlsplit(url)
    where = ("-h", str(address.hostname), "-p", str(address.port))
    how = ("-c", "1", "-P", depth, "-n", str(count), "-r", "1000000", "--csv")
    process = await asyncio.create_subprocess_exec(
        "redis-benchmark", *where, *how, *command, stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.PIPE
    )
    out, err = await process.communicate()
    if process.returncode:
        raise RuntimeError(f"redis-benchmark {command[0]}: {err.decode().strip()}")
    rows = list(csv.DictReader(io.StringIO(out.decode())))
    return float(rows[-1]["rps"])

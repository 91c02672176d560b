"""A load test of the two shops, over real sockets; some buyers hang up while they wait.

    python examples/shops/load.py fastapi --buyers 5000 --at-once 200
    AIODLOCK_URL=redis://localhost:6379/0 python examples/shops/load.py aiohttp --hang-up 0.3

The shop runs in a process of its own (`serving.py`). Whoever hung up asks again in the end, under the same order id, so
that every lamp is accounted for. The status is 1 if a lamp was sold twice or lost, or something was left behind.
"""

import argparse
import asyncio
import json
import random
import sys
import time
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path

import aiohttp

SERVING = Path(__file__).with_name("serving.py")


@dataclass
class Tally:
    """What the buyers have seen."""

    waits: list[float] = field(default_factory=list)
    sold: int = 0
    refused: int = 0
    hung_up: list[int] = field(default_factory=list)

    def wait(self, share: float) -> float:
        return sorted(self.waits)[int(share * (len(self.waits) - 1))] if self.waits else 0.0


@asynccontextmanager
async def open_shop(kind: str, lamps: int):
    """Start the shop; yields its address and a dict that has its books when it is closed."""
    command = (sys.executable, str(SERVING), kind, str(lamps))
    pipe = asyncio.subprocess.PIPE
    process = await asyncio.create_subprocess_exec(*command, stdin=pipe, stdout=pipe)
    books: dict[str, int] = {}
    try:
        yield (await process.stdout.readline()).decode().strip(), books
        *_, last = (await process.communicate(b""))[0].decode().splitlines()  # end of file: it closes
        books.update(json.loads(last))
    finally:
        if process.returncode is None:
            process.kill()
        await process.wait()


async def buy(shop: aiohttp.ClientSession, number: int, tally: Tally, *, patience: float) -> None:
    wish = {"buyer": f"buyer-{number}", "order": f"order-{number}"}
    asked = time.perf_counter()
    try:
        async with shop.post("/buy", params=wish, timeout=aiohttp.ClientTimeout(patience)) as answer:
            has_one = answer.status == 200 and (await answer.json()).get("sold", True)
    except TimeoutError:
        tally.hung_up.append(number)
        return
    if answer.status not in (200, 410):
        raise RuntimeError(f"the shop answered {answer.status} to {wish}")
    tally.waits.append(time.perf_counter() - asked)
    tally.sold += has_one
    tally.refused += not has_one


async def rush(shop: aiohttp.ClientSession, wanted: argparse.Namespace) -> tuple[Tally, float]:
    """Let everybody in, so many at once; return what they saw, and how long it took."""
    dice, tally, numbers = random.Random(wanted.seed), Tally(), iter(range(wanted.buyers))

    async def lane() -> None:
        for number in numbers:
            is_impatient = dice.random() < wanted.hang_up
            await buy(shop, number, tally, patience=dice.uniform(0.0005, 0.02) if is_impatient else 60.0)

    began = time.perf_counter()
    await asyncio.gather(*(lane() for _ in range(wanted.at_once)))
    return tally, time.perf_counter() - began


async def main(wanted: argparse.Namespace) -> int:
    async with open_shop(wanted.shop, wanted.lamps) as (address, books):
        async with aiohttp.ClientSession(address, connector=aiohttp.TCPConnector(limit=0)) as shop:
            tally, took = await rush(shop, wanted)
        async with aiohttp.ClientSession(address) as shop:
            late = Tally()
            for number in tally.hung_up:
                await buy(shop, number, late, patience=60.0)
    sold = tally.sold + late.sold
    oversold, lost = max(0, sold - wanted.lamps), wanted.lamps - books["left"] - sold
    print(f"{wanted.shop}: {wanted.buyers} buyers, {wanted.at_once} at once, {wanted.lamps} lamps")
    print(f"{len(tally.waits) / took:.0f} answers/s, p50 {tally.wait(0.5):.4f} s, p99 {tally.wait(0.99):.4f} s")
    print(f"sold: {tally.sold}, refused: {tally.refused}, hung up: {len(tally.hung_up)}, of whom got one: {late.sold}")
    print(f"oversold: {oversold}, lost: {max(0, lost)}, left: {books['left']}, tasks left behind: {books['tasks']}")
    is_right = oversold == 0 and lost == 0 and books["is_balanced"] and books["tasks"] == 0
    return 0 if is_right else 1


def options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description="A load test of the shops of examples 19 and 20.")
    parser.add_argument("shop", choices=("fastapi", "aiohttp"))
    parser.add_argument("--buyers", type=int, default=5000)
    parser.add_argument("--lamps", type=int, default=1000)
    parser.add_argument("--at-once", type=int, default=200)
    parser.add_argument("--hang-up", type=float, default=0.1, help="the share of buyers who do, within 20 ms")
    parser.add_argument("--seed", type=int, default=1)
    return parser.parse_args()


if __name__ == "__main__":
    sys.exit(asyncio.run(main(options())))

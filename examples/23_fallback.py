"""The server of the locks goes away, and a fallback stands in for it until it is back. Always on memory://."""

import asyncio

import aiodlock
from aiodlock.events import DegradationEnded, Event
from aiodlock.testing import Faults


async def report(locks: aiodlock.LockClient) -> None:
    async with locks.lock("report", ttl=0.5) as hold:
        if hold.degraded:
            print("degraded: only those who use the fallback too are kept out, and there is no fence")
        else:
            print("on its own server")


async def main() -> None:
    back = asyncio.Event()

    def listen(event: Event) -> None:
        if isinstance(event, DegradationEnded):
            back.set()

    async with aiodlock.connect("memory://main", fallback="memory://spare", on_event=listen) as locks:
        await report(locks)
        network = Faults(locks)
        network.go_down()
        await report(locks)  # it waited for one ttl
        await report(locks)  # at once
        network.come_back()
        await back.wait()
        await report(locks)


asyncio.run(main())

"""One worker process of one cell; runs in the environment of the lock it uses, so it imports no other driver."""

from __future__ import annotations

import asyncio
import importlib
import json
import os
import resource
import socket
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

from benchmarks.channel import Channel
from benchmarks.guard import Guard
from benchmarks.peers import PEERS
from benchmarks.scenarios import SCENARIOS
from benchmarks.scenarios.base import Station

__all__ = ["main"]


async def _work(spec: dict[str, Any]) -> None:
    channel = Channel(socket.socket(fileno=spec["channel"]))
    try:
        peer = PEERS[spec["peer"]]
        adapter = peer.adapter(spec["url"])
        await adapter.open()
        await channel.tell("open")
        scenario = SCENARIOS[spec["scenario"]]
        guard = Guard.of_many(Path(spec["guard"])) if spec["guard"] else Guard.of_one(keys=scenario.keys)
        station = Station(peer, adapter, channel, process=spec["process"], tasks=spec["tasks"], guard=guard)
        await scenario.work(station)
        await channel.closed()  # the harness still looks at our connections
    except Exception as error:
        await channel.tell("failed", why=f"{type(error).__name__}: {error}")


def _loop_factory(name: str) -> Callable[[], asyncio.AbstractEventLoop]:
    module = importlib.import_module(name)
    factory: Callable[[], asyncio.AbstractEventLoop] = module.new_event_loop
    return factory


def main() -> None:
    spec = json.loads(sys.argv[1])
    _, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))
    runner = asyncio.Runner(loop_factory=_loop_factory(spec["loop"]))
    runner.run(_work(spec))
    # Some locks refuse to be cancelled, others leave threads parked in a socket: nobody waits for them.
    sys.stderr.flush()
    os._exit(0)


if __name__ == "__main__":
    main()

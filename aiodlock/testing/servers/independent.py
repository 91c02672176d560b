"""Independent Redis masters, as Redlock wants them: none knows of the others."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Self

from aiodlock.testing.servers.base import HOST
from aiodlock.testing.servers.redis import RedisServer

__all__ = ["IndependentMasters"]


class IndependentMasters:
    """Five servers, or those given; each can be crashed, paused and started again on its own."""

    def __init__(self, nodes: Sequence[RedisServer] = ()) -> None:
        self.nodes = list(nodes) or [RedisServer() for _ in range(5)]

    @property
    def url(self) -> str:
        return "redlock://" + ",".join(f"{HOST}:{node.port}" for node in self.nodes) + "/0"

    def start(self) -> Self:
        for node in self.nodes:
            node.start()
        return self

    def close(self) -> None:
        for node in self.nodes:
            if node.running:
                node.crash()  # nothing is kept, so there is nothing to wait for
            node.close()

    def __enter__(self) -> Self:
        try:
            return self.start()
        except BaseException:
            self.close()
            raise

    def __exit__(self, *_: object) -> None:
        self.close()

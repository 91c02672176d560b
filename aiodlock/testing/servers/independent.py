"""Independent Redis masters, as Redlock wants them: none knows of the others."""

from __future__ import annotations

from collections.abc import Sequence

from aiodlock.testing.servers.base import Group
from aiodlock.testing.servers.ports import HOST
from aiodlock.testing.servers.redis import RedisServer

__all__ = ["IndependentMasters"]


class IndependentMasters(Group[RedisServer]):
    """Five servers, or those given; each can be crashed, paused and started again on its own."""

    def __init__(self, nodes: Sequence[RedisServer] = ()) -> None:
        self.nodes = list(nodes) or [RedisServer() for _ in range(5)]

    @property
    def url(self) -> str:
        return "redlock://" + ",".join(f"{HOST}:{node.port}" for node in self.nodes) + "/0"

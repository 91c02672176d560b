"""Look at a MariaDB from outside: what it was asked, how many connections it has, what it costs.

``Questions`` counts what clients sent, ``Queries`` also what procedures do inside.
"""

from __future__ import annotations

import asyncio
import threading
from collections import Counter
from typing import Any

from aiodlock.testing.servers import MariaDBServer
from benchmarks.observer import Seen, cpu_of

__all__ = ["MysqlObserver"]


class MysqlObserver:
    """See :class:`benchmarks.observer.Observer`; on a loop of its own."""

    def __init__(self, server: MariaDBServer) -> None:
        self._server = server
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, daemon=True)
        self._thread.start()
        self._asked = 0
        self._connection = self._do(_connect(server.port))
        self.version: str = self._ask("SELECT VERSION()")[0][0] + f", {server.flushing}"

    def clean(self) -> None:
        self._ask(f"DROP DATABASE {self._server.database}")
        self._ask(f"CREATE DATABASE {self._server.database}")

    def look(self) -> Seen:
        status = dict(
            self._ask("SHOW GLOBAL STATUS WHERE Variable_name IN ('Questions', 'Queries', 'Threads_connected')")
        )
        questions, queries = int(status["Questions"]), int(status["Queries"])
        return Seen(
            commands=Counter({"question": questions - self._asked, "inside": queries - questions}),
            connections=int(status["Threads_connected"]) - 1,
            busy=0.0,
        )

    @property
    def cpu(self) -> float:
        return cpu_of(self._server.pid)

    def close(self) -> None:
        self._connection.close()
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()

    def _ask(self, statement: str) -> Any:
        self._asked += 1
        return self._do(_query(self._connection, statement))

    def _do(self, work: Any) -> Any:
        return asyncio.run_coroutine_threadsafe(work, self._loop).result(60)


async def _connect(port: int) -> Any:
    import asyncmy

    return await asyncmy.connect(host="127.0.0.1", port=port, user="root", autocommit=True)


async def _query(connection: Any, statement: str) -> Any:
    async with connection.cursor() as cursor:
        await cursor.execute(statement)
        return await cursor.fetchall()

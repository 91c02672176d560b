"""A single MariaDB server."""

from __future__ import annotations

import atexit
import os
import shutil
import socket
import subprocess
import tempfile
from collections.abc import Sequence
from functools import cache
from pathlib import Path

from aiodlock.testing.servers.base import MissingServerError, Server, ServerFailedError
from aiodlock.testing.servers.ports import HOST

__all__ = ["MariaDBServer"]

_PATH = os.pathsep.join((os.environ.get("PATH", os.defpath), "/usr/sbin", "/sbin"))  # a plain user's has no daemons
_LOG_SIZE = "--innodb-log-file-size=16M"


class MariaDBServer(Server):
    """A MariaDB with an empty database ``aiodlock`` and a user root without a password.

    Commits are written at once and survive a crash of the server; a *durable* one also has them on disk. *arguments* go
    to the command line as they are, for example ``("--max-connections=20",)``.
    """

    program = "mariadbd"
    install = "apt-get install --no-install-recommends mariadb-server"
    database = "aiodlock"

    def __init__(self, *, durable: bool = False, arguments: Sequence[str] = ()) -> None:
        super().__init__()
        self._arguments = (f"--innodb-flush-log-at-trx-commit={1 if durable else 2}", *arguments)

    @property
    def url(self) -> str:
        return f"mysql://root@{HOST}:{self.port}/{self.database}"

    @property
    def flushing(self) -> str:
        """How far a commit has got when it is answered, for reports."""
        return self._arguments[0][2:]

    @classmethod
    def missing(cls) -> MissingServerError | None:
        there = shutil.which(cls.program, path=_PATH) and shutil.which("mariadb-install-db", path=_PATH)
        return None if there else MissingServerError(cls.program, install=cls.install)

    def command(self) -> Sequence[str]:
        data, temporary = self.directory / "data", self.directory / "t"
        if not data.exists():
            subprocess.run(["cp", "-a", "--sparse=always", str(_template()), str(data)], check=True)
            temporary.mkdir()
            (self.directory / "init.sql").write_text(f"CREATE DATABASE IF NOT EXISTS {self.database};\n")
        return (
            *(shutil.which(self.program, path=_PATH) or self.program, "--no-defaults", *_as_root()),
            *(f"--datadir={data}", f"--tmpdir={temporary}", f"--init-file={self.directory / 'init.sql'}"),
            *(f"--socket={self.directory / 's'}", f"--pid-file={self._pid_file}", f"--bind-address={HOST}"),
            *(f"--port={self.port}", "--skip-name-resolve", "--skip-log-bin", "--performance-schema=OFF"),
            *("--innodb-buffer-pool-size=32M", _LOG_SIZE, *self._arguments),
        )

    def is_ready(self) -> bool:
        """Tell whether our process, not another one on this port, greets."""
        with socket.create_connection((HOST, self.port), 1.0) as connection:
            greeting = connection.recv(5)
        return greeting[4:] == b"\x0a" and self._pid_file.read_text().strip() == str(self.pid)

    @property
    def _pid_file(self) -> Path:
        return self.directory / "pid"


def _as_root() -> tuple[str, ...]:
    return ("--user=root",) if os.geteuid() == 0 else ()


@cache
def _template() -> Path:
    """Return a fresh data directory, made once per process: copying it is ten times quicker."""
    home = Path(tempfile.mkdtemp(prefix="mariadb-template-"))
    atexit.register(shutil.rmtree, home, ignore_errors=True)
    install = shutil.which("mariadb-install-db", path=_PATH) or "mariadb-install-db"
    options = ("--auth-root-authentication-method=normal", "--skip-test-db", _LOG_SIZE)
    made = subprocess.run(
        [install, "--no-defaults", f"--datadir={home / 'data'}", *options, *_as_root()],
        env={**os.environ, "TMPDIR": str(home)},  # its temporary tables meet those of others in a common one
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        check=False,
    )
    if made.returncode:
        raise ServerFailedError(f"{install} made no data directory: {made.stdout[-2000:]}")
    return home / "data"

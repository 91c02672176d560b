"""The broker: its jars, its properties, its data."""

from __future__ import annotations

import os
import shutil
import socket
import subprocess
import tempfile
from collections.abc import Sequence
from contextlib import suppress
from importlib import resources
from pathlib import Path
from string import Template

from aiodlock.testing.servers.base import MissingServerError, Server
from aiodlock.testing.servers.ports import HOST, free_ports

__all__ = ["KafkaServer"]

_VERSION = "4.3.1"
_CLUSTER = "YWlvZGxvY2stdGVzdHMtMQ"
# Small and quick to start: half the time and memory of the defaults.
_JVM = (
    *("-Xms64m", "-Xmx256m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1"),
    "-Dorg.slf4j.simpleLogger.defaultLogLevel=warn",
)
_FILES = resources.files(__package__)


def _cache() -> Path:
    home = os.environ.get("AIODLOCK_CACHE") or Path.home() / ".cache" / "aiodlock"
    return Path(home) / f"kafka-{_VERSION}"


class KafkaServer(Server):
    """A broker and controller in one, without any topic; topics are not made by themselves.

    The jars are in ``$AIODLOCK_CACHE``, by default ``~/.cache/aiodlock``; `install` is the command that fetches them.
    """

    program = "java"
    install = (
        "apt-get install --no-install-recommends default-jre-headless maven && "
        f"mvn -B -q -f {_FILES / 'pom.xml'} dependency:copy-dependencies -DincludeScope=runtime "
        f"-DoutputDirectory={_cache() / 'libs'}"
    )

    def __init__(self) -> None:
        super().__init__()
        (controller,) = free_ports(1)
        properties = Template((_FILES / "server.properties").read_text())
        data = self.directory / "data"
        self._properties.write_text(properties.substitute(host=HOST, port=self.port, controller=controller, data=data))

    @classmethod
    def missing(cls) -> MissingServerError | None:
        there = shutil.which(cls.program) and any((_cache() / "libs").glob("kafka_2.13-*.jar"))
        return None if there else MissingServerError("kafka", install=cls.install)

    @property
    def url(self) -> str:
        return f"kafka://{self.bootstrap}"

    @property
    def bootstrap(self) -> str:
        """Host and port, as drivers take them."""
        return f"{HOST}:{self.port}"

    def command(self) -> Sequence[str]:
        data = self.directory / "data"
        if not data.exists():
            shutil.copytree(self._formatted(), data)
        return (*_java(), "kafka.Kafka", str(self._properties))

    def is_ready(self) -> bool:
        """Tell whether it listens: it does so when it can serve."""
        socket.create_connection((HOST, self.port), 1.0).close()
        return True

    @property
    def _properties(self) -> Path:
        return self.directory / "server.properties"

    def _formatted(self) -> Path:
        """Return an empty data folder, made once for all; formatting takes as long as starting."""
        formatted = _cache() / "formatted"
        if not formatted.exists():
            with tempfile.TemporaryDirectory(dir=_cache()) as scratch:
                home = Path(scratch) / "data"
                own = Path(scratch) / "server.properties"
                text = self._properties.read_text().replace(str(self.directory / "data"), str(home))
                own.write_text(text)
                command = (*_java(), "kafka.tools.StorageTool", "format", "-t", _CLUSTER, "-c", str(own))
                subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
                with suppress(OSError):  # another process was quicker: a folder that has something is not replaced
                    home.rename(formatted)
        return formatted


def _java() -> tuple[str, ...]:
    return (KafkaServer.program, *_JVM, "-cp", f"{_cache() / 'libs'}/*")

"""Where the servers are and how to be let in, read from a URL without echoing secrets."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from urllib.parse import unquote

from aiodlock.errors import ConfigurationError

__all__ = ["Address"]

_PORT = 2181
_ROOT_BY_DEFAULT = "/aiodlock"
_HINT = "give zk://host1:2181,host2:2181/root, with user:password@ before the hosts where nodes are protected"
_HOST = re.compile(r"(?P<host>\[[0-9A-Fa-f:.]+\]|[^\[\]:@\s]+)(:(?P<port>\d{1,5}))?")
_ROOT = re.compile(r"(/[^/\x00-\x1f\x7f]+)+")


@dataclass(frozen=True, slots=True, kw_only=True)
class Address:
    """The servers of one ensemble, and the node under which everything of ours lies."""

    hosts: tuple[tuple[str, int], ...]
    root: str
    credentials: str | None = field(default=None, repr=False)  # user:password, for digest

    def __str__(self) -> str:
        shown = (f"[{host}]:{port}" if ":" in host else f"{host}:{port}" for host, port in sorted(self.hosts))
        return f"zk://{','.join(shown)}{self.root}"

    @classmethod
    def from_url(cls, url: str) -> Address:
        """Read ``zk://user:password@host1:2181,host2:2181/root``; without a root it is ``/aiodlock``."""
        where, slash, root = url.partition("://")[2].partition("/")
        credentials, _, hosts = where.rpartition("@")
        root = f"/{unquote(root).rstrip('/')}" if slash and root.strip("/") else _ROOT_BY_DEFAULT
        if not _ROOT.fullmatch(root) or {".", ".."} & set(root.split("/")) or root.split("/")[1] == "zookeeper":
            raise ConfigurationError(f"ZooKeeper URL has a root that cannot be used, {root!r}; {_HINT}")
        if credentials and not all(credentials.partition(":")):
            raise ConfigurationError(f"ZooKeeper URL has a user without a password, or the reverse; {_HINT}")
        return cls(hosts=tuple(map(_host, hosts.split(","))), root=root, credentials=unquote(credentials) or None)


def _host(text: str) -> tuple[str, int]:
    found = _HOST.fullmatch(text)
    if found is None or not 0 < int(found["port"] or _PORT) < 1 << 16:
        raise ConfigurationError(f"ZooKeeper URL has a host that cannot be used, {text!r}; {_HINT}")
    return found["host"].strip("[]"), int(found["port"] or _PORT)

"""URL scheme → backend. Nothing is imported before it is asked for."""

from __future__ import annotations

import importlib
from importlib.metadata import entry_points
from typing import TYPE_CHECKING, Any, NamedTuple, cast

from aiodlock.errors import ConfigurationError, MissingDependencyError

if TYPE_CHECKING:
    from aiodlock.backends.base import Backend

__all__ = ["backend_of"]

_GROUP = "aiodlock.backends"


class _Home(NamedTuple):
    module: str
    name: str
    extra: str = ""


_REDIS = _Home("aiodlock.backends.redis.backend", "RedisBackend", "redis")
_SENTINEL = _Home("aiodlock.backends.redis.sentinel", "SentinelBackend", "redis")
_CLUSTER = _Home("aiodlock.backends.redis.cluster", "ClusterBackend", "redis")
_REDLOCK = _Home("aiodlock.backends.redis.redlock", "RedlockBackend", "redis")

_MYSQL = _Home("aiodlock.backends.mysql.backend", "MySQLBackend", "mysql")

_HOMES = {
    "memory": _Home("aiodlock.backends.memory", "MemoryBackend"),
    "mysql": _MYSQL,
    "mysqls": _MYSQL,
    "redis": _REDIS,
    "redis+cluster": _CLUSTER,
    "redis+sentinel": _SENTINEL,
    "rediss": _REDIS,
    "rediss+cluster": _CLUSTER,
    "rediss+sentinel": _SENTINEL,
    "redlock": _REDLOCK,
    "redlocks": _REDLOCK,
    "unix": _REDIS,
    "zk": _Home("aiodlock.backends.zookeeper.backend", "ZooKeeperBackend", "zookeeper"),
}


def backend_of(url: str, **settings: Any) -> Backend:
    """Return the unopened backend that *url* names; *settings* are its own. No I/O.

    Others' backends register under the entry-point group ``aiodlock.backends``, named by their scheme.
    """
    scheme = url.partition("://")[0] if isinstance(url, str) and "://" in url else ""
    factory = _factory(scheme, url)
    try:
        return cast("Backend", factory.from_url(url, **settings))
    except TypeError as error:
        raise ConfigurationError(f"a {scheme}:// client has no such setting: {error}") from error


def _factory(scheme: str, url: object) -> Any:
    if home := _HOMES.get(scheme):
        try:
            return getattr(importlib.import_module(home.module), home.name)
        except ImportError as error:
            raise MissingDependencyError(f"{scheme}://", extra=home.extra) from error
    for entry in entry_points(group=_GROUP, name=scheme):
        return entry.load()
    known = ", ".join(f"{name}://" for name in sorted(_HOMES))
    # Never the URL itself: it may carry a password.
    shown = f"{scheme}://" if scheme else "a URL without a scheme" if isinstance(url, str) else type(url).__name__
    raise ConfigurationError(f"no backend for {shown}: use one of {known}, or install one that registers it")

"""URLs that name several servers: ``scheme://user:password@host1:port,host2:port/db?options``."""

from __future__ import annotations

import re

from aiodlock.errors import ConfigurationError

__all__ = ["urls_of_hosts"]

_URL = re.compile(r"(?P<login>(?:[^/?#]*@)?)(?P<hosts>[^/?#@]*)(?P<rest>.*)", re.DOTALL)


def urls_of_hosts(url: str, scheme: str) -> list[str]:
    """Return one URL with that *scheme* for each host of *url*, with the same user, database and options."""
    given, _, address = url.partition("://")
    match = _URL.fullmatch(address)
    hosts = match["hosts"].split(",") if match else []
    if not match or not all(hosts):
        raise ConfigurationError(f"{given}:// URL without hosts, or with an empty one: give {given}://h1:6379,h2:6379")
    return [f"{scheme}://{match['login']}{host}{match['rest']}" for host in hosts]

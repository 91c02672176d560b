"""Names in Redis: one key per line, one channel per client. Injective, whatever the user's key contains."""

from __future__ import annotations

import contextlib
import hashlib
import re
from functools import lru_cache
from typing import NamedTuple
from urllib.parse import unquote_to_bytes

from aiodlock._core.line import LineId
from aiodlock.errors import BackendDataError, ConfigurationError

__all__ = ["Keys", "Name"]

_LONGEST = 64  # bytes of an encoded key that are used as they are; a longer one is hashed
_CACHED = 65_536

# Braces would move a line to another slot, '*?[]\' are patterns, '%' is ours, '#' marks a hash, spaces separate words
# in calls. Everything else stays readable.
_UNSAFE = re.compile(rb"[\x00-\x20\x7f{}%*?\[\]\\#]")
_PREFIX = re.compile(r"[A-Za-z0-9_.:-]{1,64}")


class Name(NamedTuple):
    """A line's key in Redis, and its name in clear if the key holds only its hash, else empty."""

    key: bytes
    clear: bytes


class Keys:
    """The names under one prefix."""

    def __init__(self, prefix: str = "aiodlock") -> None:
        if not _PREFIX.fullmatch(prefix):
            raise ConfigurationError(f"Redis key prefix {prefix!r}: give 1 to 64 of A-Z a-z 0-9 _ . : -")
        self.prefix = prefix
        self.name = lru_cache(_CACHED)(self._name)
        self._text = re.compile(re.escape(prefix.encode()) + rb":\{([^{}#]+)\}:([^{}#]*)")

    @property
    def pattern(self) -> bytes:
        """What matches every key of ours, and in ``SCAN`` nothing that a user's key contains."""
        return f"{self.prefix}:{{*".encode()

    def segment(self, line: LineId, number: int) -> bytes:
        """Return the key of one segment of a line that is spread over slots."""
        head, tail = self.name(line).key.split(b"}")
        return b"%b#%d}%b" % (head, number, tail)

    def channel(self, client: str) -> bytes:
        """Return the channel on which one client is called."""
        return f"{self.prefix}:calls:{client}".encode()

    def channel_near(self, key: bytes, client: str) -> bytes:
        """Return the channel on which one client is called by the server of a cluster that keeps *key*."""
        tag = key[key.index(b"{") : key.index(b"}") + 1]
        return b"%b:calls:%b:%b" % (self.prefix.encode(), tag, client.encode())

    def parse(self, text: bytes) -> LineId:
        """Return the line of a key or a clear name."""
        if match := self._text.fullmatch(text):
            with contextlib.suppress(UnicodeDecodeError):
                key, kind = (unquote_to_bytes(part).decode() for part in match.groups())
                return LineId(kind, key)
        raise BackendDataError(f"Redis key {text!r} is none of ours")

    def _name(self, line: LineId) -> Name:
        key = line.key.encode()
        clear = self._join(_encode(key), line.kind)
        if len(_encode(key)) <= _LONGEST:
            return Name(clear, b"")
        return Name(self._join(b"#" + hashlib.sha256(key).hexdigest().encode(), line.kind), clear)

    def _join(self, tag: bytes, kind: str) -> bytes:
        return b"%b:{%b}:%b" % (self.prefix.encode(), tag, _encode(kind.encode()))


def _encode(raw: bytes) -> bytes:
    return _UNSAFE.sub(lambda found: b"%%%02X" % found[0][0], raw)

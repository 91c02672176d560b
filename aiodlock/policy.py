"""Settings of one lock, frozen, and every check of numbers and keys. No check needs a server."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, Literal, TypeAlias, TypedDict

from aiodlock.errors import ConfigurationError, InvalidKeyError

if TYPE_CHECKING:
    from aiodlock._core.hold import Hold

__all__ = [
    "DEFAULT",
    "LONGEST_TTL",
    "Default",
    "OnLost",
    "Policy",
    "Poll",
    "Push",
    "Retry",
    "Settings",
    "check_count",
    "check_flag",
    "check_key",
    "check_seconds",
    "check_ttl",
    "check_wait",
]

OnLost: TypeAlias = "Literal['cancel', 'flag'] | Callable[[Hold], None]"

LONGEST_TTL = 86_400.0
_SHORTEST_TTL = 0.05  # below it drift and a busy loop eat the lease
_LARGEST_KEY = 255


class Default:
    """The type of an argument that was left out, where None already means something."""

    def __repr__(self) -> str:
        return "DEFAULT"


DEFAULT: Final = Default()


@dataclass(frozen=True, slots=True)
class Push:
    """Learn of one's turn by the server's calls. The default."""


@dataclass(frozen=True, slots=True)
class Poll:
    """Stand in line and look every `interval` seconds, give or take a share of `jitter`, where push is not allowed."""

    interval: float = 0.1
    jitter: float = 0.1

    def __post_init__(self) -> None:
        check_seconds("Poll(interval)", self.interval, least=0.001, most=LONGEST_TTL)
        check_seconds("Poll(jitter)", self.jitter, least=0.0, most=1.0)


@dataclass(frozen=True, slots=True)
class Retry:
    """Never stand in line: try `times` times, `interval` seconds apart. Has no order and can starve."""

    times: int = 10
    interval: float = 0.1

    def __post_init__(self) -> None:
        check_count("Retry(times)", self.times)
        check_seconds("Retry(interval)", self.interval, least=0.001, most=LONGEST_TTL)


class Settings(TypedDict, total=False):
    """What can be said of a lock when it is made; see `Policy` for the defaults."""

    ttl: float
    renew: bool
    max_hold: float | None
    wait: float | None
    fair: bool
    reentrant: bool
    on_lost: OnLost
    linger: float
    waiting: Push | Poll | Retry


@dataclass(frozen=True, slots=True)
class Policy:
    """How one lock behaves; checked when it is made.

    `ttl`: the lease in seconds, renewed at a third of it; with `renew` false it is fixed. `max_hold`: the longest hold
    in all, renewed or not. `wait`: how long acquiring may take; None: for ever, 0: one try. `fair`: strict order across
    processes, at a round trip per hold. `reentrant`: whether a task inside may enter again; if not, that raises.
    `on_lost`: ``"cancel"`` the block, ``"flag"`` only, or a function of the hold. `linger`: how long to keep the place
    after the last local release, for the next local task. `waiting`: how to learn of one's turn.
    """

    ttl: float = 30.0
    renew: bool = True
    max_hold: float | None = None
    wait: float | None = None
    fair: bool = False
    reentrant: bool = True
    on_lost: OnLost = "cancel"
    linger: float = 0.0
    waiting: Push | Poll | Retry = Push()

    def __post_init__(self) -> None:
        check_ttl(self.ttl)
        for name in ("renew", "fair", "reentrant"):
            check_flag(name, getattr(self, name))
        if self.max_hold is not None:
            check_seconds("max_hold", self.max_hold, least=_SHORTEST_TTL, most=math.inf)
        check_wait(self.wait)
        check_seconds("linger", self.linger, least=0.0, most=LONGEST_TTL)
        if self.linger and not self.shares:
            raise ConfigurationError(
                "linger keeps a ticket for the next local task: leave out fair=True and renew=False"
            )
        if self.on_lost not in ("cancel", "flag") and not callable(self.on_lost):
            raise ConfigurationError(f"on_lost={self.on_lost!r}: give 'cancel', 'flag' or a function of the hold")
        if not isinstance(self.waiting, (Push, Poll, Retry)):
            raise ConfigurationError(f"waiting={self.waiting!r}: give Push(), Poll(...) or Retry(...)")
        if self.linger and not isinstance(self.waiting, Push):
            raise ConfigurationError("linger ends when others come, and only Push() is told: leave out either")

    @property
    def shares(self) -> bool:
        """Whether local tasks share a ticket; otherwise each has its own, in strict order across processes."""
        return self.renew and not self.fair


def check_key(key: object, what: str = "key") -> str:
    """Return *key* if it can be one, else raise `InvalidKeyError` that says what to change."""
    if isinstance(key, str) and 0 < len(key) <= _LARGEST_KEY and key.isascii() and key.isprintable():
        return key  # almost always
    if not isinstance(key, str):
        raise InvalidKeyError(f"{what} {key!r} is not a string: give str, for example f'order:{{id}}'")
    try:
        size = len(key.encode())
    except UnicodeEncodeError:
        raise InvalidKeyError(f"{what} {key!r} has a lone surrogate: decode the bytes it came from as UTF-8") from None
    if not 1 <= size <= _LARGEST_KEY:
        raise InvalidKeyError(f"{what} {key[:40]!r} has {size} bytes: give 1 to {_LARGEST_KEY}, or its hash")
    if not key.isprintable() and any(ord(c) < 32 or 127 <= ord(c) < 160 for c in key):
        raise InvalidKeyError(f"{what} {key!r} has a control character: remove or escape it")
    return key


def check_ttl(ttl: object) -> float:
    """Return *ttl* if a lease can be so long."""
    return check_seconds("ttl", ttl, least=_SHORTEST_TTL, most=LONGEST_TTL)


def check_wait(wait: object) -> float | None:
    """Return *wait* if it is None or seconds that can be waited."""
    if wait is None:
        return None
    return check_seconds("wait", wait, least=0.0, most=math.inf)


def check_count(name: str, value: object, *, least: int = 1, most: int = 1 << 30) -> int:
    """Return *value* if it is an integer from *least* to *most*."""
    if isinstance(value, bool) or not isinstance(value, int) or not least <= value <= most:
        raise ConfigurationError(f"{name}={value!r}: give an integer from {least} to {most}")
    return value


def check_seconds(name: str, value: object, *, least: float, most: float) -> float:
    """Return *value* if it is a number of seconds from *least* to *most*."""
    try:
        seconds = float(value) if isinstance(value, (int, float)) and not isinstance(value, bool) else math.nan
    except OverflowError:
        seconds = math.nan
    if not least <= seconds <= most:
        raise ConfigurationError(f"{name}={value!r}: give seconds from {least:g} to {most:g}")
    return seconds


def check_flag(name: str, value: object) -> bool:
    """Return *value* if it is True or False."""
    if not isinstance(value, bool):
        raise ConfigurationError(f"{name}={value!r}: give True or False")
    return value

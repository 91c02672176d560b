"""What goes out as one call, and in which order."""

from __future__ import annotations

from typing import Any

from aiodlock.backends.redis.request import Request, merged
from aiodlock.backends.redis.scripts import load, to_none


def requests(words: str) -> list[Request[Any]]:
    """Return a request for each letter: j and l are verbs, others whole commands."""
    scripts = {"j": load("join"), "l": load("leave")}
    return [Request(word.encode(), to_none, scripts.get(word), b"key" if word in scripts else b"") for word in words]


def sent(words: str) -> str:
    return " ".join("".join(request.payload.decode() for request in some) for some in merged(requests(words)))


def test_verbs_of_one_script_go_together_and_leaves_first() -> None:
    assert sent("jjljl") == "ll jjj"
    assert sent("l") == "l"


def test_nothing_moves_past_a_whole_command() -> None:
    assert sent("jlxljyj") == "l j x l j y j"

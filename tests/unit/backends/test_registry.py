"""URL scheme to backend: what is known, what is missing, what others register."""

from __future__ import annotations

import importlib.metadata
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

import aiodlock
from aiodlock import ConfigurationError, MissingDependencyError
from aiodlock.backends import registry
from aiodlock.backends.memory import MemoryBackend


@pytest.mark.parametrize(
    ("url", "shown"),
    [
        ("postgres://user:secret@host/db", "postgres://"),
        ("://", "a URL without a scheme"),
        ("localhost:6379", "a URL without a scheme"),
        ("", "a URL without a scheme"),
        (None, "NoneType"),
        (b"memory://", "bytes"),
    ],
)
def test_an_unknown_scheme_names_those_that_are_known(url: Any, shown: str) -> None:
    """And never shows the URL itself: it may carry a password."""
    with pytest.raises(ConfigurationError, match=f"no backend for {shown}: use one of .*memory://") as raised:
        aiodlock.connect(url)
    assert "secret" not in str(raised.value)


@pytest.mark.parametrize("url", ["memory://a/b", "memory://a?b=1", "memory://a#b", "memory://user@a"])
def test_a_memory_url_is_a_name(url: str) -> None:
    """What looks like a host, a path or options is refused: it would be ignored."""
    with pytest.raises(ConfigurationError, match="give memory:// or memory://name"):
        aiodlock.connect(url)


def test_a_setting_that_a_backend_does_not_have_is_refused() -> None:
    """It is named."""
    with pytest.raises(ConfigurationError, match=r"memory:// client has no such setting.*pool_size"):
        aiodlock.connect("memory://", pool_size=5)


def test_a_missing_extra_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    """With the command that installs it, and the import that failed as its cause."""
    home = registry._Home("aiodlock.backends.not_there", "Backend", "abacus")
    monkeypatch.setitem(registry._HOMES, "abacus", home)
    with pytest.raises(MissingDependencyError, match=r"abacus:// needs .*pip install 'aiodlock\[abacus\]'") as raised:
        aiodlock.connect("abacus://host")
    assert raised.value.extra == "abacus"
    assert isinstance(raised.value, ImportError)
    assert isinstance(raised.value.__cause__, ModuleNotFoundError)


def test_every_backend_of_ours_names_its_extra() -> None:
    """An extra that pyproject.toml has; memory needs none."""
    project = (Path(__file__).parents[3] / "pyproject.toml").read_text()
    for scheme, home in registry._HOMES.items():
        assert bool(home.extra) is (scheme != "memory")
        assert not home.extra or f"\n{home.extra} = [" in project


def test_nothing_is_imported_before_it_is_asked_for() -> None:
    """Importing the package loads no backend, not even memory."""
    program = "import sys, aiodlock; print([m for m in sys.modules if m.startswith('aiodlock.backends.')])"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "['aiodlock.backends.base', 'aiodlock.backends.registry']"


class Others(MemoryBackend):
    """Somebody else's backend."""


def _register(monkeypatch: pytest.MonkeyPatch, value: str) -> None:
    entry = importlib.metadata.EntryPoint("others", value, "aiodlock.backends")
    known = importlib.metadata.EntryPoints([entry])
    monkeypatch.setattr(registry, "entry_points", known.select)


async def test_others_register_by_entry_point(monkeypatch: pytest.MonkeyPatch) -> None:
    """The scheme is the entry point's name; `from_url` makes the backend."""
    _register(monkeypatch, f"{__name__}:Others")
    async with aiodlock.connect("others://") as locks:
        assert type(locks.backend).__name__ == "Others"
        async with locks.lock("k"):
            pass

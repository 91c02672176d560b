"""The arrows of the architecture: who may import whom.

Imports inside functions count. Imports under ``if TYPE_CHECKING`` do not: they name a type and import nothing.
"""

from __future__ import annotations

import ast
import subprocess
import sys
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

PACKAGE = Path(__file__).parents[2] / "aiodlock"


@dataclass(frozen=True, slots=True)
class Layer:
    """What its modules may import: each other, the layers `below`, and packages beside anyio."""

    below: frozenset[str]
    packages: frozenset[str]


def _layer(*below: str, packages: str = "") -> Layer:
    return Layer(frozenset(below), frozenset({"anyio", *packages.split()}))


GROUND = ("errors", "policy", "clock")
STOCK = ("_core.stock", "_core.ledger", "_core.routing", "_core.segment", "_core.spread")
FACTS = (*GROUND, "_core.line", "_core.fence", *STOCK)
ENGINE = (*FACTS, "events", "backends.base", "_core")
FACE = (*ENGINE, "locks", "inventory", "backends.registry", "client")
ALL = (*FACE, "guards", "")

# A module belongs to the longest name here that it has or lies below; "" is aiodlock/__init__.py alone.
LAYERS = {
    "errors": _layer(),
    "clock": _layer("errors"),
    "policy": _layer("errors", "clock"),
    "events": _layer(*GROUND),
    "_core.line": _layer(*GROUND),
    "_core.fence": _layer(*GROUND),
    "_core.stock": _layer(*GROUND),
    "_core.ledger": _layer(*GROUND, "_core.stock"),
    "_core.routing": _layer(*GROUND),
    "_core.segment": _layer(*GROUND, "_core.stock"),
    "_core.spread": _layer(*GROUND, "_core.stock", "_core.routing", "_core.segment"),
    "guards": _layer(*FACTS),
    "backends": _layer(),
    "backends.base": _layer(*FACTS),
    "backends.registry": _layer(*FACTS, "backends.base"),
    "backends.memory": _layer(*FACTS, "backends.base"),
    "backends.redis": _layer(*FACTS, "backends.base", packages="redis hiredis"),
    "backends.zookeeper": _layer(*FACTS, "backends.base", packages="aiozk"),
    "backends.mysql": _layer(*FACTS, "backends.base", packages="asyncmy"),
    "_core": _layer(*ENGINE),
    "locks": _layer(*ENGINE),
    "inventory": _layer(*ENGINE, "locks", packages="aiokafka asyncmy"),
    "client": _layer(*FACE),
    "": _layer(*FACE),
    "sinks": _layer(*ALL, packages="aiokafka opentelemetry prometheus_client"),
    "integrations": _layer(*ALL, packages="aiohttp fastapi starlette"),
    "cli": _layer(*ALL, "testing", packages="rich typer"),
    "testing": _layer(*ALL, "backends.memory", packages="hypothesis pytest"),
    "__main__": _layer("errors", "cli"),
}


def _modules() -> dict[str, Path]:
    """Return the files of the package by module name, without the leading ``aiodlock.``."""
    names = {path: path.relative_to(PACKAGE).with_suffix("").parts for path in PACKAGE.rglob("*.py")}
    return {".".join(name[:-1] if name[-1] == "__init__" else name): path for path, name in names.items()}


MODULES = _modules()


def layer_of(module: str) -> str | None:
    """Return the name of the layer that *module* belongs to, None if there is none."""
    names = [name for name in LAYERS if module == name or (name and module.startswith(f"{name}."))]
    return max(names, key=len, default=None)


def _running_nodes(node: ast.AST) -> Iterator[ast.AST]:
    children: Iterable[ast.AST] = ast.iter_child_nodes(node)
    if isinstance(node, ast.If) and ast.unparse(node.test) == "TYPE_CHECKING":
        children = node.orelse
    for child in children:
        yield child
        yield from _running_nodes(child)


def imports_of(source: str) -> Iterator[str]:
    """Yield the name of every module that *source* imports when it runs."""
    known = {f"aiodlock.{name}" for name in (*MODULES, *LAYERS)}
    for node in _running_nodes(ast.parse(source)):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            origin = "." * node.level + (node.module or "")
            for name in (f"{origin}.{alias.name}" for alias in node.names):
                yield name if name in known else origin


def wrong_arrows(module: str, source: str) -> list[str]:
    """Return what *source*, as the text of *module*, imports and may not. Relative imports never may."""
    own = layer_of(module)
    if own is None:
        return [f"aiodlock.{module} has no layer: give it one in LAYERS"]
    layers = {own, *LAYERS[own].below}
    packages = sys.stdlib_module_names | LAYERS[own].packages

    def may(name: str) -> bool:
        head, _, rest = name.partition(".")
        return layer_of(rest) in layers if head == "aiodlock" else head in packages

    return [f"aiodlock.{module} imports {name}" for name in imports_of(source) if not may(name)]


@pytest.mark.parametrize("module", sorted(MODULES))
def test_no_arrow_points_upward(module: str) -> None:
    """A module imports its own layer and those below it, and no driver that is not its own."""
    assert wrong_arrows(module, MODULES[module].read_text()) == []


@pytest.mark.parametrize(
    ("module", "source"),
    [
        ("errors", "from aiodlock import policy"),
        ("policy", "import aiodlock"),
        ("_core.line", "from aiodlock._core.cohort import Cohort"),
        ("_core.cohort", "from aiodlock.client import LockClient"),
        ("_core.hold", "import redis.asyncio"),
        ("_core.hold", "def f():\n    from aiodlock.locks.lock import Lock"),
        ("_core.hold", "if TYPE_CHECKING:\n    pass\nelse:\n    import aiodlock.client"),
        ("locks.lock", "from aiodlock import LockClient"),
        ("backends.base", "from aiodlock._core.hold import Hold"),
        ("backends.memory", "from aiodlock._core import cohort"),
        ("backends.memory", "from aiodlock.backends import redis"),
        ("backends.redis.backend", "from aiodlock.backends.memory import MemoryServer"),
        ("backends.redis.backend", "from ..mysql import queries"),
        ("backends.mysql.backend", "try:\n    import aiozk\nexcept ImportError:\n    pass"),
        ("backends.registry", "import aiodlock.backends.memory"),
        ("client", "from aiodlock.cli.main import app"),
        ("client", "from aiodlock.backends import redis"),
        ("", "from aiodlock.testing import FakeClock"),
        ("cli.inspect", "from aiodlock.integrations import fastapi"),
        ("stray", "import asyncio"),
    ],
)
def test_a_wrong_arrow_is_caught(module: str, source: str) -> None:
    """The broken twins: one forbidden import each."""
    assert len(wrong_arrows(module, source)) == 1


@pytest.mark.parametrize(
    ("module", "source"),
    [
        ("policy", "if TYPE_CHECKING:\n    from aiodlock._core.hold import Hold"),
        ("_core.cohort", "from aiodlock.backends.base import Backend\nfrom aiodlock._core import hold"),
        ("backends.redis.backend", "import redis.asyncio, hiredis\nfrom aiodlock.backends.redis import wire"),
        ("backends.memory", "from aiodlock._core.line import admit\nfrom aiodlock import clock"),
        ("client", "from aiodlock.backends import registry\nfrom aiodlock.locks.lock import Lock"),
        ("cli.seckill", "import aiodlock, rich.progress\nfrom aiodlock import LockClient"),
    ],
)
def test_a_drawn_arrow_is_allowed(module: str, source: str) -> None:
    """What the drawing shows is not reported."""
    assert wrong_arrows(module, source) == []


# Everything but the standard library, anyio and what anyio itself needs looks as if it were not installed.
BARE_PYTHON = """
import sys
allowed = {*sys.stdlib_module_names, "aiodlock", "anyio", "idna", "sniffio", "typing_extensions"}
class Bare:
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] not in allowed:
            raise ModuleNotFoundError(name)
sys.meta_path.insert(0, Bare())
import aiodlock
aiodlock.connect
"""


def _run_bare(then: str = "") -> subprocess.CompletedProcess[str]:
    return subprocess.run([sys.executable, "-c", BARE_PYTHON + then], capture_output=True, text=True, check=False)


def test_importing_the_package_needs_only_anyio() -> None:
    """With no extra installed ``import aiodlock`` works and has its face."""
    bare = _run_bare()
    assert bare.returncode == 0, bare.stderr


def test_importing_a_driver_would_be_seen() -> None:
    """The broken twin: one driver imported as well."""
    assert "ModuleNotFoundError: redis" in _run_bare("import redis").stderr

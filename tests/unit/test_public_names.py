"""The public face: every name is exported, every export is documented, every coroutine tells what a cancel leaves."""

from __future__ import annotations

import ast
import inspect
import re
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType

import pytest

import aiodlock

PACKAGE = Path(__file__).parents[2] / "aiodlock"


def _public_modules() -> dict[str, Path]:
    paths = {path.relative_to(PACKAGE): path for path in PACKAGE.rglob("*.py")}
    return {
        str(name): path
        for name, path in paths.items()
        if not any(part.startswith("_") and part != "__init__.py" for part in name.parts)
    }


MODULES = _public_modules()

# --- __all__ -----------------------------------------------------------------------------------------------


def _statements(node: ast.AST) -> Iterator[ast.AST]:
    """Yield what runs at the top level, also inside ``if`` and ``try``."""
    for child in ast.iter_child_nodes(node):
        yield child
        if isinstance(child, ast.If | ast.Try | ast.ExceptHandler):
            yield from _statements(child)


def _defined(tree: ast.Module) -> Iterator[str]:
    for node in _statements(tree):
        match node:
            case ast.ClassDef(name=name) | ast.FunctionDef(name=name) | ast.AsyncFunctionDef(name=name):
                yield name
            case ast.Assign(targets=targets):
                yield from (leaf.id for target in targets for leaf in ast.walk(target) if isinstance(leaf, ast.Name))
            case ast.AnnAssign(target=ast.Name(id=name)):
                yield name


def _imported(tree: ast.Module) -> set[str]:
    imports = [node for node in _statements(tree) if isinstance(node, ast.Import | ast.ImportFrom)]
    return {(alias.asname or alias.name).partition(".")[0] for node in imports for alias in node.names}


def _exported(tree: ast.Module) -> list[str] | None:
    for node in tree.body:
        match node:
            case ast.Assign(targets=[ast.Name("__all__")], value=value):
                return list(ast.literal_eval(value))
    return None


def _order(name: str) -> tuple[int, str]:
    """Constants, then classes, then functions, as ruff sorts them."""
    return (0 if name.isupper() and len(name) > 1 else 1 if name[0].isupper() else 2), name


def problems_of_exports(source: str) -> list[str]:
    """Return where ``__all__`` and what *source* defines differ."""
    tree = ast.parse(source)
    defined = {name for name in _defined(tree) if not name.startswith("_")}
    exported = _exported(tree)
    if exported is None:
        only_docstring = len(tree.body) == 1 and ast.get_docstring(tree) is not None
        return [] if only_docstring else ["no __all__"]
    problems = [f"{name} is exported but not there" for name in exported if name not in defined | _imported(tree)]
    problems += [f"{name} is neither exported nor private" for name in sorted(defined.difference(exported))]
    if exported != sorted(set(exported), key=_order):
        problems.append("__all__ is not sorted, or names one twice")
    return problems


@pytest.mark.parametrize("module", sorted(MODULES))
def test_a_module_exports_exactly_what_it_defines(module: str) -> None:
    """``__all__`` is there, sorted, and complete both ways."""
    assert problems_of_exports(MODULES[module].read_text()) == []


@pytest.mark.parametrize(
    "source",
    [
        "def connect(): ...",
        "import os",
        "__all__ = ['connect']",
        "__all__ = []\ndef connect(): ...",
        "__all__ = []\nLIMIT: int = 3",
        "__all__ = []\ntry:\n    import x\nexcept ImportError:\n    found, _ = False, 0",
        "__all__ = ['b', 'a']\na = b = 1",
        "__all__ = ['a', 'a']\na = 1",
        "__all__ = ['A', 'LIMIT']\nclass A: ...\nLIMIT = 1",
    ],
)
def test_a_wrong_export_is_caught(source: str) -> None:
    """The broken twins."""
    assert problems_of_exports(source)


def test_a_right_export_is_not_reported() -> None:
    """Re-exports count as there; private names and imports need no export."""
    source = "import os\nfrom a import Lock\n__all__ = ['LIMIT', 'Lock', 'take']\nLIMIT = _x = 1\ndef take(): ..."
    assert problems_of_exports(source) == []


# --- docstrings --------------------------------------------------------------------------------------------


def undocumented(source: str) -> list[str]:
    """Return the exported classes and functions that *source* defines without a docstring."""
    tree = ast.parse(source)
    kinds = ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef
    defined = [node for node in _statements(tree) if isinstance(node, kinds)]
    return [node.name for node in defined if not node.name.startswith("_") and not ast.get_docstring(node)]


@pytest.mark.parametrize("module", sorted(MODULES))
def test_a_module_and_its_exports_have_docstrings(module: str) -> None:
    """The module says what it is, and so do its public classes and functions."""
    source = MODULES[module].read_text()
    assert ast.get_docstring(ast.parse(source))
    assert undocumented(source) == []


def test_a_missing_docstring_is_caught() -> None:
    """The broken twin: of three, one is documented and one private."""
    assert undocumented("class A: 'It is.'\nclass _B: ...\nasync def take(): ...") == ["take"]


# --- what users call ---------------------------------------------------------------------------------------


def _is_member(thing: object) -> bool:
    return isinstance(thing, property) or inspect.isfunction(thing) or inspect.ismethod(thing)


def _members(face: ModuleType) -> Iterator[tuple[str, object]]:
    """Yield the functions that *face* exports, and the public methods and properties of its classes, inherited too."""
    for name in face.__all__:
        thing = getattr(face, name)
        if inspect.isfunction(thing):
            yield name, thing
        elif inspect.isclass(thing):
            members = inspect.getmembers(thing, _is_member)
            yield from ((f"{name}.{member}", value) for member, value in members if not member.startswith("_"))


def _is_awaited(member: object) -> bool:
    returned = str(getattr(member, "__annotations__", {}).get("return"))
    native = inspect.iscoroutinefunction(member) or inspect.isasyncgenfunction(member)
    return native or bool(re.search(r"\b(Awaitable|Coroutine|Future)\[", returned))


def problems_of_members(face: ModuleType) -> list[str]:
    """Return what *face* lets users call without telling what it does, or what a cancelled call leaves behind."""
    problems = []
    for name, member in _members(face):
        doc = inspect.getdoc(member) or ""
        if not doc:
            problems.append(f"{name} has no docstring")
        elif _is_awaited(member) and not re.search(r"^Cancellation:\s+\S+\s+\S+", doc, re.MULTILINE):
            problems.append(f"{name} does not say under 'Cancellation:' what is left behind")
    return problems


def test_everything_users_call_is_documented() -> None:
    """Every public method has a docstring, and every coroutine a Cancellation section that is not empty."""
    assert problems_of_members(aiodlock) == []


TWIN = '''
from collections.abc import Awaitable

class Base:
    async def inherited(self): "Do."

class Lock(Base):
    """A lock."""
    async def acquire(self): "Get in.\\n\\nCancellation:\\n    Nothing is left."
    async def release(self): "Get out."
    async def rows(self):
        "List."
        yield 1
    def future(self) -> "Awaitable[None]": "Wait."
    async def empty(self): "Do.\\n\\nCancellation:"
    def bare(self): ...
    @property
    def fence(self): ...
    async def _private(self): ...

async def connect(): "Open."
'''


def test_a_silent_member_is_caught() -> None:
    """The broken twins: all but acquire, which tells, and what is private."""
    twin = ModuleType("twin")
    exec(TWIN, twin.__dict__)
    twin.__dict__["__all__"] = ["Lock", "connect"]
    caught = {problem.split()[0] for problem in problems_of_members(twin)}
    silent = {"inherited", "release", "rows", "future", "empty", "bare", "fence"}
    assert caught == {"connect", *(f"Lock.{name}" for name in silent)}

"""The shape of the code: imports point one way, third parties have one door, files stay small."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from copy import deepcopy
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
PACKAGES = ("server", "prompts", "models")
MAX_LINES = 420

# The path of a request: each may import what comes later, never what comes earlier.
LINE = (
    "server.__main__",
    "server.commands",
    "server.assemble",
    "server.app",
    "server.routes",
    "server.parts",
    "server.responses",
    "server.chat",
    "server.constraint",
    "server.guide",
    "server.output",
    "server.events",
)
# What a package may import of this project besides itself.
ALLOWED = {
    "server.engine": ("server.errors",),
    "server.wire": ("server.errors", "server.events", "prompts.conversation"),
    "server.reply": ("server.errors", "server.events", "server.sse", "server.wire"),
    "server.sse": ("server.errors", "server.wire"),
    "server.text_reply": ("server.events", "server.sse", "server.wire"),
    "server.openapi": ("server.wire",),
    "server.origins": ("server.config", "server.errors", "server.logs", "server.wire"),
    "server.logs": ("server.errors",),
    "server.bodies": ("server.errors",),
    "server.protocol": ("server.errors", "server.wire"),
    "server.transport": ("server.errors",),
    "server.config": ("server.errors",),
    "server.errors": (),
    "server.events": (),
    "prompts": ("server.errors",),
    "models": ("server.errors",),
}
# Who alone may import a third party.
DOORS = {
    "llama_cpp": ("server.engine.runner",),
    "outlines": ("server.outlines_backend",),
    "llguidance": ("server.outlines_backend",),
    "fastapi": ("server.app", "server.routes"),
    "fastapi_offline": ("server.app",),
    "starlette": (
        "server.app",
        "server.bodies",
        "server.origins",
        "server.routes",
        "server.transport",
    ),
    "jinja2": ("prompts.budget", "prompts.sandbox", "prompts.template_filters"),
    "huggingface_hub": ("models.sources",),
    "pydantic_settings": ("server.config",),
}


@dataclass(frozen=True)
class Module:
    name: str
    path: Path
    lines: int
    tree: ast.Module

    @property
    def imports(self) -> frozenset[str]:
        """Dotted names of all that is imported, anywhere in the file, `from` ones in full."""
        return frozenset(_imports(self.tree))


def _imports(tree: ast.Module) -> Iterator[str]:
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, "relative imports hide the way"
            assert node.module is not None
            yield from (f"{node.module}.{alias.name}" for alias in node.names)


@cache
def modules() -> dict[str, Module]:
    """Every module of the project by dotted name; a package has its own name."""
    found = {}
    for package in PACKAGES:
        for path in sorted((ROOT / package).rglob("*.py")):
            parts = path.relative_to(ROOT).with_suffix("").parts
            name = ".".join(parts[:-1] if parts[-1] == "__init__" else parts)
            text = path.read_text("utf-8")
            found[name] = Module(name, path, len(text.splitlines()), ast.parse(text, str(path)))
    return found


def edges(module: Module) -> set[str]:
    """The project's modules that a module imports."""
    used = set()
    for name in module.imports:
        # `from server.errors import Busy` names a thing in a module, `from server import x` one.
        candidates = (name, name.rpartition(".")[0])
        used |= {next((one for one in candidates if one in modules()), "")}
    return used - {""}


def within(name: str, package: str) -> bool:
    return name == package or name.startswith(package + ".")


def test_the_walk_sees_what_there_is() -> None:
    assert len(modules()) > 50
    assert {"server.constraint", "prompts.render", "server.errors"} <= edges(
        modules()["server.chat"]
    )
    assert "llama_cpp" in modules()["server.engine.runner"].imports


@pytest.mark.parametrize("package", ALLOWED)
def test_a_package_imports_only_what_it_may(package: str) -> None:
    members = [module for name, module in modules().items() if within(name, package)]
    assert members
    wrong = [
        f"{module.name} imports {used}"
        for module in members
        for used in edges(module)
        if not any(within(used, one) for one in (package, *ALLOWED[package]))
    ]
    assert wrong == []


def test_imports_follow_the_path_of_a_request() -> None:
    wrong = []
    for place, layer in enumerate(LINE):
        members = [module for name, module in modules().items() if within(name, layer)]
        assert members, layer
        for module in members:
            back = {u for u in edges(module) for one in LINE[:place] if within(u, one)}
            wrong += [f"{module.name} imports {used}" for used in sorted(back)]
    assert wrong == []


def test_no_module_imports_itself_in_a_circle() -> None:
    done: set[str] = set()

    def visit(name: str, path: tuple[str, ...]) -> None:
        assert name not in path, " -> ".join((*path, name))
        if name in done:
            return
        for used in _at_load(modules()[name]):
            visit(used, (*path, name))
        done.add(name)

    for name in modules():
        visit(name, ())


def _at_load(module: Module) -> set[str]:
    """What a module imports when it is loaded: not inside functions, not for types only."""
    top = ast.Module([deepcopy(n) for n in module.tree.body if not _for_types(n)], [])
    for node in ast.walk(top):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            node.body = []
    return edges(Module(module.name, module.path, module.lines, top)) - {"server", module.name}


def _for_types(node: ast.stmt) -> bool:
    return isinstance(node, ast.If) and ast.unparse(node.test) == "TYPE_CHECKING"


@pytest.mark.parametrize("party", DOORS)
def test_a_third_party_has_one_door(party: str) -> None:
    users = {m.name for m in modules().values() if any(within(i, party) for i in m.imports)}
    assert users
    assert {user for user in users if not any(within(user, d) for d in DOORS[party])} == set()


def test_only_the_settings_read_the_environment() -> None:
    readers = set()
    for module in modules().values():
        reads = any(
            isinstance(node, ast.Attribute)
            and ast.unparse(node) in ("os.environ", "os.getenv", "os.environb")
            for node in ast.walk(module.tree)
        )
        if reads or module.imports & {"os.environ", "os.getenv", "os.environb"}:
            readers.add(module.name)
    assert readers == {"server.config"}


def test_files_stay_small() -> None:
    files = [path for package in (*PACKAGES, "tests") for path in (ROOT / package).rglob("*.py")]
    sizes = {path.relative_to(ROOT): len(path.read_text("utf-8").splitlines()) for path in files}
    assert {str(path): size for path, size in sizes.items() if size > MAX_LINES} == {}

"""What imports what, read from the syntax: no circle of modules or rooms, and the tests know nothing of the command."""

from __future__ import annotations

import ast
import graphlib
from collections.abc import Callable, Iterator

from reframe_tests.harness.vocabulary import ROOT

PACKAGES = {"reframe_tests": ROOT / "reframe_tests", "mpibench": ROOT / "ci" / "mpibench"}
FILES = {
    ".".join((package, *path.relative_to(folder).with_suffix("").parts)).removesuffix(".__init__"): path
    for package, folder in PACKAGES.items()
    for path in sorted(folder.rglob("*.py"))
}


def imports(module: str) -> Iterator[str]:
    """Project modules that a module imports anywhere in its file."""
    package = module if FILES[module].name == "__init__.py" else module.rpartition(".")[0]
    for node in ast.walk(ast.parse(FILES[module].read_text())):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names if alias.name in FILES)
        elif isinstance(node, ast.ImportFrom):
            above = package.split(".")[: len(package.split(".")) - node.level + 1] if node.level else []
            base = ".".join([*above, *filter(None, [node.module])])
            for alias in node.names:
                whole = f"{base}.{alias.name}"
                yield from (name for name in (whole if whole in FILES else base,) if name in FILES)


IMPORTS = {module: set(imports(module)) - {module} for module in FILES}


def room_of(module: str) -> str:
    """Folder or file directly in ``harness/`` or ``mpibench/``; a leaf, or the package itself, is one of its own."""
    return ".".join(module.split(".")[: 3 if module.startswith("reframe_tests.harness") else 2])


def no_circle(name_of: Callable[[str], str]) -> None:
    graph: dict[str, set[str]] = {}
    for module, wanted in IMPORTS.items():
        graph.setdefault(name_of(module), set()).update({name_of(one) for one in wanted} - {name_of(module)})
    list(graphlib.TopologicalSorter(graph).static_order())


def test_no_modules_import_each_other() -> None:
    no_circle(str)


def test_no_rooms_import_each_other() -> None:
    no_circle(room_of)


def test_the_tests_know_nothing_of_the_command() -> None:
    assert len(FILES) > 100, "the walk finds the project"
    wrong = {module: wanted for module, wanted in IMPORTS.items() if module.startswith("reframe_tests.")}
    assert [one for wanted in wrong.values() for one in wanted if one.startswith("mpibench")] == []

"""What imports what, by the syntax: no circle of modules or rooms;
tests know nothing of commands, the core of tools.
"""

import ast
import graphlib
import importlib.util
from collections import Counter
from functools import cache

from folders import OF_TOOLS, PRODUCT

PACKAGES = {folder.name: folder for folder in PRODUCT}
CORE = {"reframe_tests", "mpibench"}
FILES = {
    ".".join((package, *path.relative_to(folder).with_suffix("").parts)).removesuffix(
        ".__init__"
    ): path
    for package, folder in PACKAGES.items()
    for path in sorted(folder.rglob("*.py"))
}


@cache
def nodes():
    """Of each module what it imports and the classes it makes, wherever in its file."""
    kinds = (ast.Import, ast.ImportFrom, ast.ClassDef)
    found = {}
    for module, path in FILES.items():
        found[module] = []
        left = [*ast.parse(path.read_text()).body]
        while left:  # statements alone: expressions, of which most of a file is made, have neither
            one = left.pop()
            found[module] += [one] if isinstance(one, kinds) else []
            for name in ("body", "orelse", "finalbody", "handlers", "cases"):
                left += getattr(one, name, [])
    return found


def imports(module):
    """Project modules that a module imports anywhere in its file."""
    package = module if FILES[module].name == "__init__.py" else module.rpartition(".")[0]
    for node in nodes()[module]:
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names if alias.name in FILES)
        elif isinstance(node, ast.ImportFrom):
            above = (
                package.split(".")[: len(package.split(".")) - node.level + 1] if node.level else []
            )
            base = ".".join([*above, *filter(None, [node.module])])
            for alias in node.names:
                whole = f"{base}.{alias.name}"
                yield from (name for name in (whole if whole in FILES else base,) if name in FILES)


@cache
def all_imports():
    return {module: set(imports(module)) - {module} for module in FILES}


def room_of(module):
    """Folder or file directly in ``harness/`` or ``mpibench/``; a leaf,
    or the package itself, is one of its own.
    """
    return ".".join(module.split(".")[: 3 if module.startswith("reframe_tests.harness") else 2])


def test_no_modules_and_no_rooms_import_each_other():
    for name_of in (str, room_of):
        graph = {}
        for module, wanted in all_imports().items():
            graph.setdefault(name_of(module), set()).update(
                {name_of(one) for one in wanted} - {name_of(module)}
            )
        list(graphlib.TopologicalSorter(graph).static_order())


def test_no_tool_is_imported_by_the_core_or_by_another_tool():
    """And the tests know nothing of the command."""
    assert len(FILES) > 100, "the walk finds the project"
    assert PACKAGES.keys() == {*CORE, *filter(importlib.util.find_spec, OF_TOOLS)}
    wrong = []
    for module, wanted in all_imports().items():
        own = module.partition(".")[0]
        allowed = {own} if own == "reframe_tests" else {*CORE, own}
        wrong += [f"{module}: {one}" for one in wanted if one.partition(".")[0] not in allowed]
    assert wrong == []


def test_tools_import_what_is_public():
    private = [
        f"{module}: {alias.name}"
        for module, found in nodes().items()
        if module.partition(".")[0] in OF_TOOLS
        for node in found
        if isinstance(node, ast.ImportFrom) and str(node.module).partition(".")[0] in CORE
        for alias in node.names
        if alias.name.startswith("_")
    ]
    assert private == []


def test_a_name_means_one_class():
    """Whoever reads ``Record`` need not ask which one."""
    names = Counter(
        node.name for found in nodes().values() for node in found if isinstance(node, ast.ClassDef)
    )
    assert [name for name, times in names.items() if times > 1] == []

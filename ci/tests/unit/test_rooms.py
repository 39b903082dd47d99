"""The rooms of the tree and which of them may import which; read from the syntax, nothing is imported."""

from __future__ import annotations

import ast
import re
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

from reframe_tests.harness.stacks import metadata

ROOT = metadata.ROOT
#: Each room imports itself and those on the lines above it; rooms of one line do not import each other.
FLOORS = {
    "reframe_tests.harness": (
        ("vocabulary", "former_names", "optional_file", "printable", "process_stat"),
        ("records", "samples", "batch_systems"),
        ("machine",),
        ("mpis",),
        ("launchers",),
        ("schema",),
        ("stacks",),
        ("suites",),
        ("evidence",),
        ("sites",),
        ("job",),
        ("results",),
        ("fabric_test",),
    ),
    "mpibench": (
        ("whole_file", "statistics"),
        ("stacks", "results"),
        ("spack", "cluster", "published", "completeness", "night"),
        ("verdicts", "bare", "pages"),
        ("report", "verdict_pages", "error_rates"),
        ("commands",),
        ("cli",),
    ),
}
PACKAGES = {"reframe_tests": ROOT / "reframe_tests", "mpibench": ROOT / "ci" / "mpibench"}
FILES = {
    ".".join((package, *path.relative_to(folder).with_suffix("").parts)).removesuffix(".__init__"): path
    for package, folder in PACKAGES.items()
    for path in sorted(folder.rglob("*.py"))
}
MOST_MODULES = 12


def imports(module: str) -> Iterator[tuple[str, str]]:
    """Project modules that a module imports anywhere in its file, and the name taken from each (empty: the module itself)."""
    package = module if FILES[module].name == "__init__.py" else module.rpartition(".")[0]
    for node in ast.walk(ast.parse(FILES[module].read_text())):
        if isinstance(node, ast.Import):
            yield from ((alias.name, "") for alias in node.names if alias.name in FILES)
        elif isinstance(node, ast.ImportFrom):
            above = package.split(".")[: len(package.split(".")) - node.level + 1] if node.level else []
            base = ".".join([*above, *filter(None, [node.module])])
            for alias in node.names:
                whole = f"{base}.{alias.name}"
                if whole in FILES:
                    yield whole, ""
                elif base in FILES:
                    yield base, alias.name


def room_of(module: str) -> tuple[str, str]:
    """Package and room of a module; leaves and the packages' own ``__init__`` have none."""
    for package in FLOORS:
        if module.startswith(f"{package}."):
            return package, module.removeprefix(f"{package}.").split(".")[0]
    return module.split(".")[0], ""


def test_every_room_has_a_floor() -> None:
    rooms = {room_of(module) for module in FILES}
    known = {(package, room) for package, floors in FLOORS.items() for floor in floors for room in floor}
    assert {row for row in rooms if row[1]} == known


def test_rooms_import_only_what_is_below_them() -> None:
    floor_of = {(package, room): at for package, floors in FLOORS.items() for at, floor in enumerate(floors) for room in floor}
    wrong = []
    for module in FILES:
        for wanted, _ in imports(module):
            here, there = room_of(module), room_of(wanted)
            if not (here[1] and there[1]) or here == there:
                continue
            below = floor_of[there] < floor_of[here] if here[0] == there[0] else here[0] == "mpibench"
            wrong += [] if below else [f"{module} imports {wanted}"]
    assert wrong == []


def test_the_harness_knows_nothing_of_the_command() -> None:
    wrong = [
        f"{module} imports {wanted}"
        for module in FILES
        if module.startswith("reframe_tests")
        for wanted, _ in imports(module)
        if wanted.startswith("mpibench")
    ]
    assert wrong == []


def test_no_private_name_crosses_a_file() -> None:
    wrong = [
        f"{module} takes {wanted}.{name}"
        for module in FILES
        for wanted, name in imports(module)
        if wanted != module and (name.startswith("_") or wanted.rpartition(".")[2].strip("_") != wanted.rpartition(".")[2])
    ]
    assert wrong == []


def test_no_folder_is_a_heap() -> None:
    """Files that are one record each are rows of a table that is read from the folder, and there may be any number."""
    records = {path for path in FILES.values() if re.search(r"^(MPI|LAUNCHER) = ", path.read_text(), re.M)}
    assert len(records) > 12, "the records are seen"
    modules = Counter(path.parent for path in FILES.values() if path.name != "__init__.py" and path not in records)
    assert {str(folder.relative_to(ROOT)): count for folder, count in modules.items() if count > MOST_MODULES} == {}


def test_a_class_name_means_one_thing() -> None:
    names = Counter(
        (module.partition(".")[0], node.name)
        for module, path in FILES.items()
        for node in ast.parse(path.read_text()).body
        if isinstance(node, ast.ClassDef) and not node.name.startswith("_")
    )
    assert {name: count for name, count in names.items() if count > 1} == {}


def test_paths_exist() -> None:
    assert all(isinstance(path, Path) and path.is_file() for path in FILES.values())
    assert len(FILES) > 100, "the walk finds the project"

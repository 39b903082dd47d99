"""The rooms of the tree and which of them may import which; read from the syntax, nothing is imported."""

from __future__ import annotations

import ast
import graphlib
import re
from collections import Counter
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import documentation
from folders import SUPPORT, TESTS
from reframe_tests.harness.stacks import metadata

ROOT = metadata.ROOT
#: Each room imports itself and those on the lines above it; rooms of one line do not import each other.
FLOORS = {
    "reframe_tests.harness": (
        ("vocabulary", "field_types", "former_names", "optional_file", "printable", "process_stat", "upstream"),
        ("records", "samples", "batch_systems", "yaml_file"),
        ("machine", "tuning"),
        ("mpis",),
        ("launchers", "schedulers"),
        ("schema",),
        ("switches",),
        ("pairs",),
        ("stacks",),
        ("suites",),
        ("evidence",),
        ("session",),
        ("sites",),
        ("job",),
        ("results",),
        ("fabric_test", "preflight"),
        ("memory", "sharing", "sweep"),
        ("cascade", "pair_map"),
    ),
    "mpibench": (
        ("whole_file", "only_one", "own_reframe", "default_configuration", "statistics", "profiles"),
        ("withdrawals",),
        ("stacks", "results"),
        ("plan",),
        ("spack", "cluster", "published", "completeness", "history", "protocols"),
        ("night", "verdicts", "bare"),
        ("watch", "guidelines", "cascade", "advice", "locate", "tune"),
        ("confirmation",),
        ("pages",),
        ("settings", "error_rates", "listings"),
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
#: What may load a file by its path or name: the registries' reader, the descriptions of systems, the recorder's build, and what
#: asks for the versions of installed packages.
LOADERS = {
    "reframe_tests.harness.records",
    "reframe_tests.harness.sites.systems",
    "reframe_tests.harness.evidence.recorder",
}
#: mpi4py is a suite and the instrument with which stacks are probed and received data are checked.
INSTRUMENT = {
    (module, "reframe_tests.harness.suites.mpi4py.rows")
    for module in (
        "reframe_tests.harness.evidence.data_check",
        "mpibench.stacks.probe",
        "mpibench.stacks.system",
        "mpibench.stacks.wheels",
    )
}


@cache
def nodes(path: Path) -> tuple[ast.AST, ...]:
    """The syntax tree of a file, each node once."""
    return tuple(ast.walk(ast.parse(path.read_text())))


@cache
def imports(module: str) -> tuple[tuple[str, str], ...]:
    """Project modules that a module imports anywhere in its file, and the name taken from each (empty: the module itself)."""
    return tuple(find_imports(module))


def find_imports(module: str) -> Iterator[tuple[str, str]]:
    """As :func:`imports`, one after the other."""
    package = module if FILES[module].name == "__init__.py" else module.rpartition(".")[0]
    for node in nodes(FILES[module]):
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


def test_the_layout_names_every_room_in_its_order() -> None:
    layout = documentation.page("project/layout")
    for package, floors in FLOORS.items():
        folder = FILES[package].parent
        rooms = [room for floor in floors for room in floor if (folder / room).is_dir()]
        assert len(rooms) > 8
        line = layout.partition("mpibench/ ")[2] if package == "mpibench" else layout.partition("harness/ has")[2]
        assert re.findall(rf"\b({'|'.join(rooms)})/ ", line.replace("\n", " "))[: len(rooms)] == rooms


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


def names_of_modules(module: str) -> dict[str, str]:
    """Local name to each project module that a module imports as a whole."""
    return {
        alias.asname or alias.name: wanted
        for node in nodes(FILES[module])
        if isinstance(node, ast.ImportFrom)
        for alias in node.names
        for wanted, name in imports(module)
        if not name and wanted.rpartition(".")[2] == alias.name
    }


def test_no_private_name_of_a_module_is_reached_through_it() -> None:
    wrong = []
    for module, path in FILES.items():
        modules = names_of_modules(module)
        for node in nodes(path):
            if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name) and node.value.id in modules:
                wrong += [f"{module} takes {modules[node.value.id]}.{node.attr}"] if node.attr.startswith("_") else []
    assert wrong == []


def test_no_module_is_reached_around_its_name() -> None:
    """Imports are what this file reads: ``from package import name``; what is found in a folder is found in one place."""
    studies_and_tests = {"ci", "studies", "conftest", *(path.stem for path in SUPPORT.glob("*.py"))}
    wrong = []
    for module, path in FILES.items():
        for node in nodes(path):
            if isinstance(node, ast.Import):
                names = [alias.name for alias in node.names]
                wrong += [f"{module}: import {name}" for name in names if name.split(".")[0] in {*PACKAGES, *studies_and_tests}]
                found = {"importlib", "importlib.util", "runpy"} & set(names)
                wrong += [f"{module}: import {name}" for name in found if module not in LOADERS]
            elif isinstance(node, ast.ImportFrom) and not node.level and node.module:
                top = node.module.split(".")[0]
                wrong += [f"{module}: from {node.module}"] if top in studies_and_tests else []
                loads = node.module == "importlib" and {alias.name for alias in node.names} - {"metadata", "resources"}
                wrong += [f"{module}: from {node.module}"] if loads else []
            elif isinstance(node, ast.Name) and node.id == "__import__":
                wrong.append(f"{module}: __import__")
    assert wrong == []


def test_no_modules_import_each_other() -> None:
    """Not even for types only, and not within a room."""
    graph = {module: {wanted for wanted, _ in imports(module) if wanted != module} for module in FILES}
    list(graphlib.TopologicalSorter(graph).static_order())


def test_a_leaf_knows_the_base_class_and_nobody_knows_a_leaf() -> None:
    leaves = {module for module in FILES if re.fullmatch(r"reframe_tests\.\w+", module) and module != "reframe_tests.harness"}
    assert len(leaves) > 5
    of_leaves = {(wanted, name) for module in leaves for wanted, name in imports(module)}
    bases = ("FabricTest", "MaintenanceTest", "UnboundMaintenanceTest")
    of_nodes = {
        ("reframe_tests.harness.preflight.node_test", "NodeTest"),
        ("reframe_tests.harness.memory.memory_test", "MemoryTest"),
        ("reframe_tests.harness.sharing.sharing_test", "SharingTest"),
        ("reframe_tests.harness.cascade.pair_test", "PairTest"),
        ("reframe_tests.harness.cascade.wire_map_test", "WireMapTest"),
        ("reframe_tests.harness.sweep.sweep_test", "AlgorithmTest"),
        ("reframe_tests.harness.pair_map.map_test", "MapTest"),
        ("reframe_tests.harness.pair_map.map_test", "TurnTest"),
    }
    assert of_leaves == {*(("reframe_tests.harness.fabric_test", name) for name in bases), *of_nodes}
    assert not [module for module in FILES for wanted, _ in imports(module) if wanted in leaves]


def test_records_do_not_know_each_other() -> None:
    """A file or folder that is one record is read by the registry of its room; others ask the registry."""
    rooms = {"reframe_tests.harness.mpis": "MPI", "reframe_tests.harness.launchers": "LAUNCHER"}
    records = {
        module
        for module, path in FILES.items()
        for room, word in rooms.items()
        if module.rpartition(".")[0] == room and re.search(rf"^{word} = ", path.read_text(), re.MULTILINE)
    }
    assert len(records) > 12
    assert [(module, wanted) for module in FILES for wanted, _ in imports(module) if wanted in records] == []
    suites = {
        module.rpartition(".")[0] for module in FILES if re.fullmatch(r"reframe_tests\.harness\.suites\.\w+\.rows", module)
    }
    assert len(suites) > 3
    taken = {
        (module, wanted)
        for module in FILES
        for wanted, _ in imports(module)
        for suite in suites
        if f"{wanted}.".startswith(f"{suite}.") and not f"{module}.".startswith(f"{suite}.")
    }
    assert taken == INSTRUMENT


def test_a_file_of_tests_has_a_name_of_its_own() -> None:
    """Lanes have no packages, so that of two files of one name pytest imports the first and refuses the other."""
    files = Counter(path.name for path in TESTS.rglob("*.py") if path.name != "conftest.py")
    assert len(files) > 150
    assert {name: count for name, count in files.items() if count > 1} == {}


def test_a_class_name_means_one_thing() -> None:
    names = Counter(
        (module.partition(".")[0], node.name)
        for module, path in FILES.items()
        for node in ast.parse(path.read_text()).body
        if isinstance(node, ast.ClassDef) and not node.name.startswith("_")
    )
    assert {name: count for name, count in names.items() if count > 1} == {}


def test_every_file_of_commands_is_in_the_table() -> None:
    """Of them only the night is no command: it is a program of its own, which ``ci/nightly`` starts."""
    [table] = re.findall(r"^COMMANDS = \(([\w, ]+)\)$", FILES["mpibench.cli"].read_text(), re.M)
    modules = {module.rpartition(".")[2]: path for module, path in FILES.items() if module.startswith("mpibench.commands.")}
    assert set(modules) - {"nightly"} == set(table.split(", "))
    assert {name for name, path in modules.items() if re.search(r"^def register\(", path.read_text(), re.M)} == set(
        table.split(", ")
    )


def test_paths_exist() -> None:
    assert all(isinstance(path, Path) and path.is_file() for path in FILES.values())
    assert len(FILES) > 100, "the walk finds the project"

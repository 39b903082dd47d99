"""What the tests of a room see: mutants of its code that they kill, and tests that add nothing.

    cd ci && python -m studies.mutants [ROOM...] [--count N] [--seed N]

A mutant differs from the code in one place of one line that a test runs: an operator, a bound, a
constant, a condition, two arguments, what is returned (DeMillo, Lipton, Sayward, "Hints on test
data selection", Computer 11 (4), 1978); in a table of a module, a text or two values that are
swapped, too. It is killed where a test fails; where the tests do not end, also not in a longer
time, nobody knows, and it is counted by itself. The sample is drawn from the text of the room
alone, so that before and after a change of the tests the same mutants are tried. Each is given the
tests that run its line, one of a table those that run any line of its file (all of the room where
none does), by contexts of coverage.py, which is not installed with the project (``pip install
coverage``).

Tests that add nothing run no line of the room that others do not, and are the only killer of no
mutant tried: candidates, for whoever knows what they promise.
"""

from __future__ import annotations

import argparse
import ast
import itertools
import os
import random
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from reframe_tests.harness.vocabulary import ROOT

#: Room to its code and to the folders of ``ci/tests/unit`` and ``judge`` that are its tests.
ROOMS: dict[str, tuple[tuple[str, ...], tuple[str, ...]]] = {
    "readers": (
        ("reframe_tests/harness/suites",),
        ("suites", "results", "cascade", "guidelines", "profiles", "pairs"),
    ),
    "evidence": (("reframe_tests/harness/evidence",), ("evidence", "sharing")),
    "mpis": (
        ("reframe_tests/harness/mpis", "reframe_tests/harness/launchers"),
        ("mpis", "launchers", "schedulers", "job"),
    ),
    "sites": (
        ("reframe_tests/harness/sites", "reframe_tests/harness/machine"),
        ("sites", "machine", "session", "switches"),
    ),
    "cases": (
        ("reframe_tests/harness/cases",),
        ("job", "preflight", "cascade", "memory", "sharing", "sweep", "pairs", "results"),
    ),
    "stacks": (
        ("ci/mpibench/stacks", "reframe_tests/harness/stacks"),
        ("stacks", "spack"),
    ),
    "store": (("ci/mpibench/store",), ("results", "history", "confirmation", "verdicts", "watch")),
    "judge": (
        ("ci/mpibench/judge",),
        ("verdicts", "watch", "history", "completeness", "statistics", "confirmation", "plan"),
    ),
    "locate": (("ci/mpibench/locate",), ("locate", "pairs", "switches")),
    "pages": (("ci/mpibench/pages",), ("report", "pages")),
    "commands": (
        ("ci/mpibench/commands", "ci/mpibench/night"),
        ("listings", "night", "confirmation", "verdicts"),
    ),
    "tune": (
        ("ci/mpibench_tune",),
        ("tune", "advice", "guidelines", "profiles", "settings", "published", "tuning"),
    ),
    "cluster": (("ci/mpibench_cluster",), ("cluster",)),
    "site": (("ci/mpibench_site",), ("results_site",)),
}
_COMPARED = {ast.Lt: "<=", ast.LtE: "<", ast.Gt: ">=", ast.GtE: ">", ast.Eq: "!=", ast.NotEq: "=="}
_OTHER = {ast.In: "not in", ast.NotIn: "in", ast.Is: "is not", ast.IsNot: "is"}
_SUMS = {ast.Add: "-", ast.Sub: "+", ast.Mult: "/", ast.Div: "*", ast.FloorDiv: "*"}


OUTCOMES = ("killed", "survived", "endless")
#: How long tests may take with a mutant, s: at first, and once more.
LIMITS_S = (120.0, 480.0)
#: Exit status that stands for a run that did not end.
ENDLESS = 124


@dataclass(frozen=True)
class Mutant:
    """One change: the text from ``start`` to ``end`` (byte offsets) is ``text``."""

    path: str
    line: int
    start: int
    end: int
    text: str
    was: str
    in_table: bool  # runs while the module is loaded

    def __str__(self) -> str:
        return f"{self.path}:{self.line}: {self.was} -> {self.text}"


Change = tuple[ast.expr, ast.expr, str]


def _changes(node: ast.AST, text: str) -> Iterator[Change]:
    """What may be made of a node: the first and the last node that are replaced, and by what."""

    def of(part: ast.AST) -> str:
        return ast.get_source_segment(text, part) or ""

    def whole(part: ast.expr, made: str) -> Change:
        return part, part, made

    if isinstance(node, ast.Compare) and len(node.ops) == 1:
        word = {**_COMPARED, **_OTHER}[type(node.ops[0])]
        yield whole(node, f"({of(node.left)}) {word} ({of(node.comparators[0])})")
    elif isinstance(node, ast.BinOp) and type(node.op) in _SUMS:
        if not any(isinstance(one, ast.JoinedStr) for one in ast.walk(node)):
            yield whole(node, f"({of(node.left)}) {_SUMS[type(node.op)]} ({of(node.right)})")
    elif isinstance(node, ast.BoolOp):
        word = " or " if isinstance(node.op, ast.And) else " and "
        yield whole(node, word.join(f"({of(value)})" for value in node.values))
    elif isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.Not):
        yield whole(node, f"bool({of(node.operand)})")
    elif isinstance(node, ast.Constant) and type(node.value) in (int, float):
        yield whole(node, repr(node.value + 1))
    elif isinstance(node, ast.Constant) and type(node.value) is bool:
        yield whole(node, repr(not node.value))
    elif isinstance(node, ast.Return) and node.value is not None:
        if not (isinstance(node.value, ast.Constant) and node.value.value is None):
            yield whole(node.value, "None")
    elif isinstance(node, ast.If | ast.IfExp):
        yield whole(node.test, f"not ({of(node.test)})")
    elif isinstance(node, ast.Call) and len(node.args) > 1:
        first, second = node.args[:2]
        if not any(isinstance(one, ast.Starred) for one in (first, second)):
            yield first, second, f"{of(second)}, {of(first)}"


def _table_changes(node: ast.AST, text: str) -> Iterator[Change]:
    """What else may be made of a node of a table: another text, values of neighbours swapped."""
    if isinstance(node, ast.Constant) and isinstance(node.value, str):
        yield node, node, repr(f"{node.value}_")
    elif isinstance(node, ast.Dict):
        for (first, second), key in zip(
            itertools.pairwise(node.values), node.keys[1:], strict=True
        ):
            one, other, name = (
                ast.get_source_segment(text, part) if part else None
                for part in (first, second, key)
            )
            if one and other and name:
                yield first, second, f"{other}, {name}: {one}"


def mutants(path: str) -> list[Mutant]:
    """All mutants of a file; none inside of formatted texts and of what is raised."""
    text = (ROOT / path).read_text(encoding="utf-8")
    starts = [0]
    for line in text.encode().splitlines(keepends=True):
        starts.append(starts[-1] + len(line))
    found = []
    module = ast.parse(text)
    places: list[tuple[bool, list[ast.AST]]] = [
        (False, list(each.body)) for each in ast.walk(module) if isinstance(each, ast.FunctionDef)
    ]
    places += [
        (True, [each.value])
        for each in module.body
        if isinstance(each, ast.Assign | ast.AnnAssign) and each.value
    ]
    for in_table, stack in places:
        while stack:
            node = stack.pop()
            if isinstance(node, ast.JoinedStr | ast.FunctionDef | ast.Raise):
                continue
            stack += ast.iter_child_nodes(node)
            changes = [*_changes(node, text), *(_table_changes(node, text) if in_table else ())]
            for first, last, new in changes:
                start = starts[first.lineno - 1] + first.col_offset
                end = starts[(last.end_lineno or 1) - 1] + (last.end_col_offset or 0)
                was = text.encode()[start:end].decode()
                if was != new:
                    found.append(Mutant(path, first.lineno, start, end, new, was, in_table))
    return found


class Room:
    """A clone of the checkout, of what is committed, in which the tests of a room run."""

    def __init__(self, copy: Path, name: str) -> None:
        self.copy = copy
        self.code, folders = ROOMS[name]
        tests = copy / "ci" / "tests"
        self.tests = [
            str(path.relative_to(copy))
            for folder in folders
            for path in sorted(tests.glob(f"[uj]*/{folder}"))
        ]
        self.environ = {
            **os.environ,
            "PYTHONPATH": f"{copy}:{copy / 'ci'}",
            "PYTHONDONTWRITEBYTECODE": "1",
        }

    def pytest(self, *words: str, limit_s: float | None = None) -> tuple[int, str]:
        """Exit status and output of a run; :data:`ENDLESS` where it did not end in time."""
        try:
            done = subprocess.run(
                [sys.executable, *words, "-q", "-p", "no:cacheprovider", "-p", "no:xdist"],
                cwd=self.copy,
                env=self.environ,
                capture_output=True,
                text=True,
                timeout=limit_s,
            )
        except subprocess.TimeoutExpired:
            return ENDLESS, ""
        return done.returncode, done.stdout + done.stderr

    def lines(self) -> dict[str, dict[int, list[str]]]:
        """Of each file of the room: each line that tests run, with these tests (file::function)."""
        settings = self.copy / "coverage.ini"
        data = self.copy / ".coverage"
        settings.write_text(
            f"[run]\ndynamic_context = test_function\ndata_file = {data}\n"
            f"source = {', '.join(self.code)}\n"
        )
        status, said = self.pytest(
            "-m", "coverage", "run", f"--rcfile={settings}", "-m", "pytest", *self.tests
        )
        if status:
            sys.exit(f"the tests fail without a mutant:\n{said[-3000:]}")
        files = {
            path.stem: path for top in self.tests for path in (self.copy / top).rglob("test_*.py")
        }
        import coverage  # needed here alone: pip install coverage

        read = coverage.CoverageData(basename=str(data))
        read.read()
        found: dict[str, dict[int, list[str]]] = {}
        for name in read.measured_files():
            by_line = read.contexts_by_lineno(name)
            kept = {}
            for line, contexts in by_line.items():
                named = []
                for context in filter(None, contexts):
                    module, _, function = context.rpartition(".")
                    if path := files.get(module.rpartition(".")[2]):
                        named.append(f"{path.relative_to(self.copy)}::{function}")
                kept[line] = sorted(set(named))
            found[str(Path(name).relative_to(self.copy))] = kept
        return found

    def kill(self, mutant: Mutant, tests: Sequence[str]) -> tuple[str, str]:
        """What becomes of a mutant (of :data:`OUTCOMES`), and the test that fails with it."""
        path = self.copy / mutant.path
        whole = path.read_bytes()
        path.write_bytes(whole[: mutant.start] + mutant.text.encode() + whole[mutant.end :])
        try:
            for start, size in ((0, 8), (8, len(tests))):
                block = tests[start : start + size]
                if not block:
                    break
                for limit_s in LIMITS_S:
                    status, said = self.pytest("-m", "pytest", "-x", *block, limit_s=limit_s)
                    if status != ENDLESS:
                        break
                if status == ENDLESS:
                    return "endless", ""
                if status:
                    failed = [line for line in said.splitlines() if line.startswith("FAILED")]
                    return "killed", failed[0].split()[1] if failed else f"exit status {status}"
        finally:
            path.write_bytes(whole)
        return "survived", ""


def study(name: str, count: int, seed: int) -> None:
    """Print what became of each mutant of a room, and which of its tests add nothing."""
    with tempfile.TemporaryDirectory() as folder:
        copy = Path(folder) / "checkout"
        subprocess.run(["git", "clone", "-q", str(ROOT), str(copy)], check=True)
        room = Room(copy, name)
        lines = room.lines()
        files = sorted(
            str(path.relative_to(ROOT)) for top in room.code for path in (ROOT / top).rglob("*.py")
        )
        every = [mutant for path in files for mutant in mutants(path)]
        sample = random.Random(seed).sample(every, min(count, len(every)))
        killers: list[str] = []
        counts = dict.fromkeys(OUTCOMES, 0)
        every_test = {test for by in lines.values() for tests in by.values() for test in tests}
        for mutant in sample:
            of_file = lines.get(mutant.path, {})
            tests = of_file.get(mutant.line, [])
            if mutant.in_table:
                tests = sorted({test for own in of_file.values() for test in own} or every_test)
            outcome, killer = room.kill(mutant, tests) if tests else ("survived", "")
            counts[outcome] += 1
            killers.append(killer)
            print(f"{outcome:8} {mutant}  ({killer or len(tests)})", flush=True)
        alone = {tests[0] for by in lines.values() for tests in by.values() if len(tests) == 1}
        idle = sorted(every_test - alone - {killer.partition("[")[0] for killer in killers})
        said = ", ".join(f"{count} {outcome}" for outcome, count in counts.items())
        print(f"{name}: of {len(sample)} mutants {said}; {len(every_test)} tests, of which")
        print(f"{len(idle)} run no line alone and killed nothing:")
        print("\n".join(f"  {test}" for test in idle))


def main() -> None:
    """Command line."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("rooms", nargs="*", default=list(ROOMS), metavar="ROOM")
    parser.add_argument("--count", type=int, default=40, help="mutants a room")
    parser.add_argument("--seed", type=int, default=1)
    given = parser.parse_args()
    for name in given.rooms:
        study(name, given.count, given.seed)


if __name__ == "__main__":
    main()

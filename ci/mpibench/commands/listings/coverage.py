"""``mpibench catalogue --coverage``: what releases of the suites offer, and which test measures it, as a page of Markdown."""

from __future__ import annotations

import ast
import re
from collections.abc import Sequence
from pathlib import Path

from reframe_tests.harness.suites import catalogue
from reframe_tests.harness.suites.model import Offer, Suite
from reframe_tests.harness.vocabulary import ROOT

#: Where the page is kept.
PAGE = ROOT / "docs" / "reference" / "coverage.md"
_HEAD = """# What is covered

Made by `mpibench catalogue --coverage > docs/reference/coverage.md`; a test holds it against the records. Each program and
benchmark that a release of a suite offers is measured by the test beside it (`reframe -c reframe_tests -r -n TEST`), or left
out for the reason given. "Before" a version: from that version on it ends without MPI_Finalize, so that nothing of it can be
proven. A case whose stack was built without the program is skipped and says so.
"""
_NOT_RUN = "nothing measures it"


def tests_by_group(folders: Sequence[Path]) -> dict[str, str]:
    """Groups that test classes name, to the first such class; the files are not run, and one that is no Python names none.

    :param folders: where test files lie; one that is not there has none.
    """
    named: dict[str, str] = {}
    for path in (path for folder in folders for path in sorted(folder.glob("*.py"))):
        try:
            tree = ast.parse(path.read_text())
        except (SyntaxError, ValueError):
            continue
        for node in (node for node in ast.walk(tree) if isinstance(node, ast.ClassDef)):
            for statement in ast.walk(node):
                match statement:
                    case ast.Assign(targets=[ast.Name(id="group")], value=ast.Constant(value=str(group))):
                        named.setdefault(group, node.name)
    return named


def measured_by(tests: dict[str, str]) -> dict[tuple[str, str], str]:
    """Each benchmark that a plan names, as (program, benchmark), to the test that measures it."""
    return {
        (plan.binary, name): tests[row_group]
        for group, found in catalogue.GROUPS.items()
        if group in tests
        for plan in found.plans
        for name in plan.benchmarks
        if (row_group := catalogue.find(plan.binary, name).group) in tests
    }


def uncovered(offer: Offer, tests: dict[str, str]) -> list[str]:
    """What a release offers that neither a test measures nor a reason leaves out."""
    measured = measured_by(tests)
    return [
        f"{program} {name}" for program, names in offer.programs.items() for name in names if (program, name) not in measured
    ]


def page(folders: Sequence[Path] = (ROOT / "reframe_tests",)) -> str:
    tests = tests_by_group(folders)
    offers = [(suite, suite.offer) for suite in catalogue.SUITES.values() if suite.offer]
    return "\n".join([_HEAD, *(_section(suite, offer, tests) for suite, offer in offers)])


def _section(suite: Suite, offer: Offer, tests: dict[str, str]) -> str:
    measured = measured_by(tests)
    offered = [(program, name) for program, names in offer.programs.items() for name in names]
    lines: dict[tuple[str, str], list[str]] = {}
    for program, name in offered:
        test = measured.get((program, name), _NOT_RUN)
        # A program that is a benchmark needs no line of its own.
        until = ".".join(map(str, catalogue.find(program, name).until)) if (program, name) in measured else ""
        shown = f"{name} (before {until})" if until else name
        lines.setdefault(("" if program == name else program, test), []).append(shown)
    present = tuple(map(int, re.findall(r"\d+", offer.version)))
    late = [key for key in offered if key in measured and (last := catalogue.find(*key).until) and last <= present]
    no_more = f" ({', '.join(name for _, name in late)} in earlier versions only)" if late else ""
    count = sum(key in measured and key not in late for key in offered)
    left_out = sum(len(names) for names in offer.left_out.values())
    rows = [f"| {program or 'as the benchmark'} | {', '.join(names)} | {test} |" for (program, test), names in lines.items()]
    reasons = [f"| {', '.join(names)} | {reason} |" for reason, names in offer.left_out.items()]
    return "\n".join(
        [
            f"## {suite.title} {offer.version}",
            "",
            f"{count} of {len(offered)} benchmarks are measured{no_more}; {left_out} programs are left out. "
            f"Source: {offer.source}.",
            "",
            "| program | benchmarks | test |",
            "|---|---|---|",
            *rows,
            "",
            "| left out | why |",
            "|---|---|",
            *reasons,
            "",
        ]
    )

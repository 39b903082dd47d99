"""What ``mpibench settings`` writes of a recommendation: modulefiles (Tcl,
Lua), a fragment for Spack, a page, lines, JSON.

Sources: Environment Modules 5, modulefile(4); Lmod documentation, 'Lua Modulefile Functions'; Spack
documentation, 'Modules (modules.yaml)', "Customize environment modifications": ``environment:
set:`` below a spec.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import yaml

from mpibench import whole_file
from mpibench.pages.page import Block, Cell, Section, Table, markdown, sections, writing
from mpibench.stacks.spack import lock as lock_file
from mpibench.store.quantity_text import nodes_text
from reframe_tests.harness.mpis import registry as mpis
from reframe_tests.harness.mpis.tuning.model import DEFAULT
from reframe_tests.harness.printable import one_line, plural
from reframe_tests.harness.stacks.stack import Stack

from .choice import Recommendation, Recommended, Variable

#: Folder beside the modulefiles that the library's files are copied to.
TUNING = "tuning"


def variables(row: Recommendation, folder: Path | None = None) -> list[Variable]:
    """What to set.

    :param folder: where the files of tuned collectives are; ``None``: where they are installed.
    """
    if row.tuned is None:
        return list(row.variables)
    tuned = row.tuned.settings.environment(row.tuned.folder if folder is None else folder)
    return [
        *row.variables,
        *(Variable(name, value, "tuning") for name, value in sorted(tuned.items())),
    ]


def title(found: Recommended, row: Recommendation) -> str:
    fabric = f"fabric {row.fabric}" if row.fabric else "no fabric chosen"
    pinning = f"pinning {row.pinning}" if row.pinning != DEFAULT else "the stack's own pinning"
    return (
        f"{found.stack.name} on {found.system}, partition {row.partition}: {fabric}, {pinning}, "
        "as measured"
    )


def facts(found: Recommended, row: Recommendation) -> list[str]:
    """What was measured, when, and how much each choice brings: a sentence each."""
    days = sorted({job["started"].strftime("%Y-%m-%d") for job in row.jobs})
    nodes = ", ".join(nodes_text(number) for number in sorted({job["nodes"] for job in row.jobs}))
    when = days[0] if len(days) == 1 else f"{days[0]} to {days[-1]}"
    said = [
        f"proven by {plural(len(row.jobs), 'job')} on {nodes}, {when} (UTC), sessions "
        f"{', '.join(uuid[:8] for uuid in found.sessions)}",
        f"MPI: {found.stack.mpi} {found.stack.mpi_version}",
        *(
            f"{what}: {gain.text}, over {gain.metrics} benchmarks and sizes"
            for what, gain in row.gains
        ),
        *row.reasons,
        *(row.tuned.facts if row.tuned else ()),
    ]
    if row.pinning != DEFAULT:
        said.append(f"pinning: for {row.ppn} ranks a node")
    if row.options:
        said.append(f"mpirun options: {' '.join(row.options)}")
    return [one_line(line) for line in said]


def lines(found: Recommended) -> list[str]:
    shown = []
    for row in found.rows:
        shown.append(title(found, row))
        shown += [f"  {variable.name}={variable.value}" for variable in variables(row)] or [
            "  nothing to set"
        ]
        shown += [f"  {line}" for line in facts(found, row)]
    return [*shown, *(f"note: {note}" for note in found.notes)]


def write(found: Recommended, out: Path) -> list[Path]:
    """Write the files of every partition below a folder."""
    written = []
    for row in found.rows:
        name = title(found, row)
        said = facts(found, row)
        folder = out / found.stack.name / row.partition
        tuning = (folder / TUNING).resolve()
        shown = variables(row, tuning)
        set_ = {variable.name: variable.value for variable in shown}
        content = _content(row, shown, said)
        texts = {
            # What the modules refer to first.
            **(
                {tuning / file: text for file, text in row.tuned.texts().items()}
                if row.tuned
                else {}
            ),
            folder / "tcl" / found.stack.name: tcl(name, said, set_),
            folder / "lua" / f"{found.stack.name}.lua": lua(name, said, set_),
            folder / "modules.yaml": fragment(found.stack, [name, *said], set_),
            folder / "settings.md": markdown(name, content),
            folder / "settings.html": sections("Recommended settings", name, content),
        }
        for path, text in texts.items():
            with writing(path):
                whole_file.write_text(path, text)
            written.append(path)
    return written


def tcl(title: str, lines: Sequence[str], variables: Mapping[str, str]) -> str:
    """A modulefile in Tcl (Environment Modules, and Lmod reads it,
    too), with every value as it stands.

    :param title: one line for ``module whatis``; ``lines``: for ``module help``.
    """
    shown = [title, *lines]
    return _text(
        "#%Module1.0",
        *(f"## {_comment(line)}" for line in shown),
        f"module-whatis {_tcl(title)}",
        "proc ModulesHelp { } {",
        *(f"    puts stderr {_tcl(line)}" for line in shown),
        "}",
        *(f"setenv {name} {_tcl(value)}" for name, value in variables.items()),
    )


def lua(title: str, lines: Sequence[str], variables: Mapping[str, str]) -> str:
    """The same in Lua (Lmod)."""
    shown = [title, *lines]
    return _text(
        *(f"-- {_comment(line)}" for line in shown),
        f"whatis({_lua(title)})",
        f"help({_lua(chr(10).join(shown))})",
        *(f"setenv({_lua(name)}, {_lua(value)})" for name, value in variables.items()),
    )


def _text(*lines: str) -> str:
    return "\n".join([*lines, ""])


def _comment(line: str) -> str:
    """A comment must not end before its line does, nor go on after it
    (a backslash at the end of a Tcl line).
    """
    return " ".join(line.split()).rstrip("\\")


def _tcl(text: str) -> str:
    """A word in quotes in which nothing is substituted, also inside the braces of a procedure."""
    escaped = "".join(f"\\{sign}" if sign in '\\"$[]{}' else sign for sign in text)
    return f'"{escaped}"'.replace("\n", "\\n").replace("\t", "\\t")


def _lua(text: str) -> str:
    """A string literal; control characters by their number."""
    escaped = "".join(
        f"\\{ord(sign):03d}" if ord(sign) < 32 else f"\\{sign}" if sign in '\\"' else sign
        for sign in text
    )
    return f'"{escaped}"'


def spec_of(stack: Stack) -> str:
    """The package of a stack's MPI in its version, as Spack has it where
    Spack built the stack; empty if it has none.

    MVAPICH2 2.3.7 is the package's 2.3.7-1.
    """
    kept = Path(stack.source).parent / lock_file.LOCK
    if stack.origin == "spack" and kept.is_file():
        mpi = lock_file.read(kept).mpi
        return f"{mpi.name}@={mpi.version}"
    packages = mpis.find(stack.mpi).spack
    return f"{packages[0].name}@={stack.mpi_version}" if packages else ""


def fragment(stack: Stack, lines: Sequence[str], variables: Mapping[str, str]) -> str:
    """The variables for the module files that Spack writes of the
    package; only comments where nothing is to be set.
    """
    head = "".join(f"# {' '.join(line.split())}\n" for line in lines)
    spec = spec_of(stack)
    if not spec or not variables:
        return (
            f"{head}# {'Spack has no package of ' + stack.mpi if not spec else 'nothing to set'}.\n"
        )
    # Spack fills {...} in values.
    values = {
        name: value.replace("{", "\\{").replace("}", "\\}") for name, value in variables.items()
    }
    kinds = {kind: {spec: {"environment": {"set": dict(values)}}} for kind in ("tcl", "lmod")}
    return head + yaml.safe_dump(
        {"modules": {"default": kinds}}, sort_keys=False, default_flow_style=False
    )


def _content(row: Recommendation, shown: Sequence[Variable], said: Sequence[str]) -> list[Section]:
    """What the page shows, as HTML and as Markdown."""
    variables = [
        (Cell("code", variable.name), Cell("code", variable.value), variable.purpose)
        for variable in shown
    ]
    fields = ("job_id", "nodelist", "fabric", "ppn", "pinning", "group")
    jobs = [(job["session"][:8], *(job[name] for name in fields)) for job in row.jobs]
    nothing = "Nothing to set: nothing is proven better than the stack's own choice."
    return [
        ("", [Table(("variable", "value", "for"), variables) if variables else nothing]),
        (
            "What was measured",
            [
                Block("items", said),
                Table(
                    ("session", "job", "nodes", "fabric", "ranks a node", "pinning", "group"), jobs
                ),
            ],
        ),
    ]


def as_data(found: Recommended) -> dict[str, Any]:
    return {
        "system": found.system,
        "stack": found.stack.name,
        "mpi": found.stack.mpi,
        "mpi_version": found.stack.mpi_version,
        "sessions": list(found.sessions),
        "partitions": [
            {
                "partition": row.partition,
                "fabric": row.fabric or None,
                "pinning": row.pinning,
                "ppn": row.ppn,
                "variables": [
                    {"name": variable.name, "value": variable.value, "for": variable.purpose}
                    for variable in variables(row)
                ],
                "tuned": row.tuned.as_data() if row.tuned else None,
                "options": list(row.options),
                "gains": [{"choice": what, **gain.as_data()} for what, gain in row.gains],
                "reasons": list(row.reasons),
                "jobs": [{**job, "started": job["started"].isoformat(sep=" ")} for job in row.jobs],
            }
            for row in found.rows
        ],
        "notes": list(found.notes),
    }

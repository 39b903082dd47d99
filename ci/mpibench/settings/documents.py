"""What is written of a recommendation: two modulefiles, Spack's fragment and a page (Markdown and HTML) for each partition."""

from __future__ import annotations

import math
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from reframe_tests.harness.printable import one_line
from reframe_tests.harness.vocabulary import BadInput

from .. import whole_file
from ..pages import page
from ..results.quantity_text import nodes_text
from . import modulefiles, spack_fragment
from .gain import Gain
from .recommendation import DEFAULT, Recommendation, Recommended


def variables(row: Recommendation) -> dict[str, str]:
    """What to set."""
    return {one.name: one.value for one in row.variables}


def title(found: Recommended, row: Recommendation) -> str:
    """What it is, in one line."""
    fabric = f"fabric {row.fabric}" if row.fabric else "no fabric chosen"
    pinning = f"pinning {row.pinning}" if row.pinning != DEFAULT else "the stack's own pinning"
    return f"{found.stack.name} on {found.system}, partition {row.partition}: {fabric}, {pinning}, as measured"


def facts(found: Recommended, row: Recommendation) -> list[str]:
    """What was measured, when, and how much each choice brings: a sentence each."""
    days = sorted({job["started"].strftime("%Y-%m-%d") for job in row.jobs})
    nodes = ", ".join(nodes_text(number) for number in sorted({job["nodes"] for job in row.jobs}))
    when = days[0] if len(days) == 1 else f"{days[0]} to {days[-1]}"
    said = [
        f"proven by {len(row.jobs)} jobs on {nodes}, {when} (UTC), sessions {', '.join(one[:8] for one in found.sessions)}",
        f"MPI: {found.stack.mpi} {found.stack.mpi_version}",
        *(f"{what}: {one.text}, over {one.metrics} benchmarks and sizes" for what, one in row.gains),
        *row.reasons,
    ]
    if row.pinning != DEFAULT:
        said.append(f"pinning: for {row.ppn} ranks a node")
    if row.options:
        said.append(f"mpirun options: {' '.join(row.options)}")
    return [one_line(line) for line in said]


def lines(found: Recommended) -> list[str]:
    """The answer for a terminal."""
    shown = []
    for row in found.rows:
        shown.append(title(found, row))
        shown += [f"  {name}={value}" for name, value in variables(row).items()] or ["  nothing to set"]
        shown += [f"  {line}" for line in facts(found, row)]
    return [*shown, *(f"note: {note}" for note in found.notes)]


def write(found: Recommended, out: Path) -> list[Path]:
    """Write the files of every partition below a folder.

    :raises BadInput: a file cannot be written.
    """
    written = []
    templates = page.environment(__package__)
    for row in found.rows:
        name, said = title(found, row), facts(found, row)
        html = page.render(templates, "settings.html", title=name, found=found, row=row, facts=said)
        folder = out / found.stack.name / row.partition
        texts = {
            folder / "tcl" / found.stack.name: modulefiles.tcl(name, said, variables(row)),
            folder / "lua" / f"{found.stack.name}.lua": modulefiles.lua(name, said, variables(row)),
            folder / "modules.yaml": spack_fragment.fragment(found.stack, [name, *said], variables(row)),
            folder / "settings.md": markdown(found, row),
            folder / "settings.html": html,
        }
        for path, text in texts.items():
            try:
                whole_file.write_text(path, text)
            except OSError as error:
                raise BadInput(f"cannot write {path}: {error.strerror}.") from None
            written.append(path)
    return written


def markdown(found: Recommended, row: Recommendation) -> str:
    """The page as Markdown."""
    parts = [f"# {_plain(title(found, row))}", ""]
    if row.variables:
        parts += ["| variable | value | for |", "|---|---|---|"]
        parts += [f"| `{one.name}` | {_code(one.value)} | {one.purpose} |" for one in row.variables]
    else:
        parts.append("Nothing is to be set: nothing was proven to be better than what the stack does by itself.")
    parts += ["", "## What was measured", "", *(f"- {_plain(line)}" for line in facts(found, row)), ""]
    parts += ["| session | job | nodes | fabric | ranks a node | pinning | group |", "|---|---|---|---|---|---|---|"]
    for job in row.jobs:
        fields = (job["session"][:8], job["job_id"], job["nodelist"], job["fabric"], job["ppn"], job["pinning"], job["group"])
        parts.append("| " + " | ".join(_plain(str(field)) for field in fields) + " |")
    return "\n".join([*parts, ""])


def _plain(text: str) -> str:
    """Text in which Markdown sees no marks, cells or tags."""
    return "".join(f"\\{sign}" if sign in "\\`*_{}[]<>#|" else sign for sign in one_line(text))


def _code(text: str) -> str:
    """A value as code: between more backquotes than it has in a row, its cells' marks escaped."""
    fence = "`"
    while fence in text:
        fence += "`"
    blank = " " if text.startswith("`") or text.endswith("`") else ""
    return f"{fence}{blank}{one_line(text)}{blank}{fence}".replace("|", "\\|")


def as_data(found: Recommended) -> dict[str, Any]:
    """The recommendation for programs."""
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
                "variables": [{"name": one.name, "value": one.value, "for": one.purpose} for one in row.variables],
                "options": list(row.options),
                "gains": [{"choice": what, **_gain(one)} for what, one in row.gains],
                "reasons": list(row.reasons),
                "jobs": [{**job, "started": job["started"].isoformat(sep=" ")} for job in row.jobs],
            }
            for row in found.rows
        ],
        "notes": list(found.notes),
    }


def _gain(one: Gain) -> Mapping[str, Any]:
    known = math.isfinite(one.low)
    bands = {name: {"times": band.times, "outcome": band.outcome} for name, band in one.bands.items()}
    return {
        "against": one.against,
        "times": one.times,
        "low": one.low if known else None,
        "high": one.high if known else None,
        "metrics": one.metrics,
        "bands": bands,
    }

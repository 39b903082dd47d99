"""Everything a report shows about one case when a reader follows a number back: job, files, proof, gates."""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from itertools import groupby, islice
from pathlib import Path
from typing import Any
from urllib.parse import quote

from reframe_tests.harness.evidence import link_state
from reframe_tests.harness.samples import Evidence

from ..results.sessions import Case, Session
from .summary import OUTCOMES, outcome_of, sentences, title_of

#: Rows of ranks and files embedded per case; the rest is in the job's directory, and the page says so.
MAX_RANKS, MAX_FILES = 512, 200
#: Files looked at per directory: a damaged record may name one that is not a job's at all.
MAX_SEEN = 5000
#: A file written this many seconds after its session ended belongs to another run (clocks of file servers differ).
SLACK_S = 120.0


@dataclass(frozen=True)
class Place:
    """Where the files of a case are, seen from the report.

    :param href: relative link, empty if the directory is not on this machine.
    :param files: name, link and size in bytes of each file.
    :param note: what is wrong with the directory.
    """

    path: str
    href: str = ""
    files: tuple[tuple[str, str, int], ...] = ()
    note: str = ""


def link(path: Path, base: Path) -> str:
    """Relative URL of a path, seen from the folder the report is in."""
    return quote(os.path.relpath(path.absolute(), base.absolute()).replace(os.sep, "/"))


def _sizes(directory: Path) -> Iterator[tuple[Path, int]]:
    """Files below a directory with their sizes in bytes; those that vanish meanwhile are left out."""
    for folder, _, names in os.walk(directory):
        for name in names:
            path = Path(folder) / name
            with suppress(OSError):
                yield path, path.stat().st_size


def place_of(session: Session, case: Case, base: Path) -> Place:
    """Find a case's directory and look whether it still holds what this session left there."""
    if not case.directory or not case.job_id:
        return Place("")
    directory = Path(str(session.info.get("workdir") or ".")) / case.directory
    try:
        return _look(session, case, directory, base)
    except (OSError, ValueError) as err:
        return Place(str(directory), note=f"This directory cannot be read ({err.__class__.__name__}).")


def _look(session: Session, case: Case, directory: Path, base: Path) -> Place:
    if not directory.is_dir():
        return Place(str(directory), note="This directory is not on the machine the report was written on.")
    found = sorted(islice(_sizes(directory), MAX_SEEN))
    files = tuple((str(path.relative_to(directory)), link(path, base), size) for path, size in found[:MAX_FILES])
    output = directory / case.job_files[1] if len(case.job_files) > 1 else directory
    note = ""
    if not output.exists():
        note = "The job's output is no longer in this directory."
    elif output.stat().st_mtime > session.started.timestamp() + session.seconds + SLACK_S:
        note = "A later run has overwritten this directory: its files are not those of this session."
    elif len(found) > MAX_FILES:
        note = f"{MAX_FILES} of its files are listed; there are more."
    return Place(str(directory), f"{link(directory, base)}/", files, note)


def _flat(value: Any) -> str:
    if isinstance(value, Mapping):
        return ", ".join(f"{key}={_flat(one)}" for key, one in value.items())
    if isinstance(value, (list, tuple)):
        return " ".join(f"[{_flat(one)}]" if isinstance(one, (list, tuple)) else _flat(one) for one in value)
    return "" if value is None else str(value)


#: Keys of a condition that are shown as tables of their own.
_APART = ("env", "job_env", "env_vars", "environment", "debug_env", "launcher")


def details(session: Session, case: Case, place: Place) -> dict[str, Any]:
    """One case as the page's panel shows it; all values are plain text and set as text, never as markup."""
    proof, name = case.proof, outcome_of(session, case)
    entry = case.entry
    return {
        "title": title_of(case),
        "stack": case.stack,
        "outcome": name,
        "mark": OUTCOMES[name].mark,
        "meaning": OUTCOMES[name].meaning,
        "sentences": [] if name in ("passed", "recorded", "proven", "dry") else sentences(case),
        "reason": "" if case.reason in sentences(case) else case.reason,
        "case": [
            ["test", case.name],
            ["case", case.uuid],
            ["partition", f"{case.system}:{case.partition}"],
            ["job id", case.job_id],
            ["nodes", case.nodelist],
            ["exit code", _flat(entry.get("job_exitcode"))],
            ["ended", _flat(entry.get("job_completion_time"))],
            ["time in job", _seconds(entry.get("time_run"))],
            ["result", " in phase ".join(filter(None, (case.result, case.fail_phase)))],
        ],
        "path": place.path,
        "href": place.href,
        "files": [list(file) for file in place.files],
        "script": list(case.job_files),
        "note": place.note,
        "condition": [[key, _flat(value)] for key, value in case.condition.items() if key not in _APART],
        "launcher": _flat(case.condition.get("launcher")),
        "environment": [
            [key, _flat(value)]
            for part in _APART
            if isinstance(case.condition.get(part), Mapping)
            for key, value in case.condition[part].items()
        ],
        "proof": _proof(proof) if proof else None,
        "gates": [
            [gate.metric, gate.layer, gate.value, gate.reference, gate.lower, gate.upper, gate.unit, gate.outcome]
            for gate in case.gates
        ],
    }


def _seconds(value: Any) -> str:
    return f"{value:.1f} s" if isinstance(value, (int, float)) else ""


def _proof(proof: Evidence) -> dict[str, Any]:
    return {
        "status": proof.status,
        "library": proof.library,
        "version": proof.library_version,
        "transport": proof.transport,
        "seconds": list(proof.seconds),
        "ranks": [
            [_rank_text(rank), *(_flat(rank.get(key)) for key in ("host", "cpus_allowed", "cpu", "numa_node"))]
            for rank in proof.ranks[:MAX_RANKS]
        ],
        "rank_count": len(proof.ranks),
        "notes": list(proof.notes),
        "kernel": list(dict.fromkeys(map(str, proof.kernel))),
        "links": list(link_text(proof.links)),
        "traffic": [[one.launch, one.repeat, one.node, one.device, one.tx_bytes, one.rx_bytes] for one in proof.devices],
    }


def _rank_text(rank: Mapping[str, Any]) -> Any:
    """A rank's number; of several programs on a node, with that of its program."""
    number, program = _flat(rank.get("rank")), rank.get("program")
    return number if program is None else f"{number} of program {_flat(program)}"


def bytes_text(count: float) -> str:
    """Bytes with a decimal prefix: ``2.1 GB``."""
    for factor, unit in ((1e12, "TB"), (1e9, "GB"), (1e6, "MB"), (1e3, "kB")):
        if count >= factor:
            return f"{count / factor:.3g} {unit}"
    return f"{count:.0f} B"


def placement_text(proof: Evidence, limit: int = 8) -> Iterator[str]:
    """Ranks per host as ``n1: 0 on 0-3, 1 on 4-7 (NUMA 0); ...``, at most ``limit`` ranks of a host in full."""
    for host, group in groupby(proof.ranks, key=lambda rank: _flat(rank.get("host"))):
        rows = list(group)
        parts = []
        for node, near in groupby(rows[:limit], key=lambda rank: rank.get("numa_node")):
            shown = ", ".join(f"{_rank_text(rank)} on {_flat(rank.get('cpus_allowed'))}" for rank in near)
            parts.append(shown if node is None else f"{shown} (NUMA\N{NO-BREAK SPACE}{_flat(node)})")
        more = f" and {len(rows) - limit} more" if len(rows) > limit else ""
        yield f"{host}: {'; '.join(parts)}{more}"


def traffic_text(proof: Evidence) -> Iterator[str]:
    """Bytes per device, summed over nodes and repeats, as ``lo: 2.1 GB out, 2.1 GB in``."""
    totals: dict[str, list[int]] = {}
    for one in proof.devices:
        total = totals.setdefault(one.device, [0, 0])
        total[0] += one.tx_bytes
        total[1] += one.rx_bytes
    for device, (out, into) in totals.items():
        yield f"{device}: {bytes_text(out)} out, {bytes_text(into)} in"


def link_text(links: Iterable[Mapping[str, Any]]) -> Iterator[str]:
    """Links with the same settings on one line: ``eth1 on c1, c2: MTU 1500, state up``."""
    alike: dict[tuple[str, str], list[str]] = {}
    for link in links:
        alike.setdefault((str(link["link"]), link_state.describe(link)), []).append(str(link["node"]))
    for (name, settings), nodes in alike.items():
        yield f"{name} on {', '.join(nodes)}: {settings or 'nothing known'}"


def library_line(proof: Evidence) -> str:
    """First line of the library's version banner, its blanks collapsed."""
    lines = proof.library_version.strip().splitlines()
    return re.sub(r"\s+", " ", lines[0]) if lines else ""


def transport_line(proof: Evidence) -> str:
    """Transport without the settings in brackets that selected it."""
    return re.sub(r" \([^()]*\)", "", proof.transport)

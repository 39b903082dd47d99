"""From what a job of several algorithms left behind to one outcome, and what became of each algorithm."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from ...mpis.tuning.model import DEFAULT, STRICT
from ...printable import printable
from ...samples import MISSING
from ...suites.benchmark import OutputError
from ...suites.catalogue import Launch
from ...suites.instruments import read_counts
from ..job import ending, script
from ..job.condition import Condition
from ..job.script import beginning_of
from ..results import measurement
from ..results.measurement import Outcome
from .variants import TUNED, Variant

#: What became of an algorithm.
MEASURED, REFUSED = "measured", "refused"
#: Beginning of the note on a job's check of received data, and that on a job without one; here one launch has it for all.
_UNCHECKED = "received data are not checked"


@dataclass(frozen=True)
class Sayings:
    """Regular expressions of what the library prints; empty: it says nothing.

    :param ignored: of a value that it does not take (:attr:`Tuning.ignored`).
    :param fallback: of another algorithm than was set (:attr:`Tuning.fallback`).
    :param naming: of the algorithm that it takes (:attr:`Tuning.naming`).
    :param prefix: beginning of the words of algorithms that it names.
    :param compiled: of a file of its own that it has read (:attr:`Compilation.loaded`).
    """

    ignored: str = ""
    fallback: str = ""
    naming: str = ""
    prefix: str = ""
    compiled: str = ""


@dataclass(frozen=True)
class Swept:
    """What a job gave.

    :param outcome: of all algorithms that were measured.
    :param algorithms: label to what the condition keeps of each: variables, what became of it and why, and its messages.
    """

    outcome: Outcome
    algorithms: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)

    @property
    def measured(self) -> tuple[str, ...]:
        return tuple(label for label, row in self.algorithms.items() if row["outcome"] == MEASURED)


def evaluate(
    own: Condition,
    check: Sequence[Launch],
    variants: Sequence[Variant],
    repeats: int,
    limit_s: int,
    directory: Path,
    end: ending.JobEnd,
    said: Sayings,
) -> Swept:
    """Read and judge everything that a job of several algorithms wrote into its directory.

    An algorithm whose launches the library or the check of its data ended is refused and leaves no numbers: it is no fault of
    the job, unless it is the library's own choice or a proposed file.

    :param check: the launch that compares received data, if there is one.
    """
    whole = Outcome(repeats)
    parts: list[Outcome] = []
    rows: dict[str, dict[str, Any]] = {}
    if check:
        parts.append(measurement.evaluate(own, check, repeats, limit_s, directory, end))
        whole.take(parts[0])
    for variant in variants:
        part = measurement.evaluate(variant.condition, [variant.launch], repeats, limit_s, directory, end)
        rows[variant.word] = {"environment": dict(variant.env), "outcome": MEASURED}
        if line := _find(said.ignored, variant.launch, range(1, repeats + 1), directory):
            part.add(variant.launch.name, measurement.WHOLE_JOB, MISSING, [f"the library does not take it: {line}"])
        shown = _show(variant, said, limit_s, directory, end) if variant.shown else {}
        if line := shown.pop("fallback", ""):
            part.add(variant.launch.name, measurement.WHOLE_JOB, MISSING, [f"the library takes another one: {line}"])
        if line := _unnamed(variant.word, said.prefix, shown):
            part.add(variant.launch.name, measurement.WHOLE_JOB, MISSING, [line])
        broken = [row for row in part.findings if row.launch == variant.launch.name and row.status == MISSING]
        untaken = [row.sentence for row in broken if row.repeat == measurement.WHOLE_JOB]
        if broken and variant.word not in (DEFAULT, TUNED):
            rows[variant.word] |= {"outcome": REFUSED, "why": (untaken or [shown.get("not_shown") or broken[0].sentence])[0]}
            continue
        rows[variant.word] |= shown
        if variant.compiled:
            rows[variant.word] |= _compile(variant, said, limit_s, directory, end)
        parts.append(part)
        whole.take(part)
    notes = [note for part in parts if part.evidence for note in part.evidence.notes if not note.startswith(_UNCHECKED)]
    notes += [f"{word} is not measured: {row['why']}" for word, row in rows.items() if row["outcome"] == REFUSED]
    with_evidence = [part.evidence for part in parts if part.evidence]
    if with_evidence:
        first = with_evidence[1 if check and len(with_evidence) > 1 else 0]
        whole.evidence = replace(
            first,
            status=whole.status,
            sentences=tuple(whole.sentences),
            seconds=tuple(seconds for each in with_evidence for seconds in each.seconds),
            notes=tuple(dict.fromkeys(notes)),
        )
    return Swept(whole, rows)


def _find(pattern: str, launch: Launch, repeats: Iterable[int], directory: Path) -> str:
    """The first thing like this that a launch printed; empty where it did not."""
    for repeat in repeats if pattern else ():
        files = script.files_of(launch.name, repeat)
        for name in (files.output, files.error, files.debug):
            if found := re.search(pattern, beginning_of(directory / name)):
                return printable(found[0])
    return ""


def _unnamed(word: str, prefix: str, shown: Mapping[str, Any]) -> str:
    """Why it is not shown that an algorithm is taken which the library names when it takes it; empty where it is."""
    if not prefix or not word.startswith(prefix) or "messages" not in shown:
        return ""
    named = shown.get("named", {})
    other = [(size, named.get(size, "none of these")) for size in shown["messages"] if named.get(size) != word]
    return f"the library takes another one: at {other[0][0]} bytes it says {other[0][1]}" if other else ""


def _show(variant: Variant, said: Sayings, limit_s: int, directory: Path, end: ending.JobEnd) -> dict[str, Any]:
    """What shows that an algorithm is taken, as the condition keeps it.

    ``messages`` of one call by size; ``named``: the algorithm that it says it takes, by size; ``strict``: it would have
    ended; ``fallback``: it took another one, and said so;
    ``not_shown``: why nothing is known.
    """
    assert variant.shown is not None
    where, launch = variant.shown
    if line := _find(said.fallback, launch, [1], directory):
        return {"fallback": line}
    part = measurement.evaluate(where, [launch], 1, limit_s, directory, end)
    if part.findings:
        return {"not_shown": part.findings[0].sentence}
    if said.fallback:
        return {STRICT: True}
    path = directory / script.files_of(launch.name, 1).output
    try:
        found = read_counts(path.read_text(errors="replace"), path.name)
    except (OSError, OutputError) as error:
        return {"not_shown": str(error)}
    messages = {str(size): list(one) for size, one in found.items()}
    named = _name(said, launch, directory)
    return {"messages": messages, **({"named": named} if named else {})}


def _compile(variant: Variant, said: Sayings, limit_s: int, directory: Path, end: ending.JobEnd) -> dict[str, Any]:
    """The file that the library made of what is set, as the condition keeps it.

    It is used only where the library says that it read it, and, given nothing but the file, writes the same bytes, which are
    others than without settings.

    ``compiled``: name of the file beside the outputs, its bytes and their SHA-256; ``not_compiled``: why there is none.
    """
    found: list[bytes] = []
    for where, launch in variant.compiled:
        part = measurement.evaluate(where, [launch], 1, limit_s, directory, end)
        if part.findings:
            return {"not_compiled": part.findings[0].sentence}
        try:
            found.append((directory / script.files_of(launch.name, 1).result).read_bytes())
        except OSError:
            found.append(b"")
        if not found[-1]:
            return {"not_compiled": f"{launch.name}: the library wrote no file"}
        if len(found[-1]) >= script.MOST_OUTPUT_BYTES:
            return {"not_compiled": f"{launch.name}: the file is larger than {script.MOST_OUTPUT_BYTES >> 20} MiB"}
    [(_, first), (_, second), _] = variant.compiled
    if not _find(said.compiled.replace("{file}", re.escape(first.result)), second, [1], directory):
        return {"not_compiled": f"{second.name}: the library does not say that it has read the file"}
    if why := judge_compiled(*found):
        return {"not_compiled": why}
    checksum = hashlib.sha256(found[0]).hexdigest()
    return {"compiled": {"file": script.files_of(first.name, 1).result, "bytes": len(found[0]), "sha256": checksum}}


def judge_compiled(written: bytes, again: bytes, plain: bytes) -> str:
    """Why a file that a library made of what is set does not say what is set; empty where it does.

    :param again: what it then writes given the file alone; ``plain``: without settings.
    """
    if again != written:
        return "the library does not take from the file all that the variables say"
    return "the library writes the same file without settings" if plain == written else ""


def _name(said: Sayings, launch: Launch, directory: Path) -> dict[str, str]:
    """Message size to the algorithm that the library says it takes."""
    files = script.files_of(launch.name, 1)
    text = "\n".join(beginning_of(directory / name) for name in (files.output, files.error, files.debug))
    found = re.finditer(said.naming, text) if said.naming else ()
    return {match["size"]: f"{said.prefix}{match['word']}" for match in found}

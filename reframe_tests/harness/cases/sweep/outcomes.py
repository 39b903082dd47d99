"""From the files of a job of several algorithms to one outcome, and a result for each."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any

from ...mpis.tuning.model import DEFAULT, STRICT, Tuning
from ...printable import printable
from ...samples import MISSING
from ...suites.benchmark import OutputError
from ...suites.catalogue import Launch
from ...suites.instruments import read_counts
from ..job import script
from ..job.condition import Condition
from ..job.script import beginning_of
from ..results.measurement import WHOLE_JOB, JobOutcome
from .variants import TUNED, Variant

#: What became of an algorithm.
MEASURED = "measured"
REFUSED = "refused"
#: The job stopped at another one and never came to it.
NOT_STARTED = "not started"
#: Judges some launches under a condition, started so many times each
#: (:func:`results.measurement.evaluate`).
Judge = Callable[[Condition, Sequence[Launch], int], JobOutcome]


def evaluate(
    own: Condition,
    check: Sequence[Launch],
    variants: Sequence[Variant],
    repeats: int,
    directory: Path,
    judge: Judge,
    tuning: Tuning,
    collective: str,
) -> tuple[JobOutcome, dict[str, dict[str, Any]]]:
    """Read and judge everything that a job of several algorithms wrote into its directory.

    An algorithm whose launches the library or the check of its data ended is refused and leaves no
    numbers: it is no fault of the job, unless it is the library's own choice or a proposed file.

    :param check: the launch that compares received data, if there is one.
    :returns: what all that were measured gave; and by label what the condition keeps of each
        algorithm: its variables, the outcome of it and why, and what shows that it was taken.
    """
    whole = JobOutcome(repeats)
    outcomes = [judge(own, check, repeats)] if check else []
    rows: dict[str, dict[str, Any]] = {}
    for variant in variants:
        name = variant.launch.name
        part = judge(variant.condition, [variant.launch], repeats)
        row = rows[variant.word] = {"environment": dict(variant.env), "outcome": MEASURED}
        if line := _find(tuning.ignored, variant.launch, range(1, repeats + 1), directory):
            part.add(name, WHOLE_JOB, MISSING, [f"the library rejects it: {line}"])
        shown = _show(variant, tuning, collective, directory, judge) if variant.shown else {}
        if line := shown.pop("fallback", ""):
            part.add(name, WHOLE_JOB, MISSING, [f"the library uses another one: {line}"])
        broken = [
            finding
            for finding in part.findings
            if finding.launch == name and finding.status == MISSING
        ]
        untaken = [finding.sentence for finding in broken if finding.repeat == WHOLE_JOB]
        if broken and variant.word not in (DEFAULT, TUNED):
            row |= {
                "outcome": NOT_STARTED if name in part.not_started else REFUSED,
                "why": (untaken or [shown.get("not_shown") or broken[0].sentence])[0],
            }
            continue
        row |= shown
        if variant.compiled:
            row |= _compile(variant, tuning, directory, judge)
        outcomes.append(part)
    for part in outcomes:
        whole.take(part)
    notes = [
        note
        for part in outcomes
        if part.evidence
        for note in part.evidence.notes
        if note != part.unchecked  # one launch checks the data for all
    ]
    notes += [
        f"{word} is not measured: {row['why']}"
        for word, row in rows.items()
        if row["outcome"] != MEASURED
    ]
    if evidence := [part.evidence for part in outcomes if part.evidence]:
        whole.join(evidence[1 if check and len(evidence) > 1 else 0], evidence, notes)
    return whole, rows


def _find(pattern: str, launch: Launch, repeats: Iterable[int], directory: Path) -> str:
    """The first thing like this that a launch printed; empty if it
    did not, and where nothing is looked for.
    """
    texts = (text for repeat in repeats if pattern for text in _texts(launch, repeat, directory))
    return next((printable(match[0]) for text in texts if (match := re.search(pattern, text))), "")


def _texts(launch: Launch, repeat: int, directory: Path) -> list[str]:
    files = script.files_of(launch.name, repeat)
    return [beginning_of(directory / name) for name in (files.output, files.error, files.debug)]


def _show(
    variant: Variant, tuning: Tuning, collective: str, directory: Path, judge: Judge
) -> dict[str, Any]:
    """What shows that an algorithm is taken, as the condition keeps it.

    ``messages`` of one call by size; ``named``: the algorithm that the library says it takes, by
    size; ``strict``: it would have ended; ``fallback``: what it said of taking another one;
    ``not_shown``: why nothing is known.
    """
    assert variant.shown is not None
    where, launch = variant.shown
    if line := _find(
        tuning.fallback.replace("{collective}", collective.upper()), launch, [1], directory
    ):
        return {"fallback": line}
    if findings := judge(where, [launch], 1).findings:
        return {"not_shown": findings[0].sentence}
    if tuning.fallback:
        return {STRICT: True}
    path = directory / script.files_of(launch.name, 1).output
    try:
        counts = read_counts(path.read_text(errors="replace"), path.name)
    except (OSError, OutputError) as error:
        return {"not_shown": str(error)}
    messages = {str(size): list(row) for size, row in counts.items()}
    levels = tuning.find(collective).levels
    if not levels or not tuning.naming:
        return {"messages": messages}
    naming = tuning.naming.replace("{collective}", collective.lower())
    text = "\n".join(_texts(launch, 1, directory))
    named = {
        match["size"]: f"{levels.prefix}{match['word']}" for match in re.finditer(naming, text)
    }
    # Those that the library names when it takes them it has to have named, at each size.
    other = [
        (size, named.get(size, "none of these"))
        for size in messages
        if named.get(size) != variant.word
    ]
    row: dict[str, Any] = {"messages": messages, **({"named": named} if named else {})}
    if other and variant.word.startswith(levels.prefix):
        row["fallback"] = f"at {other[0][0]} bytes it says {other[0][1]}"
    return row


def _compile(variant: Variant, tuning: Tuning, directory: Path, judge: Judge) -> dict[str, Any]:
    """The file that the library made of what is set, as the condition keeps it.

    It is used only where the library says that it read it, and, given nothing but the file, writes
    the same bytes, which are others than without settings.

    ``compiled``: name of the file beside the outputs, its bytes and their SHA-256;
    ``not_compiled``: why there is none.
    """
    written: list[bytes] = []
    for where, launch in variant.compiled:
        if findings := judge(where, [launch], 1).findings:
            return {"not_compiled": findings[0].sentence}
        path = directory / script.files_of(launch.name, 1).result
        written.append(path.read_bytes() if path.is_file() else b"")
        if not written[-1]:
            return {"not_compiled": f"{launch.name}: the library wrote no file"}
        if len(written[-1]) >= script.MOST_OUTPUT_BYTES:
            return {
                "not_compiled": f"{launch.name}: the file is larger than "
                f"{script.MOST_OUTPUT_BYTES >> 20} MiB"
            }
    [(_, first), (_, second), _] = variant.compiled
    loaded = (
        tuning.compilation.loaded.replace("{file}", re.escape(first.result))
        if tuning.compilation
        else ""
    )
    if not _find(loaded, second, [1], directory):
        return {
            "not_compiled": f"{second.name}: the library does not confirm that it read the file"
        }
    if why := judge_compiled(*written):
        return {"not_compiled": why}
    checksum = hashlib.sha256(written[0]).hexdigest()
    return {
        "compiled": {
            "file": script.files_of(first.name, 1).result,
            "bytes": len(written[0]),
            "sha256": checksum,
        }
    }


def judge_compiled(written: bytes, again: bytes, plain: bytes) -> str:
    """Why a library's own file does not match its settings; empty if it does.

    :param again: what it then writes given the file alone; ``plain``: without settings.
    """
    if again != written:
        return "the library applies less from the file than from the variables"
    return "the library writes the same file without any settings" if plain == written else ""

"""From choices to a folder: the library's files, the record, a
modulefile, and the tables of what was measured.
"""

from __future__ import annotations

import csv
import io
import shlex
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from datetime import datetime, timezone
from pathlib import Path
from typing import Any

from reframe_tests.harness.mpis.tuning import model
from reframe_tests.harness.mpis.tuning.model import FOLDER, AlgorithmRule, Tuning, Wanted
from reframe_tests.harness.printable import plain_data
from reframe_tests.harness.sites.tuned_settings import TunedPlace, TunedSettings, checksum
from reframe_tests.harness.stacks.stack import Stack

from .race import Compared

MODULEFILE = "modulefile.lua"
ENVIRONMENT = "environment.bash"
TABLE = "before_after.csv"


def make(
    place: TunedPlace,
    stack: Stack,
    tuning: Tuning,
    rules: Sequence[AlgorithmRule],
    proof: Mapping[str, Any] | None = None,
) -> tuple[TunedSettings, dict[str, str]]:
    """The record and the text of each file beside it."""
    name = place.name.removesuffix(f"_{place.pinning}")
    wanted = Wanted(
        tuple(rules), place.ranks, stack.version_tuple, stack.library, name, place.nodes
    )
    files = model.write(tuning, wanted)
    found = TunedSettings(
        place=place,
        mpi=stack.mpi,
        mpi_version=stack.mpi_version,
        lock_hash=stack.lock_hash,
        made=datetime.now(timezone.utc).strftime("%Y-%m-%dT%H:%M:%SZ"),
        env=dict(files.env),
        files={name: checksum(text) for name, text in files.files.items()},
        further={name: checksum(text) for name, text in files.further.items()},
        rules=tuple(rules),
        proof=dict(proof or {}),
        note=tuning.note,
    )
    return found, {**files.files, **files.further}


def install(
    found: TunedSettings,
    texts: Mapping[str, str],
    folder: Path,
    rows: Sequence[Compared] = (),
    compiled: Mapping[str, bytes] | None = None,
) -> None:
    """Write a folder that tests, users and modules read.

    :param compiled: name to content of the file that the library itself made of the settings.
    """
    more = {
        MODULEFILE: write_modulefile(found),
        ENVIRONMENT: write_environment(found),
        **({TABLE: write_table(rows)} if rows else {}),
    }
    found.write(folder, {**texts, **more}, compiled)


def write_modulefile(found: TunedSettings) -> str:
    """A modulefile for Lmod that sets the variables, wherever the folder lies."""
    place = found.place
    lines = [
        f"-- Collectives of {place.text}, as mpibench measured them; do not edit.",
        f'whatis("Tuned collectives of {found.mpi} {found.mpi_version} for {place.ranks} ranks, '
        f'{place.ppn} a node")',
        "local folder = myFileName():match('^(.*)/[^/]*$')",
        *(f"setenv({_lua(name)}, {value})" for name, value in _values(found, "folder .. ", _lua)),
    ]
    return "\n".join(lines) + "\n"


def write_environment(found: TunedSettings) -> str:
    """The same to be read by a job script in bash (``.
    environment.bash``), wherever the folder lies.
    """
    lines = [
        f"# Collectives of {found.place.text}, as mpibench measured them; do not edit.",
        'tuned_folder=$(cd -- "$(dirname -- "${BASH_SOURCE[0]}")" && pwd)',
        *(
            f"export {name}={value}"
            for name, value in _values(found, '"$tuned_folder"', shlex.quote)
        ),
        "unset tuned_folder",
    ]
    return "\n".join(lines) + "\n"


def _values(
    found: TunedSettings, folder: str, quote: Callable[[str], str]
) -> Iterator[tuple[str, str]]:
    """Each variable with its quoted value, which may begin with
    the folder that the file lies in.
    """
    for name, value in found.env.items():
        before, sign, after = value.partition(FOLDER)
        yield name, folder + quote(after) if sign and not before else quote(value)


def _lua(text: str) -> str:
    return '"' + text.replace("\\", "\\\\").replace('"', '\\"') + '"'


def write_table(rows: Iterable[Compared]) -> str:
    """Default against tuned, one line for each collective and size, as CSV."""
    text = io.StringIO()
    text.write(
        "collective,bytes,algorithm,default_us,tuned_us,tuned_over_default,low,high,repeats,outcome\n"
    )
    writer = csv.writer(text, lineterminator="\n")
    for row in rows:
        numbers = [
            f"{value:.3f}" for value in (row.default_us, row.tuned_us, row.ratio, row.low, row.high)
        ]
        writer.writerow(
            [row.collective, row.message_bytes, row.word, *numbers, row.repeats, row.outcome]
        )
    return text.getvalue()


@dataclass(frozen=True)
class SettingsProof:
    """Default against tuned.

    :param rows: each collective at each size, and where settings are
        for all sizes together, of all as well.
    :param evidence: collective to how it is shown that the settings were taken.
    :param unusable: collective to why its measurement cannot be used.
    :param oversubscribed: ``4 ranks on 2 cores``, where ranks waited
        for each other's cores; else empty.
    :param weights: collective to message size to calls of an
        application, where its sizes were weighed by them.
    """

    session: str
    rows: tuple[Compared, ...]
    evidence: Mapping[str, str]
    unusable: Mapping[str, str] = field(default_factory=dict)
    oversubscribed: str = ""
    weights: Mapping[str, Mapping[int, float]] = field(default_factory=dict)


def as_proof(found: SettingsProof) -> dict[str, Any]:
    """What the record keeps of a proof."""
    weights = {
        name: {str(size): calls for size, calls in sizes.items()}
        for name, sizes in found.weights.items()
        if sizes
    }
    return {
        "session": found.session,
        "evidence": dict(found.evidence),
        **({"oversubscribed": found.oversubscribed} if found.oversubscribed else {}),
        **({"weights": weights} if weights else {}),
        "rows": plain_data([asdict(row) for row in found.rows]),
    }

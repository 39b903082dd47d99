"""``mpibench catalogue --parse``: outputs of benchmarks as a table, JSON or CSV."""

from __future__ import annotations

import csv
import io
import json
import re
import sys
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any

from reframe_tests.harness.printable import FORMULA
from reframe_tests.harness.suites import preamble, reader
from reframe_tests.harness.vocabulary import QUANTITIES, BadInput

#: Path that stands for standard input.
STDIN = Path("-")
#: Columns that are no quantity, in this order; the quantities follow, their unit in the name.
KEYS = (
    "source",
    "suite",
    "benchmark",
    "ranks",
    "groups",
    "variant",
    "message_bytes",
    "repetitions",
)

Row = dict[str, Any]


def _refuse(fault: BadInput) -> None:
    raise fault


def parse_files(
    paths: Sequence[Path],
    format: str,
    note: Callable[[str], None] = lambda text: None,
    fault: Callable[[BadInput], None] = _refuse,
) -> str:
    """Records of all files; the source of a record is its file, and the line
    of its output's title where a file has several.

    :param format: ``json`` is a list of objects with only the quantities a benchmark prints;
        ``csv`` has a column for every quantity that occurs; ``table`` is for reading, one table per
        file and set of columns.
    :param note: called with what an output says of how it was measured, and for each file in which
        other programs' lines stood around outputs and were set aside.
    :param fault: called with each reason why something of a log is not among
        the records, where others of its outputs are.
    :raises BadInput: for a file that cannot be read as text, or holds no complete output, or an
        incomplete one; nothing is formatted then.
    """
    rows: list[Row] = []
    for path in paths:
        readings, faults = reader.read_steps(read_text(path), source=str(path))
        for error in faults:
            fault(error)
        for reading in readings:
            source = f"{path}:{reading.line}" if len(readings) > 1 or faults else str(path)
            for record in reading.records:
                rows.append(
                    {
                        "source": source,
                        **{key: getattr(record, key) for key in KEYS[1:]},
                        **record.values,
                    }
                )
            for sentence in reading.notes:
                note(f"{source}: {sentence}")
        if aside := readings[0].set_aside:
            where = f"{len(readings)} outputs" if len(readings) > 1 else "the output"
            note(f"{path}: set aside around {where}: {preamble.say(aside)}")
    if format == "json":
        return json.dumps(rows, indent=1) + "\n"
    if format == "csv":
        out = io.StringIO()
        writer = csv.DictWriter(out, [*KEYS, *_quantities(rows)], restval="", lineterminator="\n")
        writer.writeheader()
        writer.writerows(
            {
                key: re.sub(FORMULA, r"'\1", value) if isinstance(value, str) else value
                for key, value in row.items()
            }
            for row in rows
        )
        return out.getvalue()
    return _tables(rows)


def read_text(path: Path) -> str:
    """Text of a file, or of standard input for ``-``."""
    try:
        data = sys.stdin.buffer.read() if path == STDIN else path.read_bytes()
    except FileNotFoundError:
        raise BadInput(
            "file-missing", f"{path}: no such file; give the path of a benchmark's output."
        ) from None
    except IsADirectoryError:
        raise BadInput(
            "file-unreadable", f"{path}: is a directory; give the files in it."
        ) from None
    except OSError as error:
        raise BadInput(
            "file-unreadable",
            f"{path}: cannot be read ({error.strerror}); check the path and its permissions.",
        ) from error
    if b"\0" in data:
        raise BadInput(
            "file-unreadable",
            f"{path}: is a binary file; give the text that the benchmark printed.",
        )
    try:
        return data.decode().removeprefix("\ufeff")
    except UnicodeDecodeError as error:
        line = data[: error.start].count(b"\n") + 1
        raise BadInput(
            "file-unreadable",
            f"{path}, line {line}: byte {error.start} is not UTF-8; convert the file, or record "
            "it again.",
        ) from error


def _quantities(rows: Iterable[Row]) -> list[str]:
    there = {name for row in rows for name in row}
    return [name for name in QUANTITIES if name in there]


def _tables(rows: Sequence[Row]) -> str:
    """One table per file and layout; columns that say nothing
    (one group, no variant) are left out.
    """
    blocks: dict[tuple[Any, ...], list[Row]] = {}
    for row in rows:
        blocks.setdefault((row["source"], row["suite"], tuple(_quantities([row]))), []).append(row)
    sources = {row["source"] for row in rows}
    parts = []
    for (source, suite, quantities), block in blocks.items():
        keys = ["benchmark", "ranks"]
        keys += ["groups"] if any(row["groups"] != 1 for row in block) else []
        keys += ["variant"] if any(row["variant"] for row in block) else []
        keys += ["message_bytes", "repetitions", *quantities]
        heading = f"{source} ({suite})\n" if len(sources) > 1 else ""
        cells = [list(keys), *([_cell(row[key]) for key in keys] for row in block)]
        widths = [max(map(len, column)) for column in zip(*cells, strict=True)]
        # numbers to the right
        sides = ["<" if key in ("benchmark", "variant") else ">" for key in keys]
        lines = (
            "  ".join(
                f"{cell:{side}{width}}"
                for cell, side, width in zip(line, sides, widths, strict=True)
            )
            for line in cells
        )
        parts.append(heading + "".join(f"{line.rstrip()}\n" for line in lines))
    return "\n".join(parts)


def _cell(value: Any) -> str:
    """A value for reading: two decimals as IMB prints them, more where they would hide it."""
    if value is None:
        return "-"
    if not isinstance(value, float):
        return str(value)
    return f"{value:.2f}" if value >= 10 or value == round(value, 2) else f"{value:.4g}"

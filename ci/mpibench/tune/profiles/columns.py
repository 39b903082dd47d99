"""Tables of text whose columns are two or more blanks apart, as Intel's tools print them."""

from __future__ import annotations

import re
from collections.abc import Sequence

from reframe_tests.harness.vocabulary import BadInput


def names(line: str) -> list[str]:
    """The heads of columns, which may hold single blanks."""
    return re.split(r"\s{2,}", line.strip(" |"))


def row(line: str, heads: Sequence[str], where: str) -> dict[str, str]:
    """A row by the heads of its columns.

    :raises BadInput: it has another number of fields.
    """
    fields = line.split()
    if len(fields) != len(heads):
        raise BadInput(f"{where}: {len(fields)} fields, expected {len(heads)} ({', '.join(heads)}): the file is damaged.")
    return dict(zip(heads, fields, strict=True))

"""Labels of a session (``--session-extras``), checked before anything is measured.

ReFrame 4.10 splits them at commas and equal signs, and refuses names of its own, only after the last job has ended
(``frontend/cli.py`` and ``frontend/reporting/__init__.py``, ``update_extras``): the session is not stored then.
"""

from __future__ import annotations

import argparse
import json
import re
from collections.abc import Sequence
from functools import cache
from pathlib import Path

from ...printable import one_line
from ...vocabulary import BadInput

_PAIR = re.compile(r"(?P<name>[A-Za-z_]\w*)=.+", re.DOTALL)


def check(arguments: Sequence[str]) -> None:
    """Refuse labels on ReFrame's command line that it would stumble over.

    :param arguments: the command line without the program.
    :raises BadInput: naming the label and the form.
    """
    for extras in _given(arguments):
        for pair in extras.split(","):
            match = _PAIR.fullmatch(pair)
            if not match:
                raise BadInput(f"--session-extras {extras!r}: {pair!r} is not NAME=VALUE; several are separated by commas.")
            if "\t" in pair or one_line(pair) != pair:
                raise BadInput(
                    f"--session-extras {extras!r}: {pair!r} holds a control character, a line's end or a change of direction, "
                    "which a terminal would not show as it is; leave it out."
                )
            if match["name"] in reserved():
                raise BadInput(f"--session-extras {extras!r}: {match['name']!r} is a name of ReFrame's own; take another.")


def names(arguments: Sequence[str]) -> list[str]:
    """Names of the labels on ReFrame's command line."""
    return [pair.partition("=")[0] for extras in _given(arguments) for pair in extras.split(",")]


def _given(arguments: Sequence[str]) -> list[str]:
    parser = argparse.ArgumentParser(add_help=False, exit_on_error=False)  # cut short, too, as ReFrame takes it
    parser.add_argument("--session-extras", action="append", default=[])
    try:
        found: list[str] = parser.parse_known_args(list(arguments))[0].session_extras
    except argparse.ArgumentError:
        return []  # without a value: ReFrame says so itself
    return found


@cache
def reserved() -> frozenset[str]:
    """Names ReFrame keeps for itself in ``session_info``."""
    import reframe

    schema = Path(reframe.INSTALL_PREFIX) / "reframe" / "schemas" / "runreport.json"
    return frozenset(json.loads(schema.read_text())["properties"]["session_info"]["properties"])

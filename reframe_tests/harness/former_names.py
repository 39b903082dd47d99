"""Names that tests had before; references, stored sessions and scripts still have them.

A test that is given another name gets a row in :data:`TESTS`, a setting one in :data:`SETTINGS`; every reader then takes
the one for the other.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping

#: Former name of a test to that of today.
TESTS: Mapping[str, str] = {
    "PointToPoint": "ImbPointToPoint",
    "ParallelTransfer": "ImbParallelTransfer",
    "Collectives": "ImbCollectives",
}

#: Former name of a setting (``-S``) to that of today; :class:`fabric_test.FabricTest` has both.
SETTINGS: Mapping[str, str] = {"depth": "level", "rival": "paired_stack"}


def patterns() -> Iterable[tuple[str, str]]:
    """Each former name as a pattern for the beginning of a display name (as Python and Polars read it), and today's name."""
    return ((rf"^{former}\b", name) for former, name in TESTS.items())


def present(test: str) -> str:
    """Today's name of a test."""
    return TESTS.get(test, test)


def present_option(text: str) -> str:
    """An argument of ReFrame's ``-n``, ``-x`` or ``-S`` with today's name where only a former one can be meant.

    Elsewhere in a pattern the former name fits today's as well.
    """
    for former, name in TESTS.items():
        text = re.sub(rf"^{former}(?=\.\w+=|@)|(?<=\^){former}\b", name, text)
    return text


def present_display_name(text: str) -> str:
    """A display name, which is a test's name and its parameters, with today's name."""
    for pattern, name in patterns():
        text = re.sub(pattern, name, text)
    return text

"""All that is used of ReFrame beyond what its manual promises, each with the change in ReFrame that would end it.

What it says in its log is listened for by :mod:`.sites.selected_tests` and :mod:`.sites.whole_run`, since it has no hook between
loading and selecting tests, and none at its end; an exit status of its own for a session without a case would end both.
"""

from __future__ import annotations

from functools import wraps
from pathlib import Path
from typing import Any

from reframe.frontend.loader import RegressionCheckLoader


def search_not(folder: Path) -> None:
    """Keep ReFrame, where it searches below folders (``-R``, ``check_search_recursive``), out of one that holds no tests.

    It takes each file that imports ReFrame for one of tests. Ended by: a mark that leaves a folder out of the search.
    """
    search = RegressionCheckLoader.load_from_dir
    if hasattr(search, "__wrapped__"):
        return

    @wraps(search)
    def search_elsewhere(self: Any, dirname: str, *options: Any, **named: Any) -> Any:
        return [] if Path(dirname).resolve() == folder else search(self, dirname, *options, **named)

    RegressionCheckLoader.load_from_dir = search_elsewhere

"""ReFrame's own settings under which the tests run: ``general`` and ``logging``, with the centre's where it has some.

The centre's handlers stay; ours, which keep the log of each start, stand beside them.
"""

from __future__ import annotations

import os
import re
import socket
import sys
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from .centre import Centre


def general(results: Path, own_systems: Iterable[str], centre: Centre | None) -> list[dict[str, Any]]:
    """Entries of ``general``.

    :param results: folder of the results.
    :param own_systems: names of the systems that the project describes by itself.
    :param centre: its settings stay, and where it keeps detected topologies is where ReFrame looks for them on its systems.
    """
    ours = {
        # One number per line and thousands of lines: they go to the log file and the report.
        "perf_info_level": "debug2",
        # A finished local job is noticed within 0.2 s; the default backs off to 10 s.
        "poll_rate_max": 20,
        "poll_rate_min": 5,
        "report_file": str(results / "reports" / "run-{sessionid}.json"),
        "generate_file_reports": False,
    }
    topologies = {"topology_prefix": str(results / "topology" / socket.gethostname())}
    if centre is None:
        return [{**ours, **topologies}]
    if "report_file" in centre.general:
        del ours["generate_file_reports"]
    kept = {key: value for key, value in ours.items() if key not in centre.general}
    return [kept, {"target_systems": list(own_systems), **topologies}]


def log_level(words: Sequence[str], environ: Mapping[str, str]) -> str:
    """The finest level of ReFrame's messages that are made: what ``-v`` asks for, and ``debug`` where anything is started.

    ReFrame 4.10 completes each message with every loggable attribute of its test before a handler refuses it or writes it: a
    third of the time of a dry run, which starts nothing that a message would be needed for. (``logging.level`` in its
    configuration reference; "undefined" lets all through.)

    :param words: command line of ``reframe``, whose ``-v`` make the terminal's level finer, one step each.
    """
    from .session import session_folder

    steps = sum(word.count("v") for word in words if re.fullmatch(r"-[A-Za-z]+|--verb[a-z]*", word))
    if steps > 2 or environ.get("RFM_VERBOSE"):
        return "undefined"
    starts_nothing = session_folder.looks_up(words) or "--dry-run" in words
    return "verbose" if starts_nothing and steps < 2 else "debug"


def logging_of(log: str, centre: Centre | None) -> list[dict[str, Any]]:
    """Entries of ``logging``: ReFrame's built-in handlers without its performance logs, whose one file per test holds one size,
    ours all; and what the centre has in place of the built-in ones.

    The site's own monitoring gets the values also if :mod:`.metrics_push` is given its address.

    :param log: file of this start's log.
    """
    from .session import metrics_push

    ours: dict[str, Any] = {
        "level": log_level(sys.argv[1:], os.environ),
        "handlers$": [{"type": "stream", "name": "stdout", "level": "info", "format": "%(message)s"}],
        "handlers": [
            {
                "type": "file",
                "name": log,
                "level": "debug",
                "format": "[%(asctime)s] %(levelname)s: %(check_info)s: %(message)s",
                "append": True,
            },
        ],
        "handlers_perflog": metrics_push.handlers(),
    }
    entries = [dict(entry) for entry in centre.logging] if centre else []
    everywhere = [entry for entry in entries if "*" in entry.get("target_systems", ["*"])]
    rows = [_joined(ours, entry) for entry in entries if entry not in everywhere]
    whole = dict(ours)
    for entry in everywhere:
        whole |= _joined(ours, entry)
    whole.pop("target_systems", None)
    return [whole, *rows]


def _joined(ours: Mapping[str, Any], theirs: Mapping[str, Any]) -> dict[str, Any]:
    """An entry of the centre's, with our handlers beside its own, and at a level that all of them can live with.

    For what was measured ours come first: ReFrame's own raise where a server refuses, and no handler behind gets the record.
    """
    from reframe.core.logging import level_from_str

    joined = dict(theirs)
    if "handlers" in theirs:
        joined["handlers"] = [*theirs["handlers"], *ours["handlers"]]
    if "handlers_perflog" in theirs:
        joined["handlers_perflog"] = [*ours["handlers_perflog"], *theirs["handlers_perflog"]]
    if "handlers" in theirs or "level" in theirs:
        # Unless it says otherwise, ReFrame makes all messages.
        joined["level"] = min(theirs.get("level", "undefined"), ours["level"], key=level_from_str)
    return joined

"""Labels and files of a session: its own folders below ``stage`` and ``output``, and a log below
``results/logs``.

ReFrame 4.10 puts all sessions into the same folders unless it gets ``--timestamp`` or
``RFM_TIMESTAMP_DIRS``, and empties a case's folder before the case runs (``core/runtime.py``,
``make_stagedir``). Without this module a session would overwrite outputs and evidence of the
previous one, and two at the same time would delete each other's.
"""

from __future__ import annotations

import json
import logging
import os
import re
import secrets
import tempfile
import time
from collections.abc import Iterable, MutableMapping, Sequence
from functools import cache
from pathlib import Path

from ... import command_line
from ...vocabulary import BadInput

#: ReFrame's variable behind ``--timestamp``, which it reads after the configuration
#: (``frontend/argparse.py``, ``_Namespace``).
VARIABLE = "RFM_TIMESTAMP_DIRS"
#: Label of a session that measured again what was called slower in another one, whose id it is; and
#: the variable in which who measures again says so.
CONFIRMS = "confirms"
CONFIRMING = "MPIBENCH_CONFIRMS"
#: Local time of the start, as ReFrame's own ``--timestamp`` has it, and
#: eight hexadecimal digits drawn at random.
NAME = re.compile(r"\d{8}T\d{6}-[0-9a-f]{8}")
#: Log of the starts that only look something up.
LOOK_UP_LOG = "look-up.log"
#: Options with which ReFrame runs nothing (``reframe --help``, "Options for listing/querying").
_LOOK_UP = re.compile(
    r"-[lL]C?|--(list|describe|show-config|performance-compare|detect-host-topology"
    r"|delete-stored|version|help).*|-[hV]"
)


def new_name() -> str:
    """Name of a session's folder; the random part keeps two starts
    in the same second apart, on any host.
    """
    return f"{time.strftime('%Y%m%dT%H%M%S')}-{secrets.token_hex(4)}"


def separate(name: str, environ: MutableMapping[str, str] = os.environ) -> None:
    """Make ReFrame, which is loading its configuration, use this folder;
    ``--timestamp`` and the variable go before it.
    """
    environ.setdefault(VARIABLE, name)


def looks_up(arguments: Sequence[str]) -> bool:
    """Whether ReFrame only looks something up.

    :param arguments: its command line without the program.
    """
    return any(_LOOK_UP.fullmatch(word) for word in arguments)


def log_file(results: Path, name: str, arguments: Sequence[str]) -> Path:
    """Where this start of ReFrame writes its log: a file of its own if it
    runs something, else the one of all look-ups.

    :param results: folder of the results; ``logs`` in it is made.
    :param arguments: ReFrame's command line without the program.
    :returns: the null device where nothing can be written, so that
        looking something up needs no right to write.
    """
    logs = results / "logs"
    path = logs / (LOOK_UP_LOG if looks_up(arguments) else f"{name}.log")
    try:
        logs.mkdir(exist_ok=True)
        path.open("w").close()
    except OSError:
        return Path(os.devnull)
    return path


def redirect_first_log(log: Path, handlers: Iterable[logging.Handler]) -> None:
    """Make ReFrame's built-in configuration, which applies until ours is loaded, also write to this
    file.

    Its log is a new file in the system's temporary folder at each start (``core/logging.py``,
    ``_create_file_handler``), which nobody removes.
    """
    for handler in handlers:
        path = Path(getattr(handler, "baseFilename", ""))
        temporary = (
            path.parent == Path(tempfile.gettempdir())
            and path.name.startswith("rfm-")
            and path.suffix == ".log"
        )
        if isinstance(handler, logging.FileHandler) and temporary:
            handler.close()
            path.unlink(missing_ok=True)
            # Opened again with the next line (logging.handlers.RotatingFileHandler.shouldRollover).
            handler.baseFilename = str(log)
            handler.mode = "a"


#: Characters that show nothing and that :meth:`str.isprintable` takes for visible (Unicode,
#: Default_Ignorable_Code_Point).
_UNSEEN = re.compile(
    "[\u034f\u115f\u1160\u17b4\u17b5\u180b-\u180f\u3164\ufe00-\ufe0f\uffa0\U000e0100-\U000e01ef]"
)


def check_labels(arguments: Sequence[str]) -> None:
    """Refuse labels (``--session-extras``) on ReFrame's command line that it would stumble over.

    ReFrame 4.10 splits them at commas and equal signs, and refuses names of its own, only after the
    last job has ended (``frontend/cli.py`` and ``frontend/reporting/__init__.py``,
    ``update_extras``): the session is not stored then.

    :param arguments: the command line without the program.
    :raises BadInput: naming the label and the form.
    """
    for name, pair, extras in labels(arguments):
        value = pair.partition("=")[2]
        faults = (
            (
                not value or not re.fullmatch(r"[A-Za-z_]\w*", name),
                f"{pair!r} is not NAME=VALUE; separate several by commas",
            ),
            (
                _UNSEEN.search(pair) or pair != pair.strip() or not pair.isprintable(),
                f"{pair!a} has a control character, line break or other invisible character; "
                "remove it",
            ),
            (
                name == CONFIRMS and value != os.environ.get(CONFIRMING),
                f"{CONFIRMS!r} is reserved for confirmation runs of mpibench; use another name",
            ),
            (
                name in reserved_labels(),
                f"{name!r} is reserved by ReFrame; use another",
            ),
        )
        for wrong, sentence in faults:
            if wrong:
                raise BadInput("bad-option", f"--session-extras {extras!r}: {sentence}.")


def labels(arguments: Sequence[str]) -> list[tuple[str, str, str]]:
    """For each label: its name, name and value as given, and the whole argument."""
    given = command_line.arguments(
        arguments, {"--session-extras": "session_extras"}, shortened=True
    )["session_extras"]
    return [
        (pair.partition("=")[0], pair, extras) for extras in given for pair in extras.split(",")
    ]


@cache
def reserved_labels() -> frozenset[str]:
    """Names ReFrame keeps for itself in ``session_info``."""
    import reframe

    schema = Path(reframe.INSTALL_PREFIX) / "reframe" / "schemas" / "runreport.json"
    return frozenset(json.loads(schema.read_text())["properties"]["session_info"]["properties"])

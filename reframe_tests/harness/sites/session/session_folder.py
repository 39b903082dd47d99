"""Files of one session: a folder of its own below ``stage`` and ``output``, and a log of its own below ``results/logs``.

ReFrame 4.10 puts all sessions into the same folders unless it is given ``--timestamp`` or ``RFM_TIMESTAMP_DIRS``, and empties a
case's folder before the case runs (``core/runtime.py``, ``make_stagedir``): without this a session would overwrite the outputs
and the evidence of the session before it, and two at once would delete each other's.
"""

from __future__ import annotations

import logging
import os
import re
import secrets
import tempfile
import time
from collections.abc import Iterable, MutableMapping, Sequence
from pathlib import Path

#: ReFrame's variable behind ``--timestamp``, which it reads after the configuration (``frontend/argparse.py``, ``_Namespace``).
VARIABLE = "RFM_TIMESTAMP_DIRS"
#: Local time of the start, as ReFrame's own ``--timestamp`` has it, and eight hexadecimal digits drawn at random.
NAME = re.compile(r"\d{8}T\d{6}-[0-9a-f]{8}")
#: Log of the starts that only look something up.
LOOK_UP_LOG = "look-up.log"
#: Options with which ReFrame runs nothing (``reframe --help``, "Options for listing/querying").
_LOOK_UP = re.compile(
    r"-[lL]C?|--(list|describe|show-config|performance-compare|detect-host-topology|delete-stored|version|help).*|-[hV]"
)


def new_name() -> str:
    """Name of a session's folder; the random part keeps two starts in the same second apart, on any host."""
    return f"{time.strftime('%Y%m%dT%H%M%S')}-{secrets.token_hex(4)}"


def separate(name: str, environ: MutableMapping[str, str] = os.environ) -> None:
    """Make ReFrame, which is loading its configuration, use this folder; ``--timestamp`` and the variable go before it."""
    environ.setdefault(VARIABLE, name)


def looks_up(arguments: Sequence[str]) -> bool:
    """Whether ReFrame only looks something up.

    :param arguments: its command line without the program.
    """
    return any(_LOOK_UP.fullmatch(word) for word in arguments)


def log_file(results: Path, name: str, arguments: Sequence[str]) -> Path:
    """Where this start of ReFrame writes its log: a file of its own if it runs something, else the one of all look-ups.

    :param results: folder of the results; ``logs`` in it is made.
    :param arguments: ReFrame's command line without the program.
    :returns: the null device where nothing can be written, so that looking something up needs no right to write.
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
    """Let ReFrame's built-in configuration, in force until ours is loaded, write to this file, too.

    Its log is a new file in the system's temporary folder at each start (``core/logging.py``, ``_create_file_handler``), which
    nobody removes.
    """
    for handler in handlers:
        if isinstance(handler, logging.FileHandler) and _is_temporary(Path(handler.baseFilename)):
            handler.close()
            Path(handler.baseFilename).unlink(missing_ok=True)
            # Opened again with the next line (logging.handlers.RotatingFileHandler.shouldRollover).
            handler.baseFilename, handler.mode = str(log), "a"


def _is_temporary(path: Path) -> bool:
    return path.parent == Path(tempfile.gettempdir()) and path.name.startswith("rfm-") and path.suffix == ".log"

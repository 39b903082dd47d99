"""ReFrame tests that measure MPI fabrics, each number with proof of its conditions.

ReFrame loads this file before test files, under a name with ``@`` (``utility/__init__.py``,
``import_module_from_file``). So the tests find shared code without ``PYTHONPATH``; a ReFrame that
is too old is reported; and one that was not given ``site_configs/settings.py`` restarts with it
after the centre's own configuration. Python 3.6, which a ReFrame may use, must be able to read this
file, and nothing of ReFrame is imported here.
"""

import atexit
import os
import re
import sys
from pathlib import Path
from typing import Sequence  # noqa: UP035 (Python 3.6)

#: Oldest ReFrame, and oldest Python, that run the tests.
REFRAME = (4, 9)
PYTHON = (3, 10)
_HERE = Path(__file__).resolve().parent
_SETTINGS = str(_HERE.parent / "site_configs" / "settings.py")


def why_too_old(reframe: str, python: Sequence[int]) -> str:
    """Sentence on a ReFrame or a Python that the tests do not run with; empty if they do.

    :param reframe: version, such as ``4.11.0-dev.1``.
    """
    numbers = re.match(r"(\d+)\.(\d+)", reframe)
    if numbers and tuple(map(int, numbers.groups())) < REFRAME:
        oldest = ".".join(map(str, REFRAME))
        return (
            f"this is ReFrame {reframe}, but the tests need {oldest} or newer: pip install "
            "--upgrade reframe-hpc"
        )
    if tuple(python) < PYTHON:
        have = ".".join(map(str, python))
        oldest = ".".join(map(str, PYTHON))
        return (
            f"ReFrame runs with Python {have}, but the tests need {oldest} or newer: install "
            "ReFrame with a newer Python"
        )
    return ""


def _start_again() -> None:
    """End this ReFrame, and start it again with our settings last: what
    they add cannot be added to one that runs.

    While ReFrame loads a file it is in that file's folder; at exit it is
    where it was started, which ``PWD`` need not say.
    """
    by_option = any(re.match("-C|--config-f", word) for word in sys.argv[1:])
    files = os.environ.get("RFM_CONFIG_FILES", "")
    # an empty one takes back what RFM_CONFIG_PATH names
    named = files.split(":") if files and not by_option else []
    if _SETTINGS in [*sys.argv, *named] or not re.match(r"reframe\b", Path(sys.argv[0]).name):
        sys.exit(f"ERROR: the tests of {_HERE} need its settings: name them last, -C {_SETTINGS}")
    words = [sys.executable, *sys.orig_argv[1:]]
    if by_option:
        words += ["-C", _SETTINGS]
    else:
        os.environ["RFM_CONFIG_FILES"] = ":".join([*named, _SETTINGS])

    def replace() -> None:
        sys.stdout.flush()
        sys.stderr.write(
            f"mpibench: restarting ReFrame with {_SETTINGS} after your configuration\n"
        )
        sys.stderr.flush()
        os.environ["PWD"] = str(Path.cwd())
        os.execv(words[0], words)

    atexit.register(replace)
    sys.exit(1)


if "reframe" in sys.modules:
    _fault = why_too_old(getattr(sys.modules["reframe"], "VERSION", ""), sys.version_info[:2])
    if _fault:
        sys.exit(f"ERROR: {_fault}")
if "@" in __name__:
    sys.modules.setdefault("reframe_tests", sys.modules[__name__])
    if not getattr(sys.modules.get("reframe_tests.harness.sites.site"), "LOADED", ()):
        _start_again()

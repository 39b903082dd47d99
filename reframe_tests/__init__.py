"""ReFrame tests that measure MPI fabrics, each number with proof of its conditions.

ReFrame loads this file before the files of tests, under a name with ``@`` (``utility/__init__.py``, ``import_module_from_file``).
So the tests find what they share without ``PYTHONPATH``, a ReFrame that is too old says so, and where ReFrame was not given
``site_configs/settings.py`` it starts again with it, behind the centre's own configuration. This file is also to be read by the
Python that such a ReFrame may have (3.6), and imports nothing of ReFrame.
"""

import atexit
import os
import re
import sys

#: Oldest ReFrame, and oldest Python, that run the tests.
REFRAME, PYTHON = (4, 9), (3, 10)
_HERE = os.path.dirname(os.path.realpath(__file__))
_SETTINGS = os.path.join(os.path.dirname(_HERE), "site_configs", "settings.py")


def why_too_old(reframe, python):
    # type: (str, tuple) -> str
    """Sentence on a ReFrame or a Python that the tests do not run with; empty where they do.

    :param reframe: version, such as ``4.11.0-dev.1``.
    """
    numbers = re.match(r"(\d+)\.(\d+)", reframe)
    if numbers and tuple(map(int, numbers.groups())) < REFRAME:
        return "this is ReFrame %s, and the tests need ReFrame %d.%d or newer: pip install --upgrade reframe-hpc" % (
            (reframe,) + REFRAME
        )
    if tuple(python) < PYTHON:
        return "this ReFrame runs with Python %d.%d, and the tests need %d.%d or newer: install ReFrame with such a one" % (
            tuple(python) + PYTHON
        )
    return ""


def _start_again():
    # type: () -> None
    """End this ReFrame, and start it again with our settings last: what they add cannot be added to one that runs.

    While ReFrame loads a file it is in its folder; at exit it is where it was started, which ``PWD`` need not say.
    """
    by_option = any(re.match(r"-C|--config-f", word) for word in sys.argv[1:])
    named = [] if by_option else [name for name in os.environ.get("RFM_CONFIG_FILES", "").split(":") if name]
    if _SETTINGS in sys.argv + named or not re.match(r"reframe\b", os.path.basename(sys.argv[0])):
        sys.exit("ERROR: the tests of %s need its settings: name them last, -C %s" % (_HERE, _SETTINGS))
    words = [sys.executable] + sys.orig_argv[1:]
    if by_option:
        words += ["-C", _SETTINGS]
    else:
        os.environ["RFM_CONFIG_FILES"] = ":".join(named + [_SETTINGS])

    def replace():
        # type: () -> None
        sys.stdout.flush()
        sys.stderr.write("mpibench: ReFrame starts again, with %s behind your configuration\n" % _SETTINGS)
        sys.stderr.flush()
        os.environ["PWD"] = os.getcwd()
        os.execv(words[0], words)

    atexit.register(replace)
    sys.exit(1)


if "reframe" in sys.modules:
    _fault = why_too_old(getattr(sys.modules["reframe"], "VERSION", ""), sys.version_info[:2])
    if _fault:
        sys.exit("ERROR: %s" % _fault)
if "@" in __name__:
    sys.modules.setdefault("reframe_tests", sys.modules[__name__])
    if not getattr(sys.modules.get("reframe_tests.harness.sites.site"), "LOADED", ()):
        _start_again()

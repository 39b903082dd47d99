"""Whether ReFrame loaded and ran what it was asked for, where it would end with status 0 all the same.

ReFrame 4.10 (``frontend/loader.py``, ``frontend/cli.py``) ends with 0 where a file of tests ends the program while it is loaded
(``SystemExit`` is no ``Exception``), where cases were given up (``--duration``) or all were skipped, and, with a warning, where
the session or a report of it could not be written. It passes over files that it takes for something else than tests, and waits
for ever for a file that never ends. It has no hook at its end, but its last message is said in a ``finally``, and it passes on
what a handler of its log raises; so one of ours listens.
"""

from __future__ import annotations

import ast
import logging
import os
import re
import signal
import sys
import traceback
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path

from ..vocabulary import BadInput

#: Type of our handler in ReFrame's settings.
HANDLER = "whole_run"
#: What the tests share: no tests, and not searched for any (:func:`.upstream.search_not`).
SHARED = Path(__file__).resolve().parents[1]
#: Variable that says how many seconds loading all tests may take.
LIMIT = "MPIBENCH_LOAD_LIMIT_S"
#: Unless it says otherwise: loading takes some seconds, and some minutes on a machine that does much else.
LIMIT_S = 900.0
#: Seconds after which a file that goes on all the same is interrupted again.
_AGAIN_S = 60.0
#: ReFrame's messages, in their order: tests are about to be loaded; all are; what became of the cases; the last one.
_BEGINS = re.compile(r"\s*check search path:\s+(?P<recursive>\(R\) )?(?P<paths>['\"].*['\"])")
_ALL_LOADED = re.compile(r"Generated \d+ test case\(s\)")
_RAN = re.compile(
    r"Ran \d+/(?P<all>\d+) test case\(s\) from .*, (?P<skipped>\d+) skipped(?:, (?P<aborted>\d+) aborted)?\)", re.DOTALL
)
_LOST = re.compile(r"(failed to store results in the database: .*|failed to generate report in .*)")
_ENDS = "Log file(s) saved in "


def limit_of(environ: Mapping[str, str]) -> float:
    """Seconds that loading the tests may take.

    :raises BadInput: the variable holds no such number.
    """
    text = environ.get(LIMIT, "")
    try:
        limit = float(text or LIMIT_S)
    except ValueError:
        limit = 0.0
    if not 0 < limit < float("inf"):
        raise BadInput(f"{LIMIT} is {text!r}, expected a number of seconds above 0.")
    return limit


def overlooked(paths: Iterable[str], recursive: bool = False) -> Iterator[str]:
    """One sentence for each thing below ReFrame's search path that looks like a test and that ReFrame passes over in silence.

    :param paths: files, and folders in which it looks for files itself only (``-R``: below them, too).
    """
    for path in map(Path, paths):
        files = sorted(path.rglob("*.py") if recursive else path.glob("*.py")) if path.is_dir() else [path]
        files = [file for file in files if not file.resolve().is_relative_to(SHARED)]
        for file in files:
            if file.is_symlink() and not file.exists():
                yield f"{file} is a link to nothing"
            elif file.is_file() and not file.name.startswith("."):
                yield from _overlooked_in(file)
        below = sorted({file.parent for file in path.glob("*/*.py")}) if path.is_dir() and not files else []
        if below:
            yield f"{path} holds no test itself, and ReFrame does not look below it: give -c {below[0]}"


def _overlooked_in(file: Path) -> Iterator[str]:
    """The same for one file; ReFrame itself says which it cannot read."""
    try:
        tree = ast.parse(file.read_text(encoding="utf-8"))
    except (OSError, SyntaxError, ValueError):
        return
    classes = [node for node in ast.walk(tree) if isinstance(node, ast.ClassDef)]
    bases = {base.id for node in classes for base in node.bases if isinstance(base, ast.Name)}
    for node in classes:
        if _names_group(node) and not _is_test(node) and node.name not in bases:
            yield f"class {node.name} of {file} names a group and is no test: write @rfm.simple_test above it"
    # ReFrame 4.10, frontend/loader.py, RegressionCheckValidator.
    imported = [alias.name for node in ast.walk(tree) if isinstance(node, ast.Import) for alias in node.names]
    imported += [node.module or "" for node in ast.walk(tree) if isinstance(node, ast.ImportFrom)]
    named = any(isinstance(each, ast.Attribute) for node in classes for each in node.decorator_list if _name(each))
    if any(map(_is_test, classes)) and not named and not any(name.startswith("reframe") for name in imported):
        yield f"{file} imports nothing of reframe, so it is not taken for a file of tests: import reframe in it"


def _name(decorator: ast.expr) -> bool:
    """Whether a decorator is ReFrame's ``simple_test``, by whatever way it was imported."""
    return (decorator.attr if isinstance(decorator, ast.Attribute) else getattr(decorator, "id", "")) == "simple_test"


def _is_test(node: ast.ClassDef) -> bool:
    return any(map(_name, node.decorator_list))


def _names_group(node: ast.ClassDef) -> bool:
    assigned = [target for each in node.body if isinstance(each, ast.Assign) for target in each.targets]
    assigned += [each.target for each in node.body if isinstance(each, ast.AnnAssign) and each.value]
    return any(isinstance(target, ast.Name) and target.id == "group" for target in assigned)


def lost_cases(message: str, words: Sequence[str]) -> str:
    """Why ReFrame's summary of a session is none of a whole one; empty if it is, or for another message.

    :param words: ReFrame's command line without the program.
    """
    ran = _RAN.search(message)
    if not ran:
        return ""
    planned, skipped, aborted = (int(ran[name] or 0) for name in ("all", "skipped", "aborted"))
    if aborted:
        return f"interrupted: {aborted} of {planned} cases did not run"
    was = "would be" if any(word.startswith("--dry") for word in words) else "was"
    return f"nothing {was} measured: all {planned} cases were skipped" if planned and planned == skipped else ""


class _Listener(logging.Handler):
    """Ends ReFrame with status 1 where it would end with 0 without having done what it was asked for."""

    def __init__(self, limit_s: float) -> None:
        super().__init__()
        self._limit_s = limit_s
        self._loading = False
        self._searched: list[str] = []
        self._recursive = False
        self._problems: list[str] = []

    def emit(self, record: logging.LogRecord) -> None:
        """Follow ReFrame by what it says.

        :raises CommandLineError: something was passed over; ReFrame prints the sentence and ends with status 1.
        :raises SystemExit: at the end, with status 1.
        """
        from reframe.core.exceptions import CommandLineError

        message = re.sub(r"\x1b\[[0-9;]*m", "", record.getMessage())  # colours
        if begins := _BEGINS.match(message):
            self._loading, self._recursive = True, bool(begins["recursive"])
            self._searched = str(ast.literal_eval(begins["paths"])).split(":")
            signal.signal(signal.SIGALRM, self._interrupt)
            signal.setitimer(signal.ITIMER_REAL, self._limit_s, _AGAIN_S)
        elif _ALL_LOADED.fullmatch(message):
            self._loading = False
            signal.setitimer(signal.ITIMER_REAL, 0)
            if passed_over := list(overlooked(self._searched, self._recursive)):
                raise CommandLineError(
                    f"not every test was loaded, and nothing is measured without it: {'; '.join(passed_over)}."
                )
        elif lost := lost_cases(message, sys.argv[1:]) or (found[1] if (found := _LOST.search(message)) else ""):
            self._problems.append(lost)
        elif message.startswith(_ENDS):
            self._end()

    def _interrupt(self, *_: object) -> None:
        # ReFrame takes it for a mistake in the file it loads, names that, and goes on to the next.
        raise TimeoutError(f"the tests were not loaded within {self._limit_s:g} s; {LIMIT} says how long it may take")

    def _end(self) -> None:
        from reframe.core.logging import getlogger

        signal.setitimer(signal.ITIMER_REAL, 0)
        ending = sys.exc_info()[1]
        if not isinstance(ending, SystemExit) or ending.code:
            return  # it is no success anyway
        if self._loading:
            self._loading = False
            self._problems.insert(0, f"{_where(ending)} ended ReFrame while the tests were loaded: take the exit out of it")
        if self._problems:
            getlogger().error(f"this is no success: {'; '.join(self._problems)}.")
            raise SystemExit(1)


def _where(ending: SystemExit) -> str:
    """File and line that ended the program; ``exit()`` of the module ``site`` is not the one that is meant."""
    frames = [frame for frame in traceback.extract_tb(ending.__traceback__) if "_sitebuiltins" not in frame.filename]
    return f"{frames[-1].filename}, line {frames[-1].lineno}," if frames else "a file"


def handlers(environ: Mapping[str, str] = os.environ) -> list[dict[str, str]]:
    """The handler for ReFrame's ``logging.handlers``, registered with it.

    :raises BadInput: see :func:`limit_of`.
    """
    from reframe.core.logging import register_log_handler

    limit_s = limit_of(environ)
    register_log_handler(HANDLER)(lambda site_config, config_prefix: _Listener(limit_s))
    return [{"type": HANDLER, "level": "verbose"}]

"""How a command ends: with the status of its answer, or with one sentence if there is no answer.

Statuses 0, 1 and 3 are answers. Others are not: 2 bad input, 70 a defect of this program (with
traceback), 130 interrupted, 141 output not read to its end.
"""

from __future__ import annotations

import contextlib
import errno
import signal
import traceback
from collections.abc import Callable, Sequence

import typer

from reframe_tests.harness.printable import printable
from reframe_tests.harness.vocabulary import BadInput

#: Exit status for bad input, as typer uses it for bad usage.
BAD_INPUT = 2
#: What a file system or the machine refuses, whatever the program asks:
#: no room, no right, not now (``errno(3)``).
OF_THE_MACHINE = (
    errno.ENOSPC,
    errno.EDQUOT,
    errno.EFBIG,
    errno.EROFS,
    errno.EACCES,
    errno.EPERM,
    errno.EIO,
    errno.ESTALE,
    errno.EBUSY,
    errno.EXDEV,
    errno.ETXTBSY,
    errno.EMFILE,
    errno.ENFILE,
    errno.ENOLCK,
    errno.EAGAIN,
    errno.ETIMEDOUT,
    errno.ENAMETOOLONG,
)
#: Module and name of what Polars raises where a file cannot be
#: decoded; commands without tables do not load it.
_UNDECODED = (("polars.exceptions", "ComputeError"), ("pyo3_runtime", "PanicException"))
#: Characters of another library's error that are shown.
LONGEST = 200
#: Exit status where the program itself fails (``sysexits(3)``, EX_SOFTWARE): never one that a
#: command uses for an answer.
CRASHED = 70
#: Exit status where nobody reads the output to its end: 128 +
#: SIGPIPE, as of a program that the signal ends.
UNREAD = 141


class Interrupted(BaseException):
    """A signal came that ends what is done; no ``except Exception`` may swallow it."""

    def __init__(self, number: int) -> None:
        self.name = signal.Signals(number).name
        #: Exit status as a shell gives it to a program that a signal ended.
        self.status = 128 + number
        super().__init__(self.name)


def run(program: Callable[..., object], words: Sequence[str] | None) -> int:
    """Run a program of typer; exit status, never a traceback for bad input.

    :param words: its command line; ``None``: this process's own.
    :raises Interrupted: as the program does; it is no defect.
    """
    try:
        program(args=None if words is None else list(words), standalone_mode=True)
    except BadInput as error:
        _tell(f"mpibench: {error} [{error.code}]")
        return BAD_INPUT
    except BrokenPipeError:
        return UNREAD
    except OSError as error:
        if error.errno not in OF_THE_MACHINE:
            return _crashed(error)
        where = f"{error.filename}: " if error.filename else ""
        _tell(f"mpibench: {where}{error.strerror}: there is no answer; correct that and repeat.")
        return BAD_INPUT
    except KeyboardInterrupt:
        return 130
    except Interrupted:
        raise
    except SystemExit as end:
        # typer and rich end with 1 here, which commands use for "refused".
        if isinstance(end.__context__, BrokenPipeError):
            return UNREAD
        return int(end.code or 0) if _is_own(end) else _crashed(end)
    except BaseException as error:  # a panic of Polars is no Exception
        # What polars finds while it decodes, long after the file was opened.
        if (type(error).__module__, type(error).__name__) in _UNDECODED:
            said = printable(" ".join(str(error).split()))[:LONGEST]
            _tell(f"mpibench: a file of the dataset is damaged ({said}): export its session again.")
            return BAD_INPUT
        return _crashed(error)
    return 0


def command(program: Callable[..., object], words: Sequence[str] | None) -> int:
    """The same for a command of its own: a signal ends it with one line."""
    try:
        return run(program, words)
    except Interrupted as signal:
        _tell(f"mpibench: interrupted by {signal.name}")
        return signal.status


def _is_own(end: SystemExit) -> bool:
    """Whether this program or typer ended it, and no file or library that a command has loaded."""
    ends = [
        frame.f_globals.get("__name__", "") for frame, _ in traceback.walk_tb(end.__traceback__)
    ]
    return ends[-1].startswith(("typer", "mpibench"))


def _crashed(error: BaseException) -> int:
    """Print what is neither an answer nor bad input; exit status."""
    with contextlib.suppress(OSError):
        traceback.print_exception(error)
    _tell(
        f"mpibench: there is no answer because of a defect in mpibench ({type(error).__name__}); "
        "report it with the lines above."
    )
    return CRASHED


def _tell(text: str) -> None:
    """To standard error; where that takes nothing the status says it alone."""
    with contextlib.suppress(OSError):
        typer.echo(printable(text), err=True)

"""No accident ends as an answer does: exit statuses, and a
ReFrame that is too old or lacks our settings.
"""

import ast
import runpy
import sys
from types import SimpleNamespace

import polars as pl
import pytest

import reframe_tests
from mpibench import cli, exit_status
from mpibench.commands.listings import catalogue as catalogue_command
from reframe_tests.harness.vocabulary import BadInput

DEFECT = "there is no answer because of a defect in mpibench"


@pytest.mark.parametrize(
    ("accident", "status", "said"),
    [
        (BadInput("no-thing", "no such thing."), 2, "mpibench: no such thing. [no-thing]\n"),
        (ValueError("Out of range float values are not JSON compliant"), 70, DEFECT),
        (OSError(28, "No space left on device", "/x"), 2, "/x: No space left on device"),
        (OSError(122, "Disk quota exceeded"), 2, "mpibench: Disk quota exceeded"),
        (OSError(30, "Read-only file system", "/x\x1b[2J"), 2, "mpibench: /x: Read-only"),
        (FileNotFoundError(2, "No such file or directory", "/x"), 70, DEFECT),
        (pl.exceptions.ComputeError("File out of specification"), 2, "dataset is damaged"),
        (pl.exceptions.PanicException("range end index 9 out of range"), 2, "is damaged"),
        (type("Unheard", (BaseException,), {})(), 70, DEFECT),
        (KeyboardInterrupt(), 130, ""),
        (BrokenPipeError(32, "Broken pipe"), 141, ""),
        (exit_status.Interrupted(15), 143, "mpibench: interrupted by SIGTERM\n"),
    ],
)
def test_no_accident_ends_as_an_answer_does(
    accident,
    status,
    said,
    capsys,
    monkeypatch,
):
    """Statuses 0, 1 and 3 are accepted, refused and inconclusive; a
    pipeline must not take an accident for one of them. Also inside a command,
    through typer, which has answers of its own to some exceptions.
    """

    def run(group="", **_):
        raise accident

    monkeypatch.setattr(catalogue_command, "show", run)
    for how in (lambda: cli.main([], run), lambda: cli.main(["catalogue"])):
        assert how() == status
        err = capsys.readouterr().err
        assert said in err and ("Traceback" in err) == (status == 70)
    if status == 143:  # a step of a night that a signal ends ends the night
        with pytest.raises(exit_status.Interrupted):
            exit_status.run(run, ())


# ---- A centre's own ReFrame: too old is one sentence, and a start that our settings are not part
# of is never a green one ----


@pytest.mark.parametrize(
    ("reframe", "python", "words"),
    [
        ("4.8.4", (3, 6), "this is ReFrame 4.8.4"),
        ("3.12.0", (3, 11), "this is ReFrame 3.12.0"),
        ("4.9.3", (3, 6), "runs with Python 3.6"),
        ("4.9.3", (3, 10), ""),
        ("4.11.0-dev.1", (3, 12), ""),
        ("5.0", (3, 12), ""),
    ],
)
def test_what_is_too_old_is_said(reframe, python, words):
    said = reframe_tests.why_too_old(reframe, python)
    assert words in said and bool(words) == bool(said)


def test_it_is_said_before_anything_is_imported_that_an_old_reframe_lacks(root, monkeypatch):
    """Words of later Pythons would be an error of syntax, which ReFrame passes over."""
    path = root / "reframe_tests" / "__init__.py"
    ast.parse(path.read_text(), feature_version=(3, 6))
    monkeypatch.setitem(sys.modules, "reframe", SimpleNamespace(VERSION="4.8.4"))
    with pytest.raises(SystemExit, match=r"^ERROR: this is ReFrame 4\.8\.4, but the") as ended:
        runpy.run_path(str(path))
    assert isinstance(ended.value.code, str), "which Python prints, and ends with 1"

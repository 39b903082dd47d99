"""A centre's own ReFrame: too old is one sentence, and a start that our settings are not part of is never a green one."""

from __future__ import annotations

import ast
import runpy
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest

import reframe_tests


@pytest.mark.parametrize(
    ("reframe", "python", "words"),
    [
        ("4.6.3", (3, 11), "this is ReFrame 4.6.3, and the tests need ReFrame 4.9 or newer"),
        ("4.8.4", (3, 6), "this is ReFrame 4.8.4"),
        ("3.12.0", (3, 11), "this is ReFrame 3.12.0"),
        ("4.9.3", (3, 6), "runs with Python 3.6, and the tests need 3.10"),
        ("4.9.3", (3, 10), ""),
        ("4.10.4", (3, 13), ""),
        ("4.11.0-dev.1", (3, 12), ""),
        ("5.0", (3, 12), ""),
    ],
)
def test_what_is_too_old_is_said(reframe: str, python: tuple[int, int], words: str) -> None:
    said = reframe_tests.why_too_old(reframe, python)
    assert words in said and bool(words) == bool(said)


def test_it_is_said_before_anything_is_imported_that_an_old_reframe_lacks(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "reframe", SimpleNamespace(VERSION="4.8.4"))  # type: ignore[arg-type]
    with pytest.raises(SystemExit, match=r"^ERROR: this is ReFrame 4\.8\.4, and the tests need") as ended:
        runpy.run_path(str(root / "reframe_tests" / "__init__.py"))
    assert isinstance(ended.value.code, str), "which Python prints, and ends with 1"


def test_an_old_python_can_read_the_file_that_says_so(root: Path) -> None:
    """Words of later Pythons would be an error of syntax, which ReFrame passes over."""
    ast.parse((root / "reframe_tests" / "__init__.py").read_text(), feature_version=(3, 6))

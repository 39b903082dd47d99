"""Registering a stack: all or nothing, whatever goes wrong."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from mpibench.stacks import writer
from reframe_tests.harness.stacks import metadata
from reframe_tests.harness.stacks.metadata import StackError
from reframe_tests.harness.stacks.stack import Stack
from synthetic_stack import describe, write_stack


def content(stack: Stack, record: Any) -> str:
    """A probe that finds nothing wrong."""
    record(f"{stack.name} answered\n")
    return ""


def place(tmp_path: Path, **changes: Any) -> tuple[dict[str, Any], Path]:
    """Metadata of a complete stack whose file is not there yet."""
    path = write_stack(tmp_path / "environments" / "system" / "mpich")
    path.unlink()
    return {**describe(path.parent), **changes}, path


def test_a_stack_is_registered_when_its_programs_agree(tmp_path: Path) -> None:
    document, path = place(tmp_path)
    recorded: list[str] = []
    stack = writer.register(document, path, root=tmp_path, environ={}, contradict=content, record=recorded.append)
    assert json.loads(path.read_text()) == document
    assert metadata.read(path) == stack
    assert recorded == ["mpich-system answered\n"]
    assert path.stat().st_mode & 0o777 == 0o644
    # Again: it replaces itself, and leaves no file beside it.
    writer.register(document, path, root=tmp_path, environ={}, contradict=content)
    assert [each.name for each in path.parent.glob("stack.json*")] == ["stack.json"]


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"origin": "conda"}, "key 'origin': 'conda'"),
        ({"library": "/nowhere/libmpi.so"}, "/nowhere/libmpi.so (key 'library'"),
        ({"name": "taken"}, "already describes a stack 'taken'"),
    ],
)
def test_nothing_is_registered_otherwise(changes: dict[str, Any], said: str, tmp_path: Path) -> None:
    write_stack(tmp_path / "environments" / "other", name="taken")
    document, path = place(tmp_path, **changes)
    with pytest.raises(StackError) as refused:
        writer.register(document, path, root=tmp_path, environ={}, contradict=content)
    assert said in str(refused.value)
    assert not list(path.parent.glob("stack.json*"))


def test_a_contradiction_or_an_interruption_keeps_the_file_that_was_there(tmp_path: Path) -> None:
    document, path = place(tmp_path)
    path.write_text("as it was")

    def interrupted(stack: Stack, record: Any) -> str:
        raise KeyboardInterrupt

    with pytest.raises(writer.Unproven, match="it says no"):
        writer.register(document, path, root=tmp_path, environ={}, contradict=lambda stack, record: "it says no.")
    with pytest.raises(KeyboardInterrupt):
        writer.register(document, path, root=tmp_path, environ={}, contradict=interrupted)
    assert path.read_text() == "as it was"
    assert [each.name for each in path.parent.glob("stack.json*")] == ["stack.json"]

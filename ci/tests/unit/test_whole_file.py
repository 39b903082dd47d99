"""A file is there whole or as it was before, and nothing is left beside it."""

from __future__ import annotations

from pathlib import Path

import pytest

from mpibench.whole_file import replacing


def test_what_is_written_takes_its_place_at_the_end(tmp_path: Path) -> None:
    path = tmp_path / "session-id"
    path.write_text("old")
    with replacing(path) as partial:
        partial.write_text("new")
        assert path.read_text() == "old"
    assert path.read_text() == "new" and list(tmp_path.iterdir()) == [path]


def test_what_fails_half_way_changes_nothing(tmp_path: Path) -> None:
    path = tmp_path / "session-id"
    path.write_text("old")
    with pytest.raises(ZeroDivisionError), replacing(path) as partial:
        partial.write_text("ne")
        raise ZeroDivisionError
    assert path.read_text() == "old" and list(tmp_path.iterdir()) == [path]

"""Packages of a build cache: what Spack does to their files when it puts
them into another store is undone before they are held against its record.
"""

from __future__ import annotations

import pytest

from mpibench.stacks.spack.list_installed import undo_in_program

OLD = b"/site/spack/padded/padded/store"
NEW = b"/home/one/store"
MOVED = {NEW + b"/osu-7": OLD + b"/osu-7", NEW: OLD}
LESS = len(OLD) - len(NEW)


@pytest.mark.parametrize(
    ("now", "before"),
    [
        # a longer string: slashes in front
        (
            b"\1" + b"/" * LESS + NEW + b"/osu-7/share/names\0\2",
            b"\1" + OLD + b"/osu-7/share/names\0\2",
        ),
        # a short one: moved to the front, and its old end stays
        (b"\1" + NEW + b"/x\0" + (OLD + b"/x\0")[-LESS:] + b"\2", b"\1" + OLD + b"/x\0\2"),
        # without any
        (b"\1nothing of it\0", b"\1nothing of it\0"),
    ],
    ids=("slashes", "front", "none"),
)
def test_a_program_has_its_strings_back(now: bytes, before: bytes) -> None:
    assert len(now) == len(before)
    assert undo_in_program(now, MOVED) == before


def test_a_store_with_paths_as_long_is_undone_too() -> None:
    other = OLD.replace(b"site", b"else")
    text = b"\0" + other + b"/lib\0" + other + b"/long/enough/name\0"
    assert undo_in_program(text, {other: OLD}, rpath=1) == text.replace(other, OLD)

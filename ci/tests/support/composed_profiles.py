"""Profiles composed by hand (``data/composed_profiles``), read as files."""

from __future__ import annotations

from pathlib import Path

from folders import TESTS
from mpibench_tune import profiles
from mpibench_tune.profiles import Profile, ProfiledCalls

FOLDER = TESTS / "data" / "composed_profiles"
#: Ranks that each file needs to be told.
FILES = {
    "mpip.txt": None,
    "mpip_concise.txt": None,
    "ipm.xml": None,
    "intel_stats.txt": None,
    "aps.txt": 2,
    "open_mpi_spc.txt": None,
    "darshan.txt": None,
    "darshan.csv": 2,
    "plain.csv": None,
}


def text_of(name: str) -> str:
    """The text of a file."""
    return (FOLDER / name).read_text()


def read(name: str) -> Profile:
    """A file as it is."""
    return profiles.read(FOLDER / name, FILES[name])


def read_text(folder: Path, name: str, text: str, ranks: int | None = None) -> Profile:
    """A file with another text."""
    path = folder / name
    path.write_text(text)
    return profiles.read(path, FILES[name] if ranks is None else ranks)


def row(profile: Profile, call: str) -> ProfiledCalls:
    """The one row of a call."""
    (entry,) = [row for row in profile.calls if row.call == call]
    return entry

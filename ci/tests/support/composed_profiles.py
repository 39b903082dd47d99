"""Profiles composed by hand (``data/composed_profiles``), read as files."""

from __future__ import annotations

from pathlib import Path

from folders import TESTS
from mpibench.tune.profiles import registry
from mpibench.tune.profiles.record import Calls, Given, Profile

FOLDER = TESTS / "data" / "composed_profiles"
#: What each file needs to be told.
FILES = {
    "mpip.txt": Given(),
    "mpip_concise.txt": Given(),
    "ipm.xml": Given(),
    "intel_stats.txt": Given(),
    "aps.txt": Given(ranks=2),
    "open_mpi_spc.txt": Given(),
    "darshan.txt": Given(),
    "darshan.csv": Given(ranks=2),
    "plain.csv": Given(),
}


def text_of(name: str) -> str:
    """The text of a file."""
    return (FOLDER / name).read_text()


def read(name: str) -> Profile:
    """A file as it is."""
    return registry.read(FOLDER / name, FILES[name])


def read_text(folder: Path, name: str, text: str, given: Given | None = None) -> Profile:
    """A file with another text."""
    path = folder / name
    path.write_text(text)
    return registry.read(path, FILES[name] if given is None else given)


def row(profile: Profile, call: str) -> Calls:
    """The one row of a call."""
    (found,) = [one for one in profile.calls if one.call == call]
    return found

"""What is kept between builds of the site: the same values whether nights lie in one file or in many."""

from __future__ import annotations

from pathlib import Path

import pytest

from mpibench.pages.nights import Kept
from mpibench.store import dataset_layout
from synthetic_verdicts import write_session

SYSTEM = "testbed"


@pytest.fixture
def dataset(tmp_path: Path) -> tuple[Path, list[str]]:
    folder = tmp_path / "dataset"
    sessions = [write_session(folder, number, sizes=(8, 4194304), repeats=3) for number in range(7)]
    return folder, sessions


def values(kept: Kept, sessions: list[str]) -> list[tuple[object, ...]]:
    found = kept.values(sessions)
    assert kept.metrics(found)["id"].n_unique() == found["id"].n_unique()
    return sorted(found.select("night", "id", "n", "median", "low", "high").iter_rows())


def test_what_is_kept_is_read_again_and_what_is_damaged_or_gone_is_not(dataset: tuple[Path, list[str]], tmp_path: Path) -> None:
    folder, sessions = dataset
    place = tmp_path / "kept"

    def kept(brought: list[str]) -> Kept:
        made = Kept(place, folder, SYSTEM)
        made.bring(dict.fromkeys(brought, "x"))
        return made

    whole = values(kept(sessions), sessions)
    assert len({row[0] for row in whole}) == 7
    written = (place / "values.parquet").stat().st_mtime_ns
    assert values(kept(sessions), sessions) == whole and (place / "values.parquet").stat().st_mtime_ns == written
    # Another order of places, and a night fewer.
    part = values(kept(sessions), sessions[1:])
    assert part == sorted((row[0] - 1, *row[1:]) for row in whole if row[0])  # type: ignore[operator]
    assert values(kept(sessions[1:]), sessions) == [row for row in whole if row[0]]
    assert values(kept(sessions), sessions) == whole
    (place / "values.parquet").write_bytes(b"damaged")
    assert values(kept(sessions), sessions) == whole
    assert values(kept([]), []) == []


def test_a_file_that_is_written_again_is_looked_at_again(dataset: tuple[Path, list[str]], tmp_path: Path) -> None:
    folder, sessions = dataset
    note = tmp_path / "readable.json"
    assert dataset_layout.find_files(folder, "cases").refused == {}
    dataset_layout.keep_readable(note, folder)
    dataset_layout.recall_readable(note)
    [path] = folder.glob(f"cases/*/*/{sessions[0]}.parquet")
    path.write_bytes(path.read_bytes()[:-100])
    assert list(dataset_layout.find_files(folder, "cases").refused) == [path]
    for text in ("", "{}", '{"layout": 1, "files": [[1]]}'):
        note.write_text(text)
        dataset_layout.recall_readable(note)
    assert list(dataset_layout.find_files(folder, "cases").refused) == [path]

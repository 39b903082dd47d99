"""What is kept between builds of the site: the same values whether nights lie in one file or in many."""

from __future__ import annotations

from pathlib import Path

import pytest

from mpibench.pages import nights as medians
from mpibench.pages.nights import Kept
from mpibench.store.store import Store
from reframe_tests.harness.vocabulary import BadInput
from synthetic_verdicts import write_session

SYSTEM = "testbed"


@pytest.fixture
def dataset(tmp_path: Path) -> tuple[Path, list[str]]:
    folder = tmp_path / "dataset"
    sessions = [write_session(folder, number, sizes=(8, 4194304), repeats=3) for number in range(7)]
    return folder, sessions


def values(kept: Kept, stems: list[str], series: str = "nightly") -> list[tuple[object, ...]]:
    found = kept.values(stems, series)
    return sorted(found.select("night", "id", "n", "median", "low", "high").iter_rows())


def test_one_file_and_many_have_the_same_values(
    dataset: tuple[Path, list[str]], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder, sessions = dataset
    place = tmp_path / "kept"

    def kept(brought: list[str] = sessions) -> Kept:
        made = Kept(place, Store(folder), SYSTEM)
        for one in brought:
            made.bring(one, "x")
        return made

    first = kept()
    stems = [first.stem(one, "x") for one in sessions]
    alone = values(first, stems)
    assert not list(place.glob(f"{medians.PACK}*")) and len({row[0] for row in alone}) == 7
    monkeypatch.setattr(medians, "PACKED_AT", 3)
    assert values(kept(), stems) == alone
    [pack] = place.glob(f"{medians.PACK}*.parquet")
    written = pack.stat().st_mtime_ns
    # From the pack alone: two nights fewer, another order of places, and one night that it has not.
    again = kept(sessions[1:])
    part = values(again, stems[1:])
    assert part == sorted((row[0] - 1, *row[1:]) for row in alone if row[0])  # type: ignore[operator]
    again.forget_unused()
    assert pack.exists() and pack.stat().st_mtime_ns == written
    # Another series has a file of its own, and a night that was written again is read again.
    values(kept(), stems, "other")
    assert len(list(place.glob(f"{medians.PACK}*.parquet"))) == 2
    pack.write_bytes(b"damaged")
    assert values(kept(), stems) == alone
    kept(sessions[:1]).forget_unused()
    assert not list(place.glob(f"{medians.PACK}*"))


def test_a_file_that_is_written_again_is_looked_at_again(dataset: tuple[Path, list[str]]) -> None:
    folder, sessions = dataset
    assert len(Store(folder).files("cases")) == len(sessions)
    [path] = folder.glob(f"cases/*/*/{sessions[0]}.parquet")
    path.write_bytes(path.read_bytes()[:-100])
    assert path not in Store(folder).files("cases", unreadable_too=True)
    with pytest.raises(BadInput, match=str(path)):
        Store(folder).files("cases")

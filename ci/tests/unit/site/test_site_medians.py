"""What is kept between builds of the site, and computed again where it changed."""

from __future__ import annotations

from pathlib import Path

import polars as pl
import pytest

from mpibench.store.store import Store
from mpibench_site import site
from mpibench_site.site import Kept
from refusals import refused_as
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


def test_what_was_kept_is_what_would_be_computed(
    dataset: tuple[Path, list[str]], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder, sessions = dataset
    place = tmp_path / "kept"
    computed: list[str] = []
    compute = site.compute

    def counted(
        store: Store, system: str, session: str
    ) -> tuple[pl.DataFrame, dict[str, list[str]], str]:
        computed.append(session)
        return compute(store, system, session)

    monkeypatch.setattr(site, "compute", counted)

    def kept(ids: dict[str, str]) -> Kept:
        computed.clear()
        return Kept(place, Store(folder), SYSTEM, ids)

    ids = dict.fromkeys(sessions, "x")
    first = values(kept(ids), sessions)
    assert computed == sessions and len({row[0] for row in first}) == 7
    assert values(kept(ids), sessions) == first and not computed
    # Another order of places, a night that was written again, and one that is gone.
    changed = kept({**ids, sessions[3]: "y"})
    assert computed == [sessions[3]] and values(changed, sessions[1:]) == sorted(
        (row[0] - 1, *row[1:]) for row in first if row[0]
    )
    fewer = kept(dict.fromkeys(sessions[2:], "x") | {sessions[3]: "y"})
    assert not computed and set(fewer.about) == set(sessions[2:])
    assert kept(ids).metrics(fewer.values(sessions[2:])).height and computed == [
        *sessions[:2],
        sessions[3],
    ]
    for name in ("values", "metrics"):
        (place / f"{name}.parquet").write_bytes(b"damaged")
        assert values(kept(ids), sessions) == first and computed == sessions
    assert values(kept({}), []) == []


def test_a_file_that_is_written_again_is_looked_at_again(dataset: tuple[Path, list[str]]) -> None:
    folder, sessions = dataset
    assert len(Store(folder).files("cases")) == len(sessions)
    [path] = folder.glob(f"cases/*/*/{sessions[0]}.parquet")
    path.write_bytes(path.read_bytes()[:-100])
    assert path not in Store(folder).files("cases", unreadable_too=True)
    with refused_as("file-unreadable", match=str(path)):
        Store(folder).files("cases")

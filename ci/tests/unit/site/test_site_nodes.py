"""Pages of nodes: each beside the others over the nights, from proven maps only; none where there is no map."""

from __future__ import annotations

import html
import re
from dataclasses import replace
from datetime import timedelta
from pathlib import Path

import pytest

from mpibench.pages import site as building
from mpibench.store.store import Store
from synthetic_pair_map import MAPS_BEGAN, export_map, late, pair_map, sends_slowly
from synthetic_report import HOSTILE
from synthetic_verdicts import write_session

NOW = MAPS_BEGAN + timedelta(days=9)


def build(folder: Path) -> building.BuiltSite:
    return building.build(Store(folder / "dataset"), folder / "site", now=NOW, judged=0)


def rows(page: Path) -> list[list[str]]:
    """Cells of all rows of the tables of a page, as text."""
    found = re.findall(r"<tr>(.*?)</tr>", page.read_text(), re.S)
    return [
        [html.unescape(re.sub(r"<[^>]+>", "", cell)) for cell in re.findall(r"<t[hd].*?</t[hd]>", one, re.S)] for one in found
    ]


def row(page: Path, first: str) -> list[str]:
    """The row that begins with a text."""
    return next(cells for cells in rows(page) if cells[0] == first)


def nodes_of(folder: Path) -> Path:
    (page,) = folder.glob("site/*/nodes/index.html")
    return page


def test_who_is_behind_comes_first_with_every_night(tmp_path: Path) -> None:
    for number, times in enumerate((1.0, 1.0, 2.0)):
        export_map(tmp_path / "dataset", number, pair_map(8, sends_slowly("c5", times), seed=number))
    build(tmp_path)
    page = nodes_of(tmp_path)
    names = [cells[0] for cells in rows(page) if cells[0].startswith("c")]
    assert names[0] == "c5" and sorted(names) == [f"c{number}" for number in range(1, 9)]
    _, sends, receives, latency, *_ = row(page, "c5")
    assert abs(int(sends.split()[0]) - 50) < 5 and abs(int(receives.split()[0]) - 100) < 8 and latency.endswith("%")
    own = page.parent / f"{building.file_name('c5')}.html"
    nights = [cells for cells in rows(own) if cells[0].startswith("2026-")]
    assert [cells[0] for cells in nights] == ["2026-11-03 02:00", "2026-11-02 02:00", "2026-11-01 02:00"]
    assert [int(cells[1].split()[0]) > 90 for cells in nights] == [False, True, True]
    (series,) = tmp_path.glob("site/mini*/index.html")
    assert "nodes/index.html" in series.read_text()


def test_a_late_node_is_behind_in_latency_and_not_in_bandwidth(tmp_path: Path) -> None:
    export_map(tmp_path / "dataset", 0, pair_map(8, late("c2", 3.0)))
    build(tmp_path)
    _, sends, _, latency, mean, _ = row(nodes_of(tmp_path), "c2")
    assert int(latency.split()[0]) > 200 < int(mean.split()[0]) and int(sends.split()[0]) > 90


def test_only_proven_maps_that_nobody_withdrew_count(tmp_path: Path) -> None:
    export_map(tmp_path / "dataset", 0, pair_map(8))
    export_map(tmp_path / "dataset", 1, pair_map(8, sends_slowly("c5", 3.0)), status="contradicted")
    gone = export_map(tmp_path / "dataset", 2, pair_map(8, sends_slowly("c6", 3.0)))
    Store(tmp_path / "dataset").withdraw(gone, "wrong cable")
    build(tmp_path)
    own = nodes_of(tmp_path).parent / f"{building.file_name('c6')}.html"
    assert "2026-11-01 02:00" in own.read_text() and "2026-11-03 02:00" not in own.read_text()
    assert int(row(nodes_of(tmp_path), "c5")[1].split()[0]) > 90


def test_nothing_new_writes_nothing_and_reads_no_values(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    export_map(tmp_path / "dataset", 0, pair_map(8))
    build(tmp_path)

    def read(*_: object) -> None:
        raise AssertionError("values are read again")

    monkeypatch.setattr(building, "read_shares", read)
    again = build(tmp_path)
    assert again.unchanged >= 9
    monkeypatch.undo()
    export_map(tmp_path / "dataset", 1, pair_map(8, sends_slowly("c5", 2.0), seed=1))
    build(tmp_path)
    assert int(row(nodes_of(tmp_path), "c5")[1].split()[0]) < 60


def test_hostile_names_of_nodes_are_text(tmp_path: Path) -> None:
    measured = pair_map(4)
    named = {"c1": HOSTILE}
    evil = [
        one._replace(source=named.get(one.source, one.source), target=named.get(one.target, one.target))
        for one in measured.values
    ]
    export_map(tmp_path / "dataset", 0, replace(measured, values=tuple(evil)))
    build(tmp_path)
    files = sorted(path.name for path in nodes_of(tmp_path).parent.glob("*.html"))
    assert len(files) == 5 and all(set(name) <= set("abcdefghijklmnopqrstuvwxyz0123456789-.") for name in files)
    for path in nodes_of(tmp_path).parent.glob("*.html"):
        assert "<script>hacked" not in path.read_text() and "<img src=x" not in path.read_text()
    assert HOSTILE in [cells[0] for cells in rows(nodes_of(tmp_path))]


def test_without_a_map_there_is_no_page(tmp_path: Path) -> None:
    write_session(tmp_path / "dataset", 0)
    build(tmp_path)
    (page,) = tmp_path.glob("site/*/index.html")
    assert not (page.parent / "nodes").exists() and "nodes/index.html" not in page.read_text()

"""Pages of nodes: each beside the others over the nights, from
proven maps only; none where there is no map.
"""

import html
import re
from datetime import timedelta

from mpibench.store.store import Store
from mpibench_site import site as building
from synthetic_fabric import MAPS_BEGAN, export_map, late, pair_map, sends_slowly

NOW = MAPS_BEGAN + timedelta(days=9)


def build(folder):
    return building.build(Store(folder / "dataset"), folder / "site", now=NOW, judged=0)


def rows(page):
    """Cells of all rows of the tables of a page, as text, by the first."""
    found = re.findall(r"<tr>(.*?)</tr>", page.read_text(), re.S)
    cells = [re.findall(r"<t[hd].*?</t[hd]>", one, re.S) for one in found]
    texts = [[html.unescape(re.sub(r"<[^>]+>", "", cell)) for cell in row] for row in cells]
    return {row[0]: row[1:] for row in texts}


def percents(page, first):
    """What the row that begins with a text sends, receives, and its latency and mean."""
    return [int(cell.split()[0]) for cell in rows(page)[first][:4]]


def nodes_of(folder):
    (page,) = folder.glob("site/*/nodes/index.html")
    return page


def test_who_is_behind_comes_first_with_every_night(tmp_path):
    for number, times in enumerate((1.0, 1.0, 2.0)):
        measured = pair_map(8, sends_slowly("c5", times), seed=number)
        export_map(tmp_path / "dataset", number, measured)
    build(tmp_path)
    page = nodes_of(tmp_path)
    names = [name for name in rows(page) if name.startswith("c")]
    assert names[0] == "c5" and sorted(names) == [f"c{number}" for number in range(1, 9)]
    sends, receives, *_ = percents(page, "c5")
    assert abs(sends - 50) < 5 and abs(receives - 100) < 8
    own = rows(page.parent / f"{building.file_name('c5')}.html")
    nights = {name: cells for name, cells in own.items() if name.startswith("2026-")}
    assert list(nights) == [f"2026-11-0{day} 02:00" for day in (3, 2, 1)]
    assert [int(cells[0].split()[0]) > 90 for cells in nights.values()] == [False, True, True]
    (series,) = tmp_path.glob("site/mini*/index.html")
    assert "nodes/index.html" in series.read_text()


def test_only_proven_maps_that_nobody_withdrew_count(tmp_path):
    """A late node is behind in latency and not in bandwidth."""
    export_map(tmp_path / "dataset", 0, pair_map(8, late("c2", 3.0)))
    export_map(tmp_path / "dataset", 1, pair_map(8, sends_slowly("c5", 3.0)), status="contradicted")
    gone = export_map(tmp_path / "dataset", 2, pair_map(8, sends_slowly("c6", 3.0)))
    Store(tmp_path / "dataset").withdraw(gone, "wrong cable")
    build(tmp_path)
    page = nodes_of(tmp_path)
    own = (page.parent / f"{building.file_name('c6')}.html").read_text()
    assert "2026-11-01 02:00" in own and "2026-11-03 02:00" not in own
    assert percents(page, "c5")[0] > 90
    sends, _, latency, mean = percents(page, "c2")
    assert latency > 200 < mean and sends > 90

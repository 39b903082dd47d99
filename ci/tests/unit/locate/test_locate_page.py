"""The picture of a large map: a cell for each pair of switches, and those of the accused in detail."""

from __future__ import annotations

import numpy as np

from mpibench.locate import judgement
from mpibench.pages import figures
from mpibench.pages import map as locate_page
from studies import simulated_map


def test_large_maps_are_shown_by_switch_with_the_accused_in_detail() -> None:
    fabric = simulated_map.fat_tree(256, leaf=16, pod=4)
    rng = np.random.default_rng(1)
    faults = simulated_map.place_faults(fabric, ("sends",), 0.5, rng)
    rounds = simulated_map.matchings(256, 8, rng)
    seen = simulated_map.observe(fabric, rounds, faults, simulated_map.NOISES["slow tail"], rng)
    answer = judgement.judge([seen], fabric.places(), {})
    node = f"n{faults[0].at[0]:05}"
    assert answer.accused == (node,)
    tree, whole, detail = figures.map_figures(answer)
    assert (len(whole.data[0].x), len(detail.data[0].x), len(detail.data[0].y)) == (16, 16, 16)
    assert node in detail.data[0].y and f"below leaf{faults[0].at[0] // 16} send" in detail.layout.title.text
    assert "from simulated" in tree.layout.title.text
    page = locate_page.page([answer], "large")
    assert f"{node} sends at " in page


def test_small_maps_have_a_cell_for_each_pair() -> None:
    fabric = simulated_map.fat_tree(8, leaf=4)
    rng = np.random.default_rng(1)
    noise = simulated_map.NOISES["slow tail"]
    seen = simulated_map.observe(fabric, simulated_map.all_pairs(8), [], noise, rng, latency=True)
    _, figure = figures.map_figures(judgement.judge([seen], fabric.places(), {}))
    cells = figure.data[0].z
    assert [cells[place][place] for place in range(8)] == [None] * 8
    assert sum(cell is None for row in cells for cell in row) == 8
    assert " µs in round 1" in "".join(figure.data[0].text[0])

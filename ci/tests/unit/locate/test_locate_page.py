"""The picture of a large map: a cell for each pair of
switches, and those of the flagged in detail.
"""

import numpy as np

from mpibench.locate import judgement
from mpibench.pages import figures
from mpibench.pages import map as locate_page
from studies import simulated_map


def test_large_maps_are_shown_by_switch_with_the_flagged_in_detail():
    fabric = simulated_map.fat_tree(256, leaf=16, pod=4)
    rng = np.random.default_rng(1)
    faults = simulated_map.place_faults(fabric, ("sends",), 0.5, rng)
    rounds = simulated_map.matchings(256, 8, rng)
    seen = simulated_map.observe(fabric, rounds, faults, simulated_map.NOISES["slow tail"], rng)
    answer = judgement.judge([seen], fabric.places(), {})
    node = f"n{faults[0].at[0]:05}"
    assert answer.flagged == (node,)
    tree, whole, detail = figures.map_figures(answer)
    assert (len(whole.data[0].x), len(detail.data[0].x), len(detail.data[0].y)) == (16, 16, 16)
    assert (
        node in detail.data[0].y
        and f"sent by the nodes below leaf{faults[0].at[0] // 16}" in detail.layout.title.text
    )
    assert "from simulated" in tree.layout.title.text
    page = locate_page.page([answer], "large")
    assert f"{node} sends at " in page

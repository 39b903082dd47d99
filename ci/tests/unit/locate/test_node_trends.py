"""Nodes over the nights: a line for who got slower, and a band of all others."""

from dataclasses import replace
from datetime import timedelta

import numpy as np

from mpibench.locate import answers, nights
from mpibench.locate.maps import RECEIVES, SENDS
from mpibench.pages import map as locate_page
from synthetic_fabric import MAPS_BEGAN, pair_map, sends_slowly


def night(number, times):
    answer = answers.judge_map(pair_map(12, sends_slowly("c5", times), seed=number))
    when = MAPS_BEGAN + timedelta(days=number)
    return replace(
        answer, session=f"s{number}", started=when, stack="mpich-wheels", fabric="eth100m"
    )


def test_a_node_that_gets_slower():
    maps = [night(number, times) for number, times in enumerate((1.0, 1.0, 1.25, 2.0))]
    found = {(one.quantity, one.way): one for one in nights.trends(maps)}
    sends = found["bandwidth_mb_per_s", SENDS]
    assert sends.nodes[0] == "c5" and len(sends.nodes) == nights.MOST_NODES
    assert np.all(np.abs(sends.percent[:, 0] - [100, 100, 80, 50]) < 4)
    assert np.all(sends.low[:3] > 90) and np.all(sends.percent[:, 1:] > 90)
    assert np.all(np.abs(found["bandwidth_mb_per_s", RECEIVES].percent - 100) < 5)
    page = locate_page.page([], "nights", list(found.values()))
    assert "bandwidth that a node sends over the nights" in page

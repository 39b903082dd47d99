"""What is measured over the number of nodes, as the report draws it: which
points make a line, and what never stands on one.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from mpibench.pages import figures, node_curves
from mpibench.pages import session as report
from mpibench.store.sessions import Case, Session
from page_reader import Reader
from reframe_tests.harness.samples import Sample, read_evidence

PPN = 4


def start(nodes: int, average: Sequence[float | None]) -> list[Sample]:
    """osu_init and osu_hello on so many nodes: the fastest rank takes 10
    ms less than the mean, the slowest 30 ms more.
    """

    def sample(name: str, quantity: str, factor: float, more: float) -> Sample:
        values = tuple(value and value * factor + more for value in average)
        where = (nodes * PPN, 1, f"nodes={nodes}", None, 1)
        return Sample("osu", name, "startup_osu", *where, quantity, values)

    return [
        sample("osu_init", "t_avg_us", 1, 0),
        sample("osu_init", "t_min_us", 1, -1e4),
        sample("osu_init", "t_max_us", 1, 3e4),
        sample("osu_hello", "time_s", 1e-6, 0.5),
    ]


def barrier(nodes: int, p50: float, p90: float, p99: float) -> list[Sample]:
    values = {"t_max_us": p90, "latency_p50_us": p50, "latency_p90_us": p90, "latency_p99_us": p99}
    where = ("growth", "Barrier", "growth", nodes * PPN, 1, f"nodes={nodes}", None, 100)
    return [Sample(*where, name, (value,)) for name, value in values.items()]


def case(
    samples: Sequence[Sample],
    nodes: int,
    stack: str = "mpich-spack",
    status: str = "proven",
    **condition: Any,
) -> Case:
    entry = {"system": "testbed", "partition": "node", "environ": stack, "result": "pass"}
    whole = {"stack": stack, "fabric": "ib", "nodes": nodes, "ppn": PPN, "ppn_symbol": "full"}
    whole |= {"pinning": "bunch", "group": "startup_osu", **condition}
    proof = read_evidence({"verdict": status, "ranks": [], "devices": []}, "here")
    entry |= {"name": f"OsuStartup {nodes}", "condition": whole}
    uuid = f"s:{stack}:{nodes}:{status}:{len(condition)}"
    return Case(uuid, 0, entry, whole, tuple(samples), proof, ())


def session_of(*cases: Case) -> Session:
    numbered = (replace(one, uuid=f"{one.uuid}:{number}") for number, one in enumerate(cases))
    info = {"uuid": "0123abcd-0000", "time_start_unix": 1.0, "time_elapsed": 60.0}
    return Session(info, tuple(numbered))


def page_of(*cases: Case) -> Reader:
    return Reader(report.render(report.View(session_of(*cases), Path())))


NIGHT = [
    case(start(8, [4e5, 4.2e5, 3.9e5]), 8),
    case(start(2, [2e5, 2.1e5, 2.2e5]), 2),
    case(start(64, [9e5, 9e5, 9e5]), 64),
    case(start(2, [3e5, 3e5, 3e5]), 2, "openmpi-spack"),
    case(start(64, [8e5, 8e5, 8e5]), 64, "openmpi-spack"),
]


def test_jobs_of_one_node_count_each_make_one_line_of_a_stack() -> None:
    init, hello = node_curves.node_charts(session_of(*NIGHT))
    assert (init.what.benchmark, init.what.quantity, init.unit) == ("osu_init", "t_avg_us", "ms")
    assert (hello.what.benchmark, hello.what.quantity, hello.unit) == ("osu_hello", "time_s", "s")
    assert [line.stack for line in init.lines] == ["mpich-spack", "openmpi-spack"]
    shown = [(one.nodes, one.middle, one.low, one.high) for one in init.lines[0].points]
    wanted = [(2, 210, 200, 240), (8, 400, 390, 430), (64, 900, 890, 930)]
    assert shown == [pytest.approx(row) for row in wanted]
    assert init.counts == {2: 8, 8: 32, 64: 256} and init.labels == ["mpich-spack", "openmpi-spack"]
    first = hello.lines[0].points[0]
    assert (first.middle, first.low, first.high) == pytest.approx((0.71, 0.7, 0.72))


def test_the_page_has_a_chart_and_every_value_with_its_case() -> None:
    page = page_of(*NIGHT)
    said = " ".join(page.text["over_nodes"].split())
    for words in (
        "osu_init: node, ib, ppn 4, bunch",
        "mean of the ranks, bar from the fastest to the slowest",
        "900 890 to 930 ms",
        "800 790 to 830 ms",
    ):
        assert words in said
    assert len([one for one in page.named("button") if one.get("class") == "case"]) >= 10
    assert page.blocks["index"]["measures"] == [], "no curves over message sizes"
    shared = page_of(case(start(4, [3e5]), 4, oversubscribed="16 ranks on 2 cores"))
    assert "oversubscribed: ranks share cores" in shared.text["over_nodes"]


def test_a_job_that_grows_is_a_line_of_its_own() -> None:
    one = [*barrier(2, 10, 12, 15), *barrier(4, 20, 22, 500)]
    two = [*barrier(2, 11, 12, 15), *barrier(8, 30, 33, 40)]
    (chart,) = node_curves.node_charts(session_of(case(one, 4), case(two, 8)))
    points = [[(one.nodes, one.middle, one.high) for one in line.points] for line in chart.lines]
    assert points == [[(2, 10, 15), (4, 20, 500)], [(2, 11, 15), (8, 30, 40)]]
    assert chart.labels == ["mpich-spack, up to 4 nodes", "mpich-spack, up to 8 nodes"]


@pytest.mark.parametrize(
    "other",
    [
        {"pinning": "scatter"},
        {"fabric": "eth"},
        {"ppn": 2},
        {"suite_options": "x=1"},
        {"oversubscribed": "8 ranks on 2 cores"},
    ],
)
def test_what_was_measured_otherwise_is_another_chart(other: dict[str, Any]) -> None:
    charts = node_curves.node_charts(
        session_of(case(start(2, [2e5]), 2), case(start(4, [3e5]), 4, **other))
    )
    assert len(charts) == 4 and all(
        len(line.points) == 1 for chart in charts for line in chart.lines
    )


def test_without_proof_there_is_no_point() -> None:
    proven = case(start(2, [2e5]), 2)
    not_proven = case(start(4, [3e5]), 4, status="contradicted")
    charts = node_curves.node_charts(session_of(proven, not_proven))
    assert [list(chart.counts) for chart in charts] == [[2], [2]]
    for nothing in (not_proven, case(start(2, [None, None]), 2)):
        assert node_curves.node_charts(session_of(nothing)) == []
    assert "over_nodes" not in page_of(not_proven).text


# What is drawn.


def drawn_of(*points: tuple[int, float, float, float]) -> tuple[Any, Any, Any]:
    """First line, and axes."""
    what = node_curves.What(
        "osu", "osu_init", "", None, "t_avg_us", "node", "ib", PPN, "bunch", "", False
    )
    one = case((), 2)
    rows = tuple(node_curves.Point(nodes, nodes * PPN, *values, one) for nodes, *values in points)
    chart = node_curves.NodeChart(what, "ms", "", (node_curves.Line("mpich-spack", rows),))
    drawn = figures.over_nodes(chart, ["mpich-spack"])
    return drawn["data"][0], drawn["layout"]["xaxis"], drawn["layout"]["yaxis"]


def test_doublings_are_equally_far_apart_with_their_ranks_below() -> None:
    """Labels do not run into each other; values of several decades have a logarithmic axis."""
    line, x, y = drawn_of((2, 10, 9, 12), (4, 20, 19, 22), (8, 30, 28, 33))
    assert (x["type"], y["type"], y["rangemode"]) == ("log", "linear", "tozero")
    assert (line["x"], line["y"]) == ([2, 4, 8], [10, 20, 30])
    assert (line["error_y"]["array"], line["error_y"]["arrayminus"]) == ([2, 2, 3], [1, 1, 2])
    ticks = dict(zip(x["tickvals"], x["ticktext"], strict=True))
    assert ticks == {2: "2<br>8", 4: "4<br>16", 8: "8<br>32"}
    assert drawn_of((2, 10, 9, 12), (8, 1000, 900, 1200))[2]["type"] == "log"
    assert drawn_of((2, 0, 0, 0), (4, 0, 0, 0))[2]["type"] == "linear"
    _, x, _ = drawn_of(*((nodes, 10.0, 9.0, 11.0) for nodes in (2, 4, 60, 62, 63, 64)))
    assert sorted(x["tickvals"]) == [2, 4, 64]

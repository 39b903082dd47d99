"""What is measured over the number of nodes, as the report draws it: which points make a line, and what never stands on one."""

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
from synthetic_report import HOSTILE

PPN = 4


def start(nodes: int, average: Sequence[float], ppn: int = PPN) -> list[Sample]:
    """osu_init and osu_hello on so many nodes: the fastest rank takes 10 ms less than the mean, the slowest 30 ms more."""

    def sample(name: str, quantity: str, values: Sequence[float]) -> Sample:
        return Sample("osu", name, "startup_osu", nodes * ppn, 1, f"nodes={nodes}", None, 1, quantity, tuple(values))

    return [
        sample("osu_init", "t_avg_us", average),
        sample("osu_init", "t_min_us", [value - 1e4 for value in average]),
        sample("osu_init", "t_max_us", [value + 3e4 for value in average]),
        sample("osu_hello", "time_s", [value / 1e6 + 0.5 for value in average]),
    ]


def barrier(nodes: int, p50: float, p90: float, p99: float) -> list[Sample]:
    values = {"t_max_us": p90, "latency_p50_us": p50, "latency_p90_us": p90, "latency_p99_us": p99}
    return [
        Sample("growth", "Barrier", "growth", nodes * PPN, 1, f"nodes={nodes}", None, 100, name, (value,))
        for name, value in values.items()
    ]


def case(samples: Sequence[Sample], nodes: int, stack: str = "mpich-spack", status: str = "proven", **condition: Any) -> Case:
    entry = {"system": "testbed", "partition": "node", "environ": stack, "result": "pass", "name": f"OsuStartup {nodes}"}
    whole = {
        **{"stack": stack, "fabric": "ib", "nodes": nodes, "ppn": PPN, "ppn_symbol": "full", "pinning": "bunch"},
        **{"group": "startup_osu", **condition},
    }
    proof = read_evidence({"verdict": status, "ranks": [], "devices": []}, "here")
    entry = {**entry, "condition": whole}
    return Case(f"s:{stack}:{nodes}:{status}:{len(condition)}", 0, entry, whole, tuple(samples), proof, ())


def session_of(*cases: Case) -> Session:
    numbered = (replace(one, uuid=f"{one.uuid}:{number}") for number, one in enumerate(cases))
    return Session({"uuid": "0123abcd-0000", "time_start_unix": 1.0, "time_elapsed": 60.0}, tuple(numbered))


def section_of(session: Session) -> str:
    return " ".join(Reader(report.render(report.View(session, Path()))).text.get("over_nodes", "").split())


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
    assert [(one.nodes, one.ranks, one.middle, one.low, one.high) for one in init.lines[0].points] == [
        (2, 8, *(pytest.approx(value) for value in (210, 200, 240))),
        (8, 32, *(pytest.approx(value) for value in (400, 390, 430))),
        (64, 256, *(pytest.approx(value) for value in (900, 890, 930))),
    ]
    assert init.counts == {2: 8, 8: 32, 64: 256} and init.labels == ["mpich-spack", "openmpi-spack"]
    first = hello.lines[0].points[0]
    assert (first.middle, first.low, first.high) == pytest.approx((0.71, 0.7, 0.72))


def test_the_page_has_a_chart_and_every_value_with_its_case() -> None:
    page = report.render(report.View(session_of(*NIGHT), Path()))
    assert '<a href="#over_nodes">Nodes</a>' in page
    said = section_of(session_of(*NIGHT))
    assert "osu_init: node, ib, ppn 4, bunch" in said and "osu_hello: node, ib, ppn 4, bunch" in said
    assert "mean of the ranks, bar from the fastest to the slowest" in said
    assert "900 890 to 930 ms" in said and "800 790 to 830 ms" in said
    section = page[page.index('id="over_nodes"') :]
    section = section[: section.index("</section>")]
    assert "nodes, and below them ranks" in section and "mean time of ranks (ms)" in section
    assert section.count("data-figure") == 2 and section.count('class="case"') == 10


def test_a_job_that_grows_is_a_line_of_its_own() -> None:
    one, two = ([*barrier(2, 10, 12, 15), *barrier(4, 20, 22, 500)], [*barrier(2, 11, 12, 15), *barrier(8, 30, 33, 40)])
    (chart,) = node_curves.node_charts(session_of(case(one, 4), case(two, 8)))
    assert [[(point.nodes, point.middle, point.high) for point in line.points] for line in chart.lines] == [
        [(2, 10, 15), (4, 20, 500)],
        [(2, 11, 15), (8, 30, 40)],
    ]
    assert chart.labels == ["mpich-spack, up to 4 nodes", "mpich-spack, up to 8 nodes"]
    assert chart.unit == "µs" and chart.bars.startswith("median of the repetitions")


@pytest.mark.parametrize(
    "other",
    [{"pinning": "scatter"}, {"fabric": "eth"}, {"ppn": 2}, {"suite_options": "x=1"}, {"oversubscribed": "8 ranks on 2 cores"}],
)
def test_what_was_measured_otherwise_is_another_chart(other: dict[str, Any]) -> None:
    charts = node_curves.node_charts(session_of(case(start(2, [2e5]), 2), case(start(4, [3e5]), 4, **other)))
    assert len(charts) == 4 and all(len(line.points) == 1 for chart in charts for line in chart.lines)


def test_oversubscription_is_said() -> None:
    shared = session_of(case(start(4, [3e5]), 4, oversubscribed="16 ranks on 2 cores"))
    assert "ppn 4, bunch, oversubscribed: ranks share cores" in section_of(shared)
    assert "oversubscribed: 16 ranks on 2 cores" in report.render(report.View(shared, Path()))


def test_without_proof_there_is_no_point() -> None:
    proven, not_proven = case(start(2, [2e5]), 2), case(start(4, [3e5]), 4, status="contradicted")
    assert [list(chart.counts) for chart in node_curves.node_charts(session_of(proven, not_proven))] == [[2], [2]]
    assert node_curves.node_charts(session_of(not_proven)) == []
    assert "over_nodes" not in Reader(report.render(report.View(session_of(not_proven), Path()))).text


def test_a_repeat_without_a_value_is_left_out_and_none_is_no_point() -> None:
    init, hello = node_curves.node_charts(session_of(case(start(2, [2e5]), 2)))
    assert (init.lines[0].points[0].middle, hello.lines[0].points[0].middle) == (200, pytest.approx(0.7))
    nothing = [replace(sample, values=(None, None)) for sample in start(2, [2e5])]
    assert node_curves.node_charts(session_of(case(nothing, 2))) == []


def test_they_are_no_curves_over_message_sizes() -> None:
    blocks = Reader(report.render(report.View(session_of(*NIGHT), Path()))).blocks
    assert blocks["index"]["measures"] == [] and len(blocks["index"]["cases"]) == len(NIGHT)


def test_hostile_names_stay_text() -> None:
    bad = [replace(sample, benchmark=HOSTILE, variant=f"nodes=2,{HOSTILE}") for sample in start(2, [2e5])]
    page = report.render(report.View(session_of(case(bad, 2, pinning=HOSTILE, suite_options=HOSTILE)), Path()))
    assert "hacked=1" not in " ".join(str(attributes) for tag, attributes in Reader(page).tags if tag in ("img", "script"))
    assert not [tag for tag, _ in Reader(page).tags if tag == "img"]


# What is drawn.


def chart_of(*points: tuple[int, float, float, float]) -> node_curves.NodeChart:
    one = case((), 2)
    what = node_curves.What("osu", "osu_init", "", None, "t_avg_us", "node", "ib", PPN, "bunch", "", False)
    drawn = tuple(node_curves.Point(nodes, nodes * PPN, *values, one) for nodes, *values in points)
    return node_curves.NodeChart(what, "ms", "", (node_curves.Line("mpich-spack", drawn),))


def test_doublings_are_equally_far_apart_with_their_ranks_below() -> None:
    drawn = figures.over_nodes(chart_of((2, 10, 9, 12), (4, 20, 19, 22), (8, 30, 28, 33)), ["mpich-spack"])
    (line,), x, y = drawn["data"], drawn["layout"]["xaxis"], drawn["layout"]["yaxis"]
    assert (x["type"], y["type"], y["rangemode"]) == ("log", "linear", "tozero")
    assert (line["x"], line["y"]) == ([2, 4, 8], [10, 20, 30])
    assert (line["error_y"]["array"], line["error_y"]["arrayminus"]) == ([2, 2, 3], [1, 1, 2])
    assert sorted(zip(x["tickvals"], x["ticktext"], strict=True)) == [(2, "2<br>8"), (4, "4<br>16"), (8, "8<br>32")]


def test_values_of_several_decades_have_a_logarithmic_axis() -> None:
    drawn = figures.over_nodes(chart_of((2, 10, 9, 12), (4, 100, 90, 120), (8, 1000, 900, 1200)), [])
    assert drawn["layout"]["yaxis"]["type"] == "log"


def test_labels_of_near_node_counts_do_not_run_into_each_other() -> None:
    drawn = figures.over_nodes(chart_of(*((nodes, 10.0, 9.0, 11.0) for nodes in (2, 4, 60, 62, 63, 64))), [])
    assert sorted(drawn["layout"]["xaxis"]["tickvals"]) == [2, 4, 64]


def test_one_node_count_and_values_of_nothing_are_drawn() -> None:
    assert figures.over_nodes(chart_of((2, 10, 9, 12)), [])["data"][0]["y"] == [10]
    assert figures.over_nodes(chart_of((2, 0, 0, 0), (4, 0, 0, 0)), [])["layout"]["yaxis"]["type"] == "linear"

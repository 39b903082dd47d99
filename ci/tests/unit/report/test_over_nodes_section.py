"""What is measured over the number of nodes, as the report draws it: which
points make a line, and what never stands on one.
"""

from pathlib import Path

from mpibench.pages import session as report
from mpibench.store.sessions import Case, Session
from page_reader import Reader
from reframe_tests.harness.samples import Sample, read_evidence

PPN = 4


def start(nodes, average):
    """osu_init and osu_hello on so many nodes: the fastest rank takes 10
    ms less than the mean, the slowest 30 ms more.
    """

    def sample(name, quantity, factor, more):
        values = tuple(value and value * factor + more for value in average)
        where = (nodes * PPN, 1, f"nodes={nodes}", None, 1)
        return Sample("osu", name, "startup_osu", *where, quantity, values)

    return [
        sample("osu_init", "t_avg_us", 1, 0),
        sample("osu_init", "t_min_us", 1, -1e4),
        sample("osu_init", "t_max_us", 1, 3e4),
        sample("osu_hello", "time_s", 1e-6, 0.5),
    ]


def case(
    samples,
    nodes,
    stack="mpich-spack",
    **condition,
):
    entry = {"system": "testbed", "partition": "node", "environ": stack, "result": "pass"}
    whole = {"stack": stack, "fabric": "ib", "nodes": nodes, "ppn": PPN, "ppn_symbol": "full"}
    whole |= {"pinning": "bunch", "group": "startup_osu", **condition}
    proof = read_evidence({"verdict": "proven", "ranks": [], "devices": []}, "here")
    entry |= {"name": f"OsuStartup {nodes}", "condition": whole}
    return Case(f"s:{stack}:{nodes}", 0, entry, whole, tuple(samples), proof, ())


def page_of(*cases):
    info = {"uuid": "0123abcd-0000", "time_start_unix": 1.0, "time_elapsed": 60.0}
    return Reader(report.render(report.View(Session(info, cases), Path())))


NIGHT = [
    case(start(8, [4e5, 4.2e5, 3.9e5]), 8),
    case(start(2, [2e5, 2.1e5, 2.2e5]), 2),
    case(start(64, [9e5, 9e5, 9e5]), 64),
    case(start(2, [3e5, 3e5, 3e5]), 2, "openmpi-spack"),
    case(start(64, [8e5, 8e5, 8e5]), 64, "openmpi-spack"),
]


def test_the_page_has_a_chart_and_every_value_with_its_case():
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

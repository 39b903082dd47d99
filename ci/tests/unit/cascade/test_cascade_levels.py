"""Where bandwidth or latency is lost: sentences and charts of sessions with known numbers."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from mpibench.locate import cascade
from mpibench.pages import figures
from mpibench.pages import session as report
from mpibench.store.sessions import Case, Session
from page_reader import Reader
from reframe_tests.harness.samples import Sample, read_evidence

MIB = 1 << 20
#: Payload limit of TCP at an MTU of 1500.
LIMIT = 1448 / 1538


def case(
    group: str,
    *samples: Sample,
    stack: str = "builtin",
    fabric: str = "eth1g",
    status: str = "proven",
    skipped: str = "",
    **changes: Any,
) -> Case:
    condition = {
        "stack": stack,
        "fabric": fabric,
        "nodes": 2,
        "ppn": 1,
        "pinning": "default",
        "group": group,
        "transport": "tcp",
        "line_rate_gbit_per_s": 1.0,
        **({"payload_limit": LIMIT} if stack == "builtin" else {}),
        **changes,
    }
    entry = {"system": "testbed", "partition": "cpu", "environ": stack, "result": "pass"}
    entry["name"] = group
    if status != "proven":
        entry |= {"result": "fail", "fail_reason": "sanity error: it went over another network"}
    proof = read_evidence({"verdict": status, "ranks": [], "devices": []}, "here")
    if skipped:
        entry |= {"result": "skip", "skip_reason": skipped}
    return Case(f"{group} {stack}", 0, entry, condition, samples, None if skipped else proof, ())


def sample(
    suite: str, name: str, size: int, quantity: str, *values: float, variant: str = ""
) -> Sample:
    return Sample(suite, name, "group", 2, 1, variant, size, 100, quantity, values)


def bandwidth(suite: str, name: str, *values: float, size: int = MIB, variant: str = "") -> Sample:
    return sample(suite, name, size, "bandwidth_mb_per_s", *values, variant=variant)


def latency(suite: str, name: str, size: int, *values: float) -> Sample:
    return sample(suite, name, size, "latency_us", *values)


WIRE = case(
    "wire_tcp",
    bandwidth("iperf3", "TCP", 110.0, 111.0, 112.0, size=131072, variant="streams=1"),
    bandwidth("iperf3", "TCP", 117.0, 117.2, 117.4, size=131072, variant="streams=4"),
)
UCX = case(
    "transport_ucx",
    bandwidth("ucx_perftest", "tag_bw", 116.0, 116.5, 117.1),
    latency("ucx_perftest", "tag_lat", 8, 20.0, 20.5, 21.0),
    latency("ucx_perftest", "tag_lat", MIB, 8910.0, 8920.0, 8940.0),
)
FI = case("transport_libfabric", latency("fi_pingpong", "pingpong", 8, 30.0, 31.0, 32.0))
MPI = case("transfer", bandwidth("imb", "Uniband", 80.0, 81.0, 82.0), stack="mpich-wheels")
PAIRS = case(
    "p2p",
    latency("imb", "PingPong", 8, 26.0, 26.5, 27.0),
    latency("imb", "PingPong", MIB, 8920.0, 8935.0, 8950.0),
    stack="mpich-wheels",
)


def test_of_two_rails_one_rank_is_held_to_one() -> None:
    """Unless its messages are striped: otherwise half of the line
    rate would be lost from wire to MPI.
    """
    measured = bandwidth("imb", "Uniband", 119.0, 120.0, 121.0)
    two = {"devices": ["eth1g", "eth1h"], "line_rate_gbit_per_s": 2.0}
    for changes, share in ((two, 0.96), ({**two, "striped": True}, 0.48), ({}, 0.96)):
        one = case("transfer", measured, stack="mpich-wheels", **changes)
        [fabric] = cascade.find(session_of(WIRE, one))
        reached = fabric.answers[0].reached["MPI"][0]
        assert reached.share == pytest.approx(share)


def session_of(*cases: Case) -> Session:
    return Session({"uuid": "0123abcd-0000", "time_start_unix": 1.0, "time_elapsed": 60.0}, cases)


def said(*cases: Case) -> dict[str, str]:
    """Sentence of each question of the one fabric."""
    [found] = cascade.find(session_of(*cases))
    return {answer.question.name: answer.sentence for answer in found.answers}


def test_repeats_that_overlap_are_no_loss() -> None:
    assert (
        "; no step loses more than the repeats differ (wire: "
        in said(WIRE, UCX, FI, MPI, PAIRS)["single"]
    )


def test_what_a_higher_level_reaches_is_not_lost_below_it() -> None:
    """The transport's program is slower than an MPI on the same transport."""
    slow = case("transport_ucx", bandwidth("ucx_perftest", "tag_bw", 40.0, 41.0, 42.0))
    found = said(WIRE, slow, MPI)["stream"]
    assert (
        "the most is lost from wire to MPI: 29.0 % of the line rate (MPI is better than "
        "ucx_perftest tag_bw)." in found
    )
    assert "lost below the transport" not in said(slow, MPI)["stream"]


def test_a_wire_below_what_packets_leave_is_a_loss_of_its_own() -> None:
    slow = case(
        "wire_tcp", bandwidth("iperf3", "TCP", 28.0, 29.0, 29.4, size=131072, variant="streams=1")
    )
    found = said(slow, case("transport_ucx", bandwidth("ucx_perftest", "tag_bw", 28.5, 29.0, 29.2)))
    assert (
        "the most is lost below the wire: 70.9 % of the line rate less than packets leave for "
        "payload" in found["stream"]
    )
    assert "MPI: not measured in this session" in found["stream"]


def test_a_session_without_levels_below_mpi_has_no_section() -> None:
    assert cascade.find(session_of(MPI)) == []
    assert "cascade" not in Reader(report.render(report.View(session_of(MPI), Path()))).text


def test_the_report_has_a_sentence_and_a_chart_for_each_fabric() -> None:
    other = [case(one.condition["group"], *one.samples, fabric="<eth10g>") for one in (WIRE, UCX)]
    page = report.render(report.View(session_of(WIRE, UCX, FI, MPI, PAIRS, *other), Path()))
    text = " ".join(Reader(page).text["cascade"].split())
    assert '<a href="#cascade">Cascade</a>' in page and "<eth10g> on cpu, 1 Gbit/s" in text
    assert "the most is lost from transport to MPI: 28.4 % of the line rate." in text
    section = page.partition('<section id="cascade">')[2].partition("</section>")[0]
    assert section.count("data-figure") == 6 and "<eth10g>" not in section


def test_the_step_with_the_largest_loss_is_named() -> None:
    found = said(WIRE, UCX, FI, MPI, PAIRS)
    for part in (
        "wire 93.8 % of line rate (iperf3 TCP, 117.2 MB/s)",
        "transport 93.2 % of line rate",
        "MPI 64.8 % of line rate (Uniband, mpich-wheels, 81 MB/s)",
        "the most is lost from transport to MPI: 28.4 % of the line rate.",
    ):
        assert part in found["stream"]
    added = "the most time is added from transport to MPI: 6 \N{MICRO SIGN}s"
    assert added in found["small"]


def test_levels_that_are_absent_say_why() -> None:
    missing = case("wire_tcp", skipped="no iperf3 on the PATH")
    wrong = case("transfer", *MPI.samples, stack="mpich-wheels", status="contradicted")
    found = said(missing, UCX, wrong)["stream"]
    assert "wire: skipped: no iperf3 on the PATH; MPI: not proven: sanity error" in found
    assert "there is nothing to compare it with" in found
    assert "no level has a proven number" in said(missing)["single"]


@pytest.mark.parametrize(
    ("absent", "cases"),
    [
        ("transport", (WIRE, case("transport_ucx", *UCX.samples, status="contradicted"), MPI)),
        # Only one rank a node is compared with one client.
        ("MPI", (WIRE, case("transfer", *MPI.samples, stack="mpich-wheels", ppn=2))),
        # IMB-P2P has a PingPong, too, of all ranks at once.
        ("MPI", (UCX, case("p2p_pairs", *PAIRS.samples, stack="mpich-wheels"))),
        # Another size than that of the question.
        ("MPI", (UCX, case("p2p", latency("imb", "PingPong", 1024, 26.0), stack="mpich-wheels"))),
    ],
)
def test_numbers_that_are_no_answer_are_not_used(absent: str, cases: tuple[Case, ...]) -> None:
    [found] = cascade.find(session_of(*cases))
    assert all(absent not in answer.reached for answer in found.answers)


def test_bars_are_as_long_as_the_shares() -> None:
    [found] = cascade.find(session_of(WIRE, UCX, FI, MPI, PAIRS))
    stream, *_ = figures.levels_of(found)
    [bars] = stream["data"]
    shares = dict(zip(bars["y"], bars["x"], strict=True))
    assert shares["MPI: Uniband, mpich-wheels"] == pytest.approx(0.648)
    assert stream["layout"]["shapes"][0]["x0"] == pytest.approx(LIMIT)

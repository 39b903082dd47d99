"""Where bandwidth or latency is lost: sentences and charts of sessions with known numbers."""

from pathlib import Path

from mpibench.locate import cascade
from mpibench.pages import session as report
from mpibench.store.sessions import Case, Session
from page_reader import Reader
from reframe_tests.harness.samples import Sample, read_evidence

MIB = 1 << 20
#: Payload limit of TCP at an MTU of 1500.
LIMIT = 1448 / 1538


def case(group, *samples, stack="builtin", fabric="eth1g"):
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
    }
    entry = {"system": "testbed", "partition": "cpu", "environ": stack, "result": "pass"}
    proof = read_evidence({"verdict": "proven", "ranks": [], "devices": []}, "here")
    named = {**entry, "name": group}
    return Case(f"{group} {stack}", 0, named, condition, samples, proof, ())


def bandwidth(suite, name, *values, size=MIB, variant=""):
    quantity = "bandwidth_mb_per_s"
    return Sample(suite, name, "group", 2, 1, variant, size, 100, quantity, values)


def latency(suite, name, size, *values):
    return Sample(suite, name, "group", 2, 1, "", size, 100, "latency_us", values)


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


def session_of(*cases):
    return Session({"uuid": "0123abcd-0000", "time_start_unix": 1.0, "time_elapsed": 60.0}, cases)


def said(*cases):
    """Sentence of each question of the one fabric."""
    [found] = cascade.find(session_of(*cases))
    return {answer.question.name: answer.sentence for answer in found.answers}


def test_what_a_higher_level_reaches_is_not_lost_below_it():
    """The transport's program is slower than an MPI on the same transport."""
    slow = case("transport_ucx", bandwidth("ucx_perftest", "tag_bw", 40.0, 41.0, 42.0))
    found = said(WIRE, slow, MPI)["stream"]
    assert (
        "the most is lost from wire to MPI: 29.0 % of the line rate (MPI is better than "
        "ucx_perftest tag_bw)." in found
    )
    assert "lost below the transport" not in said(slow, MPI)["stream"]


def test_a_session_without_levels_below_mpi_has_no_section():
    assert cascade.find(session_of(MPI)) == []
    assert "cascade" not in Reader(report.render(report.View(session_of(MPI), Path()))).text


def test_the_report_has_a_sentence_and_a_chart_for_each_fabric():
    other = [case(one.condition["group"], *one.samples, fabric="<eth10g>") for one in (WIRE, UCX)]
    page = report.render(report.View(session_of(WIRE, UCX, FI, MPI, PAIRS, *other), Path()))
    text = " ".join(Reader(page).text["cascade"].split())
    assert '<a href="#cascade">Cascade</a>' in page and "<eth10g> on cpu, 1 Gbit/s" in text
    assert "the most is lost from transport to MPI: 28.4 % of the line rate." in text
    section = page.partition('<section id="cascade">')[2].partition("</section>")[0]
    assert section.count("data-figure") == 6 and "<eth10g>" not in section

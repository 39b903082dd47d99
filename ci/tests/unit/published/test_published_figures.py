"""Printed bandwidths against the links of their machines: to the last
digit, directly, and nothing is made up around them.
"""

from __future__ import annotations

import json

import pytest

from mpibench import cli
from mpibench.commands.listings import doctor
from mpibench_tune import published
from mpibench_tune.published import PrintedBandwidth
from reframe_tests.harness.sites import references

SYSTEM = "openhpc-mini"


def curve_of(fabric: str, benchmark: str = "PingPong") -> PrintedBandwidth:
    [curve] = [
        row
        for row in published.bandwidths(SYSTEM)
        if (row.fabric.name, row.benchmark) == (fabric, benchmark)
    ]
    return curve


@pytest.mark.parametrize("system", ["openhpc-mini", "ibm-p5-575", "ibm-js21"])
def test_every_printed_bandwidth_of_a_link_is_looked_at(system: str) -> None:
    curves = published.bandwidths(system)
    printed = [
        (value.message_bytes, value.number * published.MB_PER_S[value["quantity"]])
        for value in published.read(system)
        if value["quantity"] in published.MB_PER_S and value["fabric"] not in ("", "shm")
    ]
    assert sorted(point for curve in curves for point in curve.points) == sorted(printed) != []
    assert published.bandwidths("cambridge-westmere") == []


@pytest.mark.parametrize(
    ("fabric", "benchmark", "size", "printed"),
    [
        ("eth1g", "osu_put_bw", 4194304, "0.9357"),
        ("eth1g", "PingPong", 4194304, "0.925"),
        ("eth40g", "PingPong", 262144, "39.89"),
        ("opa100", "PingPong", 65536, "78.91"),
    ],
)
def test_the_largest_is_what_the_paper_quotes(
    fabric: str, benchmark: str, size: int, printed: str
) -> None:
    """In Gbit/s, to the last printed digit."""
    found, value = curve_of(fabric, benchmark).best
    assert found == size
    assert f"{value * references.GBIT_PER_MB:.{len(printed.split('.')[1])}f}" == printed


def test_edr_is_92_09_as_the_paper_counts_and_96_57_as_perftest_does() -> None:
    """The paper takes MiB for MB and cuts 92.09824 to 92.09; the true
    bandwidth is held against the line rate.
    """
    curve = curve_of("edr100", "ib_send_bw")
    _, value = curve.best
    assert int(value / 1.048576 * references.GBIT_PER_MB * 100) / 100 == 92.09
    assert value * references.GBIT_PER_MB == pytest.approx(96.572, abs=1e-3)
    assert curve.problem == ""


def test_what_holds_and_what_does_not(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    assert curve_of("eth1g").problem == curve_of("eth1g", "osu_put_bw").problem == ""
    # "While 39.89Gbs is near the theoretical peak of 40Gb/s, this is still a high number."
    assert "shows 4986.1 MB/s, 1.06 times" in curve_of("eth40g").problem
    # "78.91Gb/s is much less than the theoretical peak rate of
    # 100Gb/s for the Omni-Path connection."
    assert "shows 5567.7 MB/s, 0.445 of the line rate" in curve_of("opa100").problem
    monkeypatch.setattr(doctor, "examine", lambda system: ())
    cli.main(["doctor", "--system=openhpc-mini", "--json"])
    said = json.loads(capsys.readouterr().out)["published"]
    assert [row["holds"] for row in said].count(True) == 3


def test_links_count_together_and_both_ways_count_twice() -> None:
    four = [
        curve
        for curve in published.bandwidths("ibm-p5-575")
        if len(curve.fabric.rails) == 4 and curve.ppn == "8"
    ]
    best = {curve.benchmark: curve.fraction(curve.best[1]) for curve in four}
    assert best["Uniband"] == pytest.approx(3753 / 4000)
    assert best["Biband"] == pytest.approx(6190 / 8000)

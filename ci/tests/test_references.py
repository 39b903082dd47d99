"""References: physics from the line rate, learned ones with provenance, and what a gate says."""

from __future__ import annotations

import copy

import pytest
import yaml

from reframe_tests.harness import catalogue, references, site
from reframe_tests.harness.fabric import Fabric, Rail

ETH1G = Fabric("eth1g", "tcp", "cluster", (Rail("eth1", 1.0),), 1500, 0.93)
DUAL_OPA = Fabric("opa", "psm2", "cluster", (Rail("hfi1_0", 100.0, 0), Rail("hfi1_1", 100.0, 1)), None, 0.9)


def test_fractions_of_published_figures() -> None:
    """115.62 MB/s on 1GbE is 0.925 Gbit/s, 4986.11 MB/s on 40GbE 39.89 Gbit/s (OpenHPC mini-cluster white paper)."""
    assert references.line_rate_fraction(115.62, ETH1G, 1) == pytest.approx(0.925, abs=5e-4)
    eth40g = Fabric("eth40g", "tcp", "cluster", (Rail("eth2", 40.0),), 1500, 0.9)
    assert 40 * references.line_rate_fraction(4986.11, eth40g, 1) == pytest.approx(39.89, abs=5e-3)


def test_rails_and_directions_add_up() -> None:
    assert references.line_rate_fraction(25000.0, DUAL_OPA, 1) == pytest.approx(1.0)
    assert references.line_rate_fraction(25000.0, DUAL_OPA, 2) == pytest.approx(0.5)


def test_more_than_the_line_rate_fails() -> None:
    """Above the line rate another network must have helped; that is as wrong as too little."""
    reference = references.physics_reference(ETH1G)
    outcomes = [references.judge("m", "physics", v, reference, "1").outcome for v in (0.92, 0.94, 1.0, 1.02)]
    assert outcomes == ["fail", "pass", "pass", "fail"]


@pytest.mark.parametrize(("depth", "slowest"), [("smoke", 0.372), ("nightly", 0.93), ("acceptance", 0.93)])
def test_a_few_messages_tell_a_broken_link_only(depth: str, slowest: float) -> None:
    reference = references.physics_reference(ETH1G, catalogue.DEPTHS[depth].link_share)
    values = (0.235, slowest - 0.01, slowest + 0.01, 0.94, 1.02)
    outcomes = [references.judge("m", "physics", value, reference, "1").outcome for value in values]
    assert outcomes == ["fail", "fail", "pass", "pass", "fail"]
    assert reference is not None and reference[1] == round(slowest - 1.0, 3), "printed in failures"


def test_payload_limits() -> None:
    """117.69 MB/s of TCP payload on 1 Gbit/s Ethernet at an MTU of 1500; RDMA transports are not framed that way."""
    assert references.payload_limit(ETH1G) * 125 == pytest.approx(117.69, abs=0.005)
    assert references.payload_limit(Fabric("j", "tcp", "cluster", (Rail("eth1", 10.0),), 9000)) == pytest.approx(0.99, abs=1e-4)
    assert references.payload_limit(DUAL_OPA) == 1.0
    assert references.payload_limit(Fabric("e", "tcp", "cluster", (Rail("eth1", 1.0),))) == 1.0


@pytest.mark.parametrize("mtu_bytes", [1500, 9000])
def test_the_published_40gbe_figure_is_more_than_40gbe_carries(mtu_bytes: int) -> None:
    """4986.11 MB/s, "99.7 % of line rate" (OpenHPC mini-cluster white paper): below the line rate, above its payload."""
    eth40g = Fabric("eth40g", "tcp", "cluster", (Rail("eth2", 40.0),), mtu_bytes)
    excess = 4986.11 / 5000 / references.payload_limit(eth40g)
    sentence = references.above_line_rate("PingPong of 4194304 bytes", 4986.11, eth40g, 1)
    assert ("shows 4986.1 MB/s" in sentence) == (excess > 1.03)
    assert excess > 1.0


@pytest.mark.parametrize(
    ("mb_per_s", "fabric", "directions", "times"),
    [
        (115.62, ETH1G, 1, None),
        (117.69, ETH1G, 1, None),
        (230.0, ETH1G, 2, None),
        (235.4, ETH1G, 1, "2.00 times"),
        (470.0, ETH1G, 2, "2.00 times what eth1g (1 Gbit/s each way)"),
        (24800.0, DUAL_OPA, 1, None),
        (26000.0, DUAL_OPA, 1, "1.04 times"),
        (1e6, Fabric("lo", "tcp", "node", (Rail("lo"),)), 1, None),
    ],
)
def test_a_bandwidth_no_link_can_carry_is_named(mb_per_s: float, fabric: Fabric, directions: int, times: str | None) -> None:
    sentence = references.above_line_rate("X", mb_per_s, fabric, directions)
    assert (times in sentence and f"not the bandwidth of {fabric.name}" in sentence) if times else sentence == ""


def test_no_line_rate_no_physics() -> None:
    loopback = Fabric("lo", "tcp", "node", (Rail("lo"),))
    assert references.physics_reference(loopback) is None
    assert references.line_rate_fraction(1.0, loopback, 1) is None


@pytest.mark.parametrize("reference", [None, (0.0, None, None, "us"), (3.0, None, None, "us")])
def test_without_bounds_nothing_passes(reference: references.Reference | None) -> None:
    assert references.judge("m", "learned", 1.0, reference, "us").outcome == "no reference"


def test_bounds_are_reframes() -> None:
    gate = references.judge("m", "learned", 11.0, (10.0, -0.05, 0.2, "us"), "us")
    assert (gate.lower, gate.upper, gate.outcome) == (9.5, 12.0, "pass")
    assert references.judge("m", "learned", 0.3, (0.0, -0.1, 0.2, "us"), "us").outcome == "fail"


METRIC = "PingPong.latency.0000000008"
PATH = ("PointToPoint", "sys:part", "openmpi-spack", "hdr200", 2, 1, "bunch", METRIC)


def nest(path: tuple, leaf: object) -> dict:
    for key in reversed(path):
        leaf = {key: leaf}
    return leaf


def good() -> dict:
    content = nest(PATH, [1.12, None, 0.1, "us"])
    content["PointToPoint"]["$index"] = list(references.INDEX)
    content["provenance"] = nest(PATH, {"session": "4f2a", "date": "2026-11-02", "n": 25, "spread": 0.03})
    return content


def test_a_good_file_is_good() -> None:
    references.check_file("references.yaml", good())
    references.check_file("references.yaml", None)


def spoil(change: str) -> dict:
    content = copy.deepcopy(good())
    if change == "index":
        content["PointToPoint"]["$index"] = ["fabric"]
    elif change == "provenance":
        del content["provenance"]
    elif change == "date":
        content["provenance"] = nest(PATH, {"session": "4f2a", "n": 25, "spread": 0.03})
    elif change == "tuple":
        content["PointToPoint"] |= nest(PATH[1:], [1.12, None, 0.1])
    elif change == "depth":
        content["PointToPoint"] |= nest(PATH[1:-1], [1.12, None, 0.1, "us"])
    return content


@pytest.mark.parametrize(
    ("change", "wanted"),
    [
        ("index", r"PointToPoint.\$index"),
        ("provenance", "provenance.PointToPoint"),
        ("date", "date, n, session, spread"),
        ("tuple", "must be .value, lower"),
        ("depth", "levels deep"),
    ],
)
def test_a_bad_file_is_one_sentence(change: str, wanted: str) -> None:
    with pytest.raises(references.ReferenceError, match=wanted) as error:
        references.check_file("site/references.yaml", spoil(change))
    assert str(error.value).startswith("site/references.yaml: ")


def test_every_bundled_file_is_good() -> None:
    for system in site.system_files():
        path = site.references_file(system.parent.name)
        if path.exists():
            references.check_file(str(path), yaml.safe_load(path.read_text()))


def test_only_sizes_that_show_the_line_rate_are_held_against_it(require_stack) -> None:
    """A single message in flight still waits for its latency at 1 MiB; a window of 64 does not (measured on 1 Gbit/s)."""
    stack = require_stack("mpich-wheels")
    judged = {
        (metric.benchmark, metric.message_bytes)
        for group in ("p2p", "transfer", "collectives")
        for metric in catalogue.metrics(catalogue.launches(group, stack, 2, "nightly", 2))
        if metric.directions
    }
    assert judged == {("PingPong", 4 << 20), ("PingPing", 4 << 20), ("Uniband", 1 << 20), ("Biband", 1 << 20)}

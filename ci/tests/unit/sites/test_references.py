"""References: physics from the line rate, learned ones with provenance, and what a gate says."""

import contextlib
import copy
import re
from dataclasses import replace
from functools import reduce

import pytest
import yaml
from reframe.core.builtins import xfail

from mpibench.commands import nightly
from mpibench.commands.listings import doctor
from reframe_tests.harness.machine.fabric import Fabric, Rail
from reframe_tests.harness.machine.gpu import Gpu
from reframe_tests.harness.samples import NO_REFERENCE
from reframe_tests.harness.sites import references, site, systems
from reframe_tests.harness.stacks import metadata
from reframe_tests.harness.suites import catalogue
from reframe_tests.harness.vocabulary import NotMeasured
from refusals import refused_as
from synthetic_site import GOOD, write_system
from synthetic_stack import write_stack

LOOPBACK = Fabric("lo", "tcp", "node", (Rail("lo"),))
ETH1G = Fabric("eth1g", "tcp", "cluster", (Rail("eth1", 1.0),), 1500, 0.93)
DGX = Fabric(
    "ndr",
    "ucx",
    "cluster",
    tuple(Rail(f"mlx5_{n}", 400.0, n // 4) for n in range(8)),
    None,
    0.9,
    gpus=(Gpu(),) * 8,
)
DUAL_OPA = Fabric(
    "opa", "psm2", "cluster", (Rail("hfi1_0", 100.0, 0), Rail("hfi1_1", 100.0, 1)), None, 0.9
)
SLOW_PCIE = Fabric(
    "slow", "ucx", "cluster", (Rail("mlx5_0", 400.0),), gpus=(Gpu(),), pcie_rate_gbit_per_s=63
)


def check(content):
    references.check_file("references.yaml", content, GOOD)


def test_fractions_of_the_line_rate():
    """115.62 MB/s on 1GbE is 0.925 Gbit/s, 4986.11 MB/s on 40GbE 39.89
    Gbit/s (OpenHPC mini-cluster white paper); rails and directions add up.
    """
    eth40g = replace(ETH1G, rails=(Rail("eth2", 40.0),))
    assert references.line_rate_fraction(115.62, ETH1G, 1) == pytest.approx(0.925, abs=5e-4)
    assert 40 * references.line_rate_fraction(4986.11, eth40g, 1) == pytest.approx(39.89, abs=5e-3)
    assert references.line_rate_fraction(25000.0, DUAL_OPA, 2) == pytest.approx(0.5)
    assert references.physics_reference(LOOPBACK) is None
    assert references.line_rate_fraction(1.0, LOOPBACK, 1) is None


@pytest.mark.parametrize(
    ("fabric", "rank_numa", "share"),
    [
        (DUAL_OPA, (0, 1), 1.0),
        (DUAL_OPA, (0, 0), 0.5),
        (DUAL_OPA, (2, 3, 3), 1.0),
        (DUAL_OPA, (None,), 0.5),
        (replace(DUAL_OPA, striped=True), (0,), 1.0),
        (replace(DUAL_OPA, rails=(Rail("hfi1_0", 100.0), Rail("hfi1_1", 300.0))), (None,), 0.25),
        (replace(DUAL_OPA, rails=(Rail("hfi1_0", 100.0), Rail("hfi1_1"))), (None,), 1.0),
        (DGX, (0, 0), 0.25),
        (replace(DGX, gpus=tuple(Gpu(nic=f"mlx5_{n // 2}") for n in range(8))), (0, 0, 0), 0.25),
        (replace(DGX, gpus=DGX.gpus * 2), (0,), 0.125),
    ],
)
def test_a_gate_asks_for_the_rails_that_the_ranks_can_use(fabric, rank_numa, share):
    """One rank uses the adapter next to it, two on two NUMA nodes use both,
    and striping uses both (Intel's article, 2020).
    """
    assert fabric.share_used(rank_numa) == pytest.approx(share)
    if reference := references.physics_reference(fabric, fabric.share_used(rank_numa)):
        for beside, outcome in ((-0.01, "fail"), (0.01, "pass")):
            value = 0.9 * share + beside
            assert references.judge("m", "physics", value, reference, "1").outcome == outcome


def test_an_efficiency_may_be_that_of_a_pinning_policy():
    """Far from the adapter less is reached, and that is no fault of the link."""
    rail = {"device": "eth1", "line_rate_gbit_per_s": 1}
    row = {"transport": "tcp", "scope": "cluster", "rails": [rail]}
    row["min_efficiency"] = {"nic_remote": 0.6, "any": 0.9}
    fabric = systems.fabrics_of({"fabrics": {"x": row}})["x"]
    least = [references.physics_reference(fabric, pinning=name)[1] for name in ("nic_remote", "no")]
    assert least == [-0.4, -0.1]
    bunch = replace(ETH1G, min_efficiency=(("bunch", 0.9),))
    assert references.physics_reference(bunch, pinning="nic_remote") is None


@pytest.mark.parametrize(
    ("mb_per_s", "fabric", "directions", "times"),
    [
        (117.69, ETH1G, 1, ""),
        (470.0, ETH1G, 2, "2.00 times what eth1g (1 Gbit/s each way)"),
        (26000.0, DUAL_OPA, 1, "1.04 times"),
        (1e6, LOOPBACK, 1, ""),
        (12000.0, SLOW_PCIE, 1, "1.52 times what slow (63 Gbit/s, by pcie_gbit_per_s of its GPUs)"),
    ],
)
def test_a_bandwidth_no_link_can_carry_is_named(mb_per_s, fabric, directions, times):
    sentence = references.above_line_rate("X", mb_per_s, fabric, directions)
    assert times in sentence and bool(times) == bool(sentence)


METRIC = "PingPong.latency.0000000008"


def test_an_expected_failure_is_reframes_to_judge():
    expected = xfail("slow cable", (1.0, None, 0.1, "us"))
    check = references.judge(METRIC, "learned", 2.0, expected, "us")
    assert (check.outcome, check.upper) == (NO_REFERENCE, None)


PATH = ("ImbPointToPoint", "mysystem:compute", "openmpi-spack", "hdr200", 2, 1, "bunch", METRIC)
LATENCY = [1.12, None, 0.1, "us"]
ORIGIN = {"session": "4f2a", "date": "2026-11-02", "n": 25, "spread": 0.03}
BANDWIDTH = "PingPong.bandwidth.0004194304"
NAN = float("nan")


def a_file(path=PATH, value=LATENCY):
    """A references.yaml of one entry."""
    origin = ORIGIN
    for key in reversed(path[1:]):
        value = {key: value}
        origin = {key: origin}
    entry = {"$index": list(references.INDEX), **value}
    return {path[0]: entry, "provenance": {path[0]: origin}}


@pytest.mark.parametrize(
    ("place", "word", "wanted"),
    [
        (0, "ImbPointToPiont", r"no test 'ImbPointToPiont' \(did you mean 'ImbPointToPoint'\?\)"),
        (1, "mysystem:prat", "no partition 'mysystem:prat'"),
        (2, "openmpi-wheels", r"has no stack 'openmpi-wheels' \(its stacks: \*-spack\)"),
        (3, "hdr20", r"has no fabric 'hdr20' \(did you mean 'hdr200'"),
        (4, 3, "is measured on 2 nodes, not on 3"),
        (4, "2", "'2' is not a number of nodes"),
        (5, 0, "'0' is not a number of processes per node"),
        (6, "bumch", "no pinning policy 'bumch'"),
        (7, "PingPang.latency.0000000008", "did you mean 'PingPong.latency.0000000008'"),
        (7, "PingPong.latency.0000000009", "has no metric"),
        (7, "PingPong.latency", "has no metric"),
    ],
)
def test_a_key_that_nothing_looks_up_is_an_error(place, word, wanted):
    with refused_as("configuration-unusable", match=f"would never be used: .*{wanted}"):
        check(a_file((*PATH[:place], word, *PATH[place + 1 :])))


@pytest.mark.parametrize(
    ("metric", "value", "wanted"),
    [
        (BANDWIDTH, [50, -0.1, None, "GB/s"], "its unit is 'GB/s', but the metric is in 'MB/s'"),
        (METRIC, [NAN, None, 0.1, "us"], "must be finite"),
        (METRIC, [1.12, None, NAN, "us"], "must be finite"),
        (METRIC, [1.12, None, 10, "us"], "up to less than 1, 0.05 for 5 %"),
        (BANDWIDTH, [12000, -1, None, "MB/s"], "down to more than -1"),
        (BANDWIDTH, [12000, 0.1, None, "MB/s"], "from 0 down"),
        (METRIC, [1.12, -0.1, None, "us"], "is better low, so it needs an upper bound"),
        (BANDWIDTH, [12000, None, 0.1, "MB/s"], "is better high, so it needs a lower bound"),
        (METRIC, [0, None, 0.1, "us"], "must be above 0"),
        (METRIC, [True, None, 0.1, "us"], "expected the value, a number"),
        (METRIC, [1.12, None, "0.1", "us"], "as a fraction of the value"),
        (METRIC, ["$xfail", "slow cable", [1.12, None, 0.1, "ms"]], "its unit is 'ms'"),
        (METRIC, {"us": LATENCY}, r"expected \[value, lower fraction"),
    ],
)
def test_a_value_that_can_hold_nothing_is_an_error(metric, value, wanted):
    """It would let everything pass, or compare what cannot be compared."""
    with refused_as("configuration-unusable", match=wanted):
        check(a_file((*PATH[:-1], metric), value))


@pytest.mark.parametrize(
    ("spoil", "wanted"),
    [
        (lambda file: file.pop("provenance"), "is missing: a reference needs its session"),
        (lambda file: file.update(provenance=[]), "'provenance': .* is not of type 'object'"),
        (
            lambda file: reduce(dict.__getitem__, PATH, file["provenance"]).update(n="many"),
            "expected number of jobs it rests on",
        ),
        (lambda file: file[PATH[0]].pop("$index"), "'.index' is a required property"),
        (lambda file: file.update({PATH[0]: {PATH[1]: 7}}), "expected a stack to its fabrics"),
    ],
)
def test_a_file_of_another_form_is_refused_by_its_schema(spoil, wanted):
    content = copy.deepcopy(a_file())
    check(content)
    spoil(content)
    with refused_as("configuration-unusable"):
        check(content)
    sentences = " ".join(fault.sentence for fault in references.find_faults("x", content, GOOD))
    assert re.search(wanted, sentences)


def test_the_tests_of_the_project_are_known_with_their_groups():
    known = references.tests()
    assert {"ImbPointToPoint": "p2p", "Placement": "placement"}.items() <= known.items()
    for test, group in known.items():
        for metric, (quantity, sizes) in catalogue.planned_metrics(group).items():
            size = next(iter(sizes))
            name = metric.replace("*", "2x2") + ("" if size is None else f".{size:010d}")
            assert references.quantity_of(test, name) == quantity


@pytest.mark.parametrize("group", ["p2p", "transfer", "collectives", "one_sided_osu", "p2p_mpi4py"])
@pytest.mark.parametrize("level", catalogue.LEVELS)
def test_every_metric_of_a_launch_could_have_a_reference(group, level, tmp_path):
    """What a real launch gives is among what a key may name: no good reference is ever refused."""
    every = {row.binary: f"/opt/{row.binary}" for row in catalogue.ROWS}
    stack = replace(metadata.read(write_stack(tmp_path / "stack")), binaries=every)
    known = catalogue.planned_metrics(group)
    for ranks in (2, 24):
        with contextlib.suppress(NotMeasured):
            for metric in catalogue.metrics(catalogue.launches(group, stack, ranks, level)):
                sized = metric.message_bytes is not None
                quantity, sizes = known[metric.name.rpartition(".")[0] if sized else metric.name]
                assert (quantity.unit, quantity.direction) == (metric.unit, metric.direction)
                assert metric.message_bytes in sizes


@pytest.fixture
def file(tmp_path):
    """The good file of a site below the test's folder."""
    write_system(tmp_path, GOOD)
    path = site.references_file("mysystem", tmp_path)
    path.write_text(yaml.safe_dump(a_file()))
    return path


def test_a_fault_is_that_of_the_cases_it_is_for(file, tmp_path):
    """One stale entry says nothing of the other cases; what is
    wrong with the file is wrong for all.
    """
    content = a_file()
    content[PATH[0]]["mysystem:old"] = copy.deepcopy(content[PATH[0]][PATH[1]])
    file.write_text(yaml.safe_dump(content))
    [fault] = site.reference_faults("mysystem", tmp_path)
    assert "there is no partition 'mysystem:old'" in fault.sentence
    assert not fault.concerns(PATH[:-1])
    assert fault.concerns((PATH[0], "mysystem:old", *PATH[2:-1]))
    assert [fault.sentence.rstrip(".")] == nightly.bad_references(["mysystem"], tmp_path)
    content[PATH[0]]["$index"] = ["$partition"]
    [fault] = references.find_faults("x", content)
    assert fault.concerns(PATH[:-1]) and not fault.concerns(("Collectives", *PATH[1:-1]))
    [fault] = references.find_faults("x", ["ImbPointToPoint"])
    assert fault.concerns(("Collectives", *PATH[1:-1]))


def test_doctor_names_references_that_cannot_be_used_or_hold_nothing(file, tmp_path):
    def found(here=True):
        [finding] = doctor.check_references("mysystem", here, tmp_path)
        return finding

    assert found().state == doctor.MISSING
    assert "no stack 'openmpi-spack' is registered" in found().detail
    assert found(here=False).state == doctor.NOTE, "another machine's stacks are not here"
    write_stack(tmp_path / "environments" / "openmpi", name="openmpi-spack", origin="spack")
    assert (found().state, found().detail) == (doctor.OK, "1 for openmpi-spack")
    file.write_text("PointToPiont: {}\n")
    assert found().state == doctor.MISSING and "PointToPiont" in found().detail

"""References: physics from the line rate, learned ones with provenance, and what a gate says."""

from __future__ import annotations

import contextlib
import copy
from dataclasses import replace
from pathlib import Path

import pytest
import yaml

from mpibench.commands import nightly
from mpibench.commands.listings import doctor
from reframe_tests.harness.machine.fabric import Fabric, Rail
from reframe_tests.harness.machine.gpu import Gpu, Memory
from reframe_tests.harness.sites import references, site, systems
from reframe_tests.harness.stacks import metadata
from reframe_tests.harness.suites import catalogue
from reframe_tests.harness.vocabulary import NotMeasured
from refusals import refused_as
from synthetic_stack import write_stack

ETH1G = Fabric("eth1g", "tcp", "cluster", (Rail("eth1", 1.0),), 1500, 0.93)
DGX = Fabric("ndr", "ucx", "cluster", tuple(Rail(f"mlx5_{n}", 400.0, n // 4) for n in range(8)), None, 0.9, gpus=(Gpu(),) * 8)
DUAL_OPA = Fabric("opa", "psm2", "cluster", (Rail("hfi1_0", 100.0, 0), Rail("hfi1_1", 100.0, 1)), None, 0.9)
SLOW_PCIE = Fabric("slow", "ucx", "cluster", (Rail("mlx5_0", 400.0),), gpus=(Gpu(),), pcie_rate_gbit_per_s=63)


def test_fractions_of_published_figures() -> None:
    """115.62 MB/s on 1GbE is 0.925 Gbit/s, 4986.11 MB/s on 40GbE 39.89 Gbit/s (OpenHPC mini-cluster white paper)."""
    assert references.line_rate_fraction(115.62, ETH1G, 1) == pytest.approx(0.925, abs=5e-4)
    eth40g = Fabric("eth40g", "tcp", "cluster", (Rail("eth2", 40.0),), 1500, 0.9)
    assert 40 * references.line_rate_fraction(4986.11, eth40g, 1) == pytest.approx(39.89, abs=5e-3)


def test_rails_and_directions_add_up() -> None:
    assert references.line_rate_fraction(25000.0, DUAL_OPA, 1) == pytest.approx(1.0)
    assert references.line_rate_fraction(25000.0, DUAL_OPA, 2) == pytest.approx(0.5)


@pytest.mark.parametrize(
    ("fabric", "rank_numa", "share"),
    [
        (DUAL_OPA, (0,), 0.5),
        (DUAL_OPA, (0, 1), 1.0),
        (DUAL_OPA, (0, 0), 0.5),
        (DUAL_OPA, (2,), 0.5),
        (DUAL_OPA, (2, 3, 3), 1.0),
        (DUAL_OPA, (None,), 0.5),
        (DUAL_OPA, (None, None), 1.0),
        (replace(DUAL_OPA, striped=True), (0,), 1.0),
        (replace(DUAL_OPA, rails=(Rail("hfi1_0", 100.0), Rail("hfi1_1", 300.0))), (None,), 0.25),
        (replace(DUAL_OPA, rails=(Rail("hfi1_0", 100.0), Rail("hfi1_1"))), (None,), 1.0),
        (ETH1G, (0, 0), 1.0),
        (DGX, (0,) * 8, 1.0),
        (DGX, (0, 0), 0.25),
        (replace(DGX, gpus=tuple(Gpu(nic=f"mlx5_{number // 2}") for number in range(8))), (0, 0, 0), 0.25),
        (replace(DGX, gpus=DGX.gpus * 2), (0,), 0.125),
    ],
)
def test_a_gate_asks_for_the_rails_that_the_ranks_can_use(
    fabric: Fabric, rank_numa: tuple[int | None, ...], share: float
) -> None:
    """One rank uses the adapter next to it, two on two NUMA nodes use both, and striping uses both (Intel's article, 2020)."""
    assert fabric.share_used(rank_numa) == pytest.approx(share)
    if reference := references.physics_reference(fabric, fabric.share_used(rank_numa)):
        least = (fabric.efficiency("bunch") or 0) * share
        judged = [references.judge("m", "physics", value, reference, "1").outcome for value in (least - 0.01, least + 0.01)]
        assert judged == ["fail", "pass"]


def test_an_efficiency_may_be_that_of_a_pinning_policy() -> None:
    """Far from the adapter less is reached, and that is no fault of the link."""
    fabric = replace(ETH1G, min_efficiency=(("nic_remote", 0.6), ("any", 0.9)))

    def least(fabric: Fabric, pinning: str) -> float | None:
        reference = references.physics_reference(fabric, pinning=pinning)
        return reference and round(1.0 + (reference[1] or 0.0), 3)

    assert [least(fabric, policy) for policy in ("nic_remote", "bunch", "none")] == [0.6, 0.9, 0.9]
    assert least(replace(ETH1G, min_efficiency=(("bunch", 0.9),)), "nic_remote") is None
    described = {"transport": "tcp", "scope": "cluster", "min_efficiency": {"any": 0.9, "nic_remote": 0.6}}
    assert systems.fabrics_of({"fabrics": {"x": described}})["x"].efficiency("nic_remote") == 0.6


def test_more_than_the_line_rate_fails() -> None:
    """Above the line rate another network must have helped; that is as wrong as too little."""
    reference = references.physics_reference(ETH1G)
    outcomes = [references.judge("m", "physics", v, reference, "1").outcome for v in (0.92, 0.94, 1.0, 1.02)]
    assert outcomes == ["fail", "pass", "pass", "fail"]


@pytest.mark.parametrize(("level", "slowest"), [("smoke", 0.372), ("nightly", 0.93), ("acceptance", 0.93)])
def test_a_few_messages_tell_a_broken_link_only(level: str, slowest: float) -> None:
    reference = references.physics_reference(ETH1G, catalogue.LEVELS[level].link_share)
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
        (12000.0, SLOW_PCIE, 1, "1.52 times what slow (63 Gbit/s, by pcie_gbit_per_s of its GPUs)"),
    ],
)
def test_a_bandwidth_no_link_can_carry_is_named(mb_per_s: float, fabric: Fabric, directions: int, times: str | None) -> None:
    sentence = references.above_line_rate("X", mb_per_s, fabric, directions)
    assert (times in sentence and f"not the bandwidth of {fabric.name}" in sentence) if times else sentence == ""


def test_gpus_of_a_node_have_links_of_their_own() -> None:
    """What an MPI takes between nodes is not known, so that nothing is its line rate."""
    inside = Fabric("nvlink", "gpu_ipc", "node", memory=Memory("device", "cuda"), gpus=(Gpu(),) * 4, peer_rate_gbit_per_s=1200)
    assert (inside.line_rate_gbit_per_s, replace(inside, scope="cluster").line_rate_gbit_per_s) == (1200, None)
    row = catalogue.find("osu_mbw_mr", "osu_mbw_mr")
    assert [row.links(4, 1), row.links(2, 1), row.links(16, 2), row.links(16, 4)] == [2, 1, 1, 2]


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
PATH = ("ImbPointToPoint", "sys:part", "openmpi-spack", "hdr200", 2, 1, "bunch", METRIC)


def nest(path: tuple, leaf: object) -> dict:
    for key in reversed(path):
        leaf = {key: leaf}
    return leaf


def good() -> dict:
    content = nest(PATH, [1.12, None, 0.1, "us"])
    content["ImbPointToPoint"]["$index"] = list(references.INDEX)
    content["provenance"] = nest(PATH, {"session": "4f2a", "date": "2026-11-02", "n": 25, "spread": 0.03})
    return content


def test_a_good_file_is_good() -> None:
    references.check_file("references.yaml", good())
    references.check_file("references.yaml", None)


#: The system that ``good`` is a file of.
SYSTEM = {
    "name": "sys",
    "partitions": [
        {
            "name": "part",
            "extras": {
                "stacks": ["*-spack"],
                "node_counts": [2, 4],
                "fabrics": {"hdr200": {"transport": "ucx", "scope": "cluster"}, "shm": {"transport": "shm", "scope": "node"}},
            },
        }
    ],
}
#: Each level's key, misspelt or never measured, and what is said of it.
NEVER_LOOKED_UP = {
    "test": (0, "ImbPointToPiont", r"no test 'ImbPointToPiont' \(did you mean 'ImbPointToPoint'\?\)"),
    "system": (1, "sis:part", r"no partition 'sis:part' \(did you mean 'sys:part'"),
    "partition": (1, "sys:prat", r"no partition 'sys:prat' \(did you mean 'sys:part'"),
    "stack": (2, "openmpi-wheels", r"partition 'sys:part' enters no stack 'openmpi-wheels' \(its stacks: \*-spack\)"),
    "fabric": (3, "hdr20", r"has no fabric 'hdr20' \(did you mean 'hdr200'"),
    "nodes": (4, 3, "'hdr200' of partition 'sys:part' is measured on 2, 4 nodes, not on 3"),
    "nodes as text": (4, "2", "'hdr200' of partition 'sys:part' is measured on 2, 4 nodes|'2' is not a number of nodes"),
    "symbolic ppn": (5, "full", "'full' is not a number of processes per node; symbolic names are resolved"),
    "no ppn": (5, 0, "'0' is not a number of processes per node"),
    "pinning": (6, "bumch", r"no pinning policy 'bumch' \(did you mean 'bunch'"),
    "benchmark": (
        7,
        "PingPang.latency.0000000008",
        r"never gives a metric 'PingPang.*did you mean 'PingPong.latency.0000000008'",
    ),
    "another test's": (7, "Allreduce.t_avg.0000000008", "ImbPointToPoint never gives a metric 'Allreduce"),
    "quantity": (7, "PingPong.lattency.0000000008", "never gives a metric"),
    "physics": (7, "PingPong.line_rate_fraction.0004194304", "never gives a metric"),
    "size": (7, "PingPong.latency.8", "never gives a metric"),
    "odd size": (7, "PingPong.latency.0000000009", "never gives a metric"),
    "too large": (7, "PingPong.latency.0008388608", "never gives a metric"),
    "no size": (7, "PingPong.latency", "never gives a metric"),
    "size of a sizeless": (7, "Barrier.t_avg.0000000008", "never gives a metric"),
    "number": (7, 8, "never gives a metric '8'"),
}


@pytest.mark.parametrize("level", NEVER_LOOKED_UP)
def test_a_key_that_nothing_looks_up_is_an_error(level: str) -> None:
    place, word, wanted = NEVER_LOOKED_UP[level]
    path = (*PATH[:place], word, *PATH[place + 1 :])
    content = nest(path, [1.12, None, 0.1, "us"])
    content[path[0]]["$index"] = list(references.INDEX)
    content["provenance"] = nest(path, {"session": "4f2a", "date": "2026-11-02", "n": 25, "spread": 0.03})
    with refused_as("references-unusable", match=f"would never be looked up: .*{wanted}"):
        references.check_file("references.yaml", content, SYSTEM)
    references.check_file("references.yaml", good(), SYSTEM)


def test_a_fabric_of_one_node_has_one_node() -> None:
    path = (*PATH[:3], "shm", 1, *PATH[5:])
    content = nest(path, [1.12, None, 0.1, "us"])
    content["ImbPointToPoint"]["$index"] = list(references.INDEX)
    content["provenance"] = nest(path, {"session": "4f2a", "date": "2026-11-02", "n": 25, "spread": 0.03})
    references.check_file("references.yaml", content, SYSTEM)


NAN, INFINITE = float("nan"), float("inf")
BANDWIDTH = "PingPong.bandwidth.0004194304"
#: Values that would let everything pass, or compare what cannot be compared.
HOLDS_NOTHING = {
    "another unit": (BANDWIDTH, [50, -0.1, None, "GB/s"], "its unit is 'GB/s', but the metric is in 'MB/s'"),
    "unit of another quantity": (METRIC, [1.12, None, 0.1, "MB/s"], "its unit is 'MB/s', but the metric is in 'us'"),
    "NaN": (METRIC, [NAN, None, 0.1, "us"], "must be finite"),
    "NaN as bound": (METRIC, [1.12, None, NAN, "us"], "must be finite"),
    "infinite bound": (METRIC, [1.12, None, INFINITE, "us"], "must be finite"),
    "percent": (METRIC, [1.12, None, 10, "us"], "write -0.05 or 0.05 for 5 %"),
    "percent below": (BANDWIDTH, [12000, -5, None, "MB/s"], "write -0.05 or 0.05 for 5 %"),
    "everything down to nothing": (BANDWIDTH, [12000, -1, None, "MB/s"], "down to more than -1"),
    "wrong sign below": (BANDWIDTH, [12000, 0.1, None, "MB/s"], "the lower from 0 down"),
    "wrong sign above": (METRIC, [1.12, None, -0.1, "us"], "the upper from 0 up"),
    "latency bounded below": (METRIC, [1.12, -0.1, None, "us"], "latency_us is better low, so it needs an upper bound"),
    "bandwidth bounded above": (BANDWIDTH, [12000, None, 0.1, "MB/s"], "is better high, so it needs a lower bound"),
    "nothing": (METRIC, [0, None, 0.1, "us"], "must be above 0"),
    "negative": (BANDWIDTH, [-12000, -0.1, None, "MB/s"], "must be above 0"),
    "truth value": (METRIC, [True, None, 0.1, "us"], "must be .value, lower"),
    "text as bound": (METRIC, [1.12, None, "0.1", "us"], "write fractions of the value, or null"),
    "expected failure in another unit": (METRIC, ["$xfail", "slow cable", [1.12, None, 0.1, "ms"]], "its unit is 'ms'"),
}


def with_value(metric: str, value: object) -> dict:
    path = (*PATH[:-1], metric)
    content = nest(path, value)
    content["ImbPointToPoint"]["$index"] = list(references.INDEX)
    content["provenance"] = nest(path, {"session": "4f2a", "date": "2026-11-02", "n": 25, "spread": 0.03})
    return content


@pytest.mark.parametrize("case", HOLDS_NOTHING)
def test_a_value_that_can_hold_nothing_is_an_error(case: str) -> None:
    metric, value, wanted = HOLDS_NOTHING[case]
    with refused_as("references-unusable", match=wanted) as error:
        references.check_file("references.yaml", with_value(metric, value), SYSTEM)
    assert metric in str(error.value)


@pytest.mark.parametrize(
    ("metric", "value"),
    [
        (BANDWIDTH, [12000, -0.1, None, "MB/s"]),
        (BANDWIDTH, [12000, -0.1, 0.01, "MB/s"]),
        (METRIC, [1.12, -0.5, 0, "us"]),
        (METRIC, [1.12, None, None, "us"]),
        ("PingPong.bandwidth.0000000000", [0.0, None, None, "MB/s"]),
        (METRIC, ["$xfail", "slow cable", [1.12, None, 0.1, "us"]]),
    ],
)
def test_a_value_that_holds_something_or_nothing_on_purpose_is_none(metric: str, value: list) -> None:
    references.check_file("references.yaml", with_value(metric, value), SYSTEM)


def test_the_tests_of_the_project_are_known_with_their_groups() -> None:
    known = references.tests()
    assert {"ImbPointToPoint": "p2p", "OsuCollectives": "collectives_osu", "Placement": "placement"}.items() <= known.items()
    for test, group in known.items():
        for metric, (quantity, sizes) in catalogue.planned_metrics(group).items():
            size = next(iter(sizes))
            name = metric.replace("*", "2x2") + ("" if size is None else f".{size:010d}")
            assert references.quantity_of(test, name) == quantity


@pytest.mark.parametrize(
    "group", ["p2p", "transfer", "collectives", "p2p_osu", "one_sided_osu", "collectives_osu", "p2p_mpi4py"]
)
@pytest.mark.parametrize("level", catalogue.LEVELS)
def test_every_metric_of_a_launch_could_have_a_reference(group: str, level: str, tmp_path: Path) -> None:
    """What a real launch gives is among what a key may name: no good reference is ever refused."""
    every = {row.binary: f"/opt/{row.binary}" for row in catalogue.ROWS}
    path = write_stack(tmp_path / "stack")
    stack = replace(metadata.read(path), binaries=every)
    known = catalogue.planned_metrics(group)
    for ranks in (2, 24):
        with contextlib.suppress(NotMeasured):
            for metric in catalogue.metrics(catalogue.launches(group, stack, ranks, level)):
                name = metric.name if metric.message_bytes is None else metric.name.rpartition(".")[0]
                quantity, sizes = known[name]
                assert (quantity.unit, quantity.direction) == (metric.unit, metric.direction)
                assert metric.message_bytes in sizes


def write_site(root: Path, references_text: str) -> None:
    folder = root / "site_configs" / "sys"
    folder.mkdir(parents=True)
    (folder / "references.yaml").write_text(references_text)
    partition = {
        "name": "part",
        "scheduler": "slurm",
        "launcher": "srun",
        "extras": {
            "stacks": ["*-spack"],
            "fabrics": {
                "hdr200": {"transport": "ucx", "scope": "cluster", "rails": [{"device": "mlx5_0", "line_rate_gbit_per_s": 200}]}
            },
        },
    }
    described = {"name": "sys", "descr": "A system", "hostnames": ["^sys$"], "partitions": [partition]}
    (folder / "system.py").write_text(f"system = {described!r}\n")


def test_a_file_is_read_checked_and_read_again_when_it_changes(tmp_path: Path) -> None:
    write_site(tmp_path, yaml.safe_dump(good()))
    assert references.stacks_of(site.read_references("sys", tmp_path)) == {"openmpi-spack": 1}
    file = site.references_file("sys", tmp_path)
    file.write_text(file.read_text().replace("hdr200", "hdr100"))
    with refused_as("system-file", match="has no fabric 'hdr100'"):
        site.read_references("sys", tmp_path)
    file.write_text("ImbPointToPoint: [\n")
    with refused_as("system-file", match=r"references\.yaml, line 2 is not YAML") as error:
        site.read_references("sys", tmp_path)
    assert "\n" not in str(error.value)
    file.unlink()
    assert site.read_references("sys", tmp_path) == {}


def test_a_fault_is_that_of_the_cases_it_is_for(tmp_path: Path) -> None:
    """One stale entry says nothing of the other cases; what is wrong with the file is wrong for all."""
    content = good()
    stale = copy.deepcopy(content["ImbPointToPoint"]["sys:part"])
    content["ImbPointToPoint"]["sys:old"] = stale
    write_site(tmp_path, yaml.safe_dump(content))
    [fault] = site.reference_faults("sys", tmp_path)
    assert "there is no partition 'sys:old'" in fault.sentence
    case = ("sys:part", "openmpi-spack", "hdr200", 2, 1, "bunch")
    assert not fault.concerns(("ImbPointToPoint", *case)) and fault.concerns(("ImbPointToPoint", "sys:old", *case[1:]))
    assert [fault.sentence.rstrip(".")] == nightly.bad_references(["sys"], tmp_path)
    content["ImbPointToPoint"]["$index"] = ["$partition"]
    [fault] = references.find_faults("x", content)
    assert fault.concerns(("ImbPointToPoint", *case)) and not fault.concerns(("Collectives", *case))
    [fault] = references.find_faults("x", ["ImbPointToPoint"])
    assert fault.concerns(("Collectives", *case))
    assert nightly.bad_references(["other"], tmp_path) == []


def test_doctor_names_references_that_cannot_be_used_or_hold_nothing(tmp_path: Path) -> None:
    write_site(tmp_path, yaml.safe_dump(good()))
    [finding] = doctor.check_references("sys", True, tmp_path)
    assert finding.state == doctor.MISSING
    assert "no stack 'openmpi-spack' is registered, so its 1 references hold nothing" in finding.detail
    [finding] = doctor.check_references("sys", False, tmp_path)
    assert finding.state == doctor.NOTE, "another machine's stacks are not here"
    write_stack(tmp_path / "environments" / "openmpi", name="openmpi-spack", origin="spack")
    [finding] = doctor.check_references("sys", True, tmp_path)
    assert (finding.state, finding.detail) == (doctor.OK, "1 for openmpi-spack")
    site.references_file("sys", tmp_path).write_text("PointToPiont: {}\n")
    [finding] = doctor.check_references("sys", True, tmp_path)
    assert finding.state == doctor.MISSING and "PointToPiont" in finding.detail


@pytest.mark.parametrize("system", [path.parent.name for path in site.system_files()])
def test_references_of_every_bundled_system_can_be_looked_up(system: str) -> None:
    site.read_references(system)


def spoil(change: str) -> dict:
    content = copy.deepcopy(good())
    if change == "index":
        content["ImbPointToPoint"]["$index"] = ["fabric"]
    elif change == "provenance":
        del content["provenance"]
    elif change == "date":
        content["provenance"] = nest(PATH, {"session": "4f2a", "n": 25, "spread": 0.03})
    elif change == "tuple":
        content["ImbPointToPoint"] |= nest(PATH[1:], [1.12, None, 0.1])
    elif change == "depth":
        content["ImbPointToPoint"] |= nest(PATH[1:-1], [1.12, None, 0.1, "us"])
    return content


@pytest.mark.parametrize(
    ("change", "wanted"),
    [
        ("index", r"ImbPointToPoint.\$index"),
        ("provenance", "provenance.ImbPointToPoint"),
        ("date", "date, n, session, spread"),
        ("tuple", "must be .value, lower"),
        ("depth", "levels deep"),
    ],
)
def test_a_bad_file_is_one_sentence(change: str, wanted: str) -> None:
    with refused_as("references-unusable", match=wanted) as error:
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

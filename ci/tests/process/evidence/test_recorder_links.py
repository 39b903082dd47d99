"""The state of links as the evidence library reads it: kernels'
folders of adapters this machine does not have.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from folders import DATA
from programs import compile_c, inside_namespace
from reframe_tests.harness.evidence import link_state, rank_records, recorder
from reframe_tests.harness.evidence.rank_records import RankEvidence
from reframe_tests.harness.launchers import registry
from reframe_tests.harness.machine.fabric import Fabric, Rail
from synthetic_evidence import STACK

TREES = DATA / "golden" / "sysfs"
LIBRARY = (
    "int PMPI_Init(int *c, char ***v) { (void)c; (void)v; return 0; } int PMPI_Finalize(void) { "
    "return 0; }"
)
PROGRAM = (
    "int PMPI_Init(int *, char ***), PMPI_Finalize(void); int main(void) { return PMPI_Init(0, "
    "0) | PMPI_Finalize(); }"
)


def plant(tree: str, folder: Path) -> None:
    """Write the files and links of a tree (``path = content``,
    ``path -> target``) below a folder.
    """
    for line in (TREES / f"{tree}.txt").read_text().splitlines():
        if line.startswith("#"):
            continue
        name, arrow, target = line.partition(" -> ")
        path, _, content = line.partition(" = ")
        made = folder / (name if arrow else path)
        made.parent.mkdir(parents=True, exist_ok=True)
        if arrow:
            made.symlink_to(target)
        else:
            made.write_text(f"{content}\n")


@pytest.fixture(scope="session")
def program(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    """The evidence library and a program on something that stands for an MPI."""
    folder = tmp_path_factory.mktemp("program")
    compile_c(folder / "libmpi.so", LIBRARY, "-shared", "-fPIC")
    made = compile_c(folder / "program", PROGRAM, f"-L{folder}", "-lmpi", f"-Wl,-rpath,{folder}")
    return recorder.build(folder), made


@pytest.fixture
def seen_on(program: tuple[Path, Path], tmp_path: Path) -> Callable[..., RankEvidence]:
    """What a rank says on a machine with a tree below /sys/class,
    under a launcher and with some variables set.
    """

    def seen_on_(tree: str, launcher: str = "srun", **environment: str) -> RankEvidence:
        plant(tree, tmp_path / "class")
        known = recorder.variables(STACK, registry.known()[launcher])
        words = " ".join(f"{name}={value}" for name, value in {**known, **environment}.items())
        run = f"env LD_PRELOAD={program[0]} MPIBENCH_EVIDENCE={tmp_path} {words} {program[1]}"
        inside_namespace(tmp_path, f"mount --bind {tmp_path}/class /sys/class", run)
        (rank,) = rank_records.read(tmp_path)
        return rank

    return seen_on_


def later(rank: RankEvidence, link: str, **values: Any) -> RankEvidence:
    """The same rank, with other values of a link at its end."""
    assert rank.finalize is not None and rank.finalize.links is not None
    links = {**rank.finalize.links, link: {**rank.finalize.links[link], **values}}
    return dataclasses.replace(rank, finalize=dataclasses.replace(rank.finalize, links=links))


def fabric(*devices: str, rate: float, transport: str = "ucx", **more: Any) -> Fabric:
    return Fabric(
        "net", transport, "cluster", tuple(Rail(device, rate) for device in devices), **more
    )


def test_infiniband(seen_on: Callable[..., RankEvidence]) -> None:
    rank = seen_on("mlx5")
    assert (
        rank.init.links is not None
        and rank.finalize is not None
        and rank.init.links == rank.finalize.links
    )
    port = rank.init.links["mlx5_0/1"]
    assert (port["symbol_error"], port["port_xmit_wait"], port["out_of_buffer"]) == (3, 977, 7)
    assert port["link_downed"] == port["local_link_integrity_errors"] == 0
    assert not {"lifespan", "duplicate_request", "port_xmit_data"} & set(port)
    assert set(rank.init.tcp_node) == {"InErrs", "OutSegs", "RetransSegs"}
    hdr = fabric("mlx5_0", rate=200)
    healthy = link_state.check_links([rank], hdr)
    assert (healthy.sentences, healthy.notes, healthy.errors) == ([], [], [])
    assert link_state.settings_of(healthy.states) == [
        {
            "node": rank.host,
            "link": "mlx5_0/1",
            "state": "4: ACTIVE",
            "phys_state": "5: LinkUp",
            "rate": "200 Gb/sec (4X HDR)",
            "pcie_speed": "16.0 GT/s PCIe",
            "pcie_width": 16,
            "port_guid": "98039b0000000001",
        }
    ]
    (sentence,) = link_state.check_links([rank], fabric("mlx5_0", rate=400)).sentences
    assert "came up at 200 Gbit/s, but the site says 400" in sentence


def test_new_errors_of_infiniband_are_notes_and_a_lost_link_is_none(
    seen_on: Callable[..., RankEvidence],
) -> None:
    rank = seen_on("mlx5")
    worse = later(rank, "mlx5_0/1", symbol_error=5, port_xmit_wait=9977, rnr_nak_retry_err=3)
    finding = link_state.check_links([worse], fabric("mlx5_0", rate=200))
    assert finding.sentences == []
    assert {(row["counter"], row["new"], row["reported"]) for row in finding.errors} == {
        ("symbol_error", 2, True),
        ("rnr_nak_retry_err", 1, True),
        ("port_xmit_wait", 9000, False),  # congestion, not an error: kept, not noted
    }
    lost = later(rank, "mlx5_0/1", link_downed=1, state="1: DOWN")
    gone, changed = link_state.check_links([lost], fabric("mlx5_0", rate=200)).sentences
    assert "it failed to recover from errors (link_downed +1)" in gone
    assert "changed during the run: state 4: ACTIVE to 1: DOWN" in changed
    reset = later(rank, "mlx5_0/1", symbol_error=0)
    assert [
        row["new"]
        for row in link_state.check_links([reset], fabric("mlx5_0", rate=200)).errors
        if row["reported"]
    ] == [-3]


def test_roce_is_its_port_and_the_interface_on_it(seen_on: Callable[..., RankEvidence]) -> None:
    rank = seen_on("roce")
    finding = link_state.check_links([rank], fabric("mlx5_1", rate=100))
    assert (finding.sentences, [state.link for state in finding.states]) == ([], ["mlx5_1/1", "lo"])
    assert finding.states[1].settings["mtu_bytes"] == 9000
    congested = later(rank, "mlx5_1/1", np_cnp_sent=1041, rx_icrc_encapsulated=1)
    reported = [
        row["counter"]
        for row in link_state.check_links([congested], fabric("mlx5_1", rate=100)).errors
        if row["reported"]
    ]
    assert reported == ["rx_icrc_encapsulated"]
    flapped = later(rank, "lo", carrier_changes=6)
    (sentence,) = link_state.check_links([flapped], fabric("mlx5_1", rate=100)).sentences
    assert f"the link of lo on {rank.host} was interrupted during the run" in sentence


def test_omnipath(seen_on: Callable[..., RankEvidence]) -> None:
    rank = seen_on("hfi1")
    both = fabric("hfi1_0", "hfi1_1", rate=100, transport="psm2")
    finding = link_state.check_links([later(rank, "hfi1_1/1", DcTotCrc=14, DcRxReplay=6)], both)
    assert finding.sentences == []
    assert [(row["link"], row["counter"], row["new"]) for row in finding.errors] == [
        ("hfi1_1/1", "DcTotCrc", 2),
        ("hfi1_1/1", "DcRxReplay", 1),
    ]


def test_slingshot(seen_on: Callable[..., RankEvidence]) -> None:
    rank = seen_on("cxi")
    assert rank.init.links is not None
    card = rank.init.links["cxi0/1"]
    assert (card["state"], card["rate"], card["pcie_width"], card["hni_pcs_corrected_cw"]) == (
        "up",
        "BS_200G",
        16,
        90049,
    )
    assert link_state.check_links([rank], fabric("cxi0", rate=200, transport="cxi")).sentences == []
    (slow,) = link_state.check_links([rank], fabric("cxi0", rate=400, transport="cxi")).sentences
    assert "cxi0/1" in slow and "came up at 200 Gbit/s" in slow
    finding = link_state.check_links(
        [later(rank, "cxi0/1", hni_pcs_corrected_cw=90060, hni_pcs_uncorrected_cw=2)],
        fabric("cxi0", rate=200, transport="cxi"),
    )
    assert {row["counter"]: row["reported"] for row in finding.errors} == {
        "hni_pcs_corrected_cw": False,
        "hni_pcs_uncorrected_cw": True,
    }

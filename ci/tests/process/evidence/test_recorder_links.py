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


def fabric(device: str, rate: float, transport: str = "ucx") -> Fabric:
    return Fabric("net", transport, "cluster", (Rail(device, rate),))


#: Tree to its rail, what its port shows, other values of it at the end, and which of the counters
#: that grew are reported: congestion and what was corrected are kept, and are no errors.
ADAPTERS: dict[str, tuple[Fabric, dict[str, Any], dict[str, int], dict[str, bool]]] = {
    "mlx5": (
        fabric("mlx5_0", 200),
        {
            "state": "4: ACTIVE",
            "phys_state": "5: LinkUp",
            "rate": "200 Gb/sec (4X HDR)",
            "pcie_speed": "16.0 GT/s PCIe",
            "pcie_width": 16,
            "port_guid": "98039b0000000001",
            "link_downed": 0,
        },
        {"symbol_error": 5, "port_xmit_wait": 9977, "out_of_buffer": 0},  # that one was reset
        {"symbol_error": True, "port_xmit_wait": False, "out_of_buffer": True},
    ),
    "roce": (
        fabric("mlx5_1", 100),
        {},
        {"np_cnp_sent": 1041, "rx_icrc_encapsulated": 1},
        {"rx_icrc_encapsulated": True, "np_cnp_sent": False},
    ),
    "hfi1": (
        fabric("hfi1_1", 100, "psm2"),
        {},
        {"DcTotCrc": 14, "DcRxReplay": 6},
        {"DcTotCrc": True, "DcRxReplay": True},
    ),
    "cxi": (
        fabric("cxi0", 200, "cxi"),
        {"state": "up", "rate": "BS_200G", "pcie_width": 16, "hni_pcs_corrected_cw": 90049},
        {"hni_pcs_corrected_cw": 90060, "hni_pcs_uncorrected_cw": 2},
        {"hni_pcs_corrected_cw": False, "hni_pcs_uncorrected_cw": True},
    ),
}


@pytest.mark.parametrize("tree", ADAPTERS)
def test_ports_are_read_and_their_counters_told_apart(
    seen_on: Callable[..., RankEvidence], tree: str
) -> None:
    net, shown, values, reported = ADAPTERS[tree]
    [rail] = net.rails
    link = f"{rail.device}/1"
    rank = seen_on(tree)
    assert rank.init.links and rank.finalize and rank.init.links == rank.finalize.links
    assert set(rank.init.tcp_node) == {"InErrs", "OutSegs", "RetransSegs"}
    port = rank.init.links[link]
    assert not {"lifespan", "duplicate_request", "port_xmit_data"} & set(port)
    healthy = link_state.check_links([rank], net)
    assert (healthy.sentences, healthy.notes, healthy.errors) == ([], [], [])
    [stored, *_] = link_state.settings_of(healthy.states)
    assert shown.items() <= {**port, **stored}.items()
    finding = link_state.check_links([later(rank, link, **values)], net)
    assert finding.sentences == []
    grown = {row["counter"]: (row["new"], row["reported"]) for row in finding.errors}
    assert grown == {name: (values[name] - port[name], said) for name, said in reported.items()}
    double = fabric(rail.device, 2 * (rail.line_rate_gbit_per_s or 0), net.transport)
    (slow,) = link_state.check_links([rank], double).sentences
    assert f"came up at {rail.line_rate_gbit_per_s} Gbit/s, but the site says" in slow


def test_roce_is_its_port_and_the_interface_on_it(seen_on: Callable[..., RankEvidence]) -> None:
    rank = seen_on("roce")
    net = fabric("mlx5_1", 100)
    states = link_state.check_links([rank], net).states
    assert [state.link for state in states] == ["mlx5_1/1", "lo"]
    assert states[1].settings["mtu_bytes"] == 9000
    lost = later(rank, "mlx5_1/1", link_downed=1, state="1: DOWN")
    gone, changed = link_state.check_links([lost], net).sentences
    assert "it failed to recover from errors (link_downed +1)" in gone
    assert "changed during the run: state 4: ACTIVE to 1: DOWN" in changed
    flapped = later(rank, "lo", carrier_changes=6)
    (sentence,) = link_state.check_links([flapped], net).sentences
    assert "the link of lo" in sentence and "was interrupted during the run" in sentence

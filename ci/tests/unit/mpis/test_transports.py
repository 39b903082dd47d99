"""The transport table as a whole, and what it sets."""

from __future__ import annotations

import itertools
import re
from dataclasses import replace

import pytest

from reframe_tests.harness.evidence.traffic import CHOOSERS
from reframe_tests.harness.machine.fabric import Fabric, Rail
from reframe_tests.harness.mpis import registry
from reframe_tests.harness.mpis.transport import Range
from reframe_tests.harness.stacks.stack import Stack
from reframe_tests.harness.vocabulary import NotMeasured
from refusals import refused_as
from transport_cases import (
    EDR,
    ETH,
    FORCED,
    INTEL,
    LO,
    MPICH,
    MPICH_UCX,
    MVAPICH2,
    OPA2,
    OPENMPI,
    OPENMPI_4,
    attempt,
    every_stack,
    fabric_of,
    make_stack,
    setting_of,
)

ROWS = [row for mpi in registry.known().values() for row in mpi.rows]


# --- the table as a whole
# ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize("scope", ["node", "cluster"])
def test_settings_are_filled_and_name_the_device(scope: str) -> None:
    resolved = 0
    for stack, transport in itertools.product(every_stack(), FORCED):
        if transport == "shm" and scope == "cluster":
            continue
        fabric = fabric_of(transport, scope)
        setting = attempt(stack, fabric)
        if isinstance(setting, NotMeasured):
            assert "add a row to the file of" not in str(setting), str(setting)
            continue
        resolved += 1
        text = " ".join(
            [
                *setting.env.values(),
                *(v for proof in setting.proofs for v in (*proof.expect, *proof.allow)),
            ]
        )
        assert not re.search(r"\{[a-z_]+\}", text), text
        assert all(value for value in setting.env.values()), setting.env
        if fabric.rails and stack.mpi != "pempi":  # LoadLeveler gives links out, POE names none
            number = re.search(r"\d+$", fabric.devices[0])
            chosen = setting.env.values()
            assert any(fabric.devices[0] in value for value in chosen) or (
                number and number[0] in chosen
            ), setting.env
    assert resolved > 60


def test_every_row_has_a_proof_and_whole_patterns() -> None:
    choosing = re.compile(r"FABRICS|PROVIDER|TLS|DEVICES|IFACE|NETMOD|_(pml|btl|mtl)$")
    for row in ROWS:
        proofs = [*row.proofs, *itertools.chain(*row.proofs_by_scope.values())]
        assert any(proof.required for proof in proofs), row
        for scope in ("node",) if row.transport == "shm" else ("node", "cluster"):
            assert row.proofs or row.proofs_by_scope[scope], row
        for proof in proofs:
            assert re.compile(proof.pattern).groups == 1, proof
            assert re.compile(proof.line) and (proof.absent or proof.expect), proof
        assert not row.context or re.compile(row.context).groups == 1
        assert not any(map(choosing.search, row.debug_env)), "debug settings choose nothing"


def test_no_two_rows_overlap_and_no_gap_covers_a_row() -> None:
    for mpi in registry.known().values():
        for one, other in itertools.combinations(mpi.rows, 2):
            if (one.transport, one.device) == (other.transport, other.device):
                assert not one.versions.overlaps(other.versions), (one, other)
            if one.transport == other.transport:
                assert bool(one.device) == bool(other.device), (one, other)
        for row, gap in itertools.product(mpi.rows, mpi.gaps):
            if row.transport == gap.transport and (
                not gap.kinds or set(gap.kinds) & set(row.memory)
            ):
                assert not row.versions.overlaps(gap.versions), (row, gap)


def test_ranges_are_half_open() -> None:
    four = Range((4,), (5,))
    assert (4,) in four and (4, 1, 4) in four
    assert (5,) not in four and (3, 9, 9) not in four


def test_what_ucx_says_of_rails_it_does_not_know_stays_away_from_the_benchmarks_lines() -> None:
    """UCX 1.13 warns of UCX_MAX_RMA_RAILS, by default on stdout, where readers refuse it."""
    setting = [
        row for row in ROWS if any("UCX_MAX_RMA_RAILS" in env for env in row.by_rails.values())
    ]
    assert len(setting) >= 5
    assert all(row.debug_env["UCX_LOG_FILE"] == "stderr" for row in setting)


def test_the_settings_of_rails_are_quoted_where_the_wrong_ones_were_used() -> None:
    assert set(UCX_BOTH) <= set(CHOOSERS)


# --- what is set
# --------------------------------------------------------------------------------------------------


def test_inside_a_node_the_shortcut_is_off_between_nodes_it_is_on() -> None:
    between = replace(LO, scope="cluster")
    assert setting_of(INTEL, LO).env["I_MPI_FABRICS"] == "ofi"
    assert setting_of(INTEL, between).env["I_MPI_FABRICS"] == "shm:ofi"
    assert setting_of(MPICH, LO).env["MPIR_CVAR_NOLOCAL"] == "1"
    assert "MPIR_CVAR_NOLOCAL" not in setting_of(MPICH, between).env
    nemesis = make_stack("mvapich2", "2.3.7", "ch3:nemesis")
    assert setting_of(nemesis, LO).env["MPIR_CVAR_CH3_NOLOCAL"] == "1"
    assert setting_of(nemesis, between).env["HYDRA_HOSTNAME_PROPAGATION"] == "0", (
        "else Hydra names another interface"
    )
    assert "MPIR_CVAR_CH3_NOLOCAL" not in setting_of(nemesis, between).env
    assert setting_of(MPICH_UCX, LO).env["UCX_TLS"] == "self,tcp"
    assert setting_of(MPICH_UCX, between).env["UCX_TLS"] == "self,sm,tcp"
    assert setting_of(OPENMPI, LO).env["OMPI_MCA_btl"] == "self,tcp"
    assert setting_of(OPENMPI, between).env["OMPI_MCA_btl"] == "self,sm,tcp"
    inside = setting_of(MVAPICH2, fabric_of("verbs", "node")).env
    assert inside["MV2_USE_SHARED_MEM"] == "0" and inside["MV2_IBA_HCA"] == "mlx5_0"
    assert "MV2_USE_SHARED_MEM" not in setting_of(MVAPICH2, fabric_of("verbs", "cluster")).env


def test_open_mpi_5_has_no_openib() -> None:
    outcome = attempt(OPENMPI, fabric_of("verbs", "cluster"))
    assert str(outcome) == "Open MPI 5 has no openib BTL: use transport ucx." and isinstance(
        outcome, NotMeasured
    )
    assert (
        setting_of(OPENMPI_4, fabric_of("verbs", "cluster")).env["OMPI_MCA_btl_openib_if_include"]
        == "mlx5_0:2"
    )


def test_a_build_without_the_netmod_names_the_one_it_needs() -> None:
    outcome = attempt(MPICH_UCX, fabric_of("efa", "cluster"))
    assert isinstance(outcome, NotMeasured)
    assert (
        str(outcome)
        == "MPICH 5.0.2, built with ch4:ucx, cannot use efa: it needs a build with ch4:ofi."
    )


def test_a_build_with_both_netmods_takes_its_first_but_ofi_for_loopback() -> None:
    # UCX 1.20.0 and 1.20.1 cannot connect over lo.
    assert setting_of(MPICH, ETH).env["MPIR_CVAR_CH4_NETMOD"] == "ucx"
    assert setting_of(MPICH, LO).env["MPIR_CVAR_CH4_NETMOD"] == "ofi"
    assert setting_of(MPICH_UCX, LO).env["MPIR_CVAR_CH4_NETMOD"] == "ucx"
    swapped = replace(MPICH, device="ch4:ofi ucx")
    assert setting_of(swapped, ETH).env["MPIR_CVAR_CH4_NETMOD"] == "ofi"


def test_one_rail_where_the_setting_takes_one() -> None:
    two = replace(ETH, rails=(Rail("eth1"), Rail("eth2")))
    outcome = attempt(INTEL, two)
    assert (
        isinstance(outcome, NotMeasured)
        and "FI_TCP_IFACE" in str(outcome)
        and "eth1g has 2" in str(outcome)
    )
    assert setting_of(OPENMPI, two).env["OMPI_MCA_btl_tcp_if_include"] == "eth1,eth2"


TWO_IB = replace(EDR, rails=(Rail("mlx5_0"), Rail("mlx5_1")))
TWO_ETH = replace(ETH, rails=(Rail("eth1"), Rail("eth2")))
UCX_BOTH = {"UCX_MAX_EAGER_RAILS": "2", "UCX_MAX_RNDV_RAILS": "2", "UCX_MAX_RMA_RAILS": "2"}
OB1_BOTH = {
    "OMPI_MCA_pml_ob1_max_send_per_range": "2",
    "OMPI_MCA_pml_ob1_max_rdma_per_request": "2",
}


@pytest.mark.parametrize(
    ("stack", "fabric", "wanted"),
    [
        (INTEL, OPA2, {"PSM2_MULTIRAIL": "1"}),
        (MPICH_UCX, TWO_IB, UCX_BOTH),
        (OPENMPI, TWO_IB, UCX_BOTH),
        (OPENMPI, TWO_ETH, OB1_BOTH),
        (OPENMPI_4, replace(TWO_IB, transport="verbs"), OB1_BOTH),
        (
            MVAPICH2,
            replace(TWO_IB, transport="verbs"),
            {"MV2_NUM_HCAS": "2", "MV2_RAIL_SHARING_LARGE_MSG_THRESHOLD": "16384"},
        ),
    ],
)
def test_striping_is_asked_for_in_each_mpis_words(
    stack: Stack, fabric: Fabric, wanted: dict[str, str]
) -> None:
    """And neither setting is that of the same rails without it."""
    striped = setting_of(stack, replace(fabric, striped=True))
    assert {name: striped.env.get(name) for name in wanted} == wanted
    assert striped.asked.endswith(", striped") and ", striped" in striped.summary
    apart = setting_of(stack, fabric)
    assert all(
        apart.env.get(name) != value for name, value in wanted.items() if name != "MV2_NUM_HCAS"
    )
    assert not any("HFI_UNIT" in name for name in striped.env)


@pytest.mark.parametrize(
    ("stack", "fabric"),
    [
        (INTEL, replace(TWO_IB, transport="verbs")),
        (make_stack("mvapich2", "1.5", "ch3:mrail"), replace(TWO_IB, transport="verbs")),
    ],
)
def test_an_mpi_that_cannot_stripe_is_not_measured_as_if_it_did(
    stack: Stack, fabric: Fabric
) -> None:
    assert not isinstance(attempt(stack, fabric), NotMeasured), "it can use the rails one by one"
    outcome = attempt(stack, replace(fabric, striped=True))
    assert isinstance(
        outcome, NotMeasured
    ) and "has no setting by which one rank stripes its messages" in str(outcome)
    with refused_as("system-description", match=r"striped needs two rails or more, and it has 1\."):
        setting_of(stack, replace(fabric, rails=fabric.rails[:1], striped=True))


@pytest.mark.parametrize(
    ("fabric", "words"),
    [
        (
            Fabric("net", "myrinet", "cluster", (Rail("myri0"),)),
            "transport 'myrinet' is not one of",
        ),
        (Fabric("net", "tcp", "rack", (Rail("eth0"),)), "scope 'rack'"),
        (Fabric("net", "tcp", "cluster"), "needs the device of at least one rail"),
        (Fabric("net", "shm", "cluster"), "shared memory has scope node"),
        (Fabric("net", "psm2", "cluster", (Rail("ib"),)), "hfi1_0"),
    ],
)
def test_bad_fabrics_are_refused_in_one_sentence(fabric: Fabric, words: str) -> None:
    with refused_as("system-description") as caught:
        setting_of(INTEL, fabric)
    assert words in str(caught.value) and str(caught.value).startswith("fabric net: ")

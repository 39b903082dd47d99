"""The transport table as a whole, and what it sets."""

from __future__ import annotations

import itertools
import re
from dataclasses import replace

import pytest

from reframe_tests.harness.evidence.traffic import CHOOSERS
from reframe_tests.harness.machine.fabric import Fabric, Rail
from reframe_tests.harness.machine.transport import TRANSPORTS
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
    INTEL_401,
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


# --- the table as a whole ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize("scope", ["node", "cluster"])
def test_every_pair_has_a_row_or_a_reason_of_its_own(scope: str) -> None:
    for stack, transport in itertools.product(every_stack(), FORCED):
        if transport == "shm" and scope == "cluster":
            continue
        outcome = attempt(stack, fabric_of(transport, scope))
        if isinstance(outcome, NotMeasured):
            assert str(outcome).endswith("."), str(outcome)
            assert "add a row to the file of" not in str(outcome), str(outcome)


@pytest.mark.parametrize("scope", ["node", "cluster"])
def test_settings_are_filled_and_name_the_device(scope: str) -> None:
    resolved = 0
    for stack, transport in itertools.product(every_stack(), FORCED):
        if transport == "shm" and scope == "cluster":
            continue
        fabric = fabric_of(transport, scope)
        setting = attempt(stack, fabric)
        if isinstance(setting, NotMeasured):
            continue
        resolved += 1
        text = " ".join([*setting.env.values(), *(v for proof in setting.proofs for v in (*proof.expect, *proof.allow))])
        assert not re.search(r"\{[a-z_]+\}", text), text
        assert all(value for value in setting.env.values()), setting.env
        if fabric.rails and stack.mpi != "pempi":  # LoadLeveler gives links out, POE names none
            number = re.search(r"\d+$", fabric.devices[0])
            chosen = setting.env.values()
            assert any(fabric.devices[0] in value for value in chosen) or (number and number[0] in chosen), setting.env
        assert "\n" not in setting.summary
    assert resolved > 60


def test_every_row_names_its_manual_and_has_a_proof() -> None:
    for row in ROWS:
        assert row.transport in TRANSPORTS
        assert re.search(r"'[^']+'|\(7\)|README|\b\d+\.\d+ [A-Z]", row.manual), row
        proofs = [*row.proofs, *itertools.chain.from_iterable(row.proofs_by_scope.values())]
        assert any(proof.required for proof in proofs), row
        for scope in ("node",) if row.transport == "shm" else ("node", "cluster"):
            assert row.proofs or row.proofs_by_scope[scope], row


def test_every_regular_expression_compiles_and_has_one_group() -> None:
    for row in ROWS:
        for proof in (*row.proofs, *itertools.chain.from_iterable(row.proofs_by_scope.values())):
            assert re.compile(proof.pattern).groups == 1, proof
            re.compile(proof.line)
            assert proof.absent or proof.expect, proof
        assert not row.context or re.compile(row.context).groups == 1


def test_no_two_rows_overlap_and_no_gap_covers_a_row() -> None:
    for mpi in registry.known().values():
        for one, other in itertools.combinations(mpi.rows, 2):
            if (one.transport, one.device) == (other.transport, other.device):
                assert not one.versions.overlaps(other.versions), (one, other)
            if one.transport == other.transport:
                assert bool(one.device) == bool(other.device), (one, other)
        for row, gap in itertools.product(mpi.rows, mpi.gaps):
            if row.transport == gap.transport and (not gap.kinds or set(gap.kinds) & set(row.memory)):
                assert not row.versions.overlaps(gap.versions), (row, gap)


def test_ranges_are_half_open() -> None:
    four = Range((4,), (5,))
    assert (4,) in four and (4, 1, 4) in four
    assert (5,) not in four and (3, 9, 9) not in four
    assert not four.overlaps(Range((5,))) and four.overlaps(Range((4, 9))) and Range((1,)).overlaps(four)


def test_debug_settings_choose_nothing() -> None:
    choosing = re.compile(r"FABRICS|PROVIDER|TLS|DEVICES|IFACE|NETMOD|_(pml|btl|mtl)$")
    for row in ROWS:
        assert not [name for name in row.debug_env if choosing.search(name)], row.debug_env


def test_what_ucx_says_of_rails_it_does_not_know_stays_away_from_the_benchmarks_lines() -> None:
    """UCX 1.13 warns of UCX_MAX_RMA_RAILS, by default on stdout, where readers refuse it."""
    setting = [row for row in ROWS if any("UCX_MAX_RMA_RAILS" in env for env in row.by_rails.values())]
    assert len(setting) >= 5
    assert all(row.debug_env["UCX_LOG_FILE"] == "stderr" for row in setting)


def test_the_settings_of_rails_are_quoted_where_the_wrong_ones_were_used() -> None:
    assert set(UCX_BOTH) <= set(CHOOSERS)


# --- what is set ------------------------------------------------------------------------------------------------------


def test_inside_a_node_the_shortcut_is_off_between_nodes_it_is_on() -> None:
    between = replace(LO, scope="cluster")
    assert setting_of(INTEL, LO).env["I_MPI_FABRICS"] == "ofi"
    assert setting_of(INTEL, between).env["I_MPI_FABRICS"] == "shm:ofi"
    assert setting_of(MPICH, LO).env["MPIR_CVAR_NOLOCAL"] == "1"
    assert "MPIR_CVAR_NOLOCAL" not in setting_of(MPICH, between).env
    nemesis = make_stack("mvapich2", "2.3.7", "ch3:nemesis")
    assert setting_of(nemesis, LO).env["MPIR_CVAR_CH3_NOLOCAL"] == "1"
    assert setting_of(nemesis, between).env["HYDRA_HOSTNAME_PROPAGATION"] == "0", "else Hydra names another interface"
    assert "MPIR_CVAR_CH3_NOLOCAL" not in setting_of(nemesis, between).env
    assert setting_of(MPICH_UCX, LO).env["UCX_TLS"] == "self,tcp"
    assert setting_of(MPICH_UCX, between).env["UCX_TLS"] == "self,sm,tcp"
    assert setting_of(OPENMPI, LO).env["OMPI_MCA_btl"] == "self,tcp"
    assert setting_of(OPENMPI, between).env["OMPI_MCA_btl"] == "self,sm,tcp"
    assert setting_of(OPENMPI_4, between).env["OMPI_MCA_btl"] == "self,vader,tcp"
    inside = setting_of(MVAPICH2, fabric_of("verbs", "node")).env
    assert inside["MV2_USE_SHARED_MEM"] == "0" and inside["MV2_IBA_HCA"] == "mlx5_0"
    assert "MV2_USE_SHARED_MEM" not in setting_of(MVAPICH2, fabric_of("verbs", "cluster")).env


def test_intel_mpi_4_names_the_dapl_provider_and_never_falls_back() -> None:
    env = setting_of(INTEL_401, Fabric("qdr", "verbs", "cluster", (Rail("mlx4_0"),))).env
    assert env["I_MPI_FABRICS"] == "shm:dapl"
    assert env["I_MPI_DAPL_PROVIDER"] == "ofa-v2-mlx4_0-1"
    assert env["I_MPI_FALLBACK"] == "0"
    assert setting_of(INTEL_401, ETH).env["I_MPI_TCP_NETMASK"] == "eth1"


def test_open_mpi_5_has_no_openib() -> None:
    outcome = attempt(OPENMPI, fabric_of("verbs", "cluster"))
    assert str(outcome) == "Open MPI 5 has no openib BTL: use transport ucx." and isinstance(outcome, NotMeasured)
    assert setting_of(OPENMPI_4, fabric_of("verbs", "cluster")).env["OMPI_MCA_btl_openib_if_include"] == "mlx5_0:2"


def test_a_build_without_the_netmod_names_the_one_it_needs() -> None:
    outcome = attempt(MPICH_UCX, fabric_of("efa", "cluster"))
    assert isinstance(outcome, NotMeasured)
    assert str(outcome) == "MPICH 5.0.2, built with ch4:ucx, cannot use efa: it needs a build with ch4:ofi."
    nameless = attempt(replace(MPICH, device=""), ETH)
    assert isinstance(nameless, NotMeasured) and "metadata name no device" in str(nameless)


def test_a_build_with_both_netmods_takes_its_first_but_ofi_for_loopback() -> None:
    # UCX 1.20.0 and 1.20.1 cannot connect over lo.
    assert setting_of(MPICH, ETH).env["MPIR_CVAR_CH4_NETMOD"] == "ucx"
    assert setting_of(MPICH, LO).env["MPIR_CVAR_CH4_NETMOD"] == "ofi"
    assert setting_of(MPICH_UCX, LO).env["MPIR_CVAR_CH4_NETMOD"] == "ucx"
    swapped = replace(MPICH, device="ch4:ofi ucx")
    assert setting_of(swapped, ETH).env["MPIR_CVAR_CH4_NETMOD"] == "ofi"


def test_several_rails() -> None:
    both = setting_of(INTEL, OPA2)
    assert both.env["PSM2_MULTIRAIL"] == "0" and "HFI_UNIT" not in both.env
    assert setting_of(INTEL, replace(OPA2, rails=OPA2.rails[1:])).env["HFI_UNIT"] == "1"
    two = replace(EDR, rails=(Rail("mlx5_0"), Rail("mlx5_1")))
    ucx = setting_of(OPENMPI, two)
    assert ucx.env["UCX_NET_DEVICES"] == "mlx5_0:1,mlx5_1:1"
    assert {ucx.env[name] for name in UCX_BOTH} == {"1"}
    assert setting_of(MVAPICH2, replace(two, transport="verbs")).env["MV2_IBA_HCA"] == "mlx5_0:mlx5_1"


def test_one_rail_where_the_setting_takes_one() -> None:
    two = replace(ETH, rails=(Rail("eth1"), Rail("eth2")))
    outcome = attempt(INTEL, two)
    assert isinstance(outcome, NotMeasured) and "FI_TCP_IFACE" in str(outcome) and "eth1g has 2" in str(outcome)
    assert setting_of(OPENMPI, two).env["OMPI_MCA_btl_tcp_if_include"] == "eth1,eth2"


TWO_IB = replace(EDR, rails=(Rail("mlx5_0"), Rail("mlx5_1")))
TWO_ETH = replace(ETH, rails=(Rail("eth1"), Rail("eth2")))
UCX_BOTH = {"UCX_MAX_EAGER_RAILS": "2", "UCX_MAX_RNDV_RAILS": "2", "UCX_MAX_RMA_RAILS": "2"}
OB1_BOTH = {"OMPI_MCA_pml_ob1_max_send_per_range": "2", "OMPI_MCA_pml_ob1_max_rdma_per_request": "2"}


@pytest.mark.parametrize(
    ("stack", "fabric", "wanted"),
    [
        (INTEL, OPA2, {"PSM2_MULTIRAIL": "1"}),
        (INTEL, TWO_IB, UCX_BOTH),
        (make_stack("intelmpi", "2018.4"), OPA2, {"PSM2_MULTIRAIL": "1"}),
        (MPICH, OPA2, {"PSM2_MULTIRAIL": "1"}),
        (MPICH_UCX, TWO_IB, UCX_BOTH),
        (MPICH_UCX, TWO_ETH, UCX_BOTH),
        (OPENMPI, OPA2, {"PSM2_MULTIRAIL": "1"}),
        (OPENMPI, TWO_IB, UCX_BOTH),
        (OPENMPI, TWO_ETH, OB1_BOTH),
        (OPENMPI_4, replace(TWO_IB, transport="verbs"), OB1_BOTH),
        (MVAPICH2, replace(TWO_IB, transport="verbs"), {"MV2_NUM_HCAS": "2", "MV2_RAIL_SHARING_LARGE_MSG_THRESHOLD": "16384"}),
    ],
)
def test_striping_is_asked_for_in_each_mpis_words(stack: Stack, fabric: Fabric, wanted: dict[str, str]) -> None:
    """And neither setting is that of the same rails without it."""
    striped = setting_of(stack, replace(fabric, striped=True))
    assert {name: striped.env.get(name) for name in wanted} == wanted
    assert striped.asked.endswith(", striped") and ", striped" in striped.summary
    apart = setting_of(stack, fabric)
    assert all(apart.env.get(name) != value for name, value in wanted.items() if name != "MV2_NUM_HCAS")
    assert not any("HFI_UNIT" in name for name in striped.env)


@pytest.mark.parametrize(
    ("stack", "fabric"),
    [
        (INTEL, replace(TWO_IB, transport="verbs")),
        (INTEL, replace(OPA2, transport="opx")),
        (make_stack("pempi", "4.3"), replace(TWO_IB, transport="verbs")),
        (make_stack("mvapich2", "1.5", "ch3:mrail"), replace(TWO_IB, transport="verbs")),
    ],
)
def test_an_mpi_that_cannot_stripe_is_not_measured_as_if_it_did(stack: Stack, fabric: Fabric) -> None:
    assert not isinstance(attempt(stack, fabric), NotMeasured), "it can use the rails one by one"
    outcome = attempt(stack, replace(fabric, striped=True))
    assert isinstance(outcome, NotMeasured) and "has no setting by which one rank stripes its messages" in str(outcome)
    with refused_as("fabric-unusable", match=r"striped needs two rails or more, and it has 1\."):
        setting_of(stack, replace(fabric, rails=fabric.rails[:1], striped=True))


def test_ip_interfaces_of_an_rdma_fabric_are_optional() -> None:
    plain = fabric_of("verbs", "cluster")
    assert "FI_VERBS_IFACE" not in setting_of(INTEL, plain).env
    assert setting_of(INTEL, replace(plain, tcp_interfaces=("ib0",))).env["FI_VERBS_IFACE"] == "ib0"


@pytest.mark.parametrize(
    ("fabric", "words"),
    [
        (Fabric("net", "myrinet", "cluster", (Rail("myri0"),)), "transport 'myrinet' is not one of"),
        (Fabric("net", "tcp", "rack", (Rail("eth0"),)), "scope 'rack'"),
        (Fabric("net", "tcp", "cluster"), "needs the device of at least one rail"),
        (Fabric("net", "shm", "cluster"), "shared memory has scope node"),
        (Fabric("net", "shm", "node", (Rail("eth0"),)), "no rails"),
        (Fabric("net", "psm2", "cluster", (Rail("ib"),)), "hfi1_0"),
    ],
)
def test_bad_fabrics_are_refused_in_one_sentence(fabric: Fabric, words: str) -> None:
    with refused_as("fabric-unusable") as caught:
        setting_of(INTEL, fabric)
    assert words in str(caught.value) and str(caught.value).startswith("fabric net: ")


def test_every_mpi_has_a_title_and_rows_of_its_own() -> None:
    known = registry.known()
    assert {"intelmpi", "mpich", "openmpi", "mvapich2", "mvapich", "pempi"} <= set(known)
    assert all(mpi.title and mpi.rows and mpi.gaps and mpi.launchers for mpi in known.values())
    assert len({mpi.title for mpi in known.values()}) == len(known)


def test_where_a_setting_takes_an_adapters_number_its_name_must_end_in_one() -> None:
    """The template of a site has a word to replace in its place: ``FILL_IN: hfi1_0 (opainfo)``."""
    rows = [row for mpi in registry.known().values() for row in mpi.rows]
    by_number = {
        row.transport for row in rows for env in (row.env, *row.by_rails.values()) if "{unit}" in "".join(env.values())
    }
    assert by_number == {name for name, transport in TRANSPORTS.items() if transport.numbered} == {"psm2", "opx"}
    for name in sorted(by_number):
        fabric = Fabric("opa", name, "cluster", (Rail("FILL_IN: hfi1_0 (opainfo)"),))
        with refused_as("fabric-unusable", match=f"fabric opa: {name} needs adapter names that end in a number"):
            setting_of(INTEL, fabric)

"""Cray MPICH and ParaStation MPI: nobody here could run them, so their
evidence is held against lines that others recorded.
"""

from __future__ import annotations

import re
from dataclasses import replace

import pytest

from reframe_tests.harness.cases.job.transports import check_proofs, strip_debug
from reframe_tests.harness.machine.fabric import Fabric, Rail
from reframe_tests.harness.mpis import registry
from transport_cases import EDR, GOLDEN, OPA2, SHM, make_stack, setting_of

CRAY = make_stack("craympich", "8.1.28", "ch4:ofi")
CRAY_UCX = make_stack("craympich", "9.0.1", "ch4:ucx")
PARASTATION = make_stack("parastation", "5.10.0-1")
CARDS = tuple(Rail(f"cxi{card}", numa_node=card) for card in range(4))
SS200 = Fabric("ss200", "cxi", "cluster", CARDS[:1])
SS800 = replace(SS200, name="ss800", rails=CARDS)


def blocks() -> dict[str, str]:
    """Recorded lines by the word that heads them; of several blocks of one word the last."""
    parts = re.split(
        r"^## (\w+): .*\n", (GOLDEN / "craympich-lines.txt").read_text(), flags=re.MULTILINE
    )
    return {
        name: text.strip("\n") + "\n" for name, text in zip(parts[1::2], parts[2::2], strict=True)
    }


LINES = blocks()
#: A launch on cxi0: what netmod and each of two ranks say, the
#: latter as recorded but for the numbers.
NETMOD = LINES["verbose"]
CARD = LINES["nic_verbose"].replace(
    "index=1, domain_name=cxi1, numa_node=1", "index=0, domain_name=cxi0, numa_node=0"
)


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        (
            NETMOD.replace("cxi provider", "tcp;ofi_rxm provider") + CARD,
            "reports libfabric provider 'tcp;ofi_rxm'",
        ),
        (
            NETMOD + LINES["nic_verbose"],
            "asked for ss200 (cxi0) over cxi, but Cray MPICH reports NIC 'cxi1'",
        ),
        (NETMOD.replace("cxi0", "hsn0"), "reports NIC 'hsn0'"),
        # Settings are not what was done.
        (LINES["env_display"], "printed no line naming its libfabric provider"),
    ],
)
def test_another_way_than_the_one_asked_for_is_seen(text: str, sentence: str) -> None:
    assert any(sentence in said for said in check_proofs(setting_of(CRAY, SS200), text))


def test_of_several_cards_each_rank_takes_the_one_next_to_it() -> None:
    setting = setting_of(CRAY, SS800)
    assert (
        setting.env["FI_CXI_DEVICE_NAME"] == "cxi0,cxi1,cxi2,cxi3"
        and setting.env["MPICH_OFI_NIC_POLICY"] == "NUMA"
    )
    assert check_proofs(setting, NETMOD + CARD + LINES["nic_verbose"]) == []
    (said,) = check_proofs(setting, NETMOD + CARD + LINES["nic_verbose"].replace("=cxi1", "=cxi7"))
    assert "NIC 'cxi7'" in said


def test_inside_one_node() -> None:
    """Through the card only without both shortcuts; in memory only if no netmod was opened."""
    inside = setting_of(CRAY, replace(SS200, scope="node"))
    assert (inside.env["MPICH_SINGLE_HOST_ENABLED"], inside.env["MPICH_NO_LOCAL"]) == ("0", "1")
    shm = setting_of(CRAY, SHM)
    assert check_proofs(shm, LINES["env_display"]) == []
    (said,) = check_proofs(shm, LINES["env_display"] + NETMOD)
    assert "reports libfabric provider 'cxi'" in said
    (said,) = check_proofs(
        shm,
        LINES["env_display"].replace("HOST_ENABLED                        = 1", "HOST_ENABLED = 0"),
    )
    assert "MPICH_SINGLE_HOST_ENABLED '0'" in said


def test_its_lines_are_parted_from_the_benchmarks() -> None:
    table = "#bytes #repetitions\n            0         1000\nPE wrote nothing here\n"
    printed = "".join(
        LINES[name]
        for name in ("banner", "env_display", "verbose", "nic_verbose", "no_local", "summary")
    )
    clean, debug = strip_debug(CRAY, printed + table)
    assert (clean, debug) == (table, printed)
    for error in (
        "PE 1: MPICH: fatal error in cxi\n",
        "MPICH ERROR [Rank 0] [job id 1] - Abort(1)\n",
        "PE 0: open failed\n",
    ):
        assert strip_debug(CRAY, error) == (error, "")


@pytest.mark.parametrize("name", ["libmpi_gnu_91.so.12", "libmpi.so.12"])
def test_names_of_its_libraries(name: str) -> None:
    assert registry.abi_of(name) == "mpich" and name.partition(".so.")[0] in registry.libraries()


# ---- ParaStation MPI ----


def connected(*plugins: str) -> str:
    """``DPRINT(D_CONTYPE, "CONNECT %s via %s%s", ...)`` of pscom's
    lib/pscom/pscom_con.c, and ACCEPT likewise.
    """
    ends = [
        f"<PSP:r0000000:CONNECT (0,n1,r0000000) to (1,n2,r0000001) via {plugin}>\n"
        for plugin in plugins
    ]
    return (
        "".join(ends)
        + "<PSP:r0000001:ACCEPT  (1,n2,r0000001) to (0,n1,r0000000) via "
        + plugins[0]
        + ">\n"
    )


VERBS = Fabric("hdr200", "verbs", "cluster", (Rail("mlx5_0", port=1),))


def test_pscom_names_the_plugin_of_each_connection() -> None:
    setting = setting_of(PARASTATION, VERBS)
    assert (
        setting.env["PSP_OPENIB"],
        setting.env["PSP_TCP"],
        setting.env["PSP_UCP"],
        setting.env["PSP_SHM"],
    ) == ("1", *"001")
    assert setting.env["PSP_OPENIB_HCA"] == "mlx5_0"
    assert check_proofs(setting, connected("openib", "shm")) == []
    assert "pscom connection type 'tcp'" in check_proofs(setting, connected("openib", "tcp"))[0]
    assert "printed no line naming its pscom connection type" in check_proofs(setting, "")[0]
    inside = setting_of(PARASTATION, replace(VERBS, scope="node"))
    assert inside.env["PSP_SHM"] == "0"
    assert "pscom connection type 'shm'" in check_proofs(inside, connected("openib", "shm"))[0]
    assert check_proofs(setting_of(PARASTATION, SHM), connected("shm")) == []


def test_pscom_over_ucx_and_psm2() -> None:
    ucx = setting_of(PARASTATION, EDR)
    lanes = "ucp_worker.c:1888 UCX  INFO    inter-node cfg#1 tag(rc_mlx5/mlx5_0:1)\n"
    assert check_proofs(ucx, connected("ucp", "shm") + lanes) == []
    assert any(
        "UCX lane 'tcp/eth0'" in said
        for said in check_proofs(
            ucx, connected("ucp") + lanes.replace("rc_mlx5/mlx5_0:1", "tcp/eth0")
        )
    )
    assert check_proofs(setting_of(PARASTATION, OPA2), connected("psm")) == []


# ---- HPC-X ----


def test_a_release_candidate_is_read_to_its_last_number() -> None:
    """HPC-X brings Open MPI 4.1.7rc1 and the like; MVAPICH2's tarball is 2.3.7-1."""
    assert make_stack("openmpi", "4.1.7rc1").version_tuple == (4, 1, 7)
    assert (
        PARASTATION.version_tuple == (5, 10, 0)
        and make_stack("mpich", "unknown").version_tuple == ()
    )

"""How each MPI sends memory of GPUs: no GPU is here, so it is held against
manuals, sources and lines that others recorded.
"""

from __future__ import annotations

import itertools
import re
from dataclasses import replace

import pytest

from reframe_tests.harness.cases.job.transports import check_proofs, strip_debug
from reframe_tests.harness.machine.fabric import Fabric, Rail
from reframe_tests.harness.machine.gpu import KINDS, Memory
from reframe_tests.harness.mpis import registry, shared_evidence
from reframe_tests.harness.suites import osu
from reframe_tests.harness.vocabulary import NotMeasured
from transport_cases import (
    EDR,
    ETH,
    GOLDEN,
    INTEL,
    MVAPICH2,
    OF_GPUS,
    OPENMPI,
    OPENMPI_4,
    attempt,
    every_stack,
    fabric_of,
    golden,
    knowing,
    make_stack,
    setting_of,
)

PARTS = re.split(r"^## (\w+): .*\n", (GOLDEN / "gpu-lines.txt").read_text(), flags=re.MULTILINE)
LINES = dict(zip(PARTS[1::2], PARTS[2::2], strict=True))
SLINGSHOT = Fabric("ss200", "cxi", "cluster", (Rail("cxi0"),))
CRAY = make_stack("craympich", "8.1.28", "ch4:ofi")
CRAY_UCX = make_stack("craympich", "9.0.1", "ch4:ucx")
PARASTATION = make_stack("parastation", "5.10.0-1")
MPICH_OFI = make_stack("mpich", "5.0.2", "ch4:ofi")
IPC = {kind: fabric_of("gpu_ipc", "node", kind) for kind in KINDS}
UCX_LIBRARY = {kind: [f"/opt/ucx/lib/ucx/libuct_{kind}.so.0.0.0"] for kind in KINDS}


def of_gpus(fabric: Fabric, kind: str) -> Fabric:
    return replace(fabric, memory=Memory("device", kind))


# ---- the table as a whole ----


@pytest.mark.parametrize("kind", KINDS)
def test_every_mpi_and_transport_has_what_memory_of_gpus_needs_or_a_reason_of_its_own(
    kind: str,
) -> None:
    resolved: dict[str, set[str]] = {}
    for stack, transport, scope in itertools.product(every_stack(), OF_GPUS, ("node", "cluster")):
        if scope == "cluster" and transport in ("shm", "gpu_ipc"):
            continue
        outcome = attempt(knowing(stack, kind), fabric_of(transport, scope, kind))
        if isinstance(outcome, NotMeasured):
            assert str(outcome).endswith("."), str(outcome)
            assert "nothing is known" not in str(outcome), str(outcome)
            continue
        resolved.setdefault(stack.mpi, set()).add(transport)
        assert outcome.memory.manual and outcome.summary
        assert set(outcome.memory.env) <= set(outcome.env) and set(outcome.memory.debug_env) <= set(
            outcome.debug_env
        )
        assert not re.search(r"\{[a-z_]+\}", " ".join(outcome.env.values()))
        assert check_proofs(outcome, "", ["/opt/mpi/lib/libmpi.so.12"]), outcome.summary
        if transport != "gpu_ipc":
            host = setting_of(stack, fabric_of(transport, scope))
            assert set(host.env) <= set(outcome.env) and not set(host.env) & {
                *outcome.memory.env
            } - {"UCX_TLS", "OMPI_MCA_btl"}
    assert set(resolved) == {*registry.known()} - (
        {"pempi"} if kind == "cuda" else {"pempi", "intelmpi", "parastation"}
    )
    assert all("gpu_ipc" in transports for mpi, transports in resolved.items() if mpi != "mvapich2")


def test_replaced_proofs_are_there() -> None:
    for row in (row for mpi in registry.known().values() for row in mpi.rows):
        for memory in row.memory.values():
            for table in (row, memory):
                proofs = [*table.proofs, *itertools.chain(*table.proofs_by_scope.values())]
                assert set(memory.replaces) <= {proof.subject for proof in proofs}
                assert all(re.compile(proof.pattern).groups == 1 for proof in proofs)
                assert all(proof.absent or proof.expect for proof in proofs)


def test_host_memory_and_builds_without_gpus_are_as_before() -> None:
    assert "built for CUDA" in str(attempt(knowing(OPENMPI, "cuda"), IPC["rocm"]))
    shipped = of_gpus(replace(EDR, transport="as_shipped"), "cuda")
    assert "no GPUs it was built for" in str(attempt(OPENMPI, shipped)), (
        "a segmentation fault otherwise"
    )
    assert setting_of(knowing(OPENMPI, "cuda"), shipped).env == {}
    may_take = replace(
        shipped, choices=(of_gpus(EDR, "cuda"), of_gpus(fabric_of("shm", "node"), "cuda"))
    )
    asked = setting_of(knowing(OPENMPI, "cuda"), may_take)
    assert (
        asked.memory.without
        == setting_of(knowing(OPENMPI, "cuda"), of_gpus(EDR, "cuda")).memory.without
        != ()
    )
    assert str(attempt(knowing(OPENMPI, "cuda"), of_gpus(fabric_of("shm", "node"), "cuda"))) == (
        "CUDA memory (device) does not lie in shared memory of the host: use transport gpu_ipc."
    )


def test_a_release_that_does_not_know_them_names_the_first_that_does() -> None:
    old = str(
        attempt(
            knowing(make_stack("mpich", "4.0.2", "ch4:ofi"), "cuda"), of_gpus(SLINGSHOT, "cuda")
        )
    )
    assert old == (
        "MPICH 4.0.2 does not send CUDA memory (device) over cxi: use MPICH 4.1 or newer."
    )


# ---- UCX ----


def test_ucx_is_given_its_transports_of_gpus() -> None:
    between, inside = (
        setting_of(knowing(OPENMPI, "cuda"), of_gpus(replace(EDR, scope=scope), "cuda")).env
        for scope in ("cluster", "node")
    )
    assert between["UCX_TLS"] == "self,sm,ib,cuda_copy,gdr_copy,cuda_ipc"
    assert inside["UCX_TLS"] == "self,ib,cuda_copy,gdr_copy", "no memory, no links of the GPUs"
    assert between["UCX_IB_GPU_DIRECT_RDMA"] == inside["UCX_IB_GPU_DIRECT_RDMA"] == "y"


def test_lanes_of_gpus_may_stand_beside_the_network_between_nodes_only() -> None:
    lanes = LINES["ucx_between_nodes"]
    setting = setting_of(knowing(OPENMPI_4, "cuda"), of_gpus(EDR, "cuda"))
    assert check_proofs(setting, lanes, UCX_LIBRARY["cuda"]) == []
    assert (
        check_proofs(setting, lanes.replace("cuda_copy/cuda", "cuda_ipc/cuda"), UCX_LIBRARY["cuda"])
        == []
    )
    (said,) = check_proofs(
        setting, lanes.replace("rc_mlx5/mlx5_0:1", "rc_mlx5/mlx5_3:1"), UCX_LIBRARY["cuda"]
    )
    assert "reports UCX lane 'rc_mlx5/mlx5_3:1'" in said
    inside = setting_of(knowing(OPENMPI_4, "cuda"), of_gpus(replace(EDR, scope="node"), "cuda"))
    assert check_proofs(inside, lanes.replace("knem/memory ", ""), UCX_LIBRARY["cuda"]) == []
    for lane in ("cuda_ipc/cuda", "sysv/memory"):
        (said,) = check_proofs(inside, lanes.replace("knem/memory", lane), UCX_LIBRARY["cuda"])
        assert f"reports UCX lane '{lane}'" in said


def test_ucx_without_a_module_of_the_gpus_is_missing_evidence() -> None:
    setting = setting_of(knowing(OPENMPI_4, "cuda"), of_gpus(EDR, "cuda"))
    for mapped in (["/opt/ucx/lib/libucp.so.0"], UCX_LIBRARY["rocm"]):
        assert check_proofs(setting, LINES["ucx_between_nodes"], mapped) == [
            "Open MPI has mapped no library that is its UCX module of CUDA; evidence missing."
        ]


def test_gpus_of_a_node_are_shown_by_their_own_lane() -> None:
    lanes = LINES["ucx_inside_a_node"]
    setting = setting_of(knowing(OPENMPI, "rocm"), IPC["rocm"])
    chosen = LINES["openmpi_selected"].replace("null", "rocm")
    assert check_proofs(setting, lanes + chosen, UCX_LIBRARY["rocm"]) == []
    (said,) = check_proofs(
        setting, lanes.replace(" rocm_ipc/rocm_ipc", "") + chosen, UCX_LIBRARY["rocm"]
    )
    assert "reports UCX lane 'sysv/memory', 'cma/memory', 'posix/memory'" in said
    setting = setting_of(knowing(OPENMPI, "cuda"), IPC["cuda"])
    recorded = LINES["ucx_cuda_ipc"]
    assert (
        check_proofs(
            setting,
            recorded + LINES["openmpi_selected"].replace("null", "cuda"),
            UCX_LIBRARY["cuda"],
        )
        == []
    )
    notes = setting.notes(recorded)
    assert notes and not any("memory of the host" in note for note in notes)


def test_what_ucx_says_of_its_protocols_is_named() -> None:
    (note,) = shared_evidence.ucx_ways(LINES["ucx_protocols"])
    assert note.endswith(", through memory of the host)")
    # 1.20 pads the process; the memory is another there.
    newer = shared_evidence.ucx_ways(
        LINES["ucx_protocols_of_host"].replace("host memory", "rocm/GPU1")
    )
    assert newer == (
        "UCX, tagged message by ucp_tag_send* from rocm: 1..1727 rendezvous fragmented copy-in "
        "copy-out (sysv/memory, through memory of the host); 1728..inf rendezvous zero-copy "
        "read from remote (cma/memory)",
    )
    (silent,) = shared_evidence.ucx_ways(LINES["ucx_protocols_of_host"])
    assert silent.startswith("nothing shows whether")


def test_what_an_mpi_does_not_do_in_memory_of_gpus_is_left_out_and_named() -> None:
    setting = setting_of(knowing(OPENMPI, "cuda"), of_gpus(EDR, "cuda"))
    without = set(setting.memory.without)
    tried = ("put_bw", "fop_latency", "ireduce", "iallgather", "allreduce_persistent", "bw")
    rows = {row.name.removeprefix("osu_"): row for row in osu.ROWS}
    undone = {name for name in tried if without & set(rows[name].operations)}
    assert undone == set(tried) - {"iallgather", "bw"}
    assert any(note.startswith("left out, as Open MPI does none") for note in setting.notes(""))


# ---- libfabric ----


def test_open_mpi_that_stages_without_a_word_is_caught() -> None:
    _, err = golden("openmpi-5.0.11-ofi-lo")
    chosen = LINES["openmpi_selected"].replace("null", "cuda")
    right = (
        err.replace("mtl:ofi:provider: tcp;ofi_rxm", "mtl:ofi:provider: cxi")
        + chosen
        + LINES["openmpi_given"]
    )
    setting = setting_of(knowing(OPENMPI, "cuda"), of_gpus(SLINGSHOT, "cuda"))
    assert setting.debug_env["OMPI_MCA_opal_common_ofi_verbose"] == "50", (
        "below it Open MPI stages without a word"
    )
    assert check_proofs(setting, right) == []
    (said,) = check_proofs(setting, right + LINES["openmpi_staged"])
    assert "reports handling of device buffers 'Continuing with device to host copies'" in said
    (said,) = check_proofs(setting, right.replace("selected cuda", "selected null"))
    assert "reports accelerator 'null'" in said
    (said,) = check_proofs(setting, right.replace(LINES["openmpi_given"], ""))
    assert "printed no line naming its handling of device buffers" in said


def test_open_mpi_over_tcp_and_psm2() -> None:
    tcp = setting_of(knowing(OPENMPI_4, "cuda"), of_gpus(ETH, "cuda"))
    assert tcp.env["OMPI_MCA_btl"] == "self,smcuda,tcp" and "copies every byte" in tcp.notes("")[0]
    lines = (
        "btl: tcp: Using interface: eth1\nmca: bml: Using tcp btl for send to a\nmca: bml: "
        "Using smcuda btl for send to b\n"
    )
    assert check_proofs(tcp, lines) == []
    assert "BTL 'vader'" in check_proofs(tcp, lines.replace("smcuda", "vader"))[0]


def test_mpich_says_its_platform_and_whether_libfabric_gets_device_memory() -> None:
    setting = setting_of(knowing(MPICH_OFI, "cuda"), of_gpus(SLINGSHOT, "cuda"))
    assert (setting.env["MPIR_CVAR_ENABLE_GPU"], setting.env["MPIR_CVAR_CH4_OFI_ENABLE_HMEM"]) == (
        "1",
        "1",
    )
    right = "libfabric provider: cxi\n" + LINES["mpich"]
    assert check_proofs(setting, right) == []
    without = LINES["mpich_without_hmem"].replace("provider: tcp", "provider: cxi")
    assert (
        "MPIDI_OFI_ENABLE_HMEM '0'"
        in check_proofs(setting, without + LINES["mpich"].replace("HMEM: 1", ""))[0]
    )
    assert "GPU Init 'HIP'" in check_proofs(setting, right.replace("CUDA", "HIP"))[0]


# ---- Cray MPICH, Intel MPI, MVAPICH2-GDR, ParaStation MPI ----


def test_cray_mpich_is_linked_with_the_library_of_its_gpus() -> None:
    recorded = LINES["cray"]
    netmod = "PE 0: MPICH CH4 OFI netmod using cxi provider (domain_name=cxi0)\n"
    setting = setting_of(knowing(CRAY, "rocm"), of_gpus(SLINGSHOT, "rocm"))
    gtl = ["/opt/cray/pe/lib64/libmpi_gtl_hsa.so.0.0.0"]
    assert check_proofs(setting, recorded + netmod, gtl) == []
    (said,) = check_proofs(setting, recorded + netmod, ["/opt/cray/pe/lib64/libmpi_gtl_cuda.so.0"])
    assert "has mapped GPU transport library (GTL) 'libmpi_gtl_cuda'" in said
    (said,) = check_proofs(setting, recorded + netmod, ["/opt/cray/pe/lib64/libmpi_gnu_91.so.12"])
    assert (
        said
        == "Cray MPICH has mapped no library that is its GPU transport library (GTL); evidence "
        "missing."
    )
    (said,) = check_proofs(
        setting,
        recorded.replace("SUPPORT_ENABLED                      = 1", "SUPPORT_ENABLED = 0")
        + netmod,
        gtl,
    )
    assert "MPICH_GPU_SUPPORT_ENABLED '0'" in said
    ipc = setting_of(knowing(CRAY, "rocm"), IPC["rocm"])
    assert [
        "MPICH_GPU_IPC_THRESHOLD '1024'" in said for said in check_proofs(ipc, recorded, gtl)
    ] == [True]
    assert check_proofs(ipc, recorded.replace("= 1024", "= 1"), gtl) == []


def test_intel_mpi_that_turns_its_support_off_is_caught() -> None:
    setting = setting_of(knowing(INTEL, "cuda"), IPC["cuda"])
    recorded = LINES["intel"].replace("FABRICS=ofi", "FABRICS=shm")
    assert check_proofs(setting, recorded) == []
    (said,) = check_proofs(setting, recorded + LINES["intel_without_ipc"])
    assert "reports support of GPUs 'GPU IPC will be disabled'" in said
    verbs = setting_of(knowing(INTEL, "cuda"), fabric_of("verbs", "node", "cuda"))
    recorded = LINES["intel"].replace("provider: tcp", "provider: verbs;ofi_rxm")
    assert check_proofs(verbs, recorded) == []
    (said,) = check_proofs(verbs, recorded + LINES["intel_without_hmem"])
    assert "reports support of GPUs 'FI_HMEM not detected in provider'" in said
    assert strip_debug(INTEL, recorded + LINES["intel_without_hmem"])[0] == ""


def test_mvapich2_and_parastation() -> None:
    mrail = knowing(MVAPICH2, "cuda")
    inside, between = (
        setting_of(mrail, fabric_of("verbs", scope, "cuda")).env for scope in ("node", "cluster")
    )
    assert (
        between["MV2_USE_CUDA"] == between["MV2_USE_GPUDIRECT"] == "1"
        and "MV2_CUDA_IPC" not in between
    )
    assert inside["MV2_CUDA_IPC"] == "0"
    ipc = setting_of(knowing(PARASTATION, "cuda"), IPC["cuda"])
    lanes = LINES["ucx_inside_a_node"].replace("rocm_ipc/rocm_ipc", "cuda_ipc/cuda")
    connected = "<PSP:r0000000:CONNECT (0,n1,r0000000) to (1,n1,r0000001) via ucp>\n"
    assert check_proofs(ipc, lanes + connected, UCX_LIBRARY["cuda"]) == []

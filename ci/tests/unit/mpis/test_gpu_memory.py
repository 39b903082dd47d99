"""How each MPI sends memory of GPUs: no GPU is here, so it is held against manuals, sources and lines that others recorded."""

from __future__ import annotations

import itertools
import re
from dataclasses import replace

import pytest

from reframe_tests.harness.cases.job.transports import Setting, check_proofs, strip_debug
from reframe_tests.harness.machine.fabric import Fabric, Rail
from reframe_tests.harness.machine.gpu import KINDS, Memory
from reframe_tests.harness.mpis import registry, shared_evidence
from reframe_tests.harness.stacks.stack import Stack
from reframe_tests.harness.suites import osu
from reframe_tests.harness.vocabulary import ROOT, NotMeasured
from transport_cases import (
    EDR,
    ETH,
    GOLDEN,
    INTEL,
    LO,
    MPICH_UCX,
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
def test_every_mpi_and_transport_has_what_memory_of_gpus_needs_or_a_reason_of_its_own(kind: str) -> None:
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
        assert set(outcome.memory.env) <= set(outcome.env) and set(outcome.memory.debug_env) <= set(outcome.debug_env)
        assert not re.search(r"\{[a-z_]+\}", " ".join(outcome.env.values()))
        assert check_proofs(outcome, "", ["/opt/mpi/lib/libmpi.so.12"]), outcome.summary
        if transport != "gpu_ipc":
            host = setting_of(stack, fabric_of(transport, scope))
            assert set(host.env) <= set(outcome.env) and not set(host.env) & {*outcome.memory.env} - {"UCX_TLS", "OMPI_MCA_btl"}
    assert set(resolved) == {*registry.known()} - ({"pempi"} if kind == "cuda" else {"pempi", "intelmpi", "parastation"})
    assert all("gpu_ipc" in transports for mpi, transports in resolved.items() if mpi != "mvapich2")


def test_replaced_proofs_are_there_and_every_pattern_has_one_group() -> None:
    for row in (row for mpi in registry.known().values() for row in mpi.rows):
        for memory in row.memory.values():
            own = [*row.proofs, *itertools.chain.from_iterable(row.proofs_by_scope.values())]
            more = [*memory.proofs, *itertools.chain.from_iterable(memory.proofs_by_scope.values())]
            assert set(memory.replaces) <= {proof.subject for proof in own}
            assert set(memory.replaces) <= {proof.subject for proof in more}
            assert all(re.compile(proof.pattern).groups == 1 and (proof.absent or proof.expect) for proof in more)
            assert len(memory.manual) > 20
        assert row.transport != "gpu_ipc" or row.memory


def test_the_page_names_each_transport_and_its_first_version() -> None:
    text = (ROOT / "docs/reference/mpis-and-launchers.md").read_text()
    page: dict[tuple[str, str], tuple[str, str]] = {}
    cells = r"^\| ([^|]+?)(?: \([^|]*\))? \| (`[^|]+`) \| ([\d.]*) *\| ([\d.]*) *\| [^|]+ \|$"
    for title, transports, cuda, rocm in re.findall(cells, text, re.MULTILINE):
        page |= {(title, name): (cuda, rocm) for name in re.findall(r"`(\w+)`", transports)}
    table: dict[tuple[str, str], tuple[str, str]] = {}
    for title, row in ((mpi.title, row) for mpi in registry.known().values() for row in mpi.rows if row.memory):
        since = (max(row.memory[kind].since, row.versions.since) if kind in row.memory else () for kind in ("cuda", "rocm"))
        cuda, rocm = (".".join(map(str, version)) for version in since)
        table.setdefault((title, row.transport), (cuda, rocm))
    assert page == table


def test_host_memory_and_builds_without_gpus_are_as_before() -> None:
    assert not any("CUDA" in name or "GPU" in name for name in setting_of(knowing(OPENMPI, "cuda"), EDR).env)
    assert "built for no" in str(attempt(OPENMPI, IPC["cuda"])) or "no GPUs it was built for" in str(
        attempt(OPENMPI, IPC["cuda"])
    )
    assert "built for CUDA" in str(attempt(knowing(OPENMPI, "cuda"), IPC["rocm"]))
    shipped = of_gpus(replace(EDR, transport="as_shipped"), "cuda")
    assert "no GPUs it was built for" in str(attempt(OPENMPI, shipped)), "a segmentation fault otherwise"
    assert setting_of(knowing(OPENMPI, "cuda"), shipped).env == {}
    may_take = replace(shipped, choices=(of_gpus(EDR, "cuda"), of_gpus(fabric_of("shm", "node"), "cuda")))
    asked = setting_of(knowing(OPENMPI, "cuda"), may_take)
    assert asked.memory.without == setting_of(knowing(OPENMPI, "cuda"), of_gpus(EDR, "cuda")).memory.without != ()
    assert setting_of(knowing(MPICH_OFI, "cuda"), may_take).memory.without == ()
    assert str(attempt(knowing(OPENMPI, "cuda"), of_gpus(fabric_of("shm", "node"), "cuda"))) == (
        "CUDA memory (device) does not lie in shared memory of the host: use transport gpu_ipc."
    )


def test_a_release_that_does_not_know_them_names_the_first_that_does() -> None:
    old = str(attempt(knowing(make_stack("mpich", "4.0.2", "ch4:ofi"), "cuda"), of_gpus(SLINGSHOT, "cuda")))
    assert old == "MPICH 4.0.2 does not send CUDA memory (device) over cxi: use MPICH 4.1 or newer."
    assert "use Open MPI 5 or newer" in str(attempt(knowing(OPENMPI_4, "cuda"), of_gpus(fabric_of("efa", "cluster"), "cuda")))
    assert "use 2021.13 or newer" in str(attempt(knowing(make_stack("intelmpi", "2021.9"), "cuda"), IPC["cuda"]))
    assert "GPUs of Intel and NVIDIA only" in str(attempt(knowing(INTEL, "rocm"), of_gpus(EDR, "rocm")))


# ---- UCX ----


@pytest.mark.parametrize("stack", [OPENMPI, OPENMPI_4, MPICH_UCX, CRAY_UCX], ids=lambda stack: stack.mpi)
def test_ucx_is_given_its_transports_of_gpus(stack: object) -> None:
    between = setting_of(knowing(stack, "cuda"), of_gpus(EDR, "cuda"))  # type: ignore[arg-type]
    assert between.env["UCX_TLS"] == "self,sm,ib,cuda_copy,gdr_copy,cuda_ipc"
    inside = setting_of(knowing(stack, "cuda"), of_gpus(replace(EDR, scope="node"), "cuda"))  # type: ignore[arg-type]
    assert inside.env["UCX_TLS"] == "self,ib,cuda_copy,gdr_copy", "neither shared memory nor the GPUs' links"
    assert between.env["UCX_IB_GPU_DIRECT_RDMA"] == inside.env["UCX_IB_GPU_DIRECT_RDMA"] == "y"


def test_lanes_of_gpus_may_stand_beside_the_network_between_nodes_only() -> None:
    lanes = LINES["ucx_between_nodes"]
    setting = setting_of(knowing(OPENMPI_4, "cuda"), of_gpus(EDR, "cuda"))
    assert check_proofs(setting, lanes, UCX_LIBRARY["cuda"]) == []
    assert check_proofs(setting, lanes.replace("cuda_copy/cuda", "cuda_ipc/cuda"), UCX_LIBRARY["cuda"]) == []
    (said,) = check_proofs(setting, lanes.replace("rc_mlx5/mlx5_0:1", "rc_mlx5/mlx5_3:1"), UCX_LIBRARY["cuda"])
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
    assert (setting.env["UCX_TLS"], setting.env["UCX_RNDV_THRESH"]) == ("self,sm,rocm_copy,rocm_ipc", "128")
    assert setting.env["OMPI_MCA_accelerator"] == "rocm"
    chosen = LINES["openmpi_selected"].replace("null", "rocm")
    assert check_proofs(setting, lanes + chosen, UCX_LIBRARY["rocm"]) == []
    (said,) = check_proofs(setting, lanes.replace(" rocm_ipc/rocm_ipc", "") + chosen, UCX_LIBRARY["rocm"])
    assert "reports UCX lane 'sysv/memory', 'cma/memory', 'posix/memory'" in said
    setting = setting_of(knowing(OPENMPI, "cuda"), IPC["cuda"])
    assert setting.env["UCX_TLS"] == "self,sm,cuda_copy,cuda_ipc" and setting.env["UCX_RNDV_SCHEME"] == "put_zcopy"
    recorded = LINES["ucx_cuda_ipc"]
    assert check_proofs(setting, recorded + LINES["openmpi_selected"].replace("null", "cuda"), UCX_LIBRARY["cuda"]) == []
    assert setting.notes(recorded) and not any("memory of the host" in note for note in setting.notes(recorded))


def test_what_ucx_says_of_its_protocols_is_named() -> None:
    (note,) = shared_evidence.ucx_ways(LINES["ucx_protocols"])
    assert note.startswith(
        "UCX, tagged message by ucp_tag_send*() from cuda: 0..8246 eager zero-copy copy-out (rc_mlx5/mlx5_0:1"
    )
    assert "; 811556..inf rendezvous pipeline cuda_copy, fenced write to remote, cuda (rc_mlx5/mlx5_0:1, " in note
    assert note.endswith(", through memory of the host)")
    direct = LINES["ucx_protocols"].replace("pipeline cuda_copy, fenced write to remote, cuda", "zero-copy read from remote")
    assert shared_evidence.ucx_ways(direct)[0].endswith("811556..inf rendezvous zero-copy read from remote (rc_mlx5/mlx5_0:1)")
    # 1.20 pads the process; the memory is another there.
    newer = shared_evidence.ucx_ways(LINES["ucx_protocols_of_host"].replace("host memory", "rocm/GPU1"))
    assert newer == (
        "UCX, tagged message by ucp_tag_send* from rocm: 1..1727 rendezvous fragmented copy-in copy-out (sysv/memory, through "
        "memory of the host); 1728..inf rendezvous zero-copy read from remote (cma/memory)",
    )
    (silent,) = shared_evidence.ucx_ways(LINES["ucx_protocols_of_host"])
    assert silent.startswith("nothing shows whether")
    setting = setting_of(knowing(OPENMPI, "cuda"), of_gpus(EDR, "cuda"))
    assert setting.notes(LINES["ucx_protocols"])[0] == note and setting_of(OPENMPI, EDR).notes("") == ()


@pytest.mark.parametrize(
    ("stack", "fabric", "undone"),
    [
        (OPENMPI, EDR, {"osu_put_bw", "osu_fop_latency", "osu_ireduce", "osu_allreduce_persistent"}),
        (OPENMPI, LO, {"osu_fop_latency", "osu_ireduce", "osu_iallgather", "osu_bcast_persistent", "osu_allreduce_persistent"}),
        (MPICH_OFI, SLINGSHOT, set()),
    ],
    ids=["ucx", "ob1", "mpich"],
)
def test_what_an_mpi_does_not_do_in_memory_of_gpus_is_left_out_and_named(
    stack: Stack, fabric: Fabric, undone: set[str]
) -> None:
    setting = setting_of(knowing(stack, "cuda"), of_gpus(fabric, "cuda"))
    without, rows = set(setting.memory.without), {row.name: row for row in osu.ROWS}
    tried = ("put_bw", "fop_latency", "ireduce", "iallgather", "bcast_persistent", "allreduce_persistent", "allreduce", "bw")
    assert {f"osu_{name}" for name in tried if without & set(rows[f"osu_{name}"].operations)} == undone
    assert [note for note in setting.notes("") if note.startswith("left out")] == (
        [f"left out, as Open MPI does none in memory of GPUs: {', '.join(setting.memory.without)}"] if undone else []
    )


# ---- libfabric ----


def test_open_mpi_that_stages_without_a_word_is_caught() -> None:
    _, err = golden("openmpi-5.0.11-ofi-lo")
    chosen = LINES["openmpi_selected"].replace("null", "cuda")
    right = err.replace("mtl:ofi:provider: tcp;ofi_rxm", "mtl:ofi:provider: cxi") + chosen + LINES["openmpi_given"]
    setting = setting_of(knowing(OPENMPI, "cuda"), of_gpus(SLINGSHOT, "cuda"))
    assert setting.debug_env["OMPI_MCA_opal_common_ofi_verbose"] == "50", "below it Open MPI stages without a word"
    assert check_proofs(setting, right) == []
    (said,) = check_proofs(setting, right + LINES["openmpi_staged"])
    assert "reports handling of device buffers 'Continuing with device to host copies'" in said
    (said,) = check_proofs(setting, right.replace("selected cuda", "selected null"))
    assert "reports accelerator 'null'" in said
    (said,) = check_proofs(setting, right.replace(LINES["openmpi_given"], ""))
    assert "printed no line naming its handling of device buffers" in said
    older = setting_of(knowing(make_stack("openmpi", "5.0.3"), "cuda"), of_gpus(SLINGSHOT, "cuda"))
    assert check_proofs(older, right.replace(LINES["openmpi_given"], "")) == []


def test_open_mpi_over_tcp_and_psm2() -> None:
    tcp = setting_of(knowing(OPENMPI_4, "cuda"), of_gpus(ETH, "cuda"))
    assert tcp.env["OMPI_MCA_btl"] == "self,smcuda,tcp" and "copies every byte" in tcp.notes("")[0]
    lines = "btl: tcp: Using interface: eth1\nmca: bml: Using tcp btl for send to a\nmca: bml: Using smcuda btl for send to b\n"
    assert check_proofs(tcp, lines) == []
    assert "BTL 'vader'" in check_proofs(tcp, lines.replace("smcuda", "vader"))[0]
    psm2 = setting_of(knowing(OPENMPI_4, "cuda"), fabric_of("psm2", "cluster", "cuda"))
    assert (psm2.env["PSM2_CUDA"], psm2.env["PSM2_GPUDIRECT"]) == ("1", "1")


def test_mpich_says_its_platform_and_whether_libfabric_gets_device_memory() -> None:
    setting = setting_of(knowing(MPICH_OFI, "cuda"), of_gpus(SLINGSHOT, "cuda"))
    assert (setting.env["MPIR_CVAR_ENABLE_GPU"], setting.env["MPIR_CVAR_CH4_OFI_ENABLE_HMEM"]) == ("1", "1")
    right = "libfabric provider: cxi\n" + LINES["mpich"]
    assert check_proofs(setting, right) == []
    without = LINES["mpich_without_hmem"].replace("provider: tcp", "provider: cxi")
    assert "MPIDI_OFI_ENABLE_HMEM '0'" in check_proofs(setting, without + LINES["mpich"].replace("HMEM: 1", ""))[0]
    assert "GPU Init 'HIP'" in check_proofs(setting, right.replace("CUDA", "HIP"))[0]
    assert "naming its GPU Init" in check_proofs(setting, "libfabric provider: cxi\nMPIDI_OFI_ENABLE_HMEM: 1\n")[0]
    assert strip_debug(MPICH_OFI, right) == ("", right)
    assert "MPIR_CVAR_CH4_OFI_ENABLE_HMEM" not in setting_of(knowing(MPICH_OFI, "cuda"), of_gpus(LO, "cuda")).env
    inside = setting_of(knowing(MPICH_OFI, "rocm"), IPC["rocm"])
    assert inside.env["MPIR_CVAR_CH4_IPC_GPU_P2P_THRESHOLD"] == "0" and "nothing shows" in inside.notes("")[0]
    assert check_proofs(inside, "libfabric provider: shm\n" + LINES["mpich"].replace("CUDA", "HIP")) == []


# ---- Cray MPICH, Intel MPI, MVAPICH2-GDR, ParaStation MPI ----


def test_cray_mpich_is_linked_with_the_library_of_its_gpus() -> None:
    recorded = LINES["cray"]
    netmod = "PE 0: MPICH CH4 OFI netmod using cxi provider (domain_name=cxi0)\n"
    setting = setting_of(knowing(CRAY, "rocm"), of_gpus(SLINGSHOT, "rocm"))
    gtl = ["/opt/cray/pe/lib64/libmpi_gtl_hsa.so.0.0.0"]
    assert setting.env["MPICH_GPU_SUPPORT_ENABLED"] == "1" and "MPICH_OFI_NIC_POLICY" not in setting.env
    assert check_proofs(setting, recorded + netmod, gtl) == []
    (said,) = check_proofs(setting, recorded + netmod, ["/opt/cray/pe/lib64/libmpi_gtl_cuda.so.0"])
    assert "has mapped GPU transport library (GTL) 'libmpi_gtl_cuda'" in said
    (said,) = check_proofs(setting, recorded + netmod, ["/opt/cray/pe/lib64/libmpi_gnu_91.so.12"])
    assert said == "Cray MPICH has mapped no library that is its GPU transport library (GTL); evidence missing."
    (said,) = check_proofs(
        setting, recorded.replace("SUPPORT_ENABLED                      = 1", "SUPPORT_ENABLED = 0") + netmod, gtl
    )
    assert "MPICH_GPU_SUPPORT_ENABLED '0'" in said
    many = of_gpus(replace(SLINGSHOT, rails=(Rail("cxi0"), Rail("cxi1"))), "rocm")
    assert setting_of(knowing(CRAY, "rocm"), many).env["MPICH_OFI_NIC_POLICY"] == "GPU"
    ipc = setting_of(knowing(CRAY, "rocm"), IPC["rocm"])
    assert ["MPICH_GPU_IPC_THRESHOLD '1024'" in said for said in check_proofs(ipc, recorded, gtl)] == [True]
    assert check_proofs(ipc, recorded.replace("= 1024", "= 1"), gtl) == []
    assert strip_debug(CRAY, recorded) == ("", recorded)


def test_intel_mpi_that_turns_its_support_off_is_caught() -> None:
    setting = setting_of(knowing(INTEL, "cuda"), IPC["cuda"])
    assert (setting.env["I_MPI_OFFLOAD"], setting.env["I_MPI_OFFLOAD_MODE"], setting.env["I_MPI_OFFLOAD_IPC"]) == (
        "1",
        "cuda",
        "1",
    )
    recorded = LINES["intel"].replace("FABRICS=ofi", "FABRICS=shm")
    assert check_proofs(setting, recorded) == []
    (said,) = check_proofs(setting, recorded + LINES["intel_without_ipc"])
    assert "reports support of GPUs 'GPU IPC will be disabled'" in said
    verbs = setting_of(knowing(INTEL, "cuda"), fabric_of("verbs", "node", "cuda"))
    assert (verbs.env["I_MPI_OFFLOAD_RDMA"], verbs.env["I_MPI_OFFLOAD_IPC"]) == ("1", "0")
    recorded = LINES["intel"].replace("provider: tcp", "provider: verbs;ofi_rxm")
    assert check_proofs(verbs, recorded) == []
    (said,) = check_proofs(verbs, recorded + LINES["intel_without_hmem"])
    assert "reports support of GPUs 'FI_HMEM not detected in provider'" in said
    assert strip_debug(INTEL, recorded + LINES["intel_without_hmem"])[0] == ""


def test_mvapich2_and_parastation() -> None:
    mrail = knowing(MVAPICH2, "cuda")
    inside, between = (setting_of(mrail, fabric_of("verbs", scope, "cuda")).env for scope in ("node", "cluster"))
    assert between["MV2_USE_CUDA"] == between["MV2_USE_GPUDIRECT"] == "1" and "MV2_CUDA_IPC" not in between
    assert inside["MV2_CUDA_IPC"] == "0"
    assert setting_of(knowing(MVAPICH2, "rocm"), fabric_of("verbs", "cluster", "rocm")).env["MV2_USE_ROCM"] == "1"
    ucx = setting_of(knowing(PARASTATION, "cuda"), of_gpus(EDR, "cuda"))
    assert ucx.env["PSP_CUDA"] == "1" and ucx.env["UCX_TLS"] == "self,ib,cuda_copy,gdr_copy"
    ipc = setting_of(knowing(PARASTATION, "cuda"), IPC["cuda"])
    assert ipc.env["PSP_SHM"] == "0" and ipc.env["PSP_UCP"] == "1"
    lanes = LINES["ucx_inside_a_node"].replace("rocm_ipc/rocm_ipc", "cuda_ipc/cuda")
    connected = "<PSP:r0000000:CONNECT (0,n1,r0000000) to (1,n1,r0000001) via ucp>\n"
    assert check_proofs(ipc, lanes + connected, UCX_LIBRARY["cuda"]) == []
    assert isinstance(attempt(knowing(PARASTATION, "cuda"), fabric_of("psm2", "cluster", "cuda")), NotMeasured)
    assert isinstance(setting_of(knowing(PARASTATION, "cuda"), fabric_of("verbs", "node", "cuda")), Setting)

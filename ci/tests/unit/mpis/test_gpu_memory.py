"""How each MPI sends memory of GPUs: no GPU is here, so it is held against
manuals, sources and lines that others recorded.
"""

import itertools
import re

import pytest

from reframe_tests.harness.cases.job.transports import check_proofs, strip_debug
from reframe_tests.harness.machine.fabric import Fabric, Rail
from reframe_tests.harness.machine.gpu import KINDS, Memory
from reframe_tests.harness.mpis import registry, shared_evidence
from reframe_tests.harness.vocabulary import NotMeasured
from synthetic_stack import (
    GOLDEN,
    INTEL,
    OF_GPUS,
    OPENMPI,
    attempt,
    every_stack,
    fabric_of,
    golden,
    knowing,
    setting_of,
)

PARTS = re.split(r"^## (\w+): .*\n", (GOLDEN / "gpu-lines.txt").read_text(), flags=re.MULTILINE)
LINES = dict(zip(PARTS[1::2], PARTS[2::2], strict=True))


# ---- the table as a whole ----


@pytest.mark.parametrize("kind", KINDS)
def test_every_mpi_and_transport_has_what_memory_of_gpus_needs_or_a_reason_of_its_own(
    kind,
):
    resolved = {}
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
    assert set(resolved) == {
        name
        for name, mpi in registry.known().items()
        if any(kind in row.memory for row in mpi.rows)
    }
    assert all("gpu_ipc" in transports for mpi, transports in resolved.items() if mpi != "mvapich2")


# ---- UCX ----


def test_what_ucx_says_of_its_protocols_is_named():
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


# ---- libfabric ----


def test_open_mpi_that_stages_without_a_word_is_caught():
    _, err = golden("openmpi-5.0.11-ofi-lo")
    chosen = LINES["openmpi_selected"].replace("null", "cuda")
    right = (
        err.replace("mtl:ofi:provider: tcp;ofi_rxm", "mtl:ofi:provider: cxi")
        + chosen
        + LINES["openmpi_given"]
    )
    of_gpus = Memory("device", "cuda")
    slingshot = Fabric("ss200", "cxi", "cluster", (Rail("cxi0"),), memory=of_gpus)
    setting = setting_of(knowing(OPENMPI, "cuda"), slingshot)
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


# ---- Cray MPICH, Intel MPI, MVAPICH2-GDR, ParaStation MPI ----


def test_intel_mpi_that_turns_its_support_off_is_caught():
    setting = setting_of(knowing(INTEL, "cuda"), fabric_of("gpu_ipc", "node", "cuda"))
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

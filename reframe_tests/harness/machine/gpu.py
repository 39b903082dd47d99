"""GPUs of a node, and the memory that messages are sent from and received into.

Memory is part of a fabric: the same rails carry device memory in other ways than host memory
(GPUDirect RDMA, staging through the host). So each memory of a fabric is measured, stored and
judged as a separate fabric (:func:`sites.systems.fabrics_of`).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

#: Memory of the host; every suite and MPI measures it.
HOST = "host"
#: Memory of both ranks as ``memory`` of a fabric has it: the GPU's own, pages that move between
#: host and GPU, and the two mixed pairs, sender first.
DEVICE = "device"
MANAGED = "managed"
HOST_TO_DEVICE = "host_to_device"
DEVICE_TO_HOST = "device_to_host"
MEMORIES = (HOST, DEVICE, MANAGED, HOST_TO_DEVICE, DEVICE_TO_HOST)
#: Variant of an output that says only that some GPU memory was
#: requested; what was started says which.
UNSAID = "memory=unsaid"


@dataclass(frozen=True)
class GpuKind:
    """A platform of GPUs.

    :param name: as ``kind`` of a partition's ``gpus`` has it.
    :param title: name in sentences.
    :param architecture: first letters of what ReFrame calls it
        (``arch`` of a partition's ``devices``).
    :param visible: variable that says which GPUs a process may see, by number: CUDA C++ Programming
        Guide, "CUDA Environment Variables"; ROCm documentation, "GPU isolation techniques".
    :param driver: how the rank records call its kernel driver (``recorder.c``).
    :param narrowing: further variables that hide GPUs from a process, in which a batch system may
        have said the same (Slurm's gres.conf(5), ``Flags``; HIP reads CUDA's name too).
    :param env: variables that make numbers of GPUs those of the kernel's order of PCI addresses.
    """

    name: str
    title: str
    architecture: str
    visible: str
    driver: str
    narrowing: tuple[str, ...] = ()
    env: Mapping[str, str] = field(default_factory=dict)


#: Platforms by name.
KINDS: Mapping[str, GpuKind] = {
    row.name: row
    for row in (
        GpuKind(
            "cuda",
            "CUDA",
            "sm_",
            "CUDA_VISIBLE_DEVICES",
            "NVIDIA driver",
            env={"CUDA_DEVICE_ORDER": "PCI_BUS_ID"},
        ),
        GpuKind(
            "rocm",
            "ROCm",
            "gfx",
            "ROCR_VISIBLE_DEVICES",
            "amdgpu driver",
            narrowing=("HIP_VISIBLE_DEVICES", "CUDA_VISIBLE_DEVICES", "GPU_DEVICE_ORDINAL"),
        ),
    )
}


@dataclass(frozen=True)
class Gpu:
    """One GPU of every node; of AMD's cards with two dies each die is one.

    :param bus_id: PCI address as the kernel writes it
        (``0000:03:00.0``); empty where the site does not say.
    :param numa_node: NUMA node it is on; ``None`` if the site does not say.
    :param cpus: CPUs nearest to it where these are fewer than those of its NUMA
        node (``48-55``: a core complex); empty: those.
    :param nic: device of the rail next to it (``mlx5_0``, ``hsn0``);
        empty where the site does not say.
    """

    bus_id: str = ""
    numa_node: int | None = None
    cpus: str = ""
    nic: str = ""


class Memory(NamedTuple):
    """Where messages are.

    :param word: one of :data:`MEMORIES`.
    :param kind: key of :data:`KINDS`; empty for host memory.
    """

    word: str = HOST
    kind: str = ""

    @property
    def on_gpu(self) -> bool:
        return self.word != HOST

    @property
    def variant(self) -> str:
        """What it adds to the variants of a benchmark, so that numbers of two
        memories never meet; nothing for the host's.
        """
        return f"memory={self.word}" if self.on_gpu else ""

    @property
    def text(self) -> str:
        """As sentences have it: ``CUDA memory (device)``."""
        return f"{KINDS[self.kind].title} memory ({self.word})" if self.on_gpu else "host memory"


#: Memory of the host.
OF_HOST = Memory()

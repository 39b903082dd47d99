"""A transport: a way in which ranks exchange bytes, whatever the MPI; its peculiarities are fields
of its record.

An MPI's record can add its own transports (:attr:`mpis.model.Mpi.transports`).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass


@dataclass(frozen=True)
class Transport:
    """The parts of a fabric with this transport, and where its bytes are counted.

    :param name: as ``transport`` of a fabric has it.
    :param forced: the MPI is made to use it; of a fabric with another,
        what the MPI took is found afterwards.
    :param in_memory: it is the memory of a node, so a fabric has scope
        ``node`` and no rails; every other has a rail.
    :param gpus_only: it is between memories of GPUs and nothing else.
    :param interfaces: its rails are network interfaces (``eth1``), which are counted by themselves
        and must have the MTU that the site describes; else they are ports of RDMA devices (port 1
        of ``mlx5_0``).
    :param connections: the kernel knows the ranks' connections and what
        each of them sent and received (TCP).
    :param numbered: MPIs choose its adapters by number, so that a
        device's name must end in one (``hfi1_0``).
    :param headers_bytes: bytes of a packet, inside the MTU, that are no
        payload; ``None`` if the MTU bounds nothing.
    :param framing_bytes: bytes of a packet outside the MTU.
    :param slurm_on_one_node: options of Slurm for jobs on one node
        of a partition with such a fabric.
    """

    name: str
    forced: bool = True
    in_memory: bool = False
    gpus_only: bool = False
    interfaces: bool = False
    connections: bool = False
    numbered: bool = False
    headers_bytes: int | None = None
    framing_bytes: int = 0
    slurm_on_one_node: tuple[str, ...] = ()


#: Transport of a fabric on which nothing is forced: the user's plain ``mpirun`` or ``srun``.
AS_SHIPPED = "as_shipped"
#: Transports a fabric may name, by name.
TRANSPORTS: Mapping[str, Transport] = {
    row.name: row
    for row in (
        Transport("shm", in_memory=True),
        # GPUs of one node: each opens the other's memory (CUDA IPC,
        # ROCm IPC), over NVLink, xGMI or PCIe.
        Transport("gpu_ipc", in_memory=True, gpus_only=True),
        # Of an Ethernet frame: inside the MTU the headers of IP (20), TCP (20) and its time stamps
        # (12; RFC 7323), outside preamble, Ethernet header, checksum and gap (38; IEEE 802.3
        # clauses 3 and 4).
        Transport("tcp", interfaces=True, connections=True, headers_bytes=52, framing_bytes=38),
        Transport("verbs"),
        Transport("ucx"),
        Transport("psm2", numbered=True),
        Transport("opx", numbered=True),
        Transport("efa"),
        # Slurm gives a job on one node no virtual network identifier of Slingshot, without which no
        # rank can open the card (sbatch(1) and srun(1), --network, "HPE Slingshot"; slurm.conf(5),
        # SwitchParameters, single_node_vni).
        Transport("cxi", slurm_on_one_node=("--network=single_node_vni",)),
        Transport(AS_SHIPPED, forced=False),
    )
}

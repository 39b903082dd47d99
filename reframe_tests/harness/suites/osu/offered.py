"""What OMB 7.5 offers: the programs it installs, by the folders of its sources."""

from __future__ import annotations

from collections.abc import Mapping

from ..model import Offer

_PROGRAMS: Mapping[str, str] = {
    "c/mpi/pt2pt/standard": (
        "osu_bibw osu_bw osu_latency osu_mbw_mr osu_multi_lat osu_partitioned_latency osu_latency_mt osu_latency_mp"
    ),
    "c/mpi/pt2pt/persistent": ("osu_bibw_persistent osu_bw_persistent osu_latency_persistent"),
    "c/mpi/pt2pt/congestion": ("osu_bw_fan_out osu_bw_fan_in"),
    "c/mpi/one-sided": (
        "osu_acc_latency osu_get_bw osu_get_latency osu_put_bibw osu_put_bw osu_put_latency osu_get_acc_latency "
        "osu_fop_latency osu_cas_latency"
    ),
    "c/mpi/collective/blocking": (
        "osu_alltoallv osu_alltoallw osu_allgatherv osu_scatterv osu_gatherv osu_reduce_scatter osu_barrier osu_reduce "
        "osu_allreduce osu_alltoall osu_bcast osu_gather osu_allgather osu_scatter osu_reduce_scatter_block"
    ),
    "c/mpi/collective/non_blocking": (
        "osu_iallgather osu_ibcast osu_ialltoall osu_ibarrier osu_igather osu_iscatter osu_iscatterv osu_igatherv "
        "osu_iallgatherv osu_ialltoallv osu_ialltoallw osu_ireduce osu_iallreduce osu_ireduce_scatter "
        "osu_ireduce_scatter_block"
    ),
    "c/mpi/collective/neighborhood": (
        "osu_neighbor_allgather osu_neighbor_allgatherv osu_neighbor_alltoall osu_neighbor_alltoallv osu_neighbor_alltoallw "
        "osu_ineighbor_allgather osu_ineighbor_allgatherv osu_ineighbor_alltoall osu_ineighbor_alltoallv "
        "osu_ineighbor_alltoallw"
    ),
    "c/mpi/collective/persistent": (
        "osu_allgather_persistent osu_allgatherv_persistent osu_allreduce_persistent osu_alltoall_persistent "
        "osu_alltoallv_persistent osu_alltoallw_persistent osu_barrier_persistent osu_bcast_persistent osu_gather_persistent "
        "osu_gatherv_persistent osu_reduce_persistent osu_reduce_scatter_persistent osu_scatter_persistent "
        "osu_scatterv_persistent"
    ),
    "c/mpi/startup": ("osu_init osu_hello"),
}

_LEFT_OUT: Mapping[str, str] = {
    "measures OpenSHMEM, no MPI": (
        "osu_oshm_get osu_oshm_put osu_oshm_put_mr osu_oshm_atomics osu_oshm_barrier osu_oshm_broadcast osu_oshm_collect "
        "osu_oshm_fcollect osu_oshm_reduce osu_oshm_get_nb osu_oshm_put_nb osu_oshm_put_overlap osu_oshm_get_mr_nb "
        "osu_oshm_put_mr_nb osu_oshm_get_bw osu_oshm_get_nb_bw osu_oshm_put_bw osu_oshm_put_nb_bw osu_oshm_get_overlap"
    ),
    "measures UPC, no MPI": (
        "osu_upc_memget osu_upc_memput osu_upc_all_barrier osu_upc_all_broadcast osu_upc_all_exchange osu_upc_all_gather_all "
        "osu_upc_all_gather osu_upc_all_reduce osu_upc_all_scatter"
    ),
    "measures UPC++, no MPI": (
        "osu_upcxx_allgather osu_upcxx_alltoall osu_upcxx_bcast osu_upcxx_gather osu_upcxx_reduce osu_upcxx_scatter "
        "osu_upcxx_async_copy_get osu_upcxx_async_copy_put"
    ),
    "measures NCCL or RCCL on memory of accelerators": (
        "osu_xccl_allgather osu_xccl_allreduce osu_xccl_bcast osu_xccl_reduce osu_xccl_reduce_scatter osu_xccl_alltoall "
        "osu_xccl_bibw osu_xccl_bw osu_xccl_latency"
    ),
    "repeats a program in C through mpi4py, which mpi4py.bench stands for": (
        "osu_allreduce.py osu_barrier.py osu_gatherv.py osu_scatter.py osu_allgather.py osu_alltoall.py osu_bcast.py "
        "osu_reduce.py osu_scatterv.py osu_allgatherv.py osu_alltoallv.py osu_gather.py osu_reduce_scatter.py osu_bibw.py "
        "osu_bw.py osu_latency.py osu_multi_lat.py"
    ),
    "needs the Java bindings of an MPI, which no stack here is built with": (
        "OSULatency OSUBandwidth OSUBandwidthOMPI OSUBiBandwidth OSUBiBandwidthOMPI OSUAllgather OSUAllgatherv OSUAllReduce "
        "OSUAlltoall OSUAlltoallv OSUBarrier OSUBcast OSUGather OSUGatherv OSUReduce OSUReduceScatter OSUScatter OSUScatterv"
    ),
}

OFFER = Offer(
    "7.5",
    "lists of programs in Makefile.am of the release, by folder; java/",
    {name: (name,) for names in _PROGRAMS.values() for name in names.split()},
    {reason: tuple(names.split()) for reason, names in _LEFT_OUT.items()},
)

"""What IMB 2021.11 offers: its binaries and the benchmarks they list."""

from __future__ import annotations

from collections.abc import Mapping

from ..model import Offer

_GPU = "measures memory of accelerators (built with GPU_ENABLE=1)"
_HALO = "a demonstration (ndim_halo_benchmark) that the Makefile builds neither by default nor by a target of its own"

_PROGRAMS: Mapping[str, str] = {
    "IMB-MPI1": (
        "Allgather Allgatherv Allreduce Alltoall Alltoallv Barrier Bcast Biband Exchange Gather Gatherv PingPing "
        "PingPingAnySource PingPingSpecificSource PingPong PingPongAnySource PingPongSpecificSource Reduce Reduce_local "
        "Reduce_scatter Reduce_scatter_block Scatter Scatterv Sendrecv Uniband"
    ),
    "IMB-NBC": (
        "Iallgather Iallgather_pure Iallgatherv Iallgatherv_pure Iallreduce Iallreduce_pure Ialltoall Ialltoall_pure "
        "Ialltoallv Ialltoallv_pure Ibarrier Ibarrier_pure Ibcast Ibcast_pure Igather Igather_pure Igatherv Igatherv_pure "
        "Ireduce Ireduce_pure Ireduce_scatter Ireduce_scatter_pure Iscatter Iscatter_pure Iscatterv Iscatterv_pure"
    ),
    "IMB-RMA": (
        "Accumulate All_get_all All_put_all Bidir_get Bidir_put Compare_and_swap Exchange_get Exchange_put Fetch_and_op "
        "Get_accumulate Get_all_local Get_local One_get_all One_put_all Put_all_local Put_local Truly_passive_put Unidir_get "
        "Unidir_put"
    ),
    "IMB-MT": ("AllReduceMT BarrierMT BcastMT BiBandMT ExchangeMT PingPingMT PingPongMT ReduceMT SendRecvMT UniBandMT"),
    "IMB-P2P": ("PingPong PingPing Unirandom Birandom Corandom Stencil2D Stencil3D SendRecv_Replace"),
    "IMB-EXT": ("Accumulate Bidir_Get Bidir_Put Unidir_Get Unidir_Put Window"),
    "IMB-IO": (
        "C_IRead_Expl C_IRead_Indv C_IRead_Shared C_IWrite_Expl C_IWrite_Indv C_IWrite_Shared C_Read_Expl C_Read_Indv "
        "C_Read_Shared C_Write_Expl C_Write_Indv C_Write_Shared Open_Close P_IRead_Expl P_IRead_Indv P_IRead_Priv "
        "P_IRead_Shared P_IWrite_Expl P_IWrite_Indv P_IWrite_Priv P_IWrite_Shared P_Read_Expl P_Read_Indv P_Read_Priv "
        "P_Read_Shared P_Write_Expl P_Write_Indv P_Write_Priv P_Write_Shared S_IRead_Expl S_IRead_Indv S_IWrite_Expl "
        "S_IWrite_Indv S_Read_Expl S_Read_Indv S_Write_Expl S_Write_Indv"
    ),
    "IMB-MPI4": (
        "Bcast_persist Bcast_persist_pure Allgather_persist Allgather_persist_pure Allgatherv_persist "
        "Allgatherv_persist_pure Gather_persist Gather_persist_pure Gatherv_persist Gatherv_persist_pure Scatter_persist "
        "Scatter_persist_pure Scatterv_persist Scatterv_persist_pure Alltoall_persist Alltoall_persist_pure "
        "Alltoallv_persist Alltoallv_persist_pure Reduce_persist Reduce_persist_pure Reduce_scatter_persist "
        "Reduce_scatter_persist_pure Allreduce_persist Allreduce_persist_pure Barrier_persist Barrier_persist_pure"
    ),
}

OFFER = Offer(
    "2021.11",
    "`IMB-* -list` of a build of the release (IMB-P2P: `-help`), and its Makefile",
    {program: tuple(names.split()) for program, names in _PROGRAMS.items()},
    {_GPU: ("IMB-MPI1-GPU", "IMB-RMA-GPU"), _HALO: ("IMB-HALO",)},
)

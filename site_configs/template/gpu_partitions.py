"""A TEMPLATE, to copy, of GPU partitions as four systems document
theirs. Nothing was ever measured on it.

    mkdir site_configs/NAME
    sed 's/"mysystem"/"NAME"/' site_configs/template/gpu_partitions.py > site_configs/NAME/system.py
    mpibench doctor --system NAME            # lists what is still to be filled in

Nothing is loaded from this folder, because the file is not called system.py. Keep the partition
most like yours and replace every text that begins with FILL_IN. GPUs are listed by PCI address;
what is next to which says 'nvidia-smi topo -m' or 'rocm-smi --showtoponuma', rates the data sheets
(those of NVLink name both directions: half of them).
"""

from reframe_tests.harness.machine.topology import describe

_ACCOUNT = "FILL_IN: --account=..."

#: NVIDIA and InfiniBand: JUWELS Booster (JSC, "JUWELS Booster Overview", "Node Configuration"; NUMA
#: nodes of the GPUs: POP CoE, "GPU affinity on one node with 4 GPUs"). A card behind the PCIe
#: switch of each GPU.
_A100_NUMA = (3, 1, 7, 5)
INFINIBAND = {
    "name": "a100-infiniband",
    "descr": "4 A100, HDR200 InfiniBand, a card for each GPU",
    "scheduler": "slurm",
    "launcher": "srun",
    "access": ["--partition=booster", _ACCOUNT],
    "processor": describe(
        2, 24, numa_per_socket=4, caches_per_socket=8, smt=2, numbering="smt_last"
    ),
    "devices": [{"type": "gpu", "arch": "sm_80", "num_devices": 4}],
    "resources": [{"name": "_rfm_gpu", "options": ["--gres=gpu:{num_gpus_per_node}"]}],
    "extras": {
        "pinning": ["default", "none", "gpu_local", "gpu_remote"],
        "gpus": {
            "kind": "cuda",
            "of_node": [
                {"numa_node": numa, "nic": f"mlx5_{number}"}
                for number, numa in enumerate(_A100_NUMA)
            ],
            "pcie_gbit_per_s": 252,
            # 4 of 12 links of 25 GB/s to each of the three others.
            "peer_gbit_per_s": 800,
        },
        "fabrics": {
            "hdr200": {
                "transport": "ucx",
                "scope": "cluster",
                "memory": ["host", "device", "host_to_device", "device_to_host"],
                "rails": [
                    {"device": f"mlx5_{number}", "line_rate_gbit_per_s": 200, "numa_node": numa}
                    for number, numa in enumerate(_A100_NUMA)
                ],
            },
            "nvlink": {"transport": "gpu_ipc", "scope": "node", "memory": ["device"]},
            "shm": {"transport": "shm", "scope": "node"},
        },
    },
}

#: NVIDIA and Slingshot: Alps (CSCS documentation: "NVIDIA GH200
#: GPU Nodes", "Alps hardware", "NCCL").
SLINGSHOT_NVIDIA = {
    "name": "gh200-slingshot",
    "descr": "4 GH200, Slingshot 11, a card for each",
    "scheduler": "slurm",
    "launcher": "srun",
    "access": [_ACCOUNT],
    "processor": describe(4, 72),
    "devices": [{"type": "gpu", "arch": "sm_90", "num_devices": 4}],
    "resources": [{"name": "_rfm_gpu", "options": ["--gpus-per-node={num_gpus_per_node}"]}],
    "extras": {
        "pinning": ["default", "none", "gpu_local", "gpu_remote"],
        "gpus": {
            "kind": "cuda",
            "of_node": [{"numa_node": numa, "nic": f"cxi{numa}"} for numa in range(4)],
            # NVLink-C2C to the processor in place of PCIe; 6 links of
            # 25 GB/s to each of the others.
            "peer_gbit_per_s": 1200,
        },
        "fabrics": {
            "ss200": {
                "transport": "cxi",
                "scope": "cluster",
                "memory": ["host", "device"],
                "rails": [
                    {"device": f"cxi{numa}", "line_rate_gbit_per_s": 200, "numa_node": numa}
                    for numa in range(4)
                ],
            },
            "nvlink": {"transport": "gpu_ipc", "scope": "node", "memory": ["device"]},
        },
        "recommended": [
            {
                "section": "CSCS documentation, 'Communication libraries', NCCL",
                "stacks": ["*"],
                "env_vars": {
                    "NCCL_NET_GDR_LEVEL": "PHB",
                    "NCCL_CROSS_NIC": "1",
                    "FI_CXI_DEFAULT_CQ_SIZE": "131072",
                    "FI_CXI_DEFAULT_TX_SIZE": "16384",
                    "FI_CXI_DISABLE_HOST_REGISTER": "1",
                    "FI_CXI_RX_MATCH_MODE": "software",
                    "FI_MR_CACHE_MONITOR": "userfaultfd",
                },
            }
        ],
    },
}

#: AMD and Slingshot: LUMI-G (LUMI user guide: "Slurm job script examples", "Distribution and
#: binding", "LUMI-G"). Each of the eight dies has a core complex of its own, whose first core is
#: the system's.
_CCD = (48, 56, 16, 24, 0, 8, 32, 40)
SLINGSHOT_AMD = {
    "name": "mi250x-slingshot",
    "descr": "4 MI250X of two dies, Slingshot 11, a card for each module",
    "scheduler": "slurm",
    "launcher": "srun",
    "access": ["--partition=standard-g", _ACCOUNT],
    "processor": describe(
        1, 64, numa_per_socket=4, caches_per_socket=8, smt=2, numbering="smt_last"
    ),
    "devices": [{"type": "gpu", "arch": "gfx90a", "num_devices": 8}],
    "resources": [{"name": "_rfm_gpu", "options": ["--gpus-per-node={num_gpus_per_node}"]}],
    "extras": {
        "pinning": ["default", "none", "gpu_local", "gpu_remote"],
        "reserved_cpus": "0,8,16,24,32,40,48,56",
        "gpus": {
            "kind": "rocm",
            "of_node": [
                {"numa_node": first // 16, "cpus": f"{first}-{first + 7}"} for first in _CCD
            ],
            # One xGMI link of 50 GB/s: the slowest pair of dies that has one.
            "peer_gbit_per_s": 400,
        },
        "fabrics": {
            "ss200": {
                "transport": "cxi",
                "scope": "cluster",
                "memory": ["host", "device"],
                "rails": [
                    {"device": f"cxi{number}", "line_rate_gbit_per_s": 200} for number in range(4)
                ],
            },
            "xgmi": {"transport": "gpu_ipc", "scope": "node", "memory": ["device"]},
        },
    },
}

#: A cloud with EFA: p4d.24xlarge of AWS (EC2 user guide, "Maximize network bandwidth with multiple
#: network cards"; AWS samples for ParallelCluster, "nccl-tests").
EFA = {
    "name": "p4d-efa",
    "descr": "8 A100, four EFA cards of 100 Gbit/s, p4d.24xlarge",
    "scheduler": "slurm",
    "launcher": "srun",
    "access": ["--partition=FILL_IN: queue"],
    "processor": describe(2, 24, smt=2, numbering="smt_last"),
    "devices": [{"type": "gpu", "arch": "sm_80", "num_devices": 8}],
    "resources": [{"name": "_rfm_gpu", "options": ["--gpus-per-node={num_gpus_per_node}"]}],
    "extras": {
        "pinning": ["default", "none", "gpu_local", "gpu_remote"],
        "gpus": {
            "kind": "cuda",
            "of_node": [{"numa_node": number // 4} for number in range(8)],
            # NVSwitch: 12 links of 25 GB/s.
            "peer_gbit_per_s": 2400,
        },
        "fabrics": {
            "efa100": {
                "transport": "efa",
                "scope": "cluster",
                "memory": ["host", "device"],
                "rails": [
                    {"device": device, "line_rate_gbit_per_s": 100, "numa_node": number // 2}
                    for number, device in enumerate(
                        ("rdmap16s27", "rdmap32s27", "rdmap144s27", "rdmap160s27")
                    )
                ],
            },
            "nvswitch": {"transport": "gpu_ipc", "scope": "node", "memory": ["device"]},
        },
        "recommended": [
            {
                "section": "AWS samples for ParallelCluster, micro-benchmarks/nccl-tests",
                "stacks": ["*"],
                "env_vars": {
                    "FI_EFA_FORK_SAFE": "1",
                    "NCCL_BUFFSIZE": "8388608",
                    "NCCL_P2P_NET_CHUNKSIZE": "524288",
                },
            }
        ],
    },
}

system = {
    "name": "mysystem",
    "descr": "FILL_IN: nodes and network in one line",
    "hostnames": ["FILL_IN: regular expression of the names of the login nodes"],
    "prefix": "FILL_IN: folder all nodes see",
    "partitions": [INFINIBAND, SLINGSHOT_NVIDIA, SLINGSHOT_AMD, EFA],
}

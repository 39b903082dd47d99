"""A site of today, to copy: HDR or NDR InfiniBand, RoCE Ethernet, Omni-Path, Slingshot.

    mkdir site_configs/NAME
    sed 's/"mysystem"/"NAME"/' site_configs/template/modern.py > site_configs/NAME/system.py
    mpibench doctor --system NAME            # lists what is still to be filled in

Nothing is loaded from this folder, because the file is not called system.py. Replace every text
that begins with FILL_IN and delete the partitions you do not have. Variables of each MPI come from
the transport table; set none here.
"""

_SHM = {"transport": "shm", "scope": "node"}
#: For nic_local and nic_remote: `cat /sys/class/infiniband/mlx5_0/device/numa_node` on a node (of
#: an interface: /sys/class/net/NAME/device/numa_node; of Slingshot:
#: /sys/class/cxi/NAME/device/numa_node). Write the number without quotes, or None where it is -1.
#: NodePreflight holds it against what the nodes say.
_NUMA = "FILL_IN: number of the NUMA node the adapter hangs on (device/numa_node)"


def _fabric(transport, gbit_per_s, devices, **more):
    """A fabric with one adapter per entry of ``devices`` (name: NUMA node);
    gates are ours, see references.yaml for yours.
    """
    rails = [
        {
            "device": device,
            "line_rate_gbit_per_s": gbit_per_s,
            **({} if numa_node is None else {"numa_node": numa_node}),
        }
        for device, numa_node in devices.items()
    ]
    return {
        "transport": transport,
        "scope": "cluster",
        "min_efficiency": 0.9,
        "rails": rails,
        **more,
    }


def _partition(name, descr, fabrics):
    return {
        "name": name,
        "descr": descr,
        "scheduler": "slurm",
        "launcher": "srun",
        "access": ["--partition=FILL_IN: Slurm partition", "--account=FILL_IN: account to charge"],
        # Where Slurm keeps cores for itself (CoreSpecCount, CPUSpecList:
        # `scontrol show node`), add "reserved_cpus": "0,64".
        "extras": {"node_counts": [2], "fabrics": {**fabrics, "shm": _SHM}},
    }


system = {
    "name": "mysystem",
    "descr": "FILL_IN: nodes and network in one line",
    "hostnames": ["FILL_IN: regular expression of the login nodes' names"],
    "prefix": "FILL_IN: folder all nodes see",
    "partitions": [
        # One HDR (200) or NDR (400) adapter; HDR100 splits one: 100.
        _partition(
            "hdr",
            "HDR InfiniBand",
            {"hdr200": _fabric("ucx", 200, {"FILL_IN: mlx5_0 (ibv_devices)": _NUMA})},
        ),
        _partition(
            "ndr",
            "NDR InfiniBand",
            {"ndr400": _fabric("ucx", 400, {"FILL_IN: mlx5_0 (ibv_devices)": _NUMA})},
        ),
        # RoCE: the RDMA device, and the interface on the same link,
        # whose counters grow too. 100, 200 or 400.
        _partition(
            "roce",
            "RoCE Ethernet",
            {
                "roce100": _fabric(
                    "ucx",
                    100,
                    {"FILL_IN: mlx5_0 (rdma link)": _NUMA},
                    tcp_interfaces=["FILL_IN: interface of the same link"],
                    mtu_bytes=9000,
                )
            },
        ),
        # Omni-Path Express: CN5000 is 400; adapters of the 100 series
        # under the same software are 100.
        _partition(
            "opx",
            "Omni-Path Express",
            {"opx400": _fabric("opx", 400, {"FILL_IN: hfi1_0 (opainfo)": _NUMA})},
        ),
        # The 100 series with the PSM2 library.
        _partition(
            "opa",
            "Omni-Path 100",
            {"opa100": _fabric("psm2", 100, {"FILL_IN: hfi1_0 (opainfo)": _NUMA})},
        ),
        # Slingshot 11: 200 Gbit/s per Cassini adapter, up to four a node.
        _partition(
            "slingshot",
            "Slingshot 11",
            {"ss200": _fabric("cxi", 200, {"FILL_IN: cxi0 (fi_info -p cxi)": _NUMA})},
        ),
    ],
}

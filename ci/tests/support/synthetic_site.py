"""The folder of a made-up site, right or wrong in one place."""

from __future__ import annotations

import copy
import pprint
from pathlib import Path

#: Way to the fabrics in a system.
FABRICS = ("partitions", 0, "extras", "fabrics")
GOOD = {
    "name": "mysystem",
    "descr": "a test system",
    "hostnames": ["login[0-9]+"],
    "partitions": [
        {
            "name": "compute",
            "scheduler": "slurm",
            "launcher": "srun",
            "extras": {
                "stacks": ["*-spack"],
                "fabrics": {
                    "shm": {"transport": "shm", "scope": "node"},
                    "hdr200": {
                        "transport": "ucx",
                        "scope": "cluster",
                        "min_efficiency": 0.9,
                        "rails": [
                            {"device": "mlx5_0", "line_rate_gbit_per_s": 200, "numa_node": 0},
                            {"device": "mlx5_1", "line_rate_gbit_per_s": 200, "numa_node": 1},
                        ],
                    },
                },
            },
        }
    ],
}


def write_system(folder: Path, system: object) -> Path:
    """Write the site's ``system.py`` below ``folder`` and return it."""
    path = folder / "site_configs" / "mysystem" / "system.py"
    path.parent.mkdir(parents=True)
    path.write_text(f"system = {pprint.pformat(system)}\n")
    return path


def edit(path: tuple, value: object) -> dict:
    """The good system with one value replaced, or (``None``) removed."""
    system = copy.deepcopy(GOOD)
    node = system
    for key in path[:-1]:
        node = node[key]
    if value is None:
        del node[path[-1]]
    else:
        node[path[-1]] = value
    return system

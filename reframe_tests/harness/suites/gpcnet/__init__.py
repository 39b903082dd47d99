"""GPCNeT 1.3: latency and bandwidth of random rings on all nodes, alone and while most nodes cause congestion.

S. Chunduri et al.: "GPCNeT: designing a benchmark suite for inducing and measuring contention in HPC networks", SC 2019;
https://github.com/netbench/GPCNET.
"""

import re

from ..model import BenchmarkPackage, Programs, Suite
from . import output, rows

SUITE = Suite(
    name=rows.NAME,
    title="GPCNeT",
    first_line=re.compile(r"^Network(?:Load)? Tests v", re.MULTILINE),
    parse=output.parse,
    rows=rows.ROWS,
    groups=rows.GROUPS,
    arguments=rows.arguments,
    sizes=rows.sizes,
    # It takes no argument, not even for its version, which only its tables say; on one node it refuses to run.
    programs=Programs(
        "network_*test",
        r"network_(?:load_)?test",
        "--version",
        r"(?m)^Network(?:Load)? Tests v([0-9][0-9.]*)",
        refusal=r"(?m)^ERROR: this application must be run on at least [0-9]+ nodes",
        unsaid="unknown",
    ),
    spack=BenchmarkPackage("gpcnet", "bin", "network_*test"),
)

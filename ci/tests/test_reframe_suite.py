"""The tests as ReFrame sees them: listed, dry-run on every bundled system, run, gated, and refused when falsified."""

from __future__ import annotations

import json
import re
import shutil
import sqlite3
from collections.abc import Callable
from pathlib import Path
from subprocess import CompletedProcess

import pytest

from reframe_tests.harness import catalogue, site, stack_metadata
from reframe_tests.harness.stack import Stack

Run = Callable[..., CompletedProcess[str]]
NAME = "PointToPoint%fabric=lo%nodes=1%ppn=2%pinning=bunch"
# ReFrame 4.10 forgets -p when --mode is given, so the depth is set as the mode would.
ONE_CASE = ("-S", "depth=smoke", "-n", NAME, "-p", "mpich-wheels")
TESTS = {"PointToPoint", "Mpi4pyPingPong", "ParallelTransfer", "Collectives", "Placement"}


@pytest.fixture
def sandbox(tmp_path: Path, root: Path) -> Path:
    """A settings file of our own: the bundled systems, results and references in a folder that is thrown away."""
    for name in ("site_configs", "reframe_tests"):
        shutil.copytree(root / name, tmp_path / name, ignore=shutil.ignore_patterns("__pycache__"))
    folder = tmp_path / "environments"
    for stack in stack_metadata.discover(root, environ={})[0]:
        target = folder / stack.name / "stack.json"
        target.parent.mkdir(parents=True)
        shutil.copy(stack.source, target)
    shutil.copy(root / "environments" / "stack.schema.json", folder)
    shutil.copytree(root / "results" / "witness", tmp_path / "results" / "witness")
    return tmp_path


@pytest.fixture
def run_here(sandbox: Path, run_reframe: Run) -> Run:
    """ReFrame on the copy."""

    def run(*options: str, **more) -> CompletedProcess[str]:
        return run_reframe(*options, top=sandbox, **more)

    return run


def cases(sandbox: Path) -> list[dict]:
    """Test cases of the last session in the sandbox's database."""
    with sqlite3.connect(sandbox / "results" / "results.db") as db:
        [(text,)] = db.execute("select json_blob from sessions order by session_start_unix desc limit 1").fetchall()
    return [case for run in json.loads(text)["runs"] for case in run["testcases"]]


def test_listing_shows_every_test_and_no_complaint(run_reframe: Run) -> None:
    result = run_reframe("-l")
    assert result.returncode == 0
    assert set(re.findall(r"^- (\w+) %", result.stdout, re.MULTILINE)) == TESTS
    assert "WARNING" not in result.stdout and "ERROR" not in result.stdout


def test_more_than_500_cases_on_any_machine(run_reframe: Run, stacks: dict[str, Stack]) -> None:
    if len(stacks) < 3:
        pytest.skip("not all wheels stacks are built here")
    result = run_reframe("-lC")
    assert len(re.findall(r"^- \w+ %.*@generic:default\+", result.stdout, re.MULTILINE)) > 500


#: Systems of papers have stacks that cannot be built here; test_published_systems.py describes them.
SYSTEMS = [path.parent.name for path in site.system_files() if not (path.parent / "published").exists()]

#: The whole matrix on each system; modes change depth and gates, not what the job scripts are made of.
DRY_RUNS = [
    *([f"--system={system}", "--mode=nightly"] for system in SYSTEMS),
    *(["--system=generic", f"--mode={mode['name']}", "-n", "PointToPoint"] for mode in site.MODES),
]


@pytest.mark.parametrize("options", DRY_RUNS, ids=" ".join)
def test_dry_run_on_every_bundled_system(run_reframe: Run, stacks: dict[str, Stack], options: list[str]) -> None:
    if not stacks:
        pytest.skip("no stack is built here")
    result = run_reframe("--dry-run", *options, "-S", "require_reference=no")
    assert result.returncode == 0, result.stdout[-3000:]
    ran = re.search(r"Ran (\d+)/(\d+) test case", result.stdout)
    assert ran and int(ran[1]) > 0, "something must be left to run"


def test_every_group_a_test_names_is_in_the_catalogue(run_reframe: Run) -> None:
    described = run_reframe("--describe", "-n", "fabric=shm.*ppn=2.*pinning=none").stdout
    groups = {check["group"] for check in json.loads(described)}
    assert groups <= set(catalogue.GROUPS)
    assert len(groups) == len(TESTS)


@pytest.mark.mpi
def test_a_case_is_stored_with_every_repeat_and_its_proof(run_here: Run, sandbox: Path, require_stack) -> None:
    require_stack("mpich-wheels")
    result = run_here("-r", *ONE_CASE, "--session-extras", "run=test")
    assert result.returncode == 0, result.stdout[-3000:]
    [case] = cases(sandbox)
    assert case["result"] == "pass"
    assert case["proof"]["verdict"] == "proven"
    assert case["condition"]["placement"] == [[0], [1]]
    assert all(len(sample["values"]) == 3 for sample in case["samples"])
    names = set(case["perfvalues"])
    assert "generic:default:PingPong.latency.0000262144" in names
    assert len(names) == len(case["samples"])
    assert {gate["outcome"] for gate in case["gates"]} == {"no reference"}, "recorded is not passed"
    kept = {path.name for path in Path(case["outputdir"]).iterdir()}
    assert {"pair.1.out", "pair.3.out", "evidence", "launches.txt", "rfm_job.sh"} <= kept


@pytest.mark.mpi
@pytest.mark.parametrize(
    ("stack", "variable", "wanted"),
    [
        ("intelmpi-wheels", "I_MPI_FABRICS:shm", "asked for lo"),
        ("mpich-wheels", "MPIR_CVAR_NOLOCAL:0", "asked for lo"),
        ("intelmpi-wheels", "I_MPI_PIN_DOMAIN:node", "the kernel lets it run on cores 0-1"),
    ],
)
def test_a_falsified_condition_fails_the_case(
    run_here: Run, sandbox: Path, require_stack, stack: str, variable: str, wanted: str
) -> None:
    require_stack(stack)
    result = run_here("-r", "-S", "depth=smoke", "-n", NAME, "-p", stack, "-S", f"env_vars={variable}")
    assert result.returncode == 1
    assert wanted in result.stdout
    [case] = cases(sandbox)
    assert case["proof"]["verdict"] == "contradicted"
    assert case["samples"], "the numbers are kept, and marked"
    assert {row[0] for row in case["perfvalues"].values()} == {None}, "but they are no performance values"
    assert case["gates"] == []


def write_references(sandbox: Path, bandwidth: float, tolerance: float) -> None:
    index = "$index: [$partition, $environ, fabric, nodes, ranks_per_node, pinning]"
    keys = ["'generic:default'", "mpich-wheels", "lo", "1", "2", "bunch"]

    def nested(leaf: str) -> str:
        lines = [f"{'  ' * (depth + 1)}{key}:" for depth, key in enumerate(keys)]
        return "\n".join([*lines, f"{'  ' * (len(keys) + 1)}PingPong.bandwidth.0001048576: {leaf}"])

    reference = f"[{bandwidth}, -{tolerance}, null, MB/s]"
    provenance = "{session: abc, date: 2026-11-01, n: 5, spread: 0.1}"
    text = f"PointToPoint:\n  {index}\n{nested(reference)}\nprovenance:\n  PointToPoint:\n"
    text += "\n".join("  " + line for line in nested(provenance).splitlines()) + "\n"
    (sandbox / "site_configs" / "generic" / "references.yaml").write_text(text)


@pytest.mark.mpi
@pytest.mark.parametrize(("bandwidth", "status", "outcome"), [(1.0, 0, "pass"), (1e9, 1, "fail")])
def test_learned_references_gate(run_here, sandbox, require_stack, bandwidth, status, outcome) -> None:
    require_stack("mpich-wheels")
    write_references(sandbox, bandwidth, 0.1)
    result = run_here("-r", *ONE_CASE)
    assert result.returncode == status, result.stdout[-3000:]
    [case] = cases(sandbox)
    outcomes = {gate["metric"]: gate["outcome"] for gate in case["gates"]}
    assert outcomes.pop("PingPong.bandwidth.0001048576") == outcome
    assert set(outcomes.values()) == {"no reference"}


@pytest.mark.mpi
def test_acceptance_wants_a_reference_for_every_gated_metric(run_here, sandbox, require_stack) -> None:
    require_stack("mpich-wheels")
    options = ("-S", "require_reference=yes", *ONE_CASE)
    result = run_here("-r", *options)
    assert result.returncode == 1
    assert "no reference value found for performance variable" in result.stdout


def test_references_without_provenance_are_refused(run_here, sandbox, require_stack) -> None:
    require_stack("mpich-wheels")
    write_references(sandbox, 1.0, 0.1)
    path = sandbox / "site_configs" / "generic" / "references.yaml"
    path.write_text(path.read_text().split("provenance:")[0])
    result = run_here("-r", *ONE_CASE)
    assert result.returncode == 1
    assert "a reference without its origin is not used" in result.stdout


def test_a_dry_run_finds_missing_references(run_here, sandbox, require_stack) -> None:
    require_stack("mpich-wheels")
    result = run_here("--dry-run", "-S", "require_reference=yes", *ONE_CASE)
    assert result.returncode == 1
    assert "no reference value found for performance variable" in result.stdout


def test_an_unknown_topology_is_one_sentence(run_here, sandbox, require_stack) -> None:
    require_stack("mpich-wheels")
    system = sandbox / "site_configs" / "generic" / "system.py"
    system.write_text(system.read_text().replace('"launcher": "local"', '"launcher": "mpirun"'))
    result = run_here("--dry-run", *ONE_CASE)
    assert result.returncode == 1
    assert "the topology of partition generic:default is unknown" in result.stdout

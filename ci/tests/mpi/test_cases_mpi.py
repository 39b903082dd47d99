"""Cases of the project's tests that ReFrame really runs: stored with
proof, gated, and refused when falsified.
"""

import json
from dataclasses import replace
from pathlib import Path

import test_measurement as real
from folders import write
from mpibench import cli
from reframe_tests.harness.cases.job import script as jobscript
from reframe_tests.harness.cases.results import measurement
from synthetic_project import NAME, ONE_CASE, last_cases, recommend
from synthetic_stack import sealed


def cases(sandbox):
    """Test cases of the last session in the sandbox's database."""
    return last_cases(sandbox / "results" / "results.db")


def test_a_case_is_stored_with_every_repeat_and_its_proof(run_here, sandbox, require_stack):
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


def test_a_falsified_condition_fails_the_case(run_here, sandbox, require_stack):
    require_stack("intelmpi-wheels")
    words = f"-r -S level=smoke -n {NAME} -p intelmpi-wheels -S env_vars=I_MPI_FABRICS:shm"
    result = run_here("-S", "repeats=1", words=words)
    assert result.returncode == 1 and "asked for lo" in result.stdout
    [case] = cases(sandbox)
    assert case["proof"]["verdict"] == "contradicted" and case["gates"] == []
    assert case["samples"], "the numbers are kept, and marked"
    assert {row[0] for row in case["perfvalues"].values()} == {None}, (
        "but they are no performance values"
    )


def test_output_without_end_ends_the_case_with_a_sentence(run_here, sandbox, require_stack):
    """The night goes on: the launch is ended at the limit, nothing
    more is started, and little of it is read.
    """
    require_stack("mpich-wheels")
    metadata = sandbox / "environments" / "mpich-wheels" / "stack.json"
    endless = write(sandbox / "endless", "#!/bin/sh\nexec yes it goes on\n", executable=True)
    described = json.loads(metadata.read_text())
    described["binaries"]["IMB-MPI1"] = str(endless)
    metadata.write_text(json.dumps(sealed(described)))
    result = run_here("-r", *ONE_CASE, "-S", "limit_s=100")
    assert result.returncode == 1
    sentence = "pair, repeat 1 of 3: printed more than 16 MiB and was therefore ended"
    assert sentence in result.stdout, result.stdout[-3000:]
    assert (
        "pair, repeats 2-3 of 3: not started, because pair.1 printed without end." in result.stdout
    )
    [case] = cases(sandbox)
    assert (case["proof"]["verdict"], case["samples"]) == ("missing", [])
    sizes = [path.stat().st_size for path in (sandbox / "results").rglob("pair.1.out")]
    assert sizes and set(sizes) == {jobscript.MOST_OUTPUT_BYTES}


def test_an_odd_value_reaches_every_rank_whole(run_here, sandbox, stack):
    odd = (
        f'1:0-4096;2:4097-  $(touch {sandbox}/made)`touch {sandbox}/made`$HOME ${{HOME}} "x" '
        "'y' \\ & | * #"
    )
    recommend(
        sandbox,
        {"SITES_OWN": odd, "SITES_SECRET_KEY": "recorded, because the site wrote it down itself"},
    )
    pattern = NAME.replace("ImbPointToPoint", "Placement")
    result = run_here(
        "-r", "-n", pattern, "-p", stack.name, "-S", "env_vars=USERS_OWN:1", only="startup.py"
    )
    assert result.returncode == 0, result.stdout[-3000:]
    [case] = cases(sandbox)
    assert case["proof"]["verdict"] == "proven"
    assert (
        case["proof"]["environment"]["SITES_OWN"]
        == odd
        == case["condition"]["environment"]["SITES_OWN"]
    )
    assert {"SITES_SECRET_KEY", "USERS_OWN"} <= case["proof"]["environment"].keys()
    assert not (sandbox / "made").exists()


# ---- Two stacks interleaved in one real job ----


def test_two_stacks_in_one_real_job(tmp_path, require_stack, run_and_read, capsys):
    require_stack("intelmpi-wheels"), require_stack("mpich-wheels")
    words = "-n ImbPointToPoint%fabric=shm%nodes=1%ppn=2%pinning=bunch -p intelmpi-wheels"
    words += " -S paired_stack=mpich-wheels -S suite_options=off_cache:-1"
    done, found = run_and_read(words, "point_to_point.py", {})
    assert done.returncode == 0, done.stdout[-2000:]
    assert [(case.stack, case.evidence) for case in found] == [
        ("intelmpi-wheels", "proven"),
        ("mpich-wheels", "proven"),
    ]
    assert [case.condition.get("suite_options") for case in found] == ["off_cache=-1"] * 2, (
        "no history may mix them with others"
    )
    assert "MPICH" in (found[1].proof.library_version or "") and "Intel" in (
        found[0].proof.library_version or ""
    )
    words = f"--db {tmp_path}/results.db --dataset {tmp_path}/set --out {tmp_path}/page.html"
    assert cli.main(["compare", "intelmpi-wheels", "mpich-wheels", *words.split()]) == 0
    assert "interleaved in the same jobs" in capsys.readouterr().out


# ---- A variable that is lost on the way contradicts, on real ranks ----


def test_a_value_that_is_lost_or_changed_on_the_way_contradicts(tmp_path, stack):
    """What a profile or a launcher does to a variable, on real ranks."""
    job = real.run_job(tmp_path, stack, "shm", "placement", repeats=1)
    assert job.judge().status == measurement.PROVEN
    lost = next(iter(stack.env_vars))
    asked = replace(job.condition, recommended={"SITES_OWN": "1"}, chosen={lost: "other"})
    outcome = replace(job, condition=asked).judge()
    assert outcome.status == measurement.CONTRADICTED
    text = " ".join(outcome.sentences)
    assert "asked for SITES_OWN='1', but ranks 0 and 1 on " in text and " had none." in text
    assert f"asked for {lost}='other', but ranks 0 and 1 on " in text

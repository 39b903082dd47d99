"""Lines before a benchmark's title, met by the installed command."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

from reframe_tests.harness.suites import reader
from studies.output_damage import golden

REMOVED = (
    "[0] MPI startup(): I_MPI_DAPL_DIRECT_COPY_THRESHOLD variable has been removed from the product, its value is ignored\n"
)
OUTPUT = golden("imb-mpi1-2021.11-n2-mpich.txt")


def test_the_command_says_what_was_set_aside_and_keeps_it_out_of_the_data(tmp_path: Path) -> None:
    (tmp_path / "job.out").write_text(f"{REMOVED}srun: job 7 has been allocated resources\n{OUTPUT}")
    command = Path(sys.executable).parent / "mpibench"
    done = subprocess.run(
        [command, "catalogue", "--parse", "job.out", "--format", "json"],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=True,
    )
    assert done.stderr == "job.out: set aside around the output: 1 line of Intel MPI, 1 line of Slurm\n"
    assert len(json.loads(done.stdout)) == len(reader.parse(OUTPUT))

"""Tuned settings as a job script reads them, from a folder with any name."""

import pytest

from mpibench_tune import settings
from programs import finished
from reframe_tests.harness.mpis import registry
from reframe_tests.harness.mpis.tuning.model import AlgorithmRule, Wanted, write
from reframe_tests.harness.sites.tuned_settings import TunedPlace, TunedSettings

RULES = (AlgorithmRule("Allreduce", 0, 122, "2"), AlgorithmRule("Allreduce", 123, 4096, "3"))


@pytest.mark.parametrize("mpi", ["openmpi", "intelmpi"])
def test_a_script_in_bash_gets_the_variables_wherever_the_folder_lies(mpi, tmp_path):
    tuning = registry.find(mpi).tuning
    files = write(tuning, Wanted(RULES, 24, version=(5, 0, 11)))
    place = TunedPlace("generic", "stack", "shm", 1, 24, "none")
    made = TunedSettings(place, mpi, "5.0.11", "", "", files.env, {}, {}, RULES)
    folder = tmp_path / "all 'our' $HOME \"files\""
    settings.install(made, {**files.files, **files.further}, folder)
    script = (
        'set -eu; . "$1"; shift; for name; do printf "%s\\n" "${!name}"; done; echo '
        '"${tuned_folder-gone}"'
    )
    done = finished("bash", "-c", script, "job", folder / settings.ENVIRONMENT, *files.env)
    assert done.stdout.splitlines() == [*made.environment(folder).values(), "gone"]

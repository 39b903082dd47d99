"""Algorithms as launches of their own: labels, variables, and what each prints."""

from reframe_tests.harness.cases.sweep import variants
from reframe_tests.harness.cases.sweep.variants import Wish
from reframe_tests.harness.mpis import registry
from reframe_tests.harness.mpis.tuning.model import DEFAULT
from reframe_tests.harness.suites import catalogue
from reframe_tests.harness.suites.instruments import read_counts
from refusals import refused_as
from synthetic_evidence import resolved, sealed

HEAD = {
    "instrument": "collective_times",
    "format": 3,
    "ranks": 4,
    "benchmark": "Allreduce",
    "algorithm": "ring",
}


def tuning_of(name):
    return registry.find(name).tuning


def test_the_librarys_own_choice_is_always_measured_first():
    assert variants.list_wishes(tuning_of("mpich"), "Alltoall", "brucks")[0] == Wish(DEFAULT)
    found = variants.list_wishes(tuning_of("openmpi"), "Alltoallv", "")
    assert [wish.word for wish in found] == [DEFAULT, "1", "2"]


def test_an_algorithm_differs_from_the_job_in_its_variables_only():
    """What a library compiles of its settings is seen where real ones do."""
    args = ("--sizes", "8,32,128", "--repetitions", "300", "--budget-s", "3", "Allreduce")
    expected = (catalogue.Expected("Allreduce", 4, (8, 32, 128)),)
    launch = catalogue.Launch("allreduce", *["collective_times"] * 2, args, expected)
    own = resolved()
    tuning = tuning_of("openmpi")
    env = tuning.force("Allreduce", "4")
    wish = Wish("4", (32,))
    found = variants.make(own, launch, tuning, wish, env, seconds=0.5, show=True)
    timed, counted = found.commands(own, ["mpirun"], [])
    given = "--algorithm 4 --sizes 32 --repetitions 300 --budget-s 0.167 Allreduce"
    assert found.launch.args == tuple(given.split())
    assert timed.enter == f"env {' '.join(f'{name}={value}' for name, value in env.items())}"
    assert set(env) <= set(timed.asked), "every rank is asked whether it had them"
    assert counted.once and "OMPI_MCA_pml=cm,monitoring" in counted.enter
    assert "--count" in counted.program


def test_messages_are_read():
    row = {"bytes": 8, "messages": 12, "sent_bytes": 96, "pattern": "1a2b3c4d"}
    text = sealed({**HEAD, "instrument": "message_counts", "algorithm": "4"}, [row])
    assert read_counts(text, "x") == {8: (12, 96, "1a2b3c4d")}
    with refused_as("output-damaged"):
        read_counts(text.replace(" 96", " 97"), "x")

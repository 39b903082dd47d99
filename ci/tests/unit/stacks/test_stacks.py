"""Stack metadata: what is refused and how it is said, discovery, and the ReFrame environments made of it."""

from __future__ import annotations

import io
import json
import shutil
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import jsonschema
import pytest
import reframe
from rich.console import Console

from mpibench.commands.listings import stacks as listing
from mpibench.stacks import probe, writer
from reframe_tests.harness import schema as schemas
from reframe_tests.harness.mpis import registry
from reframe_tests.harness.stacks import metadata, selection
from reframe_tests.harness.stacks.metadata import StackError
from reframe_tests.harness.stacks.stack import Stack
from refusals import refused_as
from synthetic_stack import DELETED, DOCUMENT, change, describe, write_stack


def test_valid_metadata_becomes_a_stack() -> None:
    stack = metadata.parse(DOCUMENT, "/opt/mpich/stack.json")
    assert (stack.name, stack.mpi, stack.version_tuple, stack.device) == ("mpich-system", "mpich", (5, 0, 2), "ch4:ucx")
    assert stack.commands["mpi4py.bench"] == ("/bin/true", "-m", "mpi4py.bench")
    assert stack.prepend_path["LD_LIBRARY_PATH"] == ("/opt/mpich/lib", "/opt/mpich/python")
    assert (stack.lock_hash, stack.source) == ("0123abcd", "/opt/mpich/stack.json")


@pytest.mark.parametrize(
    ("keys", "value", "said"),
    [
        ("schema_version", 2, "key 'schema_version'"),
        ("name", DELETED, "'name' is a required property"),
        ("name", "my stack", "key 'name'"),
        ("origin", "conda", "'conda' is not one of ['spack', 'wheels', 'system']"),
        ("mpi/version", DELETED, "'version' is a required property"),
        ("mpi/version", 5.0, "key 'mpi.version': 5.0 is not of type 'string'"),
        ("mpi/name", "lam", f"key 'mpi.name': 'lam' is not one of {list(registry.names())}"),
        ("mpi/vendor", "x", "('vendor' was unexpected)"),
        ("abi", "intel", "key 'abi': 'intel'"),
        ("launcher_family", "srun", "key 'launcher_family': 'srun'"),
        ("prefix", "opt/mpich", "key 'prefix'"),
        ("prefix", "/opt/$(reboot)", "key 'prefix'"),
        ("library", 7, "key 'library': 7 is not of type 'string'"),
        ("library_version_pattern", "5.0(", "key 'library_version_pattern' is not a regular expression"),
        ("library_version_pattern", "", "key 'library_version_pattern'"),
        ("binaries/IMB-MPI1", "IMB-MPI1", "key 'binaries.IMB-MPI1'"),
        ("commands/mpi4py.bench", [], "key 'commands.mpi4py.bench'"),
        ("suites/imb/built_with", DELETED, "'built_with' is a required property"),
        ("env_vars/A", "`reboot`", "key 'env_vars.A'"),
        ("env_vars/A", "$(reboot)", "key 'env_vars.A'"),
        ("env_vars/A", "two\nlines", "key 'env_vars.A'"),
        ("env_vars/NOT-A-NAME", "x", "'NOT-A-NAME'"),
        ("prepend_path/PATH", ["/a:/b"], "key 'prepend_path.PATH.0'"),
        ("build/lock_hash", DELETED, "'lock_hash' is a required property"),
        ("module", [], "('module' was unexpected)"),
    ],
)
def test_bad_metadata_is_refused_in_one_sentence(keys: str, value: Any, said: str) -> None:
    with refused_as("stack-schema") as refused:
        metadata.parse(change(keys, value), "/opt/mpich/stack.json")
    sentence = str(refused.value)
    assert sentence.startswith("/opt/mpich/stack.json: ")
    assert said in sentence
    assert "build the stack again" in sentence
    assert sentence.endswith(".") and "\n" not in sentence


@pytest.mark.parametrize("keys", ["mpi/name", "abi", "launcher_family"])
def test_a_stack_of_what_only_the_site_describes_is_missed_by_name(tmp_path: Path, keys: str) -> None:
    """The shell lacks MPIBENCH_EXTENSIONS, so that its MPI or launcher is not known here."""
    (tmp_path / "stack.json").write_text(json.dumps(change(keys, "foompi")))
    stacks, [problem] = metadata.discover(tmp_path, {metadata.EXTRA_STACKS: str(tmp_path)})
    assert not stacks and "stack 'mpich-system' is left out" in problem and "MPIBENCH_EXTENSIONS" in problem
    with refused_as("stack-fits-nothing", match="-p mpich-system fits no stack that can be used: .*MPIBENCH_EXTENSIONS"):
        selection.check(["-p", "mpich-system"], [], [problem])


def test_unreadable_metadata_is_refused_in_one_sentence(tmp_path: Path) -> None:
    with refused_as("stack-unreadable", match=r"none\.json cannot be read \(No such file"):
        metadata.read(tmp_path / "none.json")
    (tmp_path / "cut.json").write_text('{"name": ')
    with refused_as("stack-unreadable", match=r"cut\.json is not JSON .*; correct it"):
        metadata.read(tmp_path / "cut.json")
    (tmp_path / "list.json").write_text("[]")
    with refused_as("stack-schema", match=r"\[\] is not of type 'object'"):
        metadata.read(tmp_path / "list.json")


def test_schema_knows_the_vocabulary_and_every_field() -> None:
    schema = schemas.read(metadata.SCHEMA)
    jsonschema.Draft202012Validator.check_schema(schema)
    keys = schema["properties"]
    assert keys["origin"]["enum"] == ["spack", "wheels", "system"]
    assert keys["mpi"]["properties"]["name"]["enum"] == list(registry.names())
    assert {"hydra-intel", "hydra", "prrte", "orterun", "mpirun_rsh"} < set(keys["launcher_family"]["enum"])
    assert sorted({*keys} - {"modules", "gpu"}) == sorted(schema["required"])  # of stacks of modules, and of GPU-aware MPIs
    assert all("description" in key or "properties" in key for key in keys.values())


def test_discovery_finds_both_depths_and_named_places_once(tmp_path: Path) -> None:
    write_stack(tmp_path / "environments" / "one", name="one")
    write_stack(tmp_path / "environments" / "wheels" / "two", name="two")
    file = write_stack(tmp_path / "elsewhere" / "three", name="three")
    write_stack(tmp_path / "elsewhere" / "four", name="four")
    (tmp_path / "link").symlink_to(file)
    named = f"{file}:{tmp_path / 'elsewhere' / 'four'}::{tmp_path / 'link'}"
    stacks, problems = metadata.discover(tmp_path, {"MPIBENCH_STACKS": named})
    assert ([stack.name for stack in stacks], problems) == (["one", "two", "three", "four"], [])
    assert {stack.source for stack in stacks} >= {str(tmp_path / "elsewhere" / "four" / "stack.json")}


@pytest.mark.parametrize(
    ("gone", "key"),
    [
        (".", "prefix"),
        ("lib/libmpi.so.12", "library"),
        ("bin/IMB-MPI1", "binaries.IMB-MPI1"),
        ("python", "prepend_path.LD_LIBRARY_PATH"),
    ],
)
def test_a_stack_that_lost_a_part_is_left_out_with_the_reason(tmp_path: Path, gone: str, key: str) -> None:
    prefix = tmp_path / "built"
    source = write_stack(prefix)
    moved = tmp_path / "environments" / "mpich" / "stack.json"
    moved.parent.mkdir(parents=True)
    source.replace(moved)
    assert len(metadata.discover(tmp_path, {})[0]) == 1
    part = prefix / gone
    shutil.rmtree(part) if part.is_dir() else part.unlink()
    stacks, problems = metadata.discover(tmp_path, {})
    assert stacks == []
    assert len(problems) == 1
    assert f"key '{key}' of {moved}" in problems[0]
    assert "build the stack again" in problems[0]


def test_a_program_without_execute_permission_is_no_program(tmp_path: Path) -> None:
    source = write_stack(tmp_path / "environments" / "mpich")
    (source.parent / "bin" / "IMB-MPI1").chmod(0o644)
    stacks, problems = metadata.discover(tmp_path, {})
    assert not stacks and "binaries.IMB-MPI1" in problems[0]


def test_bad_files_and_missing_named_files_do_not_hide_good_stacks(tmp_path: Path) -> None:
    write_stack(tmp_path / "environments" / "a", name="a", abi="lam")
    write_stack(tmp_path / "environments" / "b", name="b")
    stacks, problems = metadata.discover(tmp_path, {"MPIBENCH_STACKS": str(tmp_path / "nowhere.json")})
    assert [stack.name for stack in stacks] == ["b"]
    assert len(problems) == 2
    assert "key 'abi'" in problems[0]
    assert "nowhere.json cannot be read" in problems[1]


def test_two_stacks_of_one_name_are_refused(tmp_path: Path) -> None:
    first = write_stack(tmp_path / "environments" / "a")
    second = write_stack(tmp_path / "environments" / "b")
    with refused_as("stack-twice") as refused:
        metadata.discover(tmp_path, {})
    assert str(first) in str(refused.value) and str(second) in str(refused.value)
    assert "'mpich-system'; rename or remove one." in str(refused.value)


def test_listing_shows_stacks_and_problems_and_fails_on_problems(tmp_path: Path) -> None:
    def show() -> tuple[int, str]:
        stream = io.StringIO()
        return listing.show(tmp_path, Console(file=stream, width=60, highlight=False)), stream.getvalue()

    status, text = show()
    assert status == 1 and "No stack has been built; run ci/setup" in text
    write_stack(tmp_path / "environments" / "a", name="a")
    status, text = show()
    assert status == 0
    assert "mpich 5.0.2, device ch4:ucx, mpich ABI, launcher hydra" in text
    assert "2021.11, gcc 12.2" in text
    write_stack(tmp_path / "environments" / "b", name="b", abi="lam")
    status, text = show()
    assert status == 1 and "key 'abi': 'lam'" in text and text.startswith("a\n")


def environment_schema() -> dict[str, Any]:
    """What ReFrame's own configuration schema demands of the list of environments."""
    schema = json.loads((Path(reframe.__file__).parent / "schemas" / "config.json").read_text())
    return {"$schema": schema["$schema"], "defs": schema["defs"], **schema["properties"]["environments"]}


def test_environment_fits_reframes_schema_and_tells_abi_from_mpi() -> None:
    document = change("mpi", {"name": "intelmpi", "version": "2021.18.1", "device": ""})
    environment = metadata.environment_of(metadata.parse(document, "/opt/mpich/stack.json"))
    jsonschema.Draft7Validator(environment_schema()).validate([environment])
    assert environment["features"] == ["abi_mpich", "imb", "intelmpi"]
    assert environment["extras"] == {
        "mpi": "intelmpi",
        "mpi_version": "2021.18.1",
        "origin": "system",
        "stack": "/opt/mpich/stack.json",
    }


@pytest.mark.parametrize("text", ["[" * 100000, '{"a":' * 100000])
def test_metadata_nested_without_end_are_one_sentence(tmp_path: Path, text: str) -> None:
    path = tmp_path / "environments" / "b" / "stack.json"
    path.parent.mkdir(parents=True)
    path.write_text(text)
    stacks, problems = metadata.discover(tmp_path, {})
    assert stacks == [] and problems[0].startswith(f"{path} is not JSON (maximum recursion depth exceeded")


# ---- registering a stack: all or nothing, whatever goes wrong ----


def content(stack: Stack, record: Any) -> str:
    """A probe that finds nothing wrong."""
    record(f"{stack.name} answered\n")
    return ""


def place(tmp_path: Path, **changes: Any) -> tuple[dict[str, Any], Path]:
    """Metadata of a complete stack whose file is not there yet."""
    path = write_stack(tmp_path / "environments" / "system" / "mpich")
    path.unlink()
    return {**describe(path.parent), **changes}, path


def test_a_stack_is_registered_when_its_programs_agree(tmp_path: Path) -> None:
    document, path = place(tmp_path)
    recorded: list[str] = []
    stack = writer.register(document, path, root=tmp_path, environ={}, contradict=content, record=recorded.append)
    assert json.loads(path.read_text()) == document
    assert metadata.read(path) == stack
    assert recorded == ["mpich-system answered\n"]
    assert path.stat().st_mode & 0o777 == 0o644
    # Again: it replaces itself, and leaves no file beside it.
    writer.register(document, path, root=tmp_path, environ={}, contradict=content)
    assert [each.name for each in path.parent.glob("stack.json*")] == ["stack.json"]


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"origin": "conda"}, "key 'origin': 'conda'"),
        ({"library": "/nowhere/libmpi.so"}, "/nowhere/libmpi.so (key 'library'"),
        ({"name": "taken"}, "already describes a stack 'taken'"),
    ],
)
def test_nothing_is_registered_otherwise(changes: dict[str, Any], said: str, tmp_path: Path) -> None:
    write_stack(tmp_path / "environments" / "other", name="taken")
    document, path = place(tmp_path, **changes)
    with pytest.raises(StackError) as refused:
        writer.register(document, path, root=tmp_path, environ={}, contradict=content)
    assert said in str(refused.value)
    assert not list(path.parent.glob("stack.json*"))


def test_a_contradiction_or_an_interruption_keeps_the_file_that_was_there(tmp_path: Path) -> None:
    document, path = place(tmp_path)
    path.write_text("as it was")

    def interrupted(stack: Stack, record: Any) -> str:
        raise KeyboardInterrupt

    with pytest.raises(writer.Unproven, match="it says no"):
        writer.register(document, path, root=tmp_path, environ={}, contradict=lambda stack, record: "it says no.")
    with pytest.raises(KeyboardInterrupt):
        writer.register(document, path, root=tmp_path, environ={}, contradict=interrupted)
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


@pytest.fixture
def prove(monkeypatch: pytest.MonkeyPatch, tmp_path: Path):
    """Prove programs whose starts say what is written above."""
    stack = metadata.read(write_stack(tmp_path))

    def start(where: object, words: Sequence[str], environ: object, folder: object = None) -> tuple[int, str]:
        return SAYS[next(Path(word).name for word in words if Path(word).name in SAYS)]

    monkeypatch.setattr(probe, "list_needs", lambda path, environ: ({"libmpi.so.12": stack.library}, []))
    monkeypatch.setattr(probe, "run_inside", start)
    return lambda *names: probe.prove({name: Path("/opt/osu") / name for name in names}, stack, {})


def test_a_program_that_refuses_one_node_runs(prove):
    """Fan-in and fan-out look for other nodes before they say their version; the others of the build say it."""
    found = prove("osu_bw", "osu_bw_fan_in", "osu_latency")
    assert set(found.binaries) == {"osu_bw_fan_in", "osu_latency"}
    assert found.suites == {"osu": "7.5"}
    assert set(found.left_out) == {"osu_bw"} and "no such interface" in found.left_out["osu_bw"]


def test_a_program_of_another_version_is_left_out(prove):
    assert prove("osu_latency", "osu_bibw").left_out == {"osu_bibw": "it is version 7.4, the others are 7.5"}


def test_without_a_version_nothing_is_registered(prove):
    with refused_as("no-program-runs", match="does not say its version on one node, and no other program of osu does"):
        prove("osu_bw_fan_in")


def test_a_suite_that_never_says_its_version_is_registered_without(prove):
    """GPCNeT's programs take no argument, and refuse one node."""
    found = prove("network_test")
    assert (set(found.binaries), found.suites, found.left_out) == ({"network_test"}, {"gpcnet": "unknown"}, {})

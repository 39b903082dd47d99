"""Stack metadata: what is refused and how it is said, discovery, and the ReFrame environments made of it."""

from __future__ import annotations

import copy
import io
import json
import os
import shlex
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import jsonschema
import pytest
import reframe
from hypothesis import given, settings
from hypothesis import strategies as st
from rich.console import Console

from mpibench.commands import stack_listing as listing
from reframe_tests.harness import schema as schemas
from reframe_tests.harness import vocabulary
from reframe_tests.harness.mpis import registry
from reframe_tests.harness.stacks import metadata
from reframe_tests.harness.stacks.metadata import StackError
from synthetic_stack import describe, write_stack

DOCUMENT = describe(Path("/opt/mpich"))
DELETED = object()


def change(keys: str, value: Any) -> dict[str, Any]:
    """The valid document with one key replaced, added or (``DELETED``) removed."""
    document = copy.deepcopy(DOCUMENT)
    *parents, last = keys.split("/")
    place = document
    for key in parents:
        place = place[key]
    if value is DELETED:
        del place[last]
    else:
        place[last] = value
    return document


def test_valid_metadata_becomes_a_stack() -> None:
    stack = metadata.parse(DOCUMENT, "/opt/mpich/stack.json")
    assert (stack.name, stack.mpi, stack.version_tuple, stack.device) == ("mpich-system", "mpich", (5, 0, 2), "ch4:ucx")
    assert stack.commands["mpi4py.bench"] == ("/bin/true", "-m", "mpi4py.bench")
    assert stack.prepend_path["LD_LIBRARY_PATH"] == ("/opt/mpich/lib", "/opt/mpich/python")
    assert (stack.lock_hash, stack.source) == ("0123abcd", "/opt/mpich/stack.json")


@pytest.mark.parametrize(
    ("keys", "value", "said"),
    [
        ("schema_version", 2, "key 'schema_version' is 2, not 1"),
        ("name", DELETED, "lacks the key 'name'"),
        ("name", "my stack", "key 'name' is refused"),
        ("origin", "conda", "key 'origin' is 'conda', not one of spack, wheels, system"),
        ("mpi/version", DELETED, "lacks the key 'mpi.version'"),
        ("mpi/version", 5.0, "key 'mpi.version' is 5.0, not of type string"),
        ("mpi/name", "lam", "key 'mpi.name' is 'lam', not one of intelmpi, mpich,"),
        ("mpi/vendor", "x", "has the unknown key 'mpi.vendor'"),
        ("abi", "intel", "key 'abi' is 'intel'"),
        ("launcher_family", "srun", "key 'launcher_family' is 'srun'"),
        ("prefix", "opt/mpich", "key 'prefix' is refused"),
        ("prefix", "/opt/$(reboot)", "key 'prefix' is refused"),
        ("library", 7, "key 'library' is 7, not of type string"),
        ("library_version_pattern", "5.0(", "key 'library_version_pattern' is not a regular expression"),
        ("library_version_pattern", "", "key 'library_version_pattern' is refused"),
        ("binaries/IMB-MPI1", "IMB-MPI1", "key 'binaries.IMB-MPI1' is refused"),
        ("commands/mpi4py.bench", [], "key 'commands.mpi4py.bench' is refused"),
        ("suites/imb/built_with", DELETED, "lacks the key 'suites.imb.built_with'"),
        ("env_vars/A", "`reboot`", "key 'env_vars.A' is refused"),
        ("env_vars/A", "$(reboot)", "key 'env_vars.A' is refused"),
        ("env_vars/A", "two\nlines", "key 'env_vars.A' is refused"),
        ("env_vars/NOT-A-NAME", "x", "'NOT-A-NAME'"),
        ("prepend_path/PATH", ["/a:/b"], "key 'prepend_path.PATH.0' is refused"),
        ("build/lock_hash", DELETED, "lacks the key 'build.lock_hash'"),
        ("modules", [], "has the unknown key 'modules'"),
    ],
)
def test_bad_metadata_is_refused_in_one_sentence(keys: str, value: Any, said: str) -> None:
    with pytest.raises(StackError) as refused:
        metadata.parse(change(keys, value), "/opt/mpich/stack.json")
    sentence = str(refused.value)
    assert sentence.startswith("/opt/mpich/stack.json: ")
    assert said in sentence
    assert "build the stack again" in sentence
    assert sentence.endswith(".") and "\n" not in sentence


def test_unreadable_metadata_is_refused_in_one_sentence(tmp_path: Path) -> None:
    with pytest.raises(StackError, match=r"none\.json cannot be read \(No such file"):
        metadata.read(tmp_path / "none.json")
    (tmp_path / "cut.json").write_text('{"name": ')
    with pytest.raises(StackError, match=r"cut\.json is not JSON .*; correct it"):
        metadata.read(tmp_path / "cut.json")
    (tmp_path / "list.json").write_text("[]")
    with pytest.raises(StackError, match="the file is \\[\\], not of type object"):
        metadata.read(tmp_path / "list.json")


def test_schema_knows_the_vocabulary_and_every_field() -> None:
    schema = schemas.read(metadata.SCHEMA)
    jsonschema.Draft202012Validator.check_schema(schema)
    keys = schema["properties"]
    assert keys["origin"]["enum"] == list(vocabulary.ORIGINS)
    assert keys["mpi"]["properties"]["name"]["enum"] == list(registry.names())
    assert set(keys["launcher_family"]["enum"]) == {"hydra-intel", "hydra", "prrte", "orterun", "mpirun_rsh", "poe"}
    assert sorted(keys) == sorted(schema["required"])
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
    with pytest.raises(StackError) as refused:
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
    assert status == 1 and "key 'abi' is 'lam'" in text and text.startswith("a\n")


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


def exported(environment: dict[str, Any], before: dict[str, str]) -> dict[str, str]:
    """The variables of a bash after ``export NAME=VALUE`` lines as ReFrame writes them into a job script."""
    lines = [f"export {name}={value}" for name, value in environment["env_vars"]]
    script = "\n".join(
        [*lines, f'exec {shlex.quote(sys.executable)} -c "import json, os; print(json.dumps(dict(os.environ)))"']
    )
    done = subprocess.run(["/bin/bash", "-c", script], env=before, capture_output=True, text=True, check=True)
    return json.loads(done.stdout)


TEXT = st.text(st.characters(codec="utf-8", exclude_categories=("C", "Zl", "Zp"), exclude_characters="`"), max_size=30).filter(
    lambda text: "$(" not in text
)
FOLDER = TEXT.map(lambda text: "/" + text.replace(":", "_"))


@settings(max_examples=40, deadline=None)
@given(value=TEXT, folders=st.lists(FOLDER, min_size=1, max_size=3), before=st.sampled_from(["", "/old", "/o d:/$HOME"]))
def test_what_the_shell_sets_is_what_entering_a_stack_sets(value: str, folders: list[str], before: str) -> None:
    document = change("env_vars", {"VALUE": value}) | {"prepend_path": {"PATH": folders, "SOME_PATH": folders}}
    stack = metadata.parse(document, "/x")
    start = {"PATH": "/usr/bin:/with space", "LC_ALL": "C.UTF-8", **({"SOME_PATH": before} if before else {})}
    inside = exported(metadata.environment_of(stack), start)
    entered = metadata.enter(stack, start)
    assert {name: inside[name] for name in entered} == entered
    assert inside["SOME_PATH"].count(":") == ":".join(folders).count(":") + (1 + before.count(":") if before else 0)


def test_environment_survives_in_a_job_script_of_reframe(tmp_path: Path) -> None:
    """The whole way: configuration, ReFrame, generated script, shell; in a folder that needs quoting."""
    source = write_stack(tmp_path / 'it\'s a $HOME "stack"', env_vars={"LITERAL": "a b $HOME ' \" \\ ; # *"})
    stack = metadata.read(source)
    partition = {"name": "p", "scheduler": "local", "launcher": "local", "environs": [stack.name]}
    configuration = {
        "systems": [{"name": "s", "hostnames": [".*"], "partitions": [partition], "prefix": str(tmp_path)}],
        "environments": [metadata.environment_of(stack)],
        "general": [{"remote_detect": False}],
    }
    (tmp_path / "settings.json").write_text(json.dumps(configuration))
    (tmp_path / "probe.py").write_text(
        "import reframe as rfm\n"
        "from reframe.core.builtins import sanity_function\n\n\n"
        "@rfm.simple_test\n"
        "class Probe(rfm.RunOnlyRegressionTest):\n"
        "    valid_systems = ['*']\n"
        "    valid_prog_environs = ['+imb +abi_mpich %mpi=mpich']\n"
        f"    executable = {shlex.quote(sys.executable)!r}\n"
        "    executable_opts = ['-c', '\"import json, os; print(json.dumps(dict(os.environ)))\"']\n\n"
        "    @sanity_function\n"
        "    def check(self):\n"
        "        return True\n"
    )
    before = {"PATH": os.environ["PATH"], "HOME": str(tmp_path), "LD_LIBRARY_PATH": "/old"}
    reframe_command = [str(Path(sys.executable).with_name("reframe")), "-C", "settings.json", "-c", "probe.py"]
    done = subprocess.run(
        [*reframe_command, "-r", "--keep-stage-files"], cwd=tmp_path, env=before, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stdout + done.stderr
    (output,) = (tmp_path / "stage").rglob("rfm_job.out")
    inside, entered = json.loads(output.read_text()), metadata.enter(stack, before)
    assert {name: inside[name] for name in entered} == entered

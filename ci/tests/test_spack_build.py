"""`mpibench build` with a stand-in for Spack: what it asks, what it registers, and each bad input in one sentence."""

from __future__ import annotations

import json
import shutil
import time
from pathlib import Path
from typing import Any

import pytest
import yaml

import spack_output
from mpibench.spack import build, complaints, description, tool
from reframe_tests.harness import stack_metadata
from reframe_tests.harness.vocabulary import BadInput

HERE = Path(__file__).parent
PROGRAM = HERE / "fake_spack.py"
COMPILERS = {"c": "/bin/true", "cxx": "/bin/true", "fortran": "/bin/true"}


def packages(**compilers: str) -> str:
    """What ``spack config get packages`` prints where a compiler is known (or none is)."""
    externals = [{"spec": "gcc@12.2.0", "prefix": "/usr", "extra_attributes": {"compilers": compilers}}] if compilers else []
    return yaml.safe_dump({"packages": {"c": {"require": ["gcc"]}, "gcc": {"externals": externals, "buildable": False}}})


class Site:
    """A copy of the project with a stand-in for Spack, and what was said and asked there."""

    def __init__(self, top: Path, root: Path) -> None:
        self.top, self.plan_file = top, top / "fake" / "plan.json"
        (top / "repo").mkdir()
        (top / "repo" / "recipe.py").write_text("version = 1\n")
        shutil.copytree(root / "site_configs" / "generic", top / "site_configs" / "generic")
        (top / "fake").mkdir()
        self.plan: dict[str, Any] = {"packages": packages(**COMPILERS), "locks": {}, "prefixes": {}}
        for name in ("openmpi", "mpich", "common"):
            self.add(name, root)
        self.said: list[str] = []
        self.environ = {"PATH": "/usr/bin:/bin", "SPACK_ROOT": str(top / "spack"), "FAKE_SPACK": str(self.plan_file)}
        (top / "spack" / "bin").mkdir(parents=True)
        (top / "spack" / "bin" / "spack").symlink_to(PROGRAM)

    def add(self, name: str, root: Path) -> None:
        """An environment of the project, with the solution recorded for it."""
        folder = self.top / "environments" / name
        shutil.copytree(root / "environments" / name, folder, ignore=shutil.ignore_patterns("*.lock", ".*"))
        (folder / "stack.json").unlink(missing_ok=True)
        self.plan["locks"][name] = str(HERE / "golden" / "spack" / f"{name}.lock.json")

    def build(self, *names: str, system: str | None = None, **options: Any) -> list[str]:
        self.plan_file.write_text(json.dumps(self.plan))
        return build.build(
            names, build.Options(**options), system=system, root=self.top, environ=self.environ, echo=self.said.append
        )

    def refusal(self, *names: str, **options: Any) -> str:
        """The sentence with which everything is refused."""
        with pytest.raises(BadInput) as refused:
            self.build(*names, **options)
        return one_sentence(str(refused.value))

    def journal(self) -> list[dict[str, Any]]:
        path = self.plan_file.with_name("journal")
        return [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []

    def asked(self, stack: str = "openmpi") -> list[str]:
        return [row["command"] for row in self.journal() if row["stack"] == stack]

    def forget(self) -> None:
        self.plan_file.with_name("journal").unlink(missing_ok=True)

    def registered(self) -> list[str]:
        return sorted(path.parent.name for path in (self.top / "environments").glob("*/stack.json"))

    def fake_mpi(self, monkeypatch: pytest.MonkeyPatch) -> None:
        """Leave out what needs a real MPI: that the library answers and programs start (test_spack_stacks.py has it)."""

        def describe(lock: Any, prefixes: Any, stamp: str, root: Path) -> dict[str, Any]:
            return {
                "schema_version": 1, "name": description.name_of(lock), "origin": "spack", "abi": "openmpi",
                "mpi": {"name": "openmpi", "version": "4.1.4", "device": ""}, "launcher_family": "orterun",
                "prefix": str(self.top), "library": str(PROGRAM), "library_version_pattern": "x",
                "binaries": {"osu_latency": str(PROGRAM)}, "commands": {}, "suites": {}, "env_vars": {"A": "1"},
                "prepend_path": {}, "build": {"lock_hash": lock.suite.hash, "stamp": stamp},
            }  # fmt: skip

        monkeypatch.setattr(description, "describe", describe)
        monkeypatch.setattr(description, "contradict", lambda stack, record: "")


def one_sentence(text: str) -> str:
    assert "\n" not in text and text.endswith(".") and "Traceback" not in text, text
    return text


@pytest.fixture
def place(tmp_path: Path, root: Path, monkeypatch: pytest.MonkeyPatch) -> Site:
    made = Site(tmp_path, root)
    made.fake_mpi(monkeypatch)
    return made


# ---- the way it goes ----


def test_a_stack_is_solved_installed_tested_and_registered_once(place: Site) -> None:
    installing = f"==> Installing intel-mpi-benchmarks-2021.11-{'x52j5d3j' * 4} [7/9]"
    place.plan["lines"] = [installing, "==> intel-mpi-benchmarks: Executing phase"]
    assert place.build("openmpi") == []
    assert place.asked() == ["config get", "concretize", "python", "install", "python", "test run"]
    assert place.registered() == ["openmpi"]
    assert "openmpi: installing intel-mpi-benchmarks-2021.11" in place.said
    assert not any("Executing" in line for line in place.said), "Spack's own output is in its log"
    assert "Executing phase" in (place.top / "results" / "spack" / "openmpi.log").read_text()
    [test_run] = [row["words"] for row in place.journal() if row["command"] == "test run"]
    assert [word.split("/")[0] for word in test_run[3:]] == ["intel-mpi-benchmarks", "osu-micro-benchmarks"]
    assert {row["SPACK_DISABLE_LOCAL_CONFIG"] for row in place.journal()} == {"1"}
    stacks, problems = stack_metadata.discover(place.top, {})
    assert [stack.name for stack in stacks] == ["openmpi-spack"] and not problems

    place.forget()
    assert place.build("openmpi") == []
    assert place.asked() == ["config get", "python"], "nothing is solved or installed a second time"
    assert any("openmpi-spack: up to date" in line for line in place.said)


def test_an_mpi_built_by_a_recipe_of_this_project_is_tested_too(place: Site, root: Path) -> None:
    place.add("mvapich2", root)
    place.build("mvapich2")
    [test_run] = [row["words"] for row in place.journal() if row["command"] == "test run"]
    assert [word.split("/")[0] for word in test_run[3:]] == ["mvapich2", "intel-mpi-benchmarks", "osu-micro-benchmarks"]


@pytest.mark.parametrize(
    "file", ["environments/common/packages.yaml", "environments/openmpi/spack.yaml", "repo/recipe.py", "scope/packages.yaml"]
)
def test_whatever_a_solution_follows_from_makes_it_solve_again(place: Site, file: str) -> None:
    (place.top / "scope").mkdir()
    (place.top / "scope" / "packages.yaml").write_text("packages: {}\n")
    place.environ["MPIBENCH_SPACK_SCOPE"] = str(place.top / "scope")
    place.build("openmpi")
    place.forget()
    with (place.top / file).open("a") as stream:
        stream.write("# changed\n")
    place.build("openmpi")
    assert "concretize" in place.asked()
    assert {row["MPIBENCH_SPACK_SCOPE"] for row in place.journal()} == {str(place.top / "scope")}


def test_an_mpi_the_site_has_updated_makes_it_solve_again(place: Site) -> None:
    place.build("openmpi")
    place.forget()
    place.plan["packages"] += "# openmpi@4.1.5\n"
    place.build("openmpi")
    assert "concretize" in place.asked()


def test_all_stacks_are_built_by_default_and_solve_only_builds_none(place: Site) -> None:
    assert place.build(solve_only=True) == []
    assert place.asked("openmpi") == ["concretize", "python"] and place.registered() == []
    assert place.build(skip_tests=True) == []
    assert place.registered() == ["mpich", "openmpi"]
    assert "test run" not in place.asked("openmpi") + place.asked("mpich")


def test_mirrors_come_first_and_in_a_scope_of_their_own(place: Site) -> None:
    cache = place.top / "cache"
    cache.mkdir()
    place.build("openmpi", mirrors=(str(cache), "https://mirror.example/spack"), cache_only=True)
    scopes = {row.get("-C") for row in place.journal()}
    assert len(scopes) == 1 and None not in scopes
    [install] = [row["words"] for row in place.journal() if row["command"] == "install"]
    assert "--cache-only" in install


def test_a_mirror_is_a_folder_or_a_url(tmp_path: Path) -> None:
    build.write_mirrors([str(tmp_path), "oci://registry.example/x"], tmp_path)
    written = yaml.safe_load((tmp_path / "mirrors.yaml").read_text())["mirrors"]
    assert [row["url"] for row in written.values()] == [tmp_path.as_uri(), "oci://registry.example/x"]
    with pytest.raises(BadInput, match="mirror /nowhere is no folder"):
        build.write_mirrors(["/nowhere"], tmp_path)


def test_the_scope_is_the_systems_unless_the_variable_names_one(place: Site) -> None:
    assert build.find_scope(None, place.top, {}) is None
    (place.top / "site_configs" / "generic" / "spack").mkdir()
    assert build.find_scope(None, place.top, {}) == place.top / "site_configs" / "generic" / "spack"
    named = {"MPIBENCH_SPACK_SCOPE": str(place.top)}
    assert build.find_scope(None, place.top, named) == place.top
    assert build.find_scope("generic", place.top, named) == place.top / "site_configs" / "generic" / "spack"


# ---- no Spack, or one that cannot be used ----


def test_without_spack_the_two_commands_that_get_it_are_named(place: Site) -> None:
    del place.environ["SPACK_ROOT"]
    sentence = place.refusal("openmpi")
    assert sentence.startswith("Spack is neither in SPACK_ROOT nor on PATH")
    assert "git clone --depth=1 --branch=v1.1.0 https://" in sentence and "export SPACK_ROOT=$PWD/spack" in sentence


def test_a_spack_root_without_spack_is_said(place: Site) -> None:
    place.environ["SPACK_ROOT"] = str(place.top / "nowhere")
    assert f"there is no {place.top}/nowhere/bin/spack; unset it, or get it with" in place.refusal("openmpi")


@pytest.mark.parametrize(
    ("version", "said"), [("0.23.1", "is Spack 0.23.1 and 1.0 or newer is needed"), ("1", "gives no version (1)")]
)
def test_an_old_or_mute_spack_is_refused(place: Site, version: str, said: str) -> None:
    place.plan["version"] = version
    sentence = place.refusal("openmpi")
    assert said in sentence and "--branch=v1.1.0" in sentence
    assert place.journal() == []


def test_a_spack_that_ends_with_an_error_is_refused(place: Site) -> None:
    place.plan |= {"version": "==> Error: Python 3.5 is too old", "version_status": 1}
    assert "gives no version (Python 3.5 is too old)" in place.refusal("openmpi")


def test_development_versions_are_new_enough(place: Site) -> None:
    place.plan["version"] = "1.2.0.dev0 (abcdef)"
    assert place.build("openmpi") == []


def test_an_unknown_stack_system_or_scope_is_refused(place: Site) -> None:
    assert place.refusal("lam") == "environments/ has no stack 'lam' for Spack; known are mpich, openmpi."
    assert "there is no system 'atlantis'" in place.refusal("openmpi", system="atlantis")
    place.environ["MPIBENCH_SPACK_SCOPE"] = "/nowhere"
    assert "MPIBENCH_SPACK_SCOPE is /nowhere, which is no folder" in place.refusal("openmpi")


# ---- no compiler ----


def test_without_a_compiler_spack_is_not_left_to_write_into_the_environment(place: Site) -> None:
    place.plan["packages"] = packages()
    sentence = place.refusal("openmpi")
    assert "Spack knows no gcc; install it, then run" in sentence and "compiler find'" in sentence
    assert place.asked() == ["config get"], "a solution would make Spack add compilers to spack.yaml"


def test_a_compiler_that_is_gone_is_named(place: Site) -> None:
    place.plan["packages"] = packages(**COMPILERS, d="/nowhere/gdc")
    assert "compiler /nowhere/gdc is named in Spack's packages.yaml and is not there" in place.refusal("openmpi")


# ---- what Spack refuses ----


@pytest.mark.parametrize(
    ("printed", "said"),
    [
        (spack_output.NO_SUCH_VERSION, "cannot be had together (requirement 9.9 on openmpi for openmpi cannot match"),
        (spack_output.WRONG_TYPE, "a configuration file is wrong (/site/spack/packages.yaml:3: 7 is not of type 'array')"),
        (spack_output.NO_YAML, "a configuration file is no YAML (/site/spack/packages.yaml, line 1: expected the node content"),
        (spack_output.NO_RECIPES, "the package recipes cannot be fetched (no network?)"),
        (spack_output.LOCKED, "another Spack holds its lock; wait for it to end"),
        ("==> Error: something new\n  more of it", "something new; correct environments/common"),
        ("", "Spack ended with status 1"),
    ],
)
def test_what_cannot_be_solved_is_one_sentence_and_the_others_are_built(place: Site, printed: str, said: str) -> None:
    place.plan["fail"] = {"mpich concretize": printed or "\n"}
    [sentence] = place.build()
    assert said in one_sentence(sentence)
    assert sentence.startswith("mpich: solving: ") and f"(log: {place.top}/results/spack/mpich.log)" in sentence
    assert place.registered() == ["openmpi"]


@pytest.mark.parametrize(
    ("printed", "said"),
    [
        (spack_output.NO_SOURCE, "the source of intel-mpi-benchmarks-2021.11 cannot be fetched (no network?); name a mirror"),
        (spack_output.NOT_CACHED, "no build cache has gcc-runtime as it is asked for"),
        (
            spack_output.BUILD_FAILED,
            "a build failed (ProcessError: Command exited with status 2: make: *** /nowhere: No such file",
        ),
    ],
)
def test_what_cannot_be_installed_is_one_sentence_and_nothing_is_registered(place: Site, printed: str, said: str) -> None:
    place.plan["fail"] = {"install": printed}
    [sentence] = place.build("openmpi")
    assert said in one_sentence(sentence)
    assert place.registered() == []


def test_a_half_built_environment_is_not_registered_and_the_next_run_goes_on(place: Site) -> None:
    place.plan["absent"] = ["osu-micro-benchmarks"]
    [sentence] = place.build("openmpi")
    assert "osu-micro-benchmarks@7.5 is not installed" in one_sentence(sentence)
    assert place.registered() == []
    place.plan["absent"] = []
    place.forget()
    assert place.build("openmpi") == []
    assert "concretize" not in place.asked() and "install" in place.asked()
    assert place.registered() == ["openmpi"]


def test_a_package_deleted_from_the_store_is_named_with_the_command_that_mends_it(place: Site) -> None:
    place.plan["prefixes"] = {"intel-mpi-benchmarks": "/nowhere/imb"}
    [sentence] = place.build("openmpi")
    assert "has intel-mpi-benchmarks@2021.11 as installed and /nowhere/imb is gone" in one_sentence(sentence)
    assert "spack uninstall --force /" in sentence and place.registered() == []


def test_an_mpi_of_the_sites_own_that_is_gone_is_the_sites_matter(place: Site) -> None:
    place.plan["prefixes"] = {"openmpi": "/nowhere/openmpi"}
    [sentence] = place.build("openmpi")
    assert "openmpi@4.1.4 as installed and /nowhere/openmpi is gone; correct its prefix in the site's packages.yaml" in sentence


def test_a_failed_install_time_test_keeps_a_stack_out(place: Site) -> None:
    place.plan["fail"] = {"test run": spack_output.TEST_FAILED}
    [sentence] = place.build("openmpi")
    assert "openmpi: testing: the install-time test of intel-mpi-benchmarks-2021.11-w3s3n42 failed" in one_sentence(sentence)
    assert "see /site/test/intel-mpi-benchmarks-2021.11-w3s3n42-test-out.txt" in sentence
    assert place.registered() == []


def test_a_stack_that_contradicts_its_lock_is_not_registered(place: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(description, "contradict", lambda stack, record: "osu_latency of openmpi-spack: it loads another.")
    [sentence] = place.build("openmpi")
    assert sentence == "osu_latency of openmpi-spack: it loads another." and place.registered() == []


def test_a_failure_leaves_the_stack_registered_as_it_was(place: Site) -> None:
    place.build("openmpi")
    before = (place.top / "environments" / "openmpi" / "stack.json").read_text()
    changed = json.loads(Path(place.plan["locks"]["openmpi"]).read_text().replace("bogrhnf5dtdn6bsggpp6qz5jysdjuzw3", "x" * 32))
    other = place.top / "other.json"
    other.write_text(json.dumps(changed))
    place.plan |= {"locks": {"openmpi": str(other)}, "fail": {"install": spack_output.BUILD_FAILED}}
    assert len(place.build("openmpi", fresh=True)) == 1
    assert (place.top / "environments" / "openmpi" / "stack.json").read_text() == before


def test_every_complaint_has_a_remedy() -> None:
    for row in complaints.ROWS:
        assert row.remedy and not row.meaning.endswith(".") and not row.remedy.endswith(".")


def test_silence_is_broken_by_lines_of_life(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tool, "HEARTBEAT_S", 0.05)
    program = tmp_path / "slow"
    program.write_text("#!/bin/sh\nsleep 1\necho done\nprintf 'no newline at the end'\n")
    program.chmod(0o755)
    said: list[str] = []
    began = time.monotonic()
    output = tool.Spack(str(program), "1.1.0", {"PATH": "/usr/bin:/bin"}).run(
        [], log=tmp_path / "log", what="x: solving", echo=said.append
    )
    assert time.monotonic() - began >= 1
    assert output == "done\nno newline at the end" and output in (tmp_path / "log").read_text()
    assert said and said[0].startswith("x: solving: still at it after")

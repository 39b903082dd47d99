"""`mpibench stacks build` with a stand-in for Spack: each bad input, and each end of Spack with an error, is one sentence."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

import pytest

import spack_output
from mpibench.stacks import logged
from mpibench.stacks.spack import build, description
from mpibench.stacks.spack.project import Spack
from synthetic_spack import COMPILERS, Site, one_sentence, packages


@pytest.fixture
def place(tmp_path: Path, root: Path, monkeypatch: pytest.MonkeyPatch) -> Site:
    made = Site(tmp_path, root)
    made.fake_mpi(monkeypatch)
    return made


# ---- no Spack, or one that cannot be used ----


@pytest.mark.parametrize(
    ("plan", "said"),
    [
        ({"version": "0.23.1"}, "it is 0.23.1), and Spack 1.0 or newer is needed"),
        ({"version": "spack"}, "gives no version"),
        ({"version": "==> Error: Python 3.5 is too old", "version_status": 1}, "cannot be used (Python 3.5 is too old)"),
    ],
)
def test_an_old_or_mute_spack_is_refused(place: Site, plan: dict[str, Any], said: str) -> None:
    place.plan |= plan
    sentence = place.refusal("openmpi")
    assert said in sentence and "git clone --depth=1 --branch=v1.1.0 https://" in sentence
    assert place.journal() == []


def test_without_spack_the_two_commands_that_get_it_are_named(place: Site) -> None:
    place.environ["SPACK_ROOT"] = str(place.top / "nowhere")
    assert f"there is no {place.top}/nowhere/bin/spack; unset it, or get it with" in place.refusal("openmpi")
    del place.environ["SPACK_ROOT"]
    sentence = place.refusal("openmpi")
    assert sentence.startswith("Spack is neither in SPACK_ROOT nor on PATH") and "export SPACK_ROOT=$PWD/spack" in sentence


def test_development_versions_are_new_enough(place: Site) -> None:
    place.plan["version"] = "1.2.0.dev0 (abcdef)"
    assert place.build("openmpi") == []


def test_an_unknown_stack_system_or_scope_is_refused(place: Site) -> None:
    assert place.refusal("lam") == "environments/ has no stack 'lam' for Spack; known are mpich, openmpi."
    assert "there is no system 'atlantis'" in place.refusal("openmpi", system="atlantis")
    place.environ["MPIBENCH_SPACK_SCOPE"] = "/nowhere"
    assert "MPIBENCH_SPACK_SCOPE is /nowhere, which is not a folder" in place.refusal("openmpi")


# ---- no compiler ----


def test_without_a_compiler_spack_is_not_left_to_write_into_the_environment(place: Site) -> None:
    place.plan["packages"] = packages()
    [sentence] = place.build()
    assert one_sentence(sentence).startswith("Spack knows no gcc; install it, then run 'mpibench stacks build --find', which")
    assert place.asked() == ["config get"], "a solution would make Spack add compilers to spack.yaml"
    [sentence] = place.build("openmpi", system="generic")
    assert "'mpibench stacks build --find --system generic'" in sentence


@pytest.mark.parametrize(
    ("printed", "said"),
    [
        ("packages:\n  gcc: {a: 1\n", "line 4 is not YAML"),
        ("packages: [gcc]\n", "is no package settings"),
        ("packages:\n  gcc: {externals: [{extra_attributes: {compilers: {c: []}}}]}\n", "is no package settings"),
    ],
)
def test_settings_that_are_none_are_one_sentence(place: Site, printed: str, said: str) -> None:
    place.plan["packages"] = printed
    [sentence] = place.build("openmpi")
    assert "'spack config get packages' printed for openmpi" in one_sentence(sentence) and said in sentence


def test_compilers_that_are_null_are_none(place: Site) -> None:
    place.plan["packages"] = "packages:\n  gcc: {externals: [{extra_attributes: {compilers: null}}]}\n"
    [sentence] = place.build("openmpi")
    assert one_sentence(sentence).startswith("Spack knows no gcc; install it")


def test_a_compiler_that_is_gone_is_named(place: Site) -> None:
    place.plan["packages"] = packages(**COMPILERS, d="/nowhere/gdc")
    [sentence] = place.build("openmpi")
    assert "compiler /nowhere/gdc is named in Spack's own packages.yaml and is not there" in one_sentence(sentence)
    scope = place.top / "scope"
    scope.mkdir()
    (scope / "packages.yaml").write_text("packages:\n  gcc:\n    externals:\n    - spec: gcc@1\n      c: /nowhere/gdc\n")
    place.environ["MPIBENCH_SPACK_SCOPE"] = str(scope)
    [sentence] = place.build("openmpi")
    assert f"is named in {scope}/packages.yaml and is not there" in sentence


# ---- what Spack refuses ----


@pytest.mark.parametrize(
    ("command", "printed", "said"),
    [
        ("concretize", spack_output.NO_SUCH_VERSION, "requirement 9.9 on openmpi for openmpi cannot match any known version"),
        ("concretize", spack_output.CONFLICT, "1. openmpi: 'amdgpu_target=none' conflicts with '+rocm'"),
        ("concretize", spack_output.WRONG_TYPE, "/site/spack/packages.yaml:3: 7 is not of type 'array'; correct"),
        ("concretize", spack_output.NO_RECIPES, "no network? (fatal: unable to access 'https://github.com/spack/"),
        ("concretize", spack_output.LOCKED, "Timed out waiting for a write lock after 120.277s. Made 281 attempts on file"),
        ("concretize", "\n", "Spack ended with status 1"),
        ("install", spack_output.NO_SOURCE, "no network? (==> Error: FetchError: All fetchers failed"),
        ("install", spack_output.NOT_CACHED, "No binary found when cache-only was specified; when the cause is corrected"),
        ("install", spack_output.BUILD_FAILED, "Command exited with status 2: '/usr/bin/make' '-C' '/nowhere'; when the"),
        ("install", spack_output.FULL, "No space left on device"),
        ("test run", spack_output.TEST_FAILED, "mpich: testing: TestFailure: 1 test failed; read what it printed; until it"),
    ],
)
def test_an_end_with_an_error_is_one_sentence_of_spacks_and_the_others_are_built(
    place: Site, command: str, printed: str, said: str
) -> None:
    place.plan["fail"] = {f"mpich {command}": printed}
    [sentence] = place.build()
    assert said in one_sentence(sentence)
    assert sentence.startswith("mpich: ") and f"(log: {place.top}/results/spack/mpich.log)" in sentence
    assert place.registered() == ["openmpi"]


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


def test_a_package_deleted_from_the_store_is_installed_again(place: Site) -> None:
    assert place.build("openmpi") == []
    place.forget()
    (place.top / "environments" / "openmpi" / "stack.json").unlink()
    place.plan["prefixes"] = {"intel-mpi-benchmarks": "/nowhere/imb"}
    [sentence] = place.build("openmpi")
    [words] = [row["words"] for row in place.journal() if row["command"] == "uninstall"]
    assert words[1:3] == ["--force", "--yes-to-all"] and [word[:1] for word in words[3:]] == ["/"]
    assert "openmpi: gone from Spack's store and installed again: intel-mpi-benchmarks@2021.11" in place.echoed
    assert place.asked().index("uninstall") < place.asked().index("install")
    # The stand-in does not bring it back.
    assert "has intel-mpi-benchmarks@2021.11 as installed and /nowhere/imb is gone" in one_sentence(sentence)
    assert place.registered() == []


def test_an_mpi_of_the_sites_own_that_is_gone_is_the_sites_matter(place: Site) -> None:
    place.plan["prefixes"] = {"openmpi": "/nowhere/openmpi"}
    [sentence] = place.build("openmpi")
    assert "openmpi@4.1.4 as installed and /nowhere/openmpi is gone; correct its prefix in the site's packages.yaml" in sentence


def test_a_stack_that_contradicts_its_lock_is_not_registered(place: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(description, "contradict", lambda stack, record: "osu_latency of openmpi-spack: it loads another.")
    [sentence] = place.build("openmpi")
    assert sentence == "osu_latency of openmpi-spack: it loads another." and place.registered() == []


def test_each_stack_is_checked_by_itself(place: Site) -> None:
    place.plan["fail"] = {"mpich config get": "==> Error: /site/environments/mpich/spack.yaml:3: 7 is not of type 'array'"}
    [sentence] = place.build()
    assert sentence.startswith("mpich: reading its configuration: ") and place.registered() == ["openmpi"]
    place.plan["fail"] = {"openmpi python": "==> Error: no"}
    assert len(place.build(fresh=True)) == 1 and place.registered() == ["mpich", "openmpi"]


@pytest.mark.parametrize(
    "file", ["environments/openmpi/spack.yaml", "environments/common/packages.yaml", "scope/packages.yaml"]
)
def test_a_file_that_is_no_yaml_is_named_with_the_line_that_is_wrong(place: Site, file: str) -> None:
    (place.top / "scope").mkdir()
    (place.top / "scope" / "packages.yaml").write_text("packages: {}\n")
    place.environ["MPIBENCH_SPACK_SCOPE"] = str(place.top / "scope")
    lines = (place.top / file).read_text().splitlines()
    (place.top / file).write_text("\n".join([*lines, "a: 1", "b: [1", "c: 2", ""]))
    [sentence] = place.build()
    assert one_sentence(sentence).startswith(f"{place.top / file}, line {len(lines) + 3} is not YAML")
    assert place.asked("openmpi") == []


def test_an_interruption_is_said(place: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupt(*words: object, **named: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(build, "concretize", interrupt)
    with pytest.raises(SystemExit) as ended:
        place.build("openmpi")
    assert ended.value.code == 130 and place.echoed[-1].startswith("interrupted: ")


def test_what_is_registered_is_not_said_to_be_installed(place: Site, capsys: pytest.CaptureFixture[str]) -> None:
    place.build("openmpi")
    assert "to install: mpibench-suite" in capsys.readouterr().out
    place.top.joinpath("fake", "installed-openmpi").unlink()  # another Spack, with nothing in its store
    place.build("openmpi")
    printed = capsys.readouterr().out
    assert "registered as it is" in printed and "to install" not in printed


def test_silence_is_broken_by_lines_of_life(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(logged, "HEARTBEAT_S", 0.05)
    program = tmp_path / "slow"
    program.write_text("#!/bin/sh\nsleep 1\necho done\nprintf 'no newline at the end'\n")
    program.chmod(0o755)
    said: list[str] = []
    began = time.monotonic()
    output = Spack(str(program), "1.1.0", {"PATH": "/usr/bin:/bin"}).run(
        [], log=tmp_path / "log", what="x: concretizing", echo=said.append
    )
    assert time.monotonic() - began >= 1
    assert output == "done\nno newline at the end" and output in (tmp_path / "log").read_text()
    assert said and said[0].startswith("x: concretizing: still at it after")

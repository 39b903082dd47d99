"""`mpibench stacks build` with a stand-in for Spack: each bad input, and
each end of Spack with an error, is one sentence.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

import synthetic_spack
from mpibench.stacks.spack import description
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
        ({"version": "1.0.2"}, "it is 1.0.2); Spack 1.1 or newer is needed"),
        ({"version": "spack"}, "gives no version"),
        (
            {"version": "==> Error: Python 3.5 is too old", "version_status": 1},
            "cannot be used (Python 3.5 is too old)",
        ),
    ],
)
def test_an_old_or_mute_spack_is_refused(place: Site, plan: dict[str, Any], said: str) -> None:
    place.plan |= plan
    assert said in place.refusal("openmpi")
    assert place.journal() == []
    place.plan |= {"version": "1.2.0.dev0 (abcdef)", "version_status": 0}
    assert place.build("openmpi") == []


# ---- no compiler ----


@pytest.mark.parametrize(
    ("printed", "said"),
    [
        (packages(), "Spack has no gcc"),
        (
            "packages:\n  gcc: {externals: [{extra_attributes: {compilers: null}}]}\n",
            "Spack has no gcc",
        ),
        (packages(**COMPILERS, d="/nowhere/gdc"), "compiler /nowhere/gdc is named in Spack's own"),
        ("packages:\n  gcc: {a: 1\n", "line 4 is not YAML"),
        ("packages: [gcc]\n", "is no package settings"),
        (
            "packages:\n  gcc: {externals: [{extra_attributes: {compilers: {c: []}}}]}\n",
            "is no package settings",
        ),
    ],
)
def test_without_a_compiler_spack_is_not_left_to_write_into_the_environment(
    place: Site, printed: str, said: str
) -> None:
    """A solution would make Spack add compilers to spack.yaml."""
    place.plan["packages"] = printed
    [sentence] = place.build("openmpi")
    assert said in one_sentence(sentence)
    assert place.asked() == ["config get"]


# ---- what Spack refuses ----


@pytest.mark.parametrize(
    ("command", "printed", "said"),
    [
        ("config get", "==> Error: /site/spack.yaml:3: 7 is not of type 'array'", "configuration"),
        ("concretize", synthetic_spack.NO_SUCH_VERSION, "cannot match any known version"),
        ("concretize", synthetic_spack.CONFLICT, "1. openmpi: 'amdgpu_target=none' conflicts with"),
        ("concretize", synthetic_spack.WRONG_TYPE, "/site/spack/packages.yaml:3: 7 is not of type"),
        ("concretize", synthetic_spack.NO_RECIPES, "no network? (fatal: unable to access"),
        ("concretize", synthetic_spack.LOCKED, "Timed out waiting for a write lock"),
        ("concretize", "\n", "Spack ended with status 1"),
        ("install", synthetic_spack.NO_SOURCE, "no network? (==> Error: FetchError"),
        ("install", synthetic_spack.NOT_CACHED, "No binary found when cache-only was specified"),
        ("install", synthetic_spack.BUILD_FAILED, "Command exited with status 2: '/usr/bin/make'"),
        ("install", synthetic_spack.FULL, "No space left on device"),
        ("test run", synthetic_spack.TEST_FAILED, "TestFailure: 1 test failed"),
    ],
)
def test_an_end_with_an_error_is_one_sentence_of_spacks_and_the_others_are_built(
    place: Site, command: str, printed: str, said: str
) -> None:
    place.plan["fail"] = {f"mpich {command}": printed}
    [sentence] = place.build()
    assert sentence.startswith("mpich: ") and said in one_sentence(sentence)
    assert f"(log: {place.top}/results/spack/mpich.log)" in sentence
    assert place.registered() == ["openmpi"]


def test_a_half_built_environment_is_not_registered_and_the_next_run_goes_on(place: Site) -> None:
    place.plan["absent"] = ["osu-micro-benchmarks"]
    [sentence] = place.build("openmpi")
    assert "osu-micro-benchmarks@7.5 is not installed" in sentence and place.registered() == []
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
    assert place.asked().index("uninstall") < place.asked().index("install")
    # The stand-in does not bring it back; and an MPI of the site's own is the site's matter.
    assert "/nowhere/imb is gone" in sentence and place.registered() == []
    place.plan["prefixes"] = {"openmpi": "/nowhere/openmpi"}
    [sentence] = place.build("openmpi")
    assert "/nowhere/openmpi is gone; correct its prefix in the site's packages.yaml" in sentence


def test_a_stack_that_contradicts_its_lock_is_not_registered(
    place: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(description, "contradict", lambda stack, record: "it loads another.")
    assert place.build("openmpi") == ["it loads another."] and place.registered() == []


@pytest.mark.parametrize(
    "file",
    ["environments/openmpi/spack.yaml", "environments/common/packages.yaml", "scope/packages.yaml"],
)
def test_a_file_that_is_no_yaml_is_named_with_the_line_that_is_wrong(
    place: Site, file: str
) -> None:
    path = place.top / file
    (place.top / "scope").mkdir()
    (place.top / "scope" / "packages.yaml").write_text("packages: {}\n")
    place.environ["MPIBENCH_SPACK_SCOPE"] = str(place.top / "scope")
    text = path.read_text().rstrip("\n")
    path.write_text(f"{text}\na: 1\nb: [1\nc: 2\n")
    [sentence] = place.build()
    assert sentence.startswith(f"{path}, line {text.count(chr(10)) + 4} is not YAML")
    assert place.asked("openmpi") == []

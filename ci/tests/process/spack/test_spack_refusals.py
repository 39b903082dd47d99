"""`mpibench stacks build` with a stand-in for Spack: each bad input, and
each end of Spack with an error, is one sentence.
"""

from __future__ import annotations

from pathlib import Path

import pytest

import synthetic_spack
from mpibench.stacks import logged
from mpibench.stacks.spack import description
from mpibench.stacks.spack.project import Spack
from reframe_tests.harness.vocabulary import BadInput
from synthetic_spack import COMPILERS, Site, one_sentence, packages


@pytest.fixture
def place(tmp_path: Path, root: Path, monkeypatch: pytest.MonkeyPatch) -> Site:
    made = Site(tmp_path, root)
    made.fake_mpi(monkeypatch)
    return made


# ---- no Spack, or one that cannot be used ----


def test_an_old_or_mute_spack_is_refused(place: Site) -> None:
    for plan, said in (
        ({"version": "1.0.2"}, "it is 1.0.2); Spack 1.1 or newer is needed"),
        ({"version": "spack"}, "gives no version"),
        (
            {"version": "==> Error: Python 3.5 is too old", "version_status": 1},
            "cannot be used (Python 3.5 is too old)",
        ),
    ):
        place.plan |= plan
        assert said in place.refusal("openmpi")
    assert place.journal() == []
    place.plan |= {"version": "1.2.0.dev0 (abcdef)", "version_status": 0}
    assert place.build("openmpi") == []


# ---- no compiler ----


def test_without_a_compiler_spack_is_not_left_to_write_into_the_environment(place: Site) -> None:
    """A solution would make Spack add compilers to spack.yaml."""
    no_list = "packages:\n  gcc: {externals: [{extra_attributes: {compilers: {c: []}}}]}\n"
    for printed, said in (
        (packages(), "Spack has no gcc"),
        (no_list.replace("{c: []}", "null"), "Spack has no gcc"),
        (packages(**COMPILERS, d="/nowhere/gdc"), "compiler /nowhere/gdc is named in Spack's own"),
        ("packages:\n  gcc: {a: 1\n", "line 4 is not YAML"),
        ("packages: [gcc]\n", "is no package settings"),
        (no_list, "is no package settings"),
    ):
        place.forget()
        place.plan["packages"] = printed
        [sentence] = place.build("openmpi")
        assert said in one_sentence(sentence)
        assert place.asked() == ["config get"]


# ---- what Spack refuses ----


@pytest.mark.parametrize(
    ("printed", "said"),
    [
        (synthetic_spack.CONFLICT, "1. openmpi: 'amdgpu_target=none' conflicts with"),
        (synthetic_spack.BUILD_FAILED, "Command exited with status 2: '/usr/bin/make'"),
        (synthetic_spack.NO_RECIPES, "no network? (fatal: unable to access"),
        (synthetic_spack.LOCKED, "Timed out waiting for a write lock"),
        ("\n", "Spack ended with status 1"),
        (synthetic_spack.NO_SOURCE, "no network? (==> Error: FetchError"),
        (synthetic_spack.NOT_CACHED, "No binary found when cache-only was specified"),
        (synthetic_spack.FULL, "No space left on device"),
    ],
)
def test_an_end_with_an_error_is_one_sentence_of_spacks(
    printed: str, said: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(logged, "run", lambda *_, **__: (1, printed))
    log = tmp_path / "log"
    with pytest.raises(BadInput) as refused:
        Spack("spack", "1.1.0", {}).run([], log=log, what="mpich: at work", echo=print)
    sentence = one_sentence(str(refused.value))
    assert sentence.startswith("mpich: at work: ") and said in sentence
    assert f"(log: {log})" in sentence


@pytest.mark.parametrize(
    ("command", "printed", "said"),
    [
        ("concretize", synthetic_spack.NO_SUCH_VERSION, "cannot match any known version"),
        ("test run", synthetic_spack.TEST_FAILED, "TestFailure: 1 test failed"),
    ],
)
def test_of_a_stack_that_fails_the_others_are_built(
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


def test_a_file_that_is_no_yaml_is_named_with_the_line_that_is_wrong(place: Site) -> None:
    scope = place.top / "scope" / "packages.yaml"
    scope.parent.mkdir()
    scope.write_text("packages: {}\n")
    place.environ["MPIBENCH_SPACK_SCOPE"] = str(scope.parent)
    environments = place.top / "environments"
    for path in (environments / "openmpi/spack.yaml", environments / "common/packages.yaml", scope):
        text = path.read_text()
        path.write_text(f"{text.rstrip()}\na: 1\nb: [1\nc: 2\n")
        [sentence] = place.build()
        line = text.rstrip().count("\n") + 4
        assert sentence.startswith(f"{path}, line {line} is not YAML")
        assert place.asked("openmpi") == []
        path.write_text(text)
        place.forget()

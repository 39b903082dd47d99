"""`mpibench stacks build` with a stand-in for Spack: what is pushed, signed, trusted, and written as modulefiles."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import yaml

import spack_output
from mpibench import cli
from mpibench.stacks.spack import build, lock, sharing
from reframe_tests.harness.vocabulary import BadInput
from synthetic_spack import COMPILERS, Site, one_sentence, packages


@pytest.fixture
def place(tmp_path: Path, root: Path, monkeypatch: pytest.MonkeyPatch) -> Site:
    made = Site(tmp_path, root)
    made.fake_mpi(monkeypatch)
    return made


def words_of(place: Site, command: str) -> list[list[str]]:
    return [row["words"] for row in place.journal() if row["command"] == command]


# ---- pushing ----


def test_a_stack_is_pushed_with_its_key_when_it_is_ready(place: Site) -> None:
    folder = place.top / "new" / "cache"
    assert place.build("openmpi", push=sharing.Push(str(folder), "ABCD")) == []
    assert place.asked()[-3:] == ["test run", "buildcache push", "gpg publish"], "what has not passed its tests is not pushed"
    [words] = words_of(place, "buildcache push")
    assert words[2:] == ["--key", "ABCD", "--update-index", folder.as_uri()]
    [words] = words_of(place, "gpg publish")
    assert words[-1] == "ABCD" and folder.as_uri() in words


def test_a_stack_that_is_up_to_date_is_pushed_too(place: Site) -> None:
    place.build("openmpi")
    place.forget()
    assert place.build("openmpi", push=sharing.Push("https://cache.example/stacks")) == []
    assert place.asked() == ["config get", "python", "buildcache push"]
    [words] = words_of(place, "buildcache push")
    assert words[2:] == ["--unsigned", "--update-index", "https://cache.example/stacks"]


def test_a_stack_that_failed_is_not_pushed_and_one_that_cannot_be_pushed_stays_registered(place: Site) -> None:
    place.plan["fail"] = {"openmpi install": "==> Error: no"}
    assert len(place.build("openmpi", "mpich", push=sharing.Push(str(place.top / "cache")))) == 1
    assert [row["stack"] for row in place.journal() if row["command"] == "buildcache push"] == ["mpich"]
    place.plan["fail"] = {"buildcache push": spack_output.NO_KEY}
    [sentence] = place.build("openmpi", push=sharing.Push(str(place.top / "cache"), "ABCD"))
    assert "openmpi: pushing: No default key available for signing; see" in one_sentence(sentence)
    assert place.registered() == ["mpich", "openmpi"]


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("--push", "cache"), "--push needs either --key KEY"),
        (("--push", "cache", "--key", "A", "--unsigned"), "--push needs either --key KEY"),
        (("--key", "A"), "--key says how --push signs; name the build cache with --push CACHE"),
        (("--unsigned",), "--unsigned says how --push signs"),
        (("--push", __file__, "--unsigned"), "is not a folder; name a folder, which may be new, or a URL"),
        (("--push", "cache", "--unsigned", "--dry-run"), "--dry-run builds nothing; leave out --push"),
        (("--modules", "m", "--dry-run"), "--dry-run builds nothing; leave out --modules"),
        (("--trust", __file__), "name the mirror with --mirror"),
    ],
)
def test_options_that_do_not_go_together_are_one_sentence(
    words: tuple[str, ...], said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert cli.main(["stacks", "build", "openmpi", *words]) == cli.BAD_INPUT
    assert said in one_sentence(capsys.readouterr().err.rpartition(" [")[0])


# ---- trusting ----


def mirrors(row: dict[str, Any]) -> list[dict[str, Any]]:
    return list(yaml.safe_load(row["scope"]["mirrors.yaml"])["mirrors"].values())


def test_what_comes_from_a_mirror_must_be_signed_by_a_key_that_is_trusted(place: Site) -> None:
    (place.top / "cache").mkdir()
    key = place.top / "site.pub"
    key.write_text("key\n")
    assert place.build("openmpi", mirrors=(str(place.top / "cache"),), trust=(str(key),), cache_only=True) == []
    [trusting, *others] = place.journal()
    assert trusting["words"] == ["gpg", "trust", str(key)]
    rings = {row["SPACK_GNUPGHOME"] for row in (trusting, *others)}
    assert len(rings) == 1 and "" not in rings, "one keyring of this run, in which no other key is"
    assert not Path(rings.pop()).exists()
    installing = next(row for row in others if row["command"] == "install")
    assert [row["signed"] for row in mirrors(installing)] == [True] and "--cache-only" in installing["words"]
    place.forget()
    place.build("openmpi", mirrors=(str(place.top / "cache"),), fresh=True)
    assert [row["signed"] for row in mirrors(place.journal()[0])] == [False]


def test_a_key_that_is_none_is_one_sentence(place: Site) -> None:
    (place.top / "cache").mkdir()
    assert "--trust /nowhere is not a file that can be read" in place.refusal(
        "openmpi", mirrors=(str(place.top / "cache"),), trust=("/nowhere",)
    )
    place.plan["fail"] = {"gpg trust": "gpg: no valid OpenPGP data found."}
    sentence = place.refusal("openmpi", mirrors=(str(place.top / "cache"),), trust=(__file__,))
    assert sentence.startswith(f"--trust {__file__}: gpg: no valid OpenPGP data found; 'spack gpg export FILE KEY' writes")


# ---- modulefiles ----


def test_both_kinds_of_modulefiles_are_written_of_the_stack_and_of_nothing_else(place: Site) -> None:
    folder = place.top / "modules"
    assert place.build("openmpi", modules=folder) == []
    rows = [row for row in place.journal() if row["command"] in ("module tcl", "module lmod")]
    assert [row["words"][1] for row in rows] == ["tcl", "lmod"]
    for row in rows:
        names = [word.split("/")[0] for word in row["words"][4:]]
        assert names == ["mpibench-suite", "openmpi", "intel-mpi-benchmarks", "osu-micro-benchmarks"]
        text = row["scope"]["modules.yaml"]
        for kind in sharing.KINDS:
            assert f"{kind}::" in text, "in place of what Spack or the user has set"
        written = yaml.safe_load(text)["modules"]["default"]
        assert written["roots"] == {"tcl": f"{folder}/tcl", "lmod": f"{folder}/lmod"} and written["arch_folder"] is False
        assert written["lmod:"]["core_compilers"] == ["gcc@12.2.0"] and written["lmod:"]["hierarchy"] == []
    assert any("'module load mpibench-suite/openmpi-4.1.4'" in line and f"{folder}/lmod/Core" in line for line in place.said)


def test_modulefiles_that_cannot_be_written_are_said_and_the_stack_stays(place: Site) -> None:
    place.plan["fail"] = {"module lmod": "==> Error: Operation aborted"}
    [sentence] = place.build("openmpi", modules=place.top / "modules")
    assert "openmpi: writing modulefiles (lmod): Operation aborted" in one_sentence(sentence)
    assert place.registered() == ["openmpi"]


# ---- stacks for device memory ----


def test_stacks_for_devices_are_built_when_they_are_named(place: Site, root: Path) -> None:
    with_device(place, root)
    assert place.build() == []
    assert place.registered() == ["mpich", "openmpi"]
    assert place.build("openmpi-cuda") == []
    assert place.registered() == ["mpich", "openmpi", "openmpi-cuda"]
    work = place.top / "results" / "spack" / "environments"
    assert (work / "common-cuda").resolve() == place.top / "environments" / "common-cuda"
    assert any(line.startswith("openmpi-cuda-spack: ready") for line in place.said)


def test_a_toolkit_the_site_does_not_name_is_one_sentence(place: Site, root: Path) -> None:
    with_device(place, root)
    place.plan["packages"] = packages(**COMPILERS)
    [sentence] = place.build("openmpi-cuda")
    assert "openmpi-cuda is built on cuda of the site, which its configuration scope does not name" in one_sentence(sentence)
    assert "let 'mpibench stacks build --find' write what it finds" in sentence
    assert place.asked("openmpi-cuda") == ["config get"]


def with_device(place: Site, root: Path) -> None:
    """The environment for NVIDIA's devices at a site that has the toolkit."""
    place.add("common-cuda", root)
    place.plan["locks"].pop("common-cuda")
    place.add("openmpi-cuda", root)
    place.plan["locks"]["openmpi-cuda"] = str(cuda_lock(place))
    settings = yaml.safe_load(place.plan["packages"])
    settings["packages"]["cuda"] = {"externals": [{"spec": "cuda@12.9.1", "prefix": "/usr/local/cuda"}], "buildable": False}
    place.plan["packages"] = yaml.safe_dump(settings)


def cuda_lock(place: Site) -> Path:
    """The recorded solution of Open MPI, with OSU's variant for device memory."""
    text = Path(place.plan["locks"]["openmpi"]).read_text()
    path = place.top / "cuda.json"
    path.write_text(text.replace('"cuda": false', '"cuda": true').replace('"cuda":false', '"cuda":true'))
    assert lock.read(path).device == "cuda"
    return path


def test_a_cuda_of_the_mpi_alone_makes_no_stack_for_devices(place: Site) -> None:
    assert lock.read(Path(place.plan["locks"]["openmpi"])).device == ""


def test_what_a_device_needs_makes_its_stack_solve_again(place: Site, root: Path) -> None:
    with_device(place, root)
    place.build("openmpi", "openmpi-cuda")
    place.forget()
    with (place.top / "environments" / "common-cuda" / "packages.yaml").open("a") as stream:
        stream.write("# changed\n")
    place.build("openmpi", "openmpi-cuda")
    assert "concretize" in place.asked("openmpi-cuda") and "concretize" not in place.asked("openmpi")


def test_the_stacks_that_are_built_by_default_are_told_apart() -> None:
    assert set(build.list_environments()) - set(build.list_by_default()) == {
        *("openmpi-cuda", "openmpi-rocm"),
        *("cray-mpich", "hpcx-mpi", "parastationmpi"),
    }


def test_a_cache_is_a_folder_or_a_url() -> None:
    assert sharing.Push("oci://registry.example/x").url == "oci://registry.example/x"
    assert sharing.Push("/site/cache").url == "file:///site/cache"
    with pytest.raises(BadInput):
        sharing.parse_push("", "", True)
    with pytest.raises(BadInput, match="signs no packages of an OCI registry"):
        sharing.parse_push("oci://registry/stacks", "site@example.org", False)

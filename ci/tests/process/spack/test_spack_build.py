"""`mpibench stacks build` with a stand-in for Spack: what it asks, registers, leaves as it was, pushes, trusts and writes."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import yaml

import spack_output
from mpibench import cli
from mpibench.stacks.spack import build, lock, sharing
from reframe_tests.harness.stacks import metadata
from reframe_tests.harness.vocabulary import BadInput
from synthetic_spack import COMPILERS, Site, one_sentence, packages
from synthetic_stack import write_stack


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
    assert "openmpi: installing intel-mpi-benchmarks-2021.11" in place.echoed
    assert not any("Executing" in line for line in place.echoed), "Spack's own output is in its log"
    assert "Executing phase" in (place.top / "results" / "spack" / "openmpi.log").read_text()
    [test_run] = [row["words"] for row in place.journal() if row["command"] == "test run"]
    assert [word.split("/")[0] for word in test_run[3:]] == ["intel-mpi-benchmarks", "osu-micro-benchmarks"]
    assert {row["SPACK_DISABLE_LOCAL_CONFIG"] for row in place.journal()} == {"1"}
    stacks, problems = metadata.discover(place.top, {})
    assert [stack.name for stack in stacks] == ["openmpi-spack"] and not problems

    place.forget()
    assert place.build("openmpi") == []
    assert place.asked() == ["config get", "python"], "nothing is concretized or installed a second time"
    assert any("openmpi-spack: up to date" in line for line in place.echoed)


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
    assert place.build(concretize_only=True) == []
    assert place.asked("openmpi") == ["config get", "concretize", "python"] and place.registered() == []
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
    sharing.write_mirrors([str(tmp_path), "oci://registry.example/x"], tmp_path)
    written = yaml.safe_load((tmp_path / "mirrors.yaml").read_text())["mirrors"]
    assert [row["url"] for row in written.values()] == [tmp_path.as_uri(), "oci://registry.example/x"]
    with pytest.raises(BadInput, match="mirror /nowhere is not a folder"):
        sharing.write_mirrors(["/nowhere"], tmp_path)


def test_the_scope_is_the_systems_unless_the_variable_names_one(place: Site) -> None:
    assert build.find_scope(None, place.top, {}) is None
    (place.top / "site_configs" / "generic" / "spack").mkdir()
    assert build.find_scope(None, place.top, {}) == place.top / "site_configs" / "generic" / "spack"
    named = {"MPIBENCH_SPACK_SCOPE": str(place.top)}
    assert build.find_scope(None, place.top, named) == place.top
    assert build.find_scope("generic", place.top, named) == place.top / "site_configs" / "generic" / "spack"


# ---- several stacks of one MPI ----


def test_a_second_compiler_is_one_file_and_its_stack_stands_beside_the_first(place: Site, root: Path) -> None:
    folder = place.top / "environments" / "common-clang"
    folder.mkdir()
    (folder / "packages.yaml").write_text((root / "environments" / "common-clang" / "packages.yaml").read_text())
    place.plan["locks"]["openmpi-clang"] = place.plan["locks"]["openmpi"]
    place.plan["packages"] += "  llvm: {externals: [{spec: llvm@14.0.6, prefix: /usr}], buildable: false}\n"
    assert place.build("openmpi", "openmpi-clang") == []
    assert [stack.name for stack in metadata.discover(place.top, {})[0]] == ["openmpi-spack", "openmpi-clang-spack"]
    scopes = {row["stack"]: row.get("-C") for row in place.journal() if row["command"] == "concretize"}
    assert scopes == {"openmpi": None, "openmpi-clang": str(folder)}
    place.forget()
    with (folder / "packages.yaml").open("a") as stream:
        stream.write("# changed\n")
    assert place.build("openmpi", "openmpi-clang") == []
    assert "concretize" in place.asked("openmpi-clang") and "concretize" not in place.asked("openmpi")
    assert place.refusal("openmpi-icx") == (
        "environments/ has no stack 'openmpi-icx' for Spack; known are mpich, openmpi, each also with -clang."
    )


@pytest.mark.parametrize("name", ["package.yaml", "packages.yml", "packages.yaml"])
def test_a_folder_of_settings_that_says_nothing_makes_no_stack(place: Site, name: str) -> None:
    """Else the plain stack would be measured under a name that claims otherwise."""
    folder = place.top / "environments" / "common-v508"
    folder.mkdir()
    (folder / name).write_text('packages: {openmpi: {require: ["@=5.0.8"]}}\n' if name != "packages.yaml" else "packages: {}\n")
    [sentence] = place.build("openmpi-v508")
    assert (
        sentence == f"openmpi-v508 is to be built as {folder}/packages.yaml says, which is not there or says nothing; write it."
    )
    assert "has no stack 'openmpi-v508-v508'" in place.refusal("openmpi-v508-v508")


@pytest.mark.parametrize(
    ("require", "taken"),
    [
        ('"@=4.1.4"', True),  # versions are Spack's to compare
        ('["@=4.1.4 +debug"]', False),
        ('[{spec: "@4.1.4"}]', True),
        ('[{one_of: ["fabrics=ofi", "fabrics=ucx"]}]', True),
        ('[{any_of: ["fabrics=psm2"]}]', False),
        ("fabrics=psm2", False),
    ],
)
def test_all_forms_of_a_requirement_are_read(place: Site, require: str, taken: bool) -> None:
    folder = place.top / "environments" / "common-zz"
    folder.mkdir()
    (folder / "packages.yaml").write_text(f"packages: {{openmpi: {{require: {require}}}}}\n")
    place.plan["locks"]["openmpi-zz"] = place.plan["locks"]["openmpi"]
    place.plan["packages"] += '  openmpi: {externals: [{spec: "openmpi@4.1.4 fabrics=ucx", prefix: /usr}]}\n'
    found = [sentence for sentence in place.build("openmpi-zz") if "the site's own is" in sentence]
    assert (found == []) is taken, found


@pytest.mark.parametrize("damage", ["bytes", "folder", "lock"])
def test_what_spack_works_with_is_made_again_where_it_is_damaged(place: Site, damage: str) -> None:
    assert place.build("openmpi") == []
    work = place.top / "results" / "spack" / "environments" / "openmpi"
    path = work / ("spack.lock" if damage == "lock" else build.CONCRETIZED)
    path.unlink()
    path.write_bytes(b"\xff\xfe") if damage == "bytes" else path.mkdir()
    place.forget()
    assert place.build("openmpi") == []
    assert "concretize" in place.asked("openmpi") and path.is_file()


def test_an_mpi_of_the_sites_is_not_taken_for_what_its_entry_does_not_say(place: Site) -> None:
    """Spack would take it for any netmod."""
    folder = place.top / "environments" / "common-ucx"
    folder.mkdir()
    (folder / "packages.yaml").write_text("packages: {mpich: {require: [netmod=ucx]}}\n")
    place.plan["locks"]["mpich-ucx"] = place.plan["locks"]["mpich"]
    packages = place.plan["packages"]
    entry = "  mpich: {externals: [{spec: mpich@4.0.2%s, prefix: /usr}], buildable: false}\n"
    place.plan["packages"] = packages + entry % ""
    [sentence] = place.build("mpich-ucx")
    assert sentence.startswith("mpich-ucx needs mpich netmod=ucx, and the site's own is mpich@4.0.2: add the word to the spec")
    assert "install" not in place.asked("mpich-ucx")
    place.plan["packages"] = packages + entry % " netmod=ucx"
    assert place.build("mpich-ucx") == []


def test_a_name_that_is_taken_is_said_before_anything_is_concretized(place: Site) -> None:
    other = write_stack(place.top / "environments" / "system" / "mine", name="openmpi-spack")
    [sentence] = place.build("openmpi")
    assert sentence == f"{other} already describes a stack 'openmpi-spack'; choose another name or remove that one."
    assert place.asked() == [] and place.registered() == []


# ---- what is installed is not what was built ----


def test_what_is_not_as_installed_is_not_registered(place: Site) -> None:
    said = "/store/bin/osu_bw of osu-micro-benchmarks@7.5 is not as it was installed (hash, size)"
    place.plan["verified"] = {"faults": [said], "notes": []}
    [sentence] = place.build("openmpi")
    assert sentence == f"openmpi: {said}; correct that entry, or 'spack uninstall' what was changed."
    assert place.registered() == []
    [_, verifying] = [row["words"] for row in place.journal() if row["command"] == "python"]
    assert len(verifying) > 6, "everything that it links or runs"


def test_what_was_not_as_it_should_be_stays_with_the_stack(place: Site) -> None:
    note = "Spack compared no source with its checksum: config:checksum is false"
    place.plan["verified"] = {"faults": [], "notes": [note]}
    assert place.build("openmpi") == []
    assert metadata.discover(place.top, {})[0][0].build["notes"] == [note]


# ---- what stays as it was ----


def solve_otherwise(place: Site) -> None:
    """Let the stand-in have another solution from now on."""
    changed = Path(place.plan["locks"]["openmpi"]).read_text().replace("bogrhnf5dtdn6bsggpp6qz5jysdjuzw3", "x" * 32)
    other = place.top / "other.json"
    other.write_text(changed)
    place.plan["locks"] = {**place.plan["locks"], "openmpi": str(other)}


def kept(place: Site) -> dict[str, str]:
    """Every file of the environment's folder."""
    return {path.name: path.read_text() for path in (place.top / "environments" / "openmpi").iterdir()}


def test_a_failure_leaves_the_stack_registered_as_it_was(place: Site) -> None:
    place.build("openmpi")
    before = kept(place)
    assert set(before) == {"spack.yaml", "stack.json", "spack.lock"}
    solve_otherwise(place)
    place.plan["fail"] = {"install": spack_output.BUILD_FAILED}
    assert len(place.build("openmpi", fresh=True)) == 1
    assert kept(place) == before, "also the lock file it was built from"


def test_a_dry_run_writes_nothing_beside_what_is_committed(place: Site) -> None:
    before = kept(place)
    place.build("openmpi", concretize_only=True)
    assert kept(place) == before == {"spack.yaml": before["spack.yaml"]}
    place.build("openmpi")
    before = kept(place)
    solve_otherwise(place)
    assert place.build("openmpi", fresh=True, concretize_only=True) == []
    assert kept(place) == before
    assert place.build("openmpi") == []
    assert json.loads(kept(place)["spack.lock"]) == json.loads(Path(place.plan["locks"]["openmpi"]).read_text())
    assert metadata.discover(place.top, {})[0][0].lock_hash == "x" * 32


@pytest.mark.parametrize("text", ['{"roots": [', "", None], ids=["cut", "empty", "of another solution"])
@pytest.mark.parametrize("fresh", [False, True])
def test_a_lock_file_that_the_build_did_not_write_is_not_believed(place: Site, text: str | None, fresh: bool) -> None:
    place.build("openmpi")
    place.forget()
    ours = kept(place)["spack.lock"]
    other = Path(place.plan["locks"]["mpich"]).read_text() if text is None else text
    (place.top / "environments" / "openmpi" / "spack.lock").write_text(other)
    assert place.build("openmpi", fresh=fresh) == []
    assert kept(place)["spack.lock"] == ours and ("concretize" in place.asked()) == fresh
    place.forget()
    (place.top / "results" / "spack" / "environments" / "openmpi" / "spack.lock").write_text(other)
    assert place.build("openmpi", fresh=fresh) == []
    assert kept(place)["spack.lock"] == ours and "concretize" in place.asked()
    assert not place.journal()[0]["lock"], "Spack reads a damaged lock file before it does anything, and stops there"


# ---- what is pushed, signed, trusted, and written as modulefiles ----


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
    assert any("'module load mpibench-suite/openmpi-4.1.4'" in line and f"{folder}/lmod/Core" in line for line in place.echoed)


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
    assert any(line.startswith("openmpi-cuda-spack: ready") for line in place.echoed)


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
        *("cray-mpich", "hpcx-mpi", "mvapich-plus", "parastationmpi"),
    }


def test_a_cache_is_a_folder_or_a_url() -> None:
    assert sharing.Push("oci://registry.example/x").url == "oci://registry.example/x"
    assert sharing.Push("/site/cache").url == "file:///site/cache"
    with pytest.raises(BadInput):
        sharing.parse_push("", "", True)
    with pytest.raises(BadInput, match="signs no packages of an OCI registry"):
        sharing.parse_push("oci://registry/stacks", "site@example.org", False)

"""`mpibench stacks build` with a stand-in for Spack: what it asks, what it registers, and what it leaves as it was."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import yaml

import spack_output
from mpibench.stacks.spack import build, sharing
from reframe_tests.harness.stacks import metadata
from reframe_tests.harness.vocabulary import BadInput
from synthetic_spack import Site
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
    assert "openmpi: installing intel-mpi-benchmarks-2021.11" in place.said
    assert not any("Executing" in line for line in place.said), "Spack's own output is in its log"
    assert "Executing phase" in (place.top / "results" / "spack" / "openmpi.log").read_text()
    [test_run] = [row["words"] for row in place.journal() if row["command"] == "test run"]
    assert [word.split("/")[0] for word in test_run[3:]] == ["intel-mpi-benchmarks", "osu-micro-benchmarks"]
    assert {row["SPACK_DISABLE_LOCAL_CONFIG"] for row in place.journal()} == {"1"}
    stacks, problems = metadata.discover(place.top, {})
    assert [stack.name for stack in stacks] == ["openmpi-spack"] and not problems

    place.forget()
    assert place.build("openmpi") == []
    assert place.asked() == ["config get", "python"], "nothing is concretized or installed a second time"
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

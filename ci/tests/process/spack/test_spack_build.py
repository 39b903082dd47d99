"""`mpibench stacks build` with a stand-in for Spack: what it asks,
registers, leaves as it was and writes.
"""

from __future__ import annotations

from pathlib import Path

import pytest
import yaml

import synthetic_spack
from mpibench import cli
from mpibench.stacks.spack import description, modulefiles
from reframe_tests.harness.stacks import metadata
from synthetic_spack import Site
from synthetic_stack import write_stack


@pytest.fixture
def place(tmp_path: Path, root: Path, monkeypatch: pytest.MonkeyPatch) -> Site:
    made = Site(tmp_path, root)
    made.fake_mpi(monkeypatch)
    return made


def change(path: Path) -> None:
    """Let a file be another one that says the same."""
    with path.open("a") as stream:
        stream.write("# changed\n")


def common(place: Site, end: str, text: str, like: str = "openmpi") -> Path:
    """A folder of settings, whose stack is solved like another."""
    folder = place.top / "environments" / f"common-{end}"
    folder.mkdir()
    (folder / "packages.yaml").write_text(text)
    place.plan["locks"][f"{like}-{end}"] = place.plan["locks"][like]
    return folder


# ---- the way it goes ----


def test_a_stack_is_solved_installed_tested_and_registered_once(place: Site, root: Path) -> None:
    installing = f"==> Installing intel-mpi-benchmarks-2021.11-{'x52j5d3j' * 4} [7/9]"
    place.plan["lines"] = [installing, "==> intel-mpi-benchmarks: Executing phase"]
    place.add("mvapich2", root)
    for name, recipes in (("openmpi", ()), ("mvapich2", ("mvapich2",))):
        place.forget()
        assert place.build(name) == []
        steps = ["config get", "concretize", "python", "install", "python", "test run"]
        assert place.asked(name) == steps
        [test_run] = [row["words"] for row in place.journal() if row["command"] == "test run"]
        assert [word.split("/")[0] for word in test_run[3:]] == [
            *recipes,
            "intel-mpi-benchmarks",
            "osu-micro-benchmarks",
        ]
    assert "openmpi: installing intel-mpi-benchmarks-2021.11" in place.echoed
    assert not any("Executing" in line for line in place.echoed), "Spack's own output is in its log"
    assert "Executing phase" in (place.top / "results" / "spack" / "openmpi.log").read_text()
    assert {row["SPACK_DISABLE_LOCAL_CONFIG"] for row in place.journal()} == {"1"}
    stacks, problems = metadata.discover(place.top, {})
    assert {stack.name for stack in stacks} == {"openmpi-spack", "mvapich2-spack"} and not problems
    place.forget()
    assert place.build("openmpi") == []
    assert place.asked() == ["config get", "python"], "nothing is made a second time"


def test_whatever_a_solution_follows_from_makes_it_solve_again(place: Site) -> None:
    """An MPI of the site's own, too, and that of another stack not."""
    scope = place.top / "scope"
    scope.mkdir()
    (scope / "concretizer.yaml").write_text("concretizer: {}\n")
    place.environ["MPIBENCH_SPACK_SCOPE"] = str(scope)

    def solves() -> bool:
        place.forget()
        assert place.build("openmpi") == []
        assert {row["MPIBENCH_SPACK_SCOPE"] for row in place.journal()} == {str(scope)}
        return "concretize" in place.asked()

    assert solves()
    environments = place.top / "environments"
    for file in (
        environments / "common/packages.yaml",
        environments / "openmpi/spack.yaml",
        place.top / "repo/recipe.py",
        scope / "concretizer.yaml",
    ):
        change(file)
        assert solves(), file
    for mpi in ("mpich", "openmpi"):
        external = f"{{externals: [{{spec: {mpi}@4.1.4, prefix: /opt}}]}}"
        place.plan["packages"] += f"  {mpi}: {external}\n"
        assert solves() is (mpi == "openmpi")


# ---- several stacks of one MPI ----


def test_a_second_compiler_is_one_file_and_its_stack_stands_beside_the_first(
    place: Site, root: Path
) -> None:
    text = (root / "environments" / "common-clang" / "packages.yaml").read_text()
    folder = common(place, "clang", text)
    place.plan["packages"] += (
        "  llvm: {externals: [{spec: llvm@14.0.6, prefix: /usr}], buildable: false}\n"
    )
    names = ("openmpi", "openmpi-clang")
    assert place.build(*names) == []
    assert [stack.name for stack in metadata.discover(place.top, {})[0]] == [
        f"{name}-spack" for name in names
    ]
    solved = [row for row in place.journal() if row["command"] == "concretize"]
    assert [row.get("-C") for row in solved] == [None, str(folder)]
    place.forget()
    change(folder / "packages.yaml")
    assert place.build(*names) == []
    assert ["concretize" in place.asked(name) for name in names] == [False, True]
    assert "known are mpich, openmpi, each also with -clang" in place.refusal("openmpi-icx")


@pytest.mark.parametrize(
    ("require", "taken"),
    [
        ('"@=4.1.4"', True),  # versions are Spack's to compare
        ('["@=4.1.4 +debug"]', False),
        ('[{one_of: ["fabrics=ofi", "fabrics=ucx"]}]', True),
        ('[{any_of: ["fabrics=psm2"]}]', False),
    ],
)
def test_an_mpi_of_the_sites_is_not_taken_for_what_its_entry_does_not_say(
    place: Site, require: str, taken: bool
) -> None:
    """Spack would take it for any."""
    common(place, "zz", f"packages: {{openmpi: {{require: {require}}}}}\n")
    place.plan["packages"] += (
        '  openmpi: {externals: [{spec: "openmpi@4.1.4 fabrics=ucx", prefix: /usr}]}\n'
    )
    said = place.build("openmpi-zz")
    assert any("the site's own is openmpi@4.1.4" in sentence for sentence in said) != taken
    assert ("install" in place.asked("openmpi-zz")) == taken


def test_a_name_that_is_taken_is_said_before_anything_is_concretized(place: Site) -> None:
    write_stack(place.top / "environments" / "system" / "mine", name="openmpi-spack")
    [sentence] = place.build("openmpi")
    assert "already describes a stack 'openmpi-spack'" in sentence
    assert place.asked() == [] and place.registered() == []


# ---- what is installed is not what was built ----


def test_what_is_not_as_installed_is_not_registered(place: Site) -> None:
    said = "/store/bin/osu_bw of osu-micro-benchmarks@7.5 changed after installation (hash, size)"
    note = "Spack checked no checksums of sources: config:checksum is false"
    place.plan["verified"] = {"faults": [said], "notes": [note]}
    [sentence] = place.build("openmpi")
    assert said in sentence and place.registered() == []
    [_, verifying] = [row["words"] for row in place.journal() if row["command"] == "python"]
    assert len(verifying) > 6, "everything that it links or runs"
    place.plan["verified"]["faults"] = []
    assert place.build("openmpi") == []
    assert metadata.discover(place.top, {})[0][0].build["notes"] == [note]


# ---- what stays as it was ----


def test_an_interruption_is_said_with_how_to_go_on(
    place: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    def interrupt(*_: object) -> str:
        raise KeyboardInterrupt

    monkeypatch.setattr(description, "contradict", interrupt)
    with pytest.raises((SystemExit, KeyboardInterrupt)) as ended:
        place.build("openmpi")
    assert ended.value.args == (130,) and place.echoed[-1].startswith("interrupted: ")
    assert place.registered() == []


def solve_otherwise(place: Site) -> None:
    """Let the stand-in have another solution from now on."""
    text = Path(place.plan["locks"]["openmpi"]).read_text()
    other = place.top / "other.json"
    other.write_text(text.replace("bogrhnf5dtdn6bsggpp6qz5jysdjuzw3", "x" * 32))
    place.plan["locks"] = {**place.plan["locks"], "openmpi": str(other)}


def kept(place: Site) -> dict[str, str]:
    """Every file of the environment's folder."""
    folder = place.top / "environments" / "openmpi"
    return {path.name: path.read_text() for path in folder.iterdir()}


def test_a_failure_or_a_dry_run_leaves_the_stack_registered_as_it_was(place: Site) -> None:
    """Also the lock file it was built from."""
    before = kept(place)
    place.build("openmpi", concretize_only=True)
    assert kept(place) == before and set(before) == {"spack.yaml"}
    place.build("openmpi")
    before = kept(place)
    assert set(before) == {"spack.yaml", "stack.json", "spack.lock"}
    solve_otherwise(place)
    assert place.build("openmpi", fresh=True, concretize_only=True) == []
    assert kept(place) == before
    place.plan["fail"] = {"install": synthetic_spack.BUILD_FAILED}
    assert len(place.build("openmpi", fresh=True)) == 1
    assert kept(place) == before
    place.plan["fail"] = {}
    assert place.build("openmpi") == []
    assert metadata.discover(place.top, {})[0][0].lock_hash == "x" * 32


def test_a_lock_file_that_the_build_did_not_write_is_not_believed(place: Site) -> None:
    """One that is cut, and that of another solution."""
    place.build("openmpi")
    ours = kept(place)["spack.lock"]
    work = place.top / "results" / "spack" / "environments" / "openmpi"
    other = Path(place.plan["locks"]["mpich"]).read_text()
    for folder, text, fresh in (
        (place.top / "environments" / "openmpi", '{"roots": [', False),
        (work, '{"roots": [', True),
        (work, other, False),
    ):
        place.forget()
        (folder / "spack.lock").write_text(text)
        assert place.build("openmpi", fresh=fresh) == []
        assert kept(place)["spack.lock"] == ours
        assert ("concretize" in place.asked()) == (folder == work)
    assert not place.journal()[0]["lock"], (
        "Spack reads a damaged lock file before it does anything, and stops there"
    )


# ---- modulefiles ----


def test_both_kinds_of_modulefiles_are_written_of_the_stack_and_of_nothing_else(
    place: Site,
) -> None:
    folder = place.top / "modules"
    assert place.build("openmpi", modules=folder) == []
    rows = [row for row in place.journal() if row["command"] in ("module tcl", "module lmod")]
    assert [row["words"][1] for row in rows] == ["tcl", "lmod"]
    for row in rows:
        assert [word.split("/")[0] for word in row["words"][4:]] == [
            "mpibench-suite",
            "openmpi",
            "intel-mpi-benchmarks",
            "osu-micro-benchmarks",
        ]
        text = row["scope"]["modules.yaml"]
        # in place of what Spack or the user has set
        assert all(f"{kind}::" in text for kind in modulefiles.KINDS)
        written = yaml.safe_load(text)["modules"]["default"]
        assert written["roots"] == {"tcl": f"{folder}/tcl", "lmod": f"{folder}/lmod"}
        assert written["lmod:"]["core_compilers"] == ["gcc@12.2.0"]
    assert any("'module load mpibench-suite/openmpi-4.1.4'" in line for line in place.echoed)
    place.plan["fail"] = {"module lmod": "==> Error: Operation aborted"}
    [sentence] = place.build("openmpi", modules=folder)
    assert "writing modulefiles (lmod): Operation aborted" in sentence
    assert place.registered() == ["openmpi"]
    assert cli.main(["stacks", "build", "openmpi", "--modules", "m", "--dry-run"]) == cli.BAD_INPUT

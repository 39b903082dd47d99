"""`mpibench stacks build` with a stand-in for Spack: what it asks, registers, leaves as it was and
writes; each bad input, and each end of Spack with an error, is one sentence.
"""

from pathlib import Path

import pytest
import yaml

import synthetic_spack
from folders import write
from mpibench import cli
from mpibench.stacks import logged
from mpibench.stacks.spack import description, modulefiles
from mpibench.stacks.spack.project import Spack
from reframe_tests.harness.stacks import metadata
from refusals import refusal
from synthetic_spack import COMPILERS, Site, one_sentence, packages
from synthetic_stack import write_stack


@pytest.fixture
def place(tmp_path, root, monkeypatch):
    made = Site(tmp_path, root)
    made.fake_mpi(monkeypatch)
    return made


def change(path):
    """Let a file be another one that says the same."""
    with path.open("a") as stream:
        stream.write("# changed\n")


def common(place, end, text, like="openmpi"):
    """A folder of settings, whose stack is solved like another."""
    file = write(place.top / "environments" / f"common-{end}" / "packages.yaml", text)
    place.plan["locks"][f"{like}-{end}"] = place.plan["locks"][like]
    return file.parent


def fails(place, said):
    """The stack is not registered, for one reason."""
    [sentence] = place.build("openmpi")
    assert said in sentence and place.registered() == []


# ---- the way it goes ----


def test_a_stack_is_solved_installed_tested_and_registered_once(place, root):
    installing = f"==> Installing intel-mpi-benchmarks-2021.11-{'x52j5d3j' * 4} [7/9]"
    place.plan["lines"] = [installing, "==> intel-mpi-benchmarks: Executing phase"]
    place.add("mvapich2", root)
    for name, recipes in (("openmpi", ()), ("mvapich2", ("mvapich2",))):
        place.forget()
        assert place.build(name) == []
        steps = ["config get", "concretize", "python", "install", "python", "test run"]
        assert place.asked(name) == steps
        [test_run] = place.words("test run")
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


def test_whatever_a_solution_follows_from_makes_it_solve_again(place):
    """An MPI of the site's own, too, and that of another stack not."""
    scope = place.top / "scope"
    write(scope / "concretizer.yaml", "concretizer: {}\n")
    place.environ["MPIBENCH_SPACK_SCOPE"] = str(scope)

    def solves():
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


def test_a_second_compiler_is_one_file_and_its_stack_stands_beside_the_first(place, root):
    text = (root / "environments" / "common-clang" / "packages.yaml").read_text()
    folder = common(place, "clang", text)
    place.plan["packages"] += (
        "  llvm: {externals: [{spec: llvm@14.0.6, prefix: /usr}], buildable: false}\n"
    )
    names = ("openmpi", "openmpi-clang")
    assert place.build(*names) == []
    assert [stack.name for stack in place.stacks()] == [f"{name}-spack" for name in names]
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
def test_an_mpi_of_the_sites_is_not_taken_for_what_its_entry_does_not_say(place, require, taken):
    """Spack would take it for any."""
    common(place, "zz", f"packages: {{openmpi: {{require: {require}}}}}\n")
    place.plan["packages"] += (
        '  openmpi: {externals: [{spec: "openmpi@4.1.4 fabrics=ucx", prefix: /usr}]}\n'
    )
    said = place.build("openmpi-zz")
    assert any("the site's own is openmpi@4.1.4" in sentence for sentence in said) != taken
    assert ("install" in place.asked("openmpi-zz")) == taken


def test_a_name_that_is_taken_is_said_before_anything_is_concretized(place):
    write_stack(place.top / "environments" / "system" / "mine", name="openmpi-spack")
    fails(place, "already describes a stack 'openmpi-spack'")
    assert place.asked() == []


# ---- what is installed is not what was built ----


def test_what_is_not_as_installed_is_not_registered(place):
    said = "/store/bin/osu_bw of osu-micro-benchmarks@7.5 changed after installation (hash, size)"
    note = "Spack checked no checksums of sources: config:checksum is false"
    place.plan["verified"] = {"faults": [said], "notes": [note]}
    fails(place, said)
    [_, verifying] = place.words("python")
    assert len(verifying) > 6, "everything that it links or runs"
    place.plan["verified"]["faults"] = []
    assert place.build("openmpi") == []
    assert place.stacks()[0].build["notes"] == [note]


# ---- what stays as it was ----


def test_an_interruption_is_said_with_how_to_go_on(place, monkeypatch):
    def interrupt(*_):
        raise KeyboardInterrupt

    monkeypatch.setattr(description, "contradict", interrupt)
    with pytest.raises((SystemExit, KeyboardInterrupt)) as ended:
        place.build("openmpi")
    assert ended.value.args == (130,) and place.echoed[-1].startswith("interrupted: ")
    assert place.registered() == []


def solve_otherwise(place):
    """Let the stand-in have another solution from now on."""
    text = Path(place.plan["locks"]["openmpi"]).read_text()
    other = place.top / "other.json"
    other.write_text(text.replace("bogrhnf5dtdn6bsggpp6qz5jysdjuzw3", "x" * 32))
    place.plan["locks"] = {**place.plan["locks"], "openmpi": str(other)}


def kept(place):
    """Every file of the environment's folder."""
    folder = place.top / "environments" / "openmpi"
    return {path.name: path.read_text() for path in folder.iterdir()}


def test_a_failure_or_a_dry_run_leaves_the_stack_registered_as_it_was(place):
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
    assert place.stacks()[0].lock_hash == "x" * 32


def test_a_lock_file_that_the_build_did_not_write_is_not_believed(place):
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
    place,
):
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


# ---- no Spack, or one that cannot be used ----


def test_an_old_or_mute_spack_is_refused(place):
    for version, status, said in (
        ("1.0.2", 0, "it is 1.0.2); Spack 1.1 or newer is needed"),
        ("spack", 0, "gives no version"),
        ("==> Error: Python 3.5 is too old", 1, "cannot be used (Python 3.5 is too old)"),
    ):
        place.plan |= {"version": version, "version_status": status}
        assert said in place.refusal("openmpi")
    assert place.journal() == []
    place.plan |= {"version": "1.2.0.dev0 (abcdef)", "version_status": 0}
    assert place.build("openmpi") == []


# ---- no compiler ----


def test_without_a_compiler_spack_is_not_left_to_write_into_the_environment(place):
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
def test_an_end_with_an_error_is_one_sentence_of_spacks(printed, said, tmp_path, monkeypatch):
    monkeypatch.setattr(logged, "run", lambda *_, **__: (1, printed))
    log = tmp_path / "log"
    run = Spack("spack", "1.1.0", {}).run
    sentence = one_sentence(refusal(run, [], log=log, what="mpich: at work", echo=print))
    assert sentence.startswith("mpich: at work: ") and said in sentence
    assert f"(log: {log})" in sentence


@pytest.mark.parametrize(
    ("command", "printed", "said"),
    [
        ("concretize", synthetic_spack.NO_SUCH_VERSION, "cannot match any known version"),
        ("test run", synthetic_spack.TEST_FAILED, "TestFailure: 1 test failed"),
    ],
)
def test_of_a_stack_that_fails_the_others_are_built(place, command, printed, said):
    place.plan["fail"] = {f"mpich {command}": printed}
    [sentence] = place.build()
    assert sentence.startswith("mpich: ") and said in one_sentence(sentence)
    assert f"(log: {place.top}/results/spack/mpich.log)" in sentence
    assert place.registered() == ["openmpi"]


def test_a_half_built_environment_is_not_registered_and_the_next_run_goes_on(place):
    place.plan["absent"] = ["osu-micro-benchmarks"]
    fails(place, "osu-micro-benchmarks@7.5 is not installed")
    place.plan["absent"] = []
    place.forget()
    assert place.build("openmpi") == []
    assert "concretize" not in place.asked() and "install" in place.asked()
    assert place.registered() == ["openmpi"]


def test_a_package_deleted_from_the_store_is_installed_again(place):
    assert place.build("openmpi") == []
    place.forget()
    (place.top / "environments" / "openmpi" / "stack.json").unlink()
    place.plan["prefixes"] = {"intel-mpi-benchmarks": "/nowhere/imb"}
    # The stand-in does not bring it back; and an MPI of the site's own is the site's matter.
    fails(place, "/nowhere/imb is gone")
    [words] = place.words("uninstall")
    assert words[1:3] == ["--force", "--yes-to-all"] and [word[:1] for word in words[3:]] == ["/"]
    assert place.asked().index("uninstall") < place.asked().index("install")
    place.plan["prefixes"] = {"openmpi": "/nowhere/openmpi"}
    fails(place, "/nowhere/openmpi is gone; correct its prefix in the site's packages.yaml")


def test_a_stack_that_contradicts_its_lock_is_not_registered(place, monkeypatch):
    monkeypatch.setattr(description, "contradict", lambda stack, record: "it loads another.")
    fails(place, "it loads another.")


def test_a_file_that_is_no_yaml_is_named_with_the_line_that_is_wrong(place):
    scope = write(place.top / "scope" / "packages.yaml", "packages: {}\n")
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

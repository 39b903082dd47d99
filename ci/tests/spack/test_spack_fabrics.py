"""With Spack: the folders common-NAME of environments/ have
solutions with every MPI, in one start of Spack.

What no solution here has to build stands in as an external: what is asked
is whether recipes and settings fit each other.
"""

import shlex
import shutil

import pytest
import yaml

from folders import DATA, write
from mpibench.stacks.spack.project import COMMON, list_shared, split
from synthetic_spack import overriding, solve, stand_ins

#: Thirty solutions.
pytestmark = pytest.mark.whole
#: Built by Spack in these solutions.
BUILT = shlex.split(
    "openmpi mpich mvapich libfabric ucx hwloc libevent pmix prrte nccl nccl-tests yaksa"
)
#: What stands in for the compilers of oneAPI.
ONEAPI = {"c": "gcc", "cxx": "g++", "fortran": "gfortran"}
#: Whose netmod of libfabric or UCX carries them.
MPIS = ("openmpi", "mpich", "mvapich")
#: Environment -> what must be in its solution: package to words of its variants.
_TABLE = yaml.safe_load((DATA / "spack_solutions.yaml").read_text())
WANTED = {
    **_TABLE["environments"],
    **{f"{mpi}-{name}": row for name, row in _TABLE["of_each"].items() for mpi in MPIS},
}


#: What a site's scope says of openmpi, as docs/how-to/spack.md has it, by file.
BY_SITES = {
    "a fabric": {"include": ["ENVIRONMENTS/common-opa"]},
    "the PMIx of Slurm": {
        "packages": {
            "pmix": {
                "externals:": [{"spec": "pmix@4.2.9", "prefix": "/opt/pmix/4.2.9"}],
                "require:": ["@4.2.9"],
                "buildable": False,
            }
        }
    },
}


@pytest.fixture(scope="module")
def outcomes(spack, root, tmp_path_factory):
    made = tmp_path_factory.mktemp("fabrics")
    packages = stand_ins("fabrics")
    compilers = {language: shutil.which(program) for language, program in ONEAPI.items()}
    for package in ("intel-oneapi-compilers", "llvm-amdgpu"):
        packages[package]["externals:"][0]["extra_attributes"] = {"compilers": compilers}
    packages |= {name: {"externals:": [], "buildable": True} for name in BUILT}
    common = root / "environments" / COMMON / "packages.yaml"
    write(made / "common" / "packages.yaml", common.read_text())
    rows = {}
    for name in WANTED:
        environment = yaml.safe_load(
            (root / "environments" / split(root, name)[0] / "spack.yaml").read_text()
        )
        shared = [
            str(root / "environments" / each) for each in list_shared(root, name) if each != COMMON
        ]
        rows[name] = [*environment["spack"]["specs"], *reversed(shared)]
    suite = rows["openmpi"][0]
    for name, section in BY_SITES.items():
        for file, content in section.items():
            text = overriding({file: content}).replace("ENVIRONMENTS", str(root / "environments"))
            write(made / name / f"{file}.yaml", text)
        rows[name] = [suite, str(made / name)]
    answer = solve(spack, made / "site", packages, rows, BUILT, [made / "common"])
    print({name: answer[name].get("seconds") for name in rows})
    return answer


@pytest.mark.parametrize("name", WANTED)
def test_an_environment_has_a_solution_with_what_its_name_says(outcomes, name):
    assert "error" not in outcomes[name], outcomes[name]["error"]
    for package, words in WANTED[name].items():
        found = words_of(outcomes[name]["variants"][package])
        assert words_of(words) <= found, f"{package}: {sorted(words_of(words) - found)}"
        providers = {
            word for word in found if package == "libfabric" and word.startswith("fabrics=")
        }
        assert providers <= words_of(words) or "fabrics" not in words, (
            f"a provider to fall back to: {sorted(providers)}"
        )


def test_no_solution_leaves_a_suite_out_or_takes_an_older_mpi(root, outcomes):
    """As Spack does silently where that costs it less than a requirement."""
    settings = yaml.safe_load((root / "environments" / COMMON / "packages.yaml").read_text())[
        "packages"
    ]
    for name in WANTED:
        found = outcomes[name]["packages"]
        assert {"osu-micro-benchmarks", "intel-mpi-benchmarks"} <= found.keys(), name
        for mpi in ("openmpi", "mpich"):
            pinned = settings[mpi]["prefer"][0].split()[0].removeprefix("@=")
            assert mpi not in found or found[mpi][1] == pinned, name


def test_without_rdma_nothing_of_it_is_linked(outcomes):
    for mpi in MPIS:
        assert "rdma-core" not in outcomes[f"{mpi}-ethernet"]["packages"]


def words_of(variants):
    """Variants as Spack prints them, each by itself: ``+a~b`` and ``fabrics=x,y``."""
    found = set()
    for word in variants.replace(":=", "=").replace("+", " +").replace("~", " ~").split():
        name, _, values = word.partition("=")
        found |= {f"{name}={value}" for value in values.split(",")} if values else {word}
    return found

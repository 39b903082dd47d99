"""With Spack: the folders common-NAME of environments/ have
solutions with every MPI, in one start of Spack.

What no solution here has to build stands in as an external: what is asked
is whether recipes and settings fit each other.
"""

import shutil

import pytest
import yaml

from folders import write
from mpibench.stacks.spack.project import COMMON, list_shared, split
from synthetic_spack import find_spack, overriding, solve, stand_ins

#: Thirty solutions.
pytestmark = pytest.mark.whole
#: Built by Spack in these solutions.
BUILT = (
    "openmpi",
    "mpich",
    "mvapich",
    "libfabric",
    "ucx",
    "hwloc",
    "libevent",
    "pmix",
    "prrte",
    "nccl",
    "nccl-tests",
    "yaksa",
)
#: What stands in for the compilers of oneAPI.
ONEAPI = {"c": "gcc", "cxx": "g++", "fortran": "gfortran"}
#: Whose netmod of libfabric or UCX carries them.
MPIS = ("openmpi", "mpich", "mvapich")
#: What brings memory of GPUs, beside the MPI.
CUDA = dict.fromkeys(
    ("mpibench-suite", "osu-micro-benchmarks", "nccl-tests", "nccl"), "+cuda cuda_arch=80,90"
)
ROCM = dict.fromkeys(
    ("mpibench-suite", "osu-micro-benchmarks"), "+rocm amdgpu_target=gfx90a,gfx942"
)
INFINIBAND = "+rc +ud +dc +mlx5_dv +cma"

#: Environment -> what must be in its solution: package to words of its variants.
WANTED = {
    "openmpi": {
        "openmpi": "fabrics=ofi,ucx",
        "ucx": INFINIBAND,
        "libfabric": "fabrics=shm,tcp,rxm,verbs",
        "osu-micro-benchmarks": "+mpi4",
    },
    "mpich": {
        "mpich": "netmod=ofi",
        "osu-micro-benchmarks": "+mpi4",
        "intel-mpi-benchmarks": "+mpi4",
    },
    **{f"{mpi}-ucx": {mpi: "netmod=ucx", "ucx": INFINIBAND} for mpi in ("mpich", "mvapich")},
    "openmpi-ucx": {"openmpi": "fabrics=ucx"},
    **{f"{mpi}-opa": {"libfabric": "fabrics=psm2,opx,shm,tcp"} for mpi in MPIS},
    **{f"{mpi}-cxi": {"libfabric": "fabrics=cxi,lnx,shm,tcp"} for mpi in MPIS},
    **{f"{mpi}-efa": {"libfabric": "fabrics=efa,shm,tcp"} for mpi in MPIS},
    **{f"{mpi}-ethernet": {"libfabric": "fabrics=tcp,shm,rxm"} for mpi in MPIS},
    **{f"{mpi}-xpmem": {"ucx": "+xpmem +cma +rc"} for mpi in MPIS},
    **{f"{mpi}-knem": {"ucx": "+knem +cma +rc"} for mpi in MPIS},
    "openmpi-cuda-gdrcopy": {
        "openmpi": "+cuda",
        "ucx": "+cuda +gdrcopy",
        "libfabric": "+cuda +gdrcopy",
        **CUDA,
    },
    "openmpi-opa-cuda": {"libfabric": "+cuda fabrics=psm2,opx,shm,tcp", **CUDA},
    "mpich-cuda": {"mpich": "+cuda netmod=ofi", "libfabric": "+cuda", **CUDA},
    "mpich-cuda-ucx": {"mpich": "+cuda netmod=ucx", "ucx": "+cuda", **CUDA},
    "hpcx-mpi-cuda": {"hpcx-mpi": "", **CUDA},
    "mvapich-plus-cuda": {"mvapich-plus": "+cuda", **CUDA},
    "openmpi-rocm": {"openmpi": "+rocm fabrics=ucx", "ucx": "+rocm", **ROCM},
    "mpich-rocm-ucx": {"mpich": "+rocm netmod=ucx", "ucx": "+rocm", **ROCM},
    "cray-mpich-rocm": {"cray-mpich": "", **ROCM},
    "mpich-oneapi": {"intel-oneapi-compilers": "", "mpich": "netmod=ofi"},
    "intel-oneapi-mpi": {"osu-micro-benchmarks": "+mpi4", "intel-mpi-benchmarks": "+mpi4"},
    "hpcx-mpi": {"hpcx-mpi": "", "osu-micro-benchmarks": "~mpi4"},
    "cray-mpich": {"cray-mpich": "", "osu-micro-benchmarks": "+mpi4"},
    "parastationmpi": {"parastationmpi": "", "osu-micro-benchmarks": "~mpi4"},
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
def outcomes(root, tmp_path_factory):
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
    answer = solve(find_spack(), made / "site", packages, rows, BUILT, [made / "common"])
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
    for name in ("openmpi-ethernet", "mpich-ethernet", "mvapich-ethernet"):
        assert "rdma-core" not in outcomes[name]["packages"]


def words_of(variants):
    """Variants as Spack prints them, each by itself: ``+a~b`` and ``fabrics=x,y``."""
    found = set()
    for word in variants.replace(":=", "=").replace("+", " +").replace("~", " ~").split():
        name, _, values = word.partition("=")
        found |= {f"{name}={value}" for value in values.split(",")} if values else {word}
    return found

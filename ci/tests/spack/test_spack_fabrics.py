"""With Spack: the folders common-NAME of environments/ have
solutions with every MPI, in one start of Spack.

What no solution here has to build stands in as an external: what is asked
is whether recipes and settings fit each other.
"""

from __future__ import annotations

import json
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest
import yaml

from folders import SUPPORT
from mpibench.stacks.spack.project import COMMON, list_shared, split
from synthetic_spack import REPO, find_spack, left_out, overriding

#: Thirty solutions.
pytestmark = pytest.mark.whole
#: What stands in, as a site would have it. A version is the one that
#: environments/common requires, where it does.
STAND_INS = {
    "rdma-core": "44.0",
    "opa-psm2": "11.2.230",
    "libcxi": "13.1.0",
    "cassini-headers": "13.1.0",
    "cxi-driver": "13.1.0",
    "json-c": "0.18",
    "curl": "8.15.0",
    "util-linux-uuid": "2.41",
    "numactl": "2.0.18",
    # Their recipes want the kernel's compiler, also of an external.
    "xpmem": "2.6.5-36 %gcc",
    "knem": "1.1.4 %gcc",
    "cuda": "12.9.1",
    "gdrcopy": "2.5.1 +cuda",
    **dict.fromkeys(("hip", "hsa-rocr-dev", "llvm-amdgpu", "rccl", "rocm-smi-lib"), "6.4.3"),
    "zlib": "1.3.1",
    "libpciaccess": "0.17",
    "libxml2": "2.13.5",
    "intel-oneapi-compilers": "2025.2.0",
    "intel-oneapi-mpi": "2021.18.1",
    "hpcx-mpi": "2.24",
    "cray-mpich": "9.0.1",
    "cray-pmi": "6.1.15",
    "mvapich-plus": "5.0.0 +cuda",
    "parastationmpi": "5.13.1",
    **dict.fromkeys(
        (
            "bison",
            "flex",
            "m4",
            "autoconf",
            "automake",
            "libtool",
            "pkgconf",
            "gmake",
            "cmake",
            "findutils",
            "perl",
        ),
        "9",
    ),
    "python": "3.11.2",
}
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
WANTED: dict[str, dict[str, str]] = {
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
BY_SITES: dict[str, dict[str, Any]] = {
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
def outcomes(root: Path, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    found = find_spack()
    made = tmp_path_factory.mktemp("fabrics")
    packages: dict[str, Any] = {
        name: {
            "externals:": [{"spec": f"{name}@{version}", "prefix": f"/stand-in/{name}"}],
            "buildable": False,
        }
        for name, version in STAND_INS.items()
    }
    compilers = {language: shutil.which(program) for language, program in ONEAPI.items()}
    for package in ("intel-oneapi-compilers", "llvm-amdgpu"):
        packages[package]["externals:"][0]["extra_attributes"] = {"compilers": compilers}
    packages |= {name: {"externals:": [], "buildable": True} for name in BUILT}
    (made / "common").mkdir()
    shutil.copy(root / "environments" / COMMON / "packages.yaml", made / "common")
    (made / "site").mkdir()
    written = {
        "repos": {"mpibench": str(REPO)},
        "concretizer": {
            "reuse": False,
            "static_analysis": True,
            "concretization_cache": {"enable": False},
        },
        "packages": packages,
    }
    for section, content in written.items():
        (made / "site" / f"{section}.yaml").write_text(overriding({section: content}))
    words = ["-C", str(made / "common"), "-C", str(made / "site")]
    packages |= left_out(found, words, [f"mpibench-suite ^{name}" for name in MPIS], BUILT)
    (made / "site" / "packages.yaml").write_text(overriding({"packages": packages}))
    rows = {}
    for name in WANTED:
        environment = yaml.safe_load(
            (root / "environments" / split(root, name)[0] / "spack.yaml").read_text()
        )
        folders = [
            str(root / "environments" / each) for each in list_shared(root, name) if each != COMMON
        ]
        rows[name] = [*environment["spack"]["specs"], *reversed(folders)]
    suite = rows["openmpi"][0]
    for name, section in BY_SITES.items():
        (made / name).mkdir()
        for file, content in section.items():
            text = overriding({file: content}).replace("ENVIRONMENTS", str(root / "environments"))
            (made / name / f"{file}.yaml").write_text(text)
        rows[name] = [suite, str(made / name)]
    (made / "asked.json").write_text(json.dumps(rows))
    command = [found.program, "--color=never", *words, "python", str(SUPPORT / "spack_solver.py")]
    command += [str(made / "asked.json"), str(made / "answer.json")]
    done = subprocess.run(command, capture_output=True, text=True, timeout=3600)
    assert done.returncode == 0, done.stdout + done.stderr
    answer = json.loads((made / "answer.json").read_text())
    print({name: row.get("seconds") for name, row in answer.items() if name in rows})
    return answer


@pytest.mark.parametrize("name", WANTED)
def test_an_environment_has_a_solution_with_what_its_name_says(
    outcomes: dict[str, Any], name: str
) -> None:
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


def test_no_solution_leaves_a_suite_out_or_takes_an_older_mpi(
    root: Path, outcomes: dict[str, Any]
) -> None:
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


def test_without_rdma_nothing_of_it_is_linked(outcomes: dict[str, Any]) -> None:
    for name in ("openmpi-ethernet", "mpich-ethernet", "mvapich-ethernet"):
        assert "rdma-core" not in outcomes[name]["packages"]


def words_of(variants: str) -> set[str]:
    """Variants as Spack prints them, each by itself: ``+a~b`` and ``fabrics=x,y``."""
    found = set()
    for word in variants.replace(":=", "=").replace("+", " +").replace("~", " ~").split():
        name, _, values = word.partition("=")
        found |= {f"{name}={value}" for value in values.split(",")} if values else {word}
    return found

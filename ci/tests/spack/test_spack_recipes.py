"""The Spack repository, audited and solved by a real Spack."""

from __future__ import annotations

import json
import re
import subprocess
from pathlib import Path
from typing import Any

import pytest
import yaml

from folders import SUPPORT
from reframe_tests.harness.stacks import metadata
from synthetic_spack import RECIPES, REPO, find_spack, left_out

#: Stand-ins for what a GPU or a Slurm needs: solving asks only
#: whether there is something to depend on.
STAND_INS = {
    "cuda": "12.4.0",
    "hip": "6.2.0",
    "hsa-rocr-dev": "6.2.0",
    "llvm-amdgpu": "6.2.0",
    "nccl": "2.22.3",
    "rccl": "6.2.0",
    "slurm": "23-11-1-1",
    "papi": "7.1.0",
    "gnuplot": "6.0.0",
    "imagemagick": "7.1.1",
    "pciutils": "3.10.0",
    "rdma-core": "44.0",
    "opa-psm2": "11.2.230",
    "oneapi-level-zero": "1.17.6",
    "libfabric": "1.17.0",
    "ucx": "1.13.1",
    "libxml2": "2.9.14",
    "libpciaccess": "0.17",
    "mpich": "5.0.1",
    "openmpi": "4.1.4",
    "bison": "3.8.2",
    "autoconf": "2.71",
    "automake": "1.16.5",
    "libtool": "2.4.7",
    "m4": "1.4.19",
    "pkgconf": "1.8.1",
    "gmake": "4.3",
    "zlib": "1.2.13",
    "findutils": "4.9.0",
}


#: Specs that must have a solution -> (package, version) that must be in it, from our repository.
CONCRETIZED = {
    "intel-mpi-benchmarks ^openmpi": ("intel-mpi-benchmarks", "2021.11"),
    "intel-mpi-benchmarks@2019.0 ^mpich": ("intel-mpi-benchmarks", "2019.0"),
    "intel-mpi-benchmarks@2021.11+mpi4 ^mpich": ("intel-mpi-benchmarks", "2021.11"),
    "osu-micro-benchmarks@=7.5.2+mpi4 ^mpich": ("osu-micro-benchmarks", "7.5.2"),
    "mpibench-suite+gpcnet ^mpich": ("gpcnet", "1.3"),
    "mpibench-suite+perftest ^mpich": ("perftest", "25.10.0-0.128"),
    "mpibench-suite ^mvapich2 fabrics=nemesis": ("mvapich2", "2.3.7-1"),
    "mvapich2 fabrics=mrail": ("mvapich2", "2.3.7-1"),
    "mvapich@4.0 netmod=ucx": ("mvapich", "4.0"),
    "mpibench-suite ^[virtuals=mpi] mpi-abi": ("mpi-abi", "1"),
    "osu-micro-benchmarks+mpi4 ^[virtuals=mpi] mpi-abi": ("osu-micro-benchmarks", "7.5.2"),
}


#: Specs that must have none -> words of the reason.
REFUSED = {
    "intel-mpi-benchmarks@2019.0 ^openmpi": "2019.0 uses MPI-1 calls",
    "intel-mpi-benchmarks@2021.11~mpi1~ext~io~nbc~rma~mt~p2p~mpi4 ^mpich": "without a single suite",
    "intel-mpi-benchmarks@2021.11~mpi1~rma+cuda ^mpich": "intel-mpi-benchmarks +cuda builds "
    "mpi1 and rma",
    "intel-mpi-benchmarks@2021.11~mpi1~rma+level_zero ^mpich": "intel-mpi-benchmarks "
    "+level_zero builds mpi1 and rma",
    "osu-micro-benchmarks@7.5+cuda+rocm ^mpich": "choose cuda or rocm",
    "osu-micro-benchmarks@7.5+cuda+sycl ^mpich": "choose cuda or sycl",
    "osu-micro-benchmarks@7.5+rocm+sycl ^mpich": "choose rocm or sycl",
    "osu-micro-benchmarks@7.5+sycl %gcc ^mpich": "needs the compilers of oneAPI",
    "osu-micro-benchmarks@5.9+papi ^mpich": "reads PAPI counters since 7.0",
    "osu-micro-benchmarks@6.1+graphing ^mpich": "draws graphs since 6.2",
    "mvapich2 fabrics=nemesis process_managers=slurm": "starts its ranks with Hydra",
    "perftest+cuda+rocm": "perftest takes one kind",
    "osu-micro-benchmarks@7.5+mpi4 ^openmpi": "osu-micro-benchmarks +mpi4 calls what this MPI "
    "has not",
    "intel-mpi-benchmarks@2021.11+mpi4 ^openmpi": "intel-mpi-benchmarks +mpi4 calls what this "
    "MPI has not",
    "mpibench-suite~imb~osu ^mpich": "measures nothing",
    "mpibench-suite+cuda ^mpich": "needs the GPUs' architecture",
    "mpibench-suite+cuda+rocm cuda_arch=80 amdgpu_target=gfx90a ^mpich": "takes one kind of GPUs",
    "mpibench-suite+cuda cuda_arch=80 ^[virtuals=mpi] mvapich2": "takes no memory of GPUs",
}


#: Our settings of packages, and all files with specs.
SCOPES = [
    str(path.relative_to(metadata.ROOT))
    for pattern in (
        "environments/common*/packages.yaml",
        "site_configs/template/spack/*/packages.yaml",
    )
    for path in sorted(metadata.ROOT.glob(pattern))
]


@pytest.fixture(scope="module")
def spack(tmp_path_factory: pytest.TempPathFactory) -> list[str]:
    """Command line of a Spack that has our repository, stand-ins for what
    its packages depend on, and builds nothing else.
    """
    found = find_spack()
    scope = tmp_path_factory.mktemp("scope")
    packages: dict[str, Any] = {
        name: {
            "externals": [{"spec": f"{name}@{version}", "prefix": f"/stand-in/{name}"}],
            "buildable": False,
        }
        for name, version in STAND_INS.items()
    }
    written = {
        "repos": {"mpibench": str(REPO)},
        "config": {"deprecated": True},
        "concretizer": {
            "reuse": False,
            "static_analysis": True,
            "concretization_cache": {"enable": False},
        },
        "packages": packages,
    }
    for section, content in written.items():
        (scope / f"{section}.yaml").write_text(yaml.safe_dump({section: content}))
    packages |= left_out(found, ("-C", str(scope)), [*CONCRETIZED, *REFUSED])
    (scope / "packages.yaml").write_text(yaml.safe_dump({"packages": packages}))
    return [found.program, "--color=never", "-C", str(scope)]


def test_audit_has_no_objection(spack: list[str]) -> None:
    done = subprocess.run(
        [*spack, "audit", "packages", *RECIPES], capture_output=True, text=True, timeout=1800
    )
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.parametrize("scope", SCOPES)
def test_audit_has_no_objection_to_our_settings(root: Path, tmp_path: Path, scope: str) -> None:
    """Each by itself: a machine's own entries of the same packages are no part of it."""
    text = (root / scope).read_text()
    (tmp_path / "packages.yaml").write_text(
        re.sub("^packages:", "packages::", text, flags=re.MULTILINE)
    )
    command = [find_spack().program, "--color=never", "-C", str(tmp_path), "audit", "configs"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=1800)
    assert done.returncode == 0 and "CFG-PACKAGES: passed" in done.stdout, done.stdout + done.stderr


@pytest.fixture(scope="module")
def outcomes(spack: list[str], tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    folder = tmp_path_factory.mktemp("solved")
    (folder / "specs.json").write_text(
        json.dumps({spec: [spec] for spec in (*CONCRETIZED, *REFUSED)})
    )
    script = SUPPORT / "spack_solver.py"
    command = [
        *spack,
        "python",
        str(script),
        str(folder / "specs.json"),
        str(folder / "answer.json"),
    ]
    done = subprocess.run(command, capture_output=True, text=True, timeout=3600)
    assert done.returncode == 0, done.stdout + done.stderr
    return json.loads((folder / "answer.json").read_text())


@pytest.mark.parametrize(("spec", "wanted"), CONCRETIZED.items(), ids=CONCRETIZED)
def test_solved(outcomes: dict[str, Any], spec: str, wanted: tuple[str, str]) -> None:
    package, version = wanted
    assert outcomes[spec].get("packages", {}).get(package) == ["mpibench", version], outcomes[spec]


@pytest.mark.parametrize(("spec", "reason"), REFUSED.items(), ids=REFUSED)
def test_refused_with_its_reason(outcomes: dict[str, Any], spec: str, reason: str) -> None:
    assert reason in outcomes[spec].get("error", ""), outcomes[spec]

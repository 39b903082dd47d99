"""The Spack repository, audited and solved by a real Spack."""

import re

import pytest
import yaml

from folders import write
from reframe_tests.harness.stacks import metadata
from synthetic_spack import RECIPES, REPO, ask, solve, stand_ins

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


@pytest.mark.parametrize("scope", SCOPES)
def test_audit_has_no_objection_to_our_settings(spack, root, tmp_path, scope):
    """Each by itself: a machine's own entries of the same packages are no part of it."""
    text = (root / scope).read_text()
    write(tmp_path / "packages.yaml", re.sub("(?m)^packages:", "packages::", text))
    assert "CFG-PACKAGES: passed" in ask(spack, "-C", tmp_path, "audit", "configs")


@pytest.fixture(scope="module")
def outcomes(spack, tmp_path_factory):
    """Stand-ins for what our packages depend on, and nothing else is built."""
    rows = {spec: [spec] for spec in (*CONCRETIZED, *REFUSED)}
    return solve(spack, tmp_path_factory.mktemp("scope"), stand_ins("recipes"), rows)


def test_audit_has_no_objection(spack, tmp_path):
    write(tmp_path / "repos.yaml", yaml.safe_dump({"repos": {"mpibench": str(REPO)}}))
    ask(spack, "-C", tmp_path, "audit", "packages", *RECIPES)


@pytest.mark.parametrize(("spec", "wanted"), CONCRETIZED.items(), ids=CONCRETIZED)
def test_solved(outcomes, spec, wanted):
    package, version = wanted
    assert outcomes[spec].get("packages", {}).get(package) == ["mpibench", version], outcomes[spec]


@pytest.mark.parametrize(("spec", "reason"), REFUSED.items(), ids=REFUSED)
def test_refused_with_its_reason(outcomes, spec, reason):
    assert reason in outcomes[spec].get("error", ""), outcomes[spec]

"""With Spack: what cannot be built here is solved at least, on
stand-ins: an MPI on a Cray, stacks for device memory.
"""

import pytest
import yaml

from mpibench.stacks.spack import lock
from synthetic_spack import build_in, copy_project, externals, overriding

#: Each of these solutions considers all of Spack's packages.
pytestmark = pytest.mark.whole
#: What a site with devices has, by environment.
DEVICES = {
    "openmpi-cuda": {"cuda": "12.9.1"},
    "openmpi-rocm": dict.fromkeys(
        ("hip", "hsa-rocr-dev", "llvm-amdgpu", "rccl", "rocm-smi-lib"), "6.4.3"
    ),
}


def dry_run(root, top, packages, *names):
    """Solutions on a site with these packages; the sentences with which some have none."""
    copy_project(root, top, {"packages.yaml": overriding({"packages": packages})})
    return build_in(top, *names, concretize_only=True)


@pytest.mark.parametrize("name", DEVICES)
def test_a_stack_for_devices_has_a_solution_on_the_sites_toolkit(spack, root, tmp_path, name):
    # The MPI is Spack's own: one of the site's has device memory or has it not.
    packages = {"openmpi": {"externals:": [], "buildable": True}, **externals(DEVICES[name])}
    # As a site describes it, and as 'mpibench stacks build --find' does.
    packages["rdma-core"] = {
        "externals:": [{"spec": "rdma-core@44.0", "prefix": "/stand-in/rdma-core"}]
    }
    # An ssh is the machine's own, described or not.
    packages["openssh"] = {"externals:": []}
    assert dry_run(root, tmp_path / "site", packages, name) == []
    found = lock.read(tmp_path / "site/results/spack/environments" / name / lock.LOCK)
    device = name.split("-")[1]
    assert found.device == device and found.mpi.name == "openmpi" and not found.mpi.external
    assert bool(found.find("nccl-tests")) == (device == "cuda")
    for package in ("openmpi", "ucx", "osu-micro-benchmarks"):
        node = found.find(package)
        assert node and f"+{device}" in node.options.split(), package
        assert {compiler.partition("@")[0] for compiler in found.compilers(node).values()} == {
            "gcc"
        }
    built = {node.name for node in found.nodes.values() if not node.external}
    not_built = {
        "slurm",
        "krb5",
        "openssl",
        "openssh",
        "rdma-core",
        "cuda",
        "hip",
        "llvm-amdgpu",
        *DEVICES[name],
    }
    assert not built & not_built, "the site has them, or none is needed"


def test_a_stack_for_devices_without_a_toolkit_is_one_sentence(spack, root, tmp_path):
    packages = {"openmpi": {"externals:": [], "buildable": True}}
    [sentence] = dry_run(root, tmp_path / "site", packages, "openmpi-cuda")
    assert "openmpi-cuda is built on cuda of the site" in sentence and "\n" not in sentence, (
        sentence
    )


@pytest.mark.parametrize("name", ["openmpi", "mpich"])
def test_the_example_of_a_cray_has_solutions_on_the_vendors_libfabric(spack, root, tmp_path, name):
    scope = root / "site_configs" / "template" / "spack" / "cray_ex" / "packages.yaml"
    # Its compiler is not on this machine, so that this machine's takes its place.
    document = yaml.safe_load(scope.read_text())
    del document["packages"]["gcc"]
    del document["packages"]["perl"]
    document["packages"].setdefault(name, {})["externals:"] = []
    document["packages"][name]["buildable"] = True
    assert dry_run(root, tmp_path / "site", document["packages"], name) == []
    found = lock.read(tmp_path / "site/results/spack/environments" / name / lock.LOCK)
    libfabric = found.find("libfabric")
    assert (
        libfabric
        and libfabric.external == "/opt/cray/libfabric/1.20.1"
        and "cxi" in libfabric.variants["fabrics"]
    )
    assert not found.mpi.external
    slurm = found.find("slurm")
    assert slurm is None or slurm.external

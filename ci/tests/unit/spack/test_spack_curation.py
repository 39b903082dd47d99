"""A site's scope: what of Spack's findings gets into it and why
the rest does not, and the examples of it.
"""

import json

import jsonschema
import pytest
import yaml

from mpibench.stacks.spack import description, scope
from reframe_tests.harness.stacks import metadata

MPIS = ("openmpi", "mpich", "intel-oneapi-mpi")


class Machine:
    """A root with installations, and what Spack finds in it."""

    def __init__(self, root):
        self.root = root
        self.found = {}

    def have(self, spec, prefix, file=""):
        path = self.root / prefix / (file or "share")
        path.parent.mkdir(parents=True, exist_ok=True)
        path.touch(0o755)
        row = {"spec": spec, "prefix": str(self.root / prefix)}
        self.found.setdefault(spec.split("@")[0], {"externals": []})["externals"].append(row)

    def curate(self):
        """Specs that are kept, and the reasons of those that are not."""
        self.kept, dropped = scope.curate(self.found, self.root / "srv" / "mpibench", MPIS)
        specs = {name: [row["spec"] for row in one["externals"]] for name, one in self.kept.items()}
        return specs, {row.entry["spec"]: reason for row, reason in dropped}


@pytest.fixture
def machine(tmp_path):
    return Machine(tmp_path)


def test_a_library_without_its_headers_is_left_out(machine):
    for package, header in scope.SITE_SOFTWARE.items():
        if header:
            machine.have(f"{package}@1.0", "usr")
            assert header in machine.curate()[1][f"{package}@1.0"]
            machine.have(f"{package}@1.0", "usr", f"include/{header}")
            assert machine.curate()[0][package] == [f"{package}@1.0"], "once"


def test_one_mpi_is_kept_and_not_built_as_well(machine):
    machine.have("openmpi@4.1.1", "usr/lib64/openmpi", "bin/mpicc")
    machine.have("intel-oneapi-mpi@2021.18", "opt/intel", "mpi/2021.18/bin/mpicc")
    kept, dropped = machine.curate()
    assert set(kept) == {"openmpi", "intel-oneapi-mpi"} and not dropped
    assert machine.kept["openmpi"]["buildable"] is False


def test_two_mpis_below_one_prefix_are_a_persons_matter(machine):
    machine.have("openmpi@4.1.4", "usr", "bin/mpicc")
    machine.have("mpich@4.0.2", "usr")
    kept, dropped = machine.curate()
    assert not kept and set(dropped) == {"openmpi@4.1.4", "mpich@4.0.2"}


# ---- the example scopes of site_configs/template/spack ----

FOLDER = metadata.ROOT / "site_configs" / "template" / "spack"
SCHEMA = jsonschema.Draft202012Validator(
    json.loads((metadata.ROOT / "site_configs" / "spack_scope.schema.json").read_text())
)
#: What stands for a site's own MPI, scheduler and network, by example.
OWN = {
    name: {"openmpi", "mpich", "intel-oneapi-mpi", "slurm", "rdma-core"}
    for name in ("debian12", "el9")
} | {"cray_ex": {"cray-mpich", "cray-pmi", "libfabric", "slurm"}}


@pytest.mark.parametrize("name", OWN)
def test_an_example_fits_the_schema_and_is_read(name):
    path = FOLDER / name / scope.PACKAGES
    SCHEMA.validate(yaml.safe_load(path.read_text()))
    rows = scope.read(path)
    assert {name for name, settings in rows.items() if "externals" in settings} >= OWN[name]
    mpis = {*description.providers(), "cray-mpich"} & set(rows)
    assert mpis and "mpi" not in rows
    for mpi in mpis:
        assert "externals" not in rows[mpi] or rows[mpi]["buildable"] is False, mpi

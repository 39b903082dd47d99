"""The example scopes of site_configs/template/spack: they fit the schema, and say of a machine what Spack needs to know."""

from __future__ import annotations

import copy
import json
from typing import Any

import jsonschema
import pytest
import yaml

from mpibench.stacks.spack import description, scope
from reframe_tests.harness.stacks import metadata

FOLDER = metadata.ROOT / "site_configs" / "template" / "spack"
SCHEMA = jsonschema.Draft202012Validator(json.loads((metadata.ROOT / "site_configs" / "spack_scope.schema.json").read_text()))
EXAMPLES = sorted(path.parent.name for path in FOLDER.glob(f"*/{scope.PACKAGES}"))
#: What stands for a site's own MPI, scheduler and network, by example.
OWN = {
    "debian12": {"openmpi", "mpich", "intel-oneapi-mpi", "slurm", "rdma-core"},
    "el9": {"openmpi", "mpich", "intel-oneapi-mpi", "slurm", "rdma-core"},
    "cray_ex": {"cray-mpich", "cray-pmi", "libfabric", "slurm"},
}

each_example = pytest.mark.parametrize("name", EXAMPLES)


def load(name: str) -> dict[str, Any]:
    return yaml.safe_load((FOLDER / name / scope.PACKAGES).read_text())


def test_the_examples_are_those_that_are_looked_at_here() -> None:
    assert set(EXAMPLES) == set(OWN)


@each_example
def test_an_example_fits_the_schema_and_is_read(name: str) -> None:
    SCHEMA.validate(load(name))
    rows = scope.read(FOLDER / name / scope.PACKAGES)
    found = {name: [row["spec"] for row in settings["externals"]] for name, settings in rows.items() if "externals" in settings}
    assert set(found) >= OWN[name] | {"gcc", "openssl", "perl"}
    for package, specs in found.items():
        assert all(spec.split("@")[0] == package for spec in specs), specs


@each_example
def test_a_sites_own_mpi_is_not_built_as_well_and_no_virtual_is_closed(name: str) -> None:
    packages = load(name)["packages"]
    mpis = {*description.providers(), "cray-mpich"} & set(packages)
    assert mpis
    for mpi in mpis:
        assert "externals" not in packages[mpi] or packages[mpi]["buildable"] is False, mpi
    assert "mpi" not in packages


@each_example
def test_an_example_says_where_it_goes_and_what_it_was_never_tried_on(name: str) -> None:
    text = (FOLDER / name / scope.PACKAGES).read_text()
    head = " ".join(line.lstrip("# ") for line in text.split("packages:")[0].splitlines())
    assert "copy to site_configs/<system>/spack/packages.yaml" in head
    assert name == "debian12" or "Nothing was ever built with this file on such a machine" in head


@pytest.mark.parametrize(
    ("keys", "value"),
    [
        (("openmpi", "externals", 0, "spec"), "openmpi"),
        (("openmpi", "externals", 0, "prefix"), "opt/mpi"),
        (("openmpi", "externals"), []),
        (("openmpi",), {"buildable": False}),
        (("openmpi",), {"external": []}),
        (("openmpi", "buildable"), "no"),
        (("mpi",), {"buildable": False}),
        (("gcc", "externals", 0, "extra_attributes", "compilers"), {"c": "/usr/bin/gcc"}),
        (("gcc", "externals", 0, "extra_attributes", "compilers", "d"), "/usr/bin/gdc"),
        (("slurm", "externals", 0), {"spec": "slurm@22.05.8"}),
    ],
)
def test_what_spack_would_refuse_or_misread_is_refused(keys: tuple[Any, ...], value: Any) -> None:
    document = copy.deepcopy(load("debian12"))
    place = document["packages"]
    for key in keys[:-1]:
        place = place[key]
    place[keys[-1]] = value
    assert not SCHEMA.is_valid(document)

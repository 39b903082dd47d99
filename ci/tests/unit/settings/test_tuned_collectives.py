"""Tuned collectives: what was proven and installed for the recommended fabric and pinning is in
the settings, and nothing else; what is no more what was proven is refused.
"""

import json
from dataclasses import replace

import pytest

from mpibench import cli
from mpibench.store.store import Store
from mpibench_tune import documents, settings
from mpibench_tune.choice import recommend
from mpibench_tune.race import Compared
from mpibench_tune.settings import SettingsProof
from reframe_tests.harness.cases.job import condition
from reframe_tests.harness.mpis import registry
from reframe_tests.harness.mpis.tuning.model import TIMED, AlgorithmRule
from reframe_tests.harness.sites import site, tuned_settings
from reframe_tests.harness.sites.tuned_settings import NAME, TunedPlace
from reframe_tests.harness.stacks import metadata
from reframe_tests.harness.stacks.stack import Stack
from reframe_tests.harness.vocabulary import NotMeasured
from refusals import refused_as
from synthetic_evidence import resolved
from synthetic_tuning import ALL, INTEL, measured, registered, variables_of


@pytest.fixture(autouse=True)
def here(tmp_path, monkeypatch):
    """One stack, and a site of its own to install into."""
    monkeypatch.setattr(metadata, "discover", registered(INTEL))
    monkeypatch.setattr(
        site, "references_file", lambda system: tmp_path / "site" / "references.yaml"
    )


def install(stack=INTEL, place=None):
    """Settings as a tuning installs them."""
    tuning = registry.find(stack.mpi).tuning
    place = place or TunedPlace("testbed", stack.name, "eth10g", 2, 2, "default")
    rows = (Compared("Alltoall", 1024, "2", 40.0, 20.0, 0.5, 0.4, 0.625, 8, "better"),)
    proof = settings.as_proof(SettingsProof("0123456789ab", rows, {"Alltoall": TIMED}))
    settings.install(
        *settings.make(place, stack, tuning, [AlgorithmRule("Alltoall", 512, 2048, "2")], proof),
        place.folder,
        rows,
    )
    return place


def recommended(folder):
    measured(folder, 1, pinning="default")
    return recommend(Store(folder), "testbed", INTEL.name, ALL)


def test_what_was_proven_is_set_with_how_much_it_brings(tmp_path):
    install()
    found = recommended(tmp_path / "data")
    [row] = found.rows
    assert variables_of(row)["I_MPI_ADJUST_ALLTOALL"] == "2:512-2048@4-4"
    said = "\n".join(documents.facts(found, row))
    assert "MPI_Alltoall is up to 2.00 (1.60 to 2.50) times as fast" in said


def test_of_another_release_or_changed_it_is_named_and_not_set(tmp_path):
    place = install()
    replace(tuned_settings.read(place.folder), mpi_version="2021.1").write(place.folder, {})
    [row] = recommended(tmp_path / "data").rows
    assert row.tuned is None and "prove them again" in "\n".join(row.reasons)
    (place.folder / "tuned.json").write_text("{")
    [row] = recommended(tmp_path / "more").rows
    assert row.tuned is None and "is not a record" in "\n".join(row.reasons)


def test_files_are_copied_beside_the_modules_that_name_them(tmp_path, monkeypatch, capsys):
    """Open MPI's rules are a file; the modulefiles name the copy,
    wherever the folder was written to.
    """
    monkeypatch.chdir(tmp_path)
    mpi = {"mpi": "openmpi", "mpi_version": "5.0.11"}
    stack = Stack(**{**vars(INTEL), **mpi, "abi": "openmpi", "launcher_family": "prrte"})
    monkeypatch.setattr(metadata, "discover", registered(stack))
    place = install(stack)
    where = {"fabric": "eth10g", "pinning": "default", "ppn": 2, "lock_hash": None}
    measured(tmp_path / "data", 1, mpi_version="5.0.11", where={**where, "mpi": "openmpi"})
    words = f"settings {stack.name} --system=testbed --dataset-only --dataset data --out out"
    assert cli.main([*words.split(), "--sessions", ALL]) == 0, capsys.readouterr()
    [folder] = (tmp_path / "out" / stack.name).iterdir()
    copied = folder / documents.TUNING / "openmpi_rules.conf"
    assert copied.read_text() == (place.folder / copied.name).read_text()
    module = (folder / "lua" / f"{stack.name}.lua").read_text()
    assert f'setenv("OMPI_MCA_coll_tuned_dynamic_rules_filename", "{copied}")' in module
    assert str(copied) in (folder / "modules.yaml").read_text()


def test_a_condition_under_tuned_settings_says_so():
    own = resolved()
    build = {"mpi_version": "5.0.11", "build": {"lock_hash": "0123abcd"}}
    own = replace(own, stack=replace(own.stack, **build))
    with pytest.raises(NotMeasured):
        condition.apply_tuned("generic", own)
    place = install(own.stack, condition.tuned_place("generic", own))
    tuned = condition.apply_tuned("generic", own)
    assert "tuned" not in own.as_dict()
    assert tuned.as_dict()["tuned"] == tuned_settings.read(place.folder).id
    assert tuned.asked_env["OMPI_MCA_coll_tuned_use_dynamic_rules"] == "1"


@pytest.mark.parametrize("change", [{"env": {"LD_PRELOAD": "/tmp/x.so"}}, {"sha256": ""}])
def test_an_edited_record_is_refused(change):
    place = install()
    record = place.folder / NAME
    record.write_text(json.dumps({**json.loads(record.read_text()), **change}))
    with refused_as("changed-since"):
        tuned_settings.read(place.folder)

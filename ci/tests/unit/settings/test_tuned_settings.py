"""Tuned settings are what they were when they were proven, and of
the same library; everything else is refused.
"""

import json
from dataclasses import replace

import pytest

from mpibench_tune import settings
from reframe_tests.harness.cases.job import condition
from reframe_tests.harness.mpis import registry
from reframe_tests.harness.mpis.tuning.model import AlgorithmRule
from reframe_tests.harness.sites import tuned_settings
from reframe_tests.harness.sites.tuned_settings import NAME, TunedPlace
from reframe_tests.harness.stacks import metadata
from reframe_tests.harness.vocabulary import NotMeasured
from refusals import refused_as
from synthetic_evidence import resolved
from synthetic_stack import write_stack

RULES = (AlgorithmRule("Allreduce", 8, 1023, "3"), AlgorithmRule("Alltoallv", 0, 0, "2"))


def install(stack, folder, place):
    tuning = registry.find("openmpi").tuning
    assert tuning
    settings.install(*settings.make(place, stack, tuning, RULES), folder)


def test_a_condition_under_tuned_settings_says_so(tmp_path, monkeypatch):
    references = tmp_path / "references.yaml"
    monkeypatch.setattr(tuned_settings.site, "references_file", lambda system: references)
    own = resolved()
    build = {"mpi": "openmpi", "mpi_version": "5.0.11", "build": {"lock_hash": "0123abcd"}}
    own = replace(own, stack=replace(own.stack, **build))
    with pytest.raises(NotMeasured):
        condition.apply_tuned("generic", own)
    place = condition.tuned_place("generic", own)
    install(own.stack, place.folder, place)
    tuned = condition.apply_tuned("generic", own)
    assert "tuned" not in own.as_dict()
    assert tuned.as_dict()["tuned"] == tuned_settings.read(place.folder).id
    assert tuned.asked_env["OMPI_MCA_coll_tuned_use_dynamic_rules"] == "1"


@pytest.mark.parametrize(
    "change",
    [
        {"env": {"LD_PRELOAD": "/tmp/x.so"}},
        {"sha256": ""},
    ],
)
def test_an_edited_record_is_refused(change, tmp_path):
    stack = replace(metadata.read(write_stack(tmp_path)), mpi="openmpi", mpi_version="5.0.11")
    install(stack, tmp_path, TunedPlace("generic", stack.name, "eth", 1, 1, "none"))
    record = tmp_path / NAME
    record.write_text(json.dumps({**json.loads(record.read_text()), **change}))
    with refused_as("changed-since"):
        tuned_settings.read(tmp_path)

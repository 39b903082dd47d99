"""Files of a site: none of them is read for the first time by what judges."""

import shutil

import pytest

from mpibench.commands.listings import doctor, site_files
from reframe_tests.harness.sites import systems
from reframe_tests.harness.vocabulary import ROOT
from synthetic_site import SYSTEM

BROKEN = {
    "references.yaml": ("references.yaml", "a: [\n", "is not YAML"),
    "policy.yaml": ("policy.yaml", "margins_percents: {latency_us: 5}\n", "margins_percents"),
    "expected.yaml": ("expected.yaml", "runs: {nightly: {options: 5}}\n", "runs.nightly"),
    "preflight.yaml": ("preflight.yaml", "kernl: {same: true, why: x, fix: y}\n", "kernl"),
    "published": ("published/x.csv", "table,value\n", "columns"),
    "tuning": ("tuning/mpich-wheels/shm_nn_1/tuned.json", "{}", "tuned.json"),
}


@pytest.fixture
def tiny(tmp_path):
    top = tmp_path / "site_configs"
    (top / "tiny").mkdir(parents=True)
    shutil.copy(ROOT / "site_configs" / "preflight.yaml", top)
    (top / "tiny" / "system.py").write_text(SYSTEM)
    system = systems.find("tiny", tmp_path)
    assert system and not list(site_files.faults(system, tmp_path))
    return system


@pytest.mark.parametrize("name", site_files.FILES)
def test_each_file_of_a_site_is_read_before_a_night(tmp_path, tiny, name):
    file, text, key = BROKEN[name]
    path = tmp_path / "site_configs" / "tiny" / file
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    [(found, sentence)] = site_files.faults(tiny, tmp_path)
    assert found == name and path.name in sentence and key in sentence
    said = [*doctor.check_files(tiny, tmp_path), *doctor.check_references("tiny", True, tmp_path)]
    assert [row.detail for row in said if row.state == doctor.MISSING] == [sentence]


def test_a_file_that_nothing_reads_is_named_with_the_one_that_was_meant(tmp_path, tiny):
    (tmp_path / "site_configs" / "tiny" / "polcy.yml").touch()
    [finding] = doctor.check_files(tiny, tmp_path)
    assert (finding.subject, finding.state) == ("polcy.yml", doctor.NOTE)
    assert "'policy.yaml'" in finding.detail

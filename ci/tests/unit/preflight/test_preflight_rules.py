"""The files of rules: those of all systems, a system's own, and what cannot be one."""

import re
import shutil

import pytest

from reframe_tests.harness.cases.preflight import rules
from reframe_tests.harness.vocabulary import ROOT, BadInput

OWN = "{why: because, fix: do it"


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("- kernel", "is a list at its top"),
        (f"Kernel: {OWN}, same: true}}", "does not match"),
        (f"kernel: {OWN}}}", "key 'kernel"),
        (f"kernel: {OWN}, at_least: high}}", "key 'kernel"),
        (f"nvlinks: {OWN}, same: true, among: gpus}}", "gpus is not such a fact; write 'gpu'"),
        (f"kernal: {OWN}, same: true}}", "no such fact; write 'kernel', or remove"),
        ("tubro: null", "key 'tubro': no such fact; write 'turbo', or remove it."),
        (f"kernel: {OWN}, same: true, partitions: [ndr, dnr2]}}", "'dnr2' is not a partition of"),
        (f"kernel: {OWN}, same: true, instances: 'mlx5*'}}", "kernel is a fact of the whole node"),
    ],
)
def test_what_is_no_rule_or_could_never_find_anything_is_refused(tmp_path, text, said):
    mine = tmp_path / "site_configs" / "mine"
    mine.mkdir(parents=True)
    shutil.copy(ROOT / "site_configs" / rules.FILE, mine.parent)
    (mine / rules.FILE).write_text(text)
    with pytest.raises(BadInput, match=rf"mine/preflight\.yaml.*{re.escape(said)}"):
        rules.load("mine", tmp_path, ["ndr", "eth"])

"""The files of rules: those of all systems, a system's own, and what cannot be one."""

from __future__ import annotations

import re
import shutil
from pathlib import Path

import pytest

from reframe_tests.harness.cases.preflight import node_facts, rules
from reframe_tests.harness.vocabulary import ROOT, BadInput
from synthetic_node import CXI, ETHERNET, HFI1, MLX5, QUIET, make_node

OWN = "{why: because, fix: do it"


@pytest.fixture
def copy(tmp_path: Path) -> Path:
    (tmp_path / "site_configs" / "mine").mkdir(parents=True)
    shutil.copy(ROOT / "site_configs" / rules.FILE, tmp_path / "site_configs")
    return tmp_path


def own(root: Path, text: str) -> None:
    (root / "site_configs" / "mine" / rules.FILE).write_text(text)


def test_every_rule_is_about_a_fact_that_nodes_show(tmp_path: Path) -> None:
    """A rule with a misspelt fact would never find anything."""
    node = node_facts.Node(make_node(tmp_path, QUIET, MLX5, HFI1, CXI, ETHERNET))
    more = "driver driver_version clock_synchronised busy_cores shared_subnet"
    shown = {*node_facts.collect(node), *more.split(), *node_facts.GPU_FACTS}
    assert {rule.fact for rule in rules.load("generic")} <= shown


def test_gpus_that_are_divided_on_all_nodes_fail(copy: Path) -> None:
    """Or all nodes could be alike in what no rank may use."""
    (rule,) = (rule for rule in rules.load("mine", copy) if rule.fact == "mig_mode")
    assert [rule.permits(mode) for mode in node_facts.MODES] == [False, True, True, True]


def test_a_systems_own_rules_replace_single_ones(copy: Path) -> None:
    board = f"board: {OWN}, same: {{within: 2}}, instances: 'mlx5*'}}"
    own(copy, f"kernel: {OWN}, expected: 5.14}}\nturbo: null\n{board}\n")
    found = {rule.fact: rule for rule in rules.load("mine", copy)}
    assert found["kernel"].allowed == (5.14,) and not found["kernel"].same
    assert "turbo" not in found and found["governor"].same and found["board"].within == 2
    assert found["board"].concerns("any", "mlx5_1:1")
    assert not found["board"].concerns("any", "hfi1_0:1")
    assert {rule.fact for rule in rules.load("other", copy)} > {"turbo", "kernel"}


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("- kernel", "is a list at its top"),
        (f"Kernel: {OWN}, same: true}}", "does not match"),
        (f"kernel: {OWN}}}", "key 'kernel"),
        (f"kernel: {OWN}, same: true, expected: a}}", "key 'kernel"),
        (f"kernel: {OWN}, at_least: high}}", "key 'kernel"),
        (f"nvlinks: {OWN}, same: true, among: gpus}}", "gpus is no such fact; write 'gpu'"),
        (f"kernal: {OWN}, same: true}}", "no node shows such a fact; write 'kernel', or remove"),
        ("tubro: null", "key 'tubro': no node shows such a fact; write 'turbo', or remove it."),
        (f"kernel: {OWN}, same: true, partitions: [ndr, dnr2]}}", "'dnr2' is no partition of the"),
        (f"kernel: {OWN}, same: true, instances: 'mlx5*'}}", "kernel is one fact of the node as a"),
    ],
)
def test_what_is_no_rule_or_could_never_find_anything_is_refused(
    copy: Path, text: str, said: str
) -> None:
    own(copy, text)
    with pytest.raises(BadInput, match=rf"mine/preflight\.yaml.*{re.escape(said)}"):
        rules.load("mine", copy, ["ndr", "eth"])


def test_with_rdma_memory_must_be_lockable(copy: Path) -> None:
    """Or all nodes could be alike in what keeps an MPI from using the fabric."""

    def locked(rdma: bool = True) -> rules.Rule | None:
        loaded = {rule.fact: rule for rule in rules.load("mine", copy, rdma=rdma)}
        return loaded.get("locked_memory_kib")

    assert locked(rdma=False).same and not locked(rdma=False).allowed
    rule = locked()
    assert not rule.same and rule.permits("unlimited") and not rule.permits(65536)
    own(copy, f"locked_memory_kib: {OWN}, same: true}}\n")
    assert locked().same, "a site that knows better says so"
    own(copy, "locked_memory_kib: null\n")
    assert locked() is None

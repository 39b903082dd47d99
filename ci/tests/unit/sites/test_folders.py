"""Files of a system outside the checkout: read, written and named where they are."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
import yaml

from mpibench.judge import expected, policy
from reframe_tests.harness.cases.preflight import rules
from reframe_tests.harness.sites import folders, site, systems
from reframe_tests.harness.vocabulary import BadInput
from tiny_site import SYSTEM


@pytest.fixture
def outside(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with one system, beside a checkout with none."""
    (tmp_path / "checkout" / "site_configs").mkdir(parents=True)
    (tmp_path / "sites" / "tiny").mkdir(parents=True)
    (tmp_path / "sites" / "tiny" / "system.py").write_text(SYSTEM)
    monkeypatch.setenv("MPIBENCH_SITES", str(tmp_path / "sites"))
    return tmp_path / "sites"


def test_a_system_outside_the_checkout_is_one_like_any(outside: Path, tmp_path: Path) -> None:
    root = tmp_path / "checkout"
    assert [row["name"] for row in systems.read_all(root)] == ["tiny"]
    found = systems.find("tiny", root)
    assert found is not None and found["partitions"][0]["name"] == "node"
    assert site.references_file("tiny", root) == outside / "tiny" / "references.yaml"
    assert expected.path_of("tiny", root) == outside / "tiny" / "expected.yaml"
    assert site.references_file("new", root) == outside / "new" / "references.yaml", "what is written first is written outside"


def test_each_of_its_files_is_read(outside: Path, tmp_path: Path) -> None:
    root = tmp_path / "checkout"
    (outside / "tiny" / "policy.yaml").write_text("confidence: 0.9\n")
    (outside / "tiny" / "expected.yaml").write_text("runs: 3\n")
    assert policy.load("tiny", root).source == str(outside / "tiny" / "policy.yaml")
    with pytest.raises(BadInput, match=r"expected\.yaml"):
        expected.load_file("tiny", root)
    (root / "site_configs" / "preflight.yaml").write_text((site.ROOT / "site_configs" / "preflight.yaml").read_text())
    before = {rule.fact for rule in rules.load("tiny", root)}
    some = sorted(yaml.safe_load((root / "site_configs" / "preflight.yaml").read_text()))[0]
    (outside / "tiny" / "preflight.yaml").write_text(f"{some}: null\n")
    assert before - {rule.fact for rule in rules.load("tiny", root)} == {some}


def test_the_bundled_systems_stay(outside: Path) -> None:
    names = [path.parent.name for path in systems.system_files()]
    assert "tiny" in names and "minicluster" in names and names[-1] == systems.FALLBACK_SYSTEM


@pytest.mark.parametrize("text", ["sites", "/nowhere/at/all", "~nobody-of-that-name/sites"])
def test_what_is_no_folder_is_refused(monkeypatch: pytest.MonkeyPatch, tmp_path: Path, text: str) -> None:
    monkeypatch.setenv("MPIBENCH_SITES", text)
    with pytest.raises(BadInput, match=r"MPIBENCH_SITES names .*, which is not the full name of a folder"):
        folders.every(tmp_path)


def test_a_folder_that_hides_its_systems_is_refused(outside: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """This machine would be taken for another system. Root may read everything, so the answer is made up."""
    monkeypatch.setattr(os, "access", lambda path, mode: Path(path) != outside)
    with pytest.raises(BadInput, match=r"MPIBENCH_SITES names .*/sites, which you may not read; correct its rights"):
        systems.select(None, outside.parent / "checkout")


def test_a_system_in_two_places_is_refused(outside: Path, tmp_path: Path) -> None:
    (tmp_path / "checkout" / "site_configs" / "tiny").mkdir()
    with pytest.raises(BadInput, match=r"system tiny has the folders .*/sites/tiny and .*/site_configs/tiny: remove one\."):
        systems.find("tiny", tmp_path / "checkout")

"""Settings: only what is proven to be better is set, with how much it brings; what is not proven is refused or left."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import yaml

from folders import DATA
from mpibench import cli
from mpibench.pages import settings as documents
from mpibench.pages.settings import Recommendation, recommend
from mpibench.store.store import Store
from reframe_tests.harness.sites import systems
from reframe_tests.harness.stacks import metadata
from reframe_tests.harness.vocabulary import NotMeasured
from refusals import refused_as
from synthetic_settings import ALL, ENVIRONMENT, INTEL, measured, registered, variables_of


@pytest.fixture(autouse=True)
def one_stack(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(metadata, "discover", registered(INTEL))


def only(folder: Path) -> Recommendation:
    found = recommend(Store(folder), "testbed", INTEL.name, ALL)
    (row,) = found.rows
    return row


def said(row: Recommendation) -> str:
    return "\n".join([*row.reasons, *(one.text for _, one in row.gains)])


def test_the_faster_fabric_and_pinning_are_set_as_they_were_measured(tmp_path: Path) -> None:
    measured(tmp_path, 1)
    measured(tmp_path, 2, fabric="eth1g", factor=4.0)
    measured(tmp_path, 3, pinning="default", factor=1.3)
    row = only(tmp_path)
    assert (row.fabric, row.pinning, row.ppn) == ("eth10g", "bunch", 2)
    assert variables_of(row) == {
        **{name: ENVIRONMENT[name] for name in ("FI_PROVIDER", "FI_TCP_IFACE", "I_MPI_FABRICS", "I_MPI_OFI_PROVIDER")},
        "I_MPI_PIN": "on",
        "I_MPI_PIN_DOMAIN": "[0x1,0x2]",
    }
    assert {one.purpose for one in row.variables} == {"fabric", "pinning"}
    gains = dict(row.gains)
    assert gains["fabric"].times == pytest.approx(4.0, rel=0.02) and gains["fabric"].low > 3.5
    assert gains["pinning"].times == pytest.approx(1.3, rel=0.02) and gains["pinning"].against == "default"


def test_the_only_fabric_is_set_and_nobody_knows_what_it_brings(tmp_path: Path) -> None:
    measured(tmp_path, 1, pinning="default")
    row = only(tmp_path)
    assert row.fabric == "eth10g" and row.gains == ()
    assert "is the only one that is proven; how much it brings is not known" in said(row)


def test_within_noise_nothing_is_set(tmp_path: Path) -> None:
    measured(tmp_path, 1, noise=0.02)
    measured(tmp_path, 2, fabric="eth1g", factor=1.005, noise=0.02)
    row = only(tmp_path)
    assert row.fabric == "" and row.variables == ()
    assert "none is faster than all others by more than noise" in said(row)


def test_noise_of_single_sizes_hides_no_large_difference(tmp_path: Path) -> None:
    """Sizes that vary by a factor of two each, as on a busy machine, and a fabric ten times as slow."""
    measured(tmp_path, 1, noise=0.7, repeats=3)
    measured(tmp_path, 2, fabric="eth1g", factor=10.0, noise=0.7, repeats=3)
    row = only(tmp_path)
    assert row.fabric == "eth10g", said(row)


def test_a_fabric_that_is_slower_for_some_sizes_is_not_set(tmp_path: Path) -> None:
    measured(tmp_path, 1, change=lambda benchmark, size, stack: 2.0 if size <= 1024 else 0.2)
    measured(tmp_path, 2, fabric="eth1g")
    row = only(tmp_path)
    assert row.fabric == "" and "but slower for small messages" in said(row)


def test_a_fabric_the_mpi_takes_by_itself_is_not_set(tmp_path: Path) -> None:
    measured(tmp_path, 1, pinning="default")
    measured(tmp_path, 2, fabric="shipped", transport="as_shipped", environment={}, pinning="default")
    row = only(tmp_path)
    assert row.fabric == "" and "no better than shipped, where nothing is forced" in said(row)


def test_forcing_that_helps_is_set(tmp_path: Path) -> None:
    measured(tmp_path, 1, pinning="default")
    measured(tmp_path, 2, fabric="shipped", transport="as_shipped", environment={}, pinning="default", factor=3.0)
    row = only(tmp_path)
    assert row.fabric == "eth10g" and dict(row.gains)["fabric"].times == pytest.approx(3.0, rel=0.02)


def test_no_pinning_is_better_than_one_that_was_not_compared(tmp_path: Path) -> None:
    measured(tmp_path, 1)
    row = only(tmp_path)
    assert row.pinning == "default" and "the stack's own was not measured" in said(row)
    assert "I_MPI_PIN" not in variables_of(row)
    measured(tmp_path, 2, pinning="default", noise=0.02)
    assert "none is better than the stack's own (bunch is " in said(only(tmp_path))


def test_fabrics_inside_a_node_are_not_set_where_jobs_use_several(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    measured(tmp_path, 1, scope="node", fabric="shm", transport="shm", environment={"I_MPI_FABRICS": "shm"})
    assert variables_of(only(tmp_path)) == {"I_MPI_FABRICS": "shm"}
    extras = {"fabrics": {"shm": {"transport": "shm", "scope": "node"}, "eth": {"transport": "tcp", "scope": "cluster"}}}
    monkeypatch.setattr(systems, "find", lambda name: {"partitions": [{"name": "node", "extras": extras}]})
    row = only(tmp_path)
    assert row.variables == () and "jobs use several nodes" in said(row)


def test_what_the_site_sets_anyway_is_part_of_what_was_proven(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    measured(tmp_path, 1, environment={**ENVIRONMENT, "I_MPI_EXTRA": "$(touch made)"})
    extras = {"recommended": [{"stacks": ["*"], "env_vars": {"I_MPI_EXTRA": "other"}}]}
    monkeypatch.setattr(systems, "find", lambda name: {"partitions": [{"name": "node", "extras": extras}]})
    (one,) = [one for one in only(tmp_path).variables if one.purpose == "site"]
    assert (one.name, one.value) == ("I_MPI_EXTRA", "$(touch made)")


def test_nothing_proven_is_refused(tmp_path: Path) -> None:
    measured(tmp_path, 1, evidence="contradicted", result="fail")
    with pytest.raises(NotMeasured, match="nothing of intelmpi-wheels is proven on testbed"):
        only(tmp_path)
    measured(tmp_path, 2)
    with pytest.raises(NotMeasured, match=r"nothing of mpich-wheels is proven on testbed.*proven is intelmpi-wheels"):
        recommend(Store(tmp_path), "testbed", "mpich-wheels", ALL)


def test_measurements_of_another_version_prove_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    measured(tmp_path, 1)
    monkeypatch.setattr(metadata, "discover", registered(replace(INTEL, mpi_version="2021.19")))
    with refused_as("stack-changed", match=r"has mpi version 2021\.19 and was measured with 2021\.18\.1"):
        only(tmp_path)
    monkeypatch.setattr(metadata, "discover", registered())
    with refused_as("stack-not-registered"):
        only(tmp_path)


def test_the_command_writes_all_documents_or_none(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    measured(tmp_path / "data", 1, pinning="default")
    out = tmp_path / "out"
    words = ["--dataset", str(tmp_path / "data"), "--dataset-only", "--sessions", ALL, "--out", str(out)]
    assert cli.main(["settings", INTEL.name, "--system=testbed", *words]) == 0
    assert "I_MPI_OFI_PROVIDER=tcp" in capsys.readouterr().out
    folder = out / INTEL.name / "node"
    names = {str(path.relative_to(folder)) for path in folder.rglob("*") if path.is_file()}
    assert names == {"tcl/intelmpi-wheels", "lua/intelmpi-wheels.lua", "modules.yaml", "settings.md", "settings.html"}
    spec = {"environment": {"set": variables_of(only(tmp_path / "data"))}}
    spack = yaml.safe_load((folder / "modules.yaml").read_text())["modules"]["default"]
    assert spack == {kind: {"intel-oneapi-mpi@=2021.18.1": spec} for kind in ("tcl", "lmod")}
    for name in ("settings.md", "settings.html"):
        page = (folder / name).read_text()
        assert "proven by 1 jobs on 2 nodes" in page.replace("\\", "") and "2026-01-06" in page
    assert cli.main(["settings", INTEL.name, "--system=testbed", *words, "--json"]) == 0
    (partition,) = json.loads(capsys.readouterr().out)["partitions"]
    assert partition["fabric"] == "eth10g" and partition["jobs"][0]["group"] == "p2p"
    other = [*words[:-1], str(tmp_path / "none")]
    assert cli.main(["settings", "mpich-wheels", "--system=testbed", *other]) == 3
    assert not (tmp_path / "none").exists()
    assert cli.main(["settings", INTEL.name, "--system=nowhere", *other]) == 2


def test_values_are_no_code() -> None:
    odd = {"A": 'x "y" $HOME [exec id] {b} \\', "B": "line\nline"}
    tcl, lua = (write("title [exit] $x", ["a {brace", "back\\"], odd) for write in (documents.tcl, documents.lua))
    assert r'setenv A "x \"y\" \$HOME \[exec id\] \{b\} \\"' in tcl and r'setenv B "line\nline"' in tcl
    assert r'module-whatis "title \[exit\] \$x"' in tcl and "\\\n" not in tcl.partition("proc")[0]
    assert r'setenv("A", "x \"y\" $HOME [exec id] {b} \\")' in lua and r'setenv("B", "line\010line")' in lua
    fragment = yaml.safe_load(documents.fragment(INTEL, ["# a: b"], {"A": "{prefix}"}))
    assert fragment["modules"]["default"]["tcl"]["intel-oneapi-mpi@=2021.18.1"]["environment"]["set"] == {"A": "\\{prefix\\}"}


def test_the_fragment_names_the_package_of_the_lock_and_not_the_librarys_version(tmp_path: Path) -> None:
    (tmp_path / "spack.lock").write_text((DATA / "golden" / "spack" / "mvapich2.lock.json").read_text())
    stack = replace(INTEL, mpi="mvapich2", mpi_version="2.3.7", origin="spack", source=str(tmp_path / "stack.json"))
    assert documents.spec_of(stack) == "mvapich2@=2.3.7-1"
    assert documents.spec_of(replace(stack, origin="system")) == "mvapich2@=2.3.7"


def test_a_page_shows_text_as_text(tmp_path: Path) -> None:
    measured(tmp_path, 1, environment={**ENVIRONMENT, "FI_TCP_IFACE": "<b>|`x`"})
    found = recommend(Store(tmp_path), "testbed", INTEL.name, ALL)
    page, html = (path.read_text() for path in documents.write(found, tmp_path / "out") if path.suffix in (".md", ".html"))
    assert "``<b>\\|`x` ``" in page or "`` <b>\\|`x` ``" in page
    assert "<b>" not in html and "&lt;b&gt;" in html


@pytest.mark.parametrize(
    "how",
    [
        {"evidence": "contradicted", "result": "fail", "reason": "asked for eth10g, went over eth1g"},
        {"evidence": "missing", "result": "fail", "fail_phase": "setup", "condition": "{}"},
        {"evidence": "missing", "result": "abort"},
    ],
)
@pytest.mark.parametrize("others", [("eth1g",), ("eth1g", "eth100m")])
def test_where_another_fabric_was_measured_without_proof_none_is_set(
    tmp_path: Path, others: tuple[str, ...], how: dict[str, Any]
) -> None:
    """It may be the fastest, and the slow one is for nobody."""
    place = {"fabric": "eth10g", "pinning": "bunch", "ppn": 2, "mpi": "intelmpi", "lock_hash": None}
    measured(tmp_path, 1, where={**place, **how})
    for number, name in enumerate(others, start=2):
        measured(tmp_path, number, fabric=name, factor=4.0 * number, pinning="default")
    row = only(tmp_path)
    assert row.fabric == "" and not [one for one in row.variables if one.purpose == "fabric"], said(row)
    assert "fabric: eth10g was measured, too, and nothing of that is proven (" in said(row)


@pytest.mark.parametrize(
    "how",
    [
        {"condition": '{"transport": "tcp", "scope": "cluster", "memory": "device"}'},
        {"evidence": "missing", "result": "fail", "fail_phase": "setup", "condition": "{}"},
    ],
)
def test_memory_of_gpus_is_no_other_fabric(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, how: dict[str, Any]) -> None:
    row = {"transport": "tcp", "scope": "cluster", "memory": ["host", "device"]}
    extras = {"gpus": {"kind": "cuda", "of_node": [{}]}, "fabrics": {"eth10g": row}}
    monkeypatch.setattr(systems, "find", lambda name: {"partitions": [{"name": "node", "extras": extras}]})
    measured(tmp_path, 1, pinning="default")
    place = {"fabric": "eth10g_device", "pinning": "default", "ppn": 2, "mpi": "intelmpi", "lock_hash": None}
    measured(tmp_path, 2, where={**place, **how})
    assert only(tmp_path).fabric == "eth10g"


def test_a_fabric_that_was_skipped_was_not_measured(tmp_path: Path) -> None:
    measured(tmp_path, 1, result="skip", evidence="")
    measured(tmp_path, 2, fabric="eth1g", pinning="default")
    assert only(tmp_path).fabric == "eth1g"

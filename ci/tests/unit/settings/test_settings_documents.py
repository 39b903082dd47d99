"""Settings: only what is proven to be better is set, with how much it
brings; what is not proven is refused or left.
"""

import json
from dataclasses import replace

import pytest
import yaml

from folders import DATA
from mpibench import cli
from mpibench.store.store import Store
from mpibench_tune import documents
from mpibench_tune.choice import recommend
from reframe_tests.harness.sites import systems
from reframe_tests.harness.stacks import metadata
from refusals import refused_as
from synthetic_tuning import ALL, ENVIRONMENT, INTEL, measured, registered, variables_of

PLACE = {"pinning": "bunch", "ppn": 2, "mpi": "intelmpi", "lock_hash": None}
NOT_SET_UP = {"evidence": "missing", "result": "fail", "fail_phase": "setup", "condition": "{}"}


@pytest.fixture(autouse=True)
def one_stack(monkeypatch):
    monkeypatch.setattr(metadata, "discover", registered(INTEL))


def only(folder):
    found = recommend(Store(folder), "testbed", INTEL.name, ALL)
    (row,) = found.rows
    return row


def test_the_faster_fabric_and_pinning_are_set_as_they_were_measured(tmp_path):
    measured(tmp_path, 1)
    measured(tmp_path, 2, fabric="eth1g", factor=4.0)
    measured(tmp_path, 3, pinning="default", factor=1.3)
    row = only(tmp_path)
    assert (row.fabric, row.pinning, row.ppn) == ("eth10g", "bunch", 2)
    forced = ("FI_PROVIDER", "FI_TCP_IFACE", "I_MPI_FABRICS", "I_MPI_OFI_PROVIDER")
    assert variables_of(row) == {
        **{name: ENVIRONMENT[name] for name in forced},
        "I_MPI_PIN": "on",
        "I_MPI_PIN_DOMAIN": "[0x1,0x2]",
    }
    gains = dict(row.gains)
    assert gains["fabric"].times == pytest.approx(4.0, rel=0.02) and gains["fabric"].low > 3.5
    assert gains["pinning"].times == pytest.approx(1.3, rel=0.02)


def test_measurements_of_another_version_prove_nothing(tmp_path, monkeypatch):
    measured(tmp_path, 1)
    for stacks, code in (
        ([replace(INTEL, mpi_version="2021.19")], "changed-since"),
        ([], "unknown-name"),
    ):
        monkeypatch.setattr(metadata, "discover", registered(*stacks))
        with refused_as(code):
            only(tmp_path)


def test_the_command_writes_all_documents_or_none(tmp_path, capsys):
    measured(tmp_path / "data", 1, pinning="default")

    def run(stack, out, *more, system="testbed"):
        words = ["settings", stack, f"--system={system}", "--dataset-only", "--sessions", ALL]
        where = ["--dataset", str(tmp_path / "data"), "--out", str(tmp_path / out)]
        return cli.main([*words, *where, *more])

    assert run(INTEL.name, "out") == 0
    assert "I_MPI_OFI_PROVIDER=tcp" in capsys.readouterr().out
    folder = tmp_path / "out" / INTEL.name / "node"
    names = {str(path.relative_to(folder)) for path in folder.rglob("*") if path.is_file()}
    modules = {"tcl/intelmpi-wheels", "lua/intelmpi-wheels.lua"}
    assert names == {*modules, "modules.yaml", "settings.md", "settings.html"}
    spec = {"environment": {"set": variables_of(only(tmp_path / "data"))}}
    spack = yaml.safe_load((folder / "modules.yaml").read_text())["modules"]["default"]
    assert spack == {kind: {"intel-oneapi-mpi@=2021.18.1": spec} for kind in ("tcl", "lmod")}
    assert "proven by 1 job on 2 nodes" in (folder / "settings.html").read_text()
    assert run(INTEL.name, "out", "--json") == 0
    (partition,) = json.loads(capsys.readouterr().out)["partitions"]
    assert partition["fabric"] == "eth10g" and partition["jobs"][0]["group"] == "p2p"
    assert run("mpich-wheels", "none") == 3 and not (tmp_path / "none").exists()
    assert run(INTEL.name, "none", system="nowhere") == 2


def test_values_are_no_code():
    odd = {"A": 'x "y" $HOME [exec id] {b} \\', "B": "line\nline"}
    tcl, lua = (
        write("title [exit] $x", ["a {brace", "back\\"], odd)
        for write in (documents.tcl, documents.lua)
    )
    assert (
        r'setenv A "x \"y\" \$HOME \[exec id\] \{b\} \\"' in tcl and r'setenv B "line\nline"' in tcl
    )
    assert r'module-whatis "title \[exit\] \$x"' in tcl and "\\\n" not in tcl.partition("proc")[0]
    assert (
        r'setenv("A", "x \"y\" $HOME [exec id] {b} \\")' in lua
        and r'setenv("B", "line\010line")' in lua
    )
    fragment = yaml.safe_load(documents.fragment(INTEL, ["# a: b"], {"A": "{prefix}"}))
    assert fragment["modules"]["default"]["tcl"]["intel-oneapi-mpi@=2021.18.1"]["environment"][
        "set"
    ] == {"A": "\\{prefix\\}"}


def test_the_fragment_names_the_package_of_the_lock_and_not_the_librarys_version(tmp_path):
    golden = DATA / "golden" / "spack" / "mvapich2.lock.json"
    (tmp_path / "spack.lock").write_text(golden.read_text())
    where = {"mpi": "mvapich2", "mpi_version": "2.3.7", "source": str(tmp_path / "stack.json")}
    for origin, spec in (("spack", "mvapich2@=2.3.7-1"), ("system", "mvapich2@=2.3.7")):
        assert documents.spec_of(replace(INTEL, origin=origin, **where)) == spec


def test_a_page_shows_text_as_text(tmp_path):
    measured(tmp_path, 1, environment={**ENVIRONMENT, "FI_TCP_IFACE": "<b>|`x`"})
    found = recommend(Store(tmp_path), "testbed", INTEL.name, ALL)
    texts = {path.suffix: path.read_text() for path in documents.write(found, tmp_path / "out")}
    assert "<b>\\|`x` ``" in texts[".md"]
    assert "<b>" not in texts[".html"] and "&lt;b&gt;" in texts[".html"]


@pytest.mark.parametrize(
    "how", [{"evidence": "contradicted", "result": "fail", "reason": "went over eth1g"}, NOT_SET_UP]
)
def test_where_another_fabric_was_measured_without_proof_none_is_set(tmp_path, how):
    """It may be the fastest, and the slow one is for nobody."""
    measured(tmp_path, 1, where={**PLACE, "fabric": "eth10g", **how})
    for number, name in enumerate(("eth1g", "eth100m"), start=2):
        measured(tmp_path, number, fabric=name, factor=4.0 * number, pinning="default")
        row = only(tmp_path)
        assert row.fabric == "" and "fabric" not in {one.purpose for one in row.variables}


@pytest.mark.parametrize("how", [{"condition": '{"memory": "device"}'}, NOT_SET_UP])
def test_memory_of_gpus_is_no_other_fabric(tmp_path, monkeypatch, how):
    row = {"transport": "tcp", "scope": "cluster", "memory": ["host", "device"]}
    extras = {"gpus": {"kind": "cuda", "of_node": [{}]}, "fabrics": {"eth10g": row}}
    described = {"partitions": [{"name": "node", "extras": extras}]}
    monkeypatch.setattr(systems, "find", lambda name: described)
    measured(tmp_path, 1, pinning="default")
    measured(tmp_path, 2, where={**PLACE, "fabric": "eth10g_device", "pinning": "default", **how})
    assert only(tmp_path).fabric == "eth10g"

"""Site files: found, merged, and refused with one sentence that names file, key and remedy."""

from __future__ import annotations

import copy
import os
import re
from pathlib import Path
from types import SimpleNamespace

import pytest
import yaml

from documentation import system_example
from mpibench.judge import expected, policy
from reframe_tests.harness.cases.job import parameters
from reframe_tests.harness.cases.preflight import rules
from reframe_tests.harness.sites import site, systems
from refusals import refused_as
from synthetic_site import FABRICS, GOOD, edit, write_system
from tiny_site import SYSTEM


def test_a_site_is_one_folder(tmp_path: Path) -> None:
    write_system(tmp_path, GOOD)
    configuration, problems = site.configuration(tmp_path)
    assert problems == []
    [system] = configuration["systems"]
    [partition] = system["partitions"]
    assert partition["features"] == ["hdr200", "shm"]
    assert partition["environs"] == ["builtin"], (
        "no stack fits *-spack, and ReFrame wants one environment"
    )


@pytest.mark.parametrize("shared", [False, True])
@pytest.mark.parametrize("stated", [None, ["JobHeldAdmin"]])
def test_a_job_that_slurm_would_never_start_is_not_waited_for(
    tmp_path: Path, stated: list[str] | None, shared: bool
) -> None:
    """Without EnforcePartLimits Slurm keeps a job of more nodes, or more
    time, than its partition has in the queue for ever; but the site knows best.
    """
    described = copy.deepcopy(GOOD)
    row = described["partitions"][0]
    row["sched_options"] = {"job_submit_timeout": 120}
    row["sched_options"] |= {"slurm_job_cancel_reasons": stated} if stated else {}
    row["extras"] |= {"share_allocations": {}} if shared else {}
    write_system(tmp_path, described)
    [partition] = site.configuration(tmp_path)[0]["systems"][0]["partitions"]
    found = partition["sched_options"]
    assert found["job_submit_timeout"] == 120
    wanted = stated or {"ReqNodeNotAvail", "PartitionNodeLimit", "PartitionTimeLimit"}
    assert set(wanted) <= set(found["slurm_job_cancel_reasons"])
    assert not stated or found["slurm_job_cancel_reasons"] == stated


def test_a_start_may_have_all_its_cases_share_allocations(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write_system(tmp_path, GOOD)
    [described] = GOOD["partitions"]
    monkeypatch.setenv("MPIBENCH_SHARE_ALLOCATIONS", "20")
    [partition] = site.configuration(tmp_path)[0]["systems"][0]["partitions"]
    assert partition["scheduler"] == f"{described['scheduler']}_shared"
    assert partition["extras"]["share_allocations"] == {"minutes": 20}
    assert "share_allocations" not in described["extras"]
    monkeypatch.setenv("MPIBENCH_SHARE_ALLOCATIONS", "soon")
    with refused_as("bad-option", "soon"):
        site.configuration(tmp_path)


def test_fabrics_keep_rails_and_rates() -> None:
    extras = copy.deepcopy(GOOD["partitions"][0]["extras"])
    fabric = site.fabrics_of(extras)["hdr200"]
    assert fabric.devices == ("mlx5_0", "mlx5_1")
    assert fabric.line_rate_gbit_per_s == 400
    assert not fabric.within_node
    del extras["fabrics"]["hdr200"]["rails"][1]["line_rate_gbit_per_s"]
    assert site.fabrics_of(extras)["hdr200"].line_rate_gbit_per_s is None


def with_gpus(plain: dict, *cards: dict) -> dict:
    """The good system with GPUs, and a fabric on which nothing is forced beside its network."""
    system = edit(
        (*FABRICS, "plain"),
        {"transport": "as_shipped", "scope": "cluster", "memory": ["host", "device"], **plain},
    )
    extras = system["partitions"][0]["extras"]
    extras["fabrics"]["hdr200"]["memory"] = ["host", "device"]
    extras["gpus"] = {"kind": "cuda", "of_node": list(cards)}
    return system


def test_what_is_expected_is_the_fabric_in_the_same_memory() -> None:
    fabrics = site.fabrics_of(with_gpus({"expect": "hdr200"}, {})["partitions"][0]["extras"])
    assert (fabrics["plain"].expect, fabrics["plain_device"].expect) == ("hdr200", "hdr200_device")


@pytest.mark.parametrize(
    ("code", "plain", "cards"),
    [
        ("name-taken", {}, [{"bus_id": "0000:03:00.0"}, {}, {"bus_id": "0000:03:00.0"}]),
        ("system-description", {}, [{"nic": "mlx5_1"}, {"nic": "mlx5_4"}]),
        ("file-missing", {"transport": "gpu_ipc", "scope": "node"}, [{}]),
        ("system-description", {"expect": "hdr200_device"}, [{}]),
    ],
)
def test_bad_gpus_are_refused(tmp_path: Path, code: str, plain: dict, cards: list) -> None:
    with refused_as(code, match=r"system\.py: .*partition compute"):
        site.read_system(write_system(tmp_path, with_gpus(plain, *cards)))


@pytest.mark.parametrize(
    ("path", "value", "wanted"),
    [
        (("hostnames",), None, "'hostnames' is a required property"),
        (("name",), "other", "make them equal"),
        ((*FABRICS, "hdr200", "transport"), "infiniband", "extras.fabrics.hdr200.transport"),
        ((*FABRICS, "hdr200", "rails"), None, "'rails' is a required property"),
        ((*FABRICS, "hdr200", "rails"), [{"device": "mlx5_0"}], ""),
        ((*FABRICS, "hdr200", "rate"), 200, "'rate' was unexpected"),
        ((*FABRICS, "shm", "scope"), "cluster", "partitions.0.extras.fabrics.shm.scope"),
        ((*FABRICS, "hdr200", "min_efficiency"), 92, "extras.fabrics.hdr200.min_efficiency"),
        (("partitions", 0, "extras", "node_counts"), [1], "partitions.0.extras.node_counts.0"),
        (
            ("partitions", 0, "extras", "suite_options"),
            {"OsuOneSided": {"window": "allocate"}},
            "is no group",
        ),
    ],
)
def test_bad_system_is_one_sentence(
    tmp_path: Path, path: tuple, value: object, wanted: str
) -> None:
    described = edit(path, value)
    if not wanted:
        described["partitions"][0]["extras"]["fabrics"]["hdr200"]["striped"] = True
    file = write_system(tmp_path, described)
    with pytest.raises(site.SiteError, match=re.escape(wanted or "hdr200.rails")) as error:
        site.read_system(file)
    assert str(file) in str(error.value) and "\n" not in str(error.value)


@pytest.mark.parametrize(
    ("text", "wanted"),
    [
        ("system = {", "SyntaxError"),
        ("import sys\nsys.exit(0)\n", r"\(SystemExit: 0\); correct the Python in it\.$"),
        ("system = []", "no dictionary called 'system'"),
    ],
)
def test_file_that_is_no_system(tmp_path: Path, text: str, wanted: str) -> None:
    write_system(tmp_path, GOOD).write_text(text)
    with refused_as("system-description", match=wanted):
        site.configuration(tmp_path)


def test_every_bundled_system_is_good() -> None:
    files = site.system_files()
    assert files[-1].parent.name == "generic", "the system that fits any host must be tried last"
    for file in files:
        assert site.read_system(file)["name"] == file.parent.name
    fabrics = site.fabrics_of(site.read_system(files[-1])["partitions"][0]["extras"])
    assert {name: row.transport for name, row in fabrics.items()} == {"shm": "shm", "lo": "tcp"}


def test_policies_follow_the_rails_and_the_site() -> None:
    """``nic_*`` needs a rail with a NUMA node; a site may leave
    policies out that mean nothing there.
    """
    extras = GOOD["partitions"][0]["extras"]
    assert "nic_local" in site.policies_of(extras)
    inside = site.policies_of({"fabrics": {"shm": extras["fabrics"]["shm"]}})
    assert inside == ("default", "none", "bunch", "scatter")
    assert site.policies_of({**extras, "pinning": ["none", "default"]}) == ("default", "none")


@pytest.mark.parametrize(
    ("patterns", "registered", "wanted"),
    [
        (["*-wheels", "a-*"], ["a-wheels"], ""),
        (["*-wheels", "x"], ["a-wheels"], "'x' in extras.stacks fits no stack, so nothing is"),
        (["*"], [], "'*' in extras.stacks fits no stack, so nothing is measured for it; none is"),
    ],
)
def test_a_pattern_that_fits_nothing_is_named(
    patterns: list[str], registered: list[str], wanted: str
) -> None:
    sentence = site.unmatched_stacks({"stacks": patterns}, registered)
    assert sentence.startswith(wanted) and bool(sentence) == bool(wanted)


def test_the_example_of_the_tutorial_is_good_and_gets_every_stack(tmp_path: Path) -> None:
    path = write_system(tmp_path, GOOD)
    path.write_text(system_example())
    for partition in site.read_system(path)["partitions"]:
        assert site.fitting_stacks(partition["extras"], ["a", "b-spack"]) == ["a", "b-spack"]


@pytest.mark.parametrize(
    ("words", "verbose", "level"),
    [
        ("-r -n verbose --save-log-files", "", "debug"),
        ("--dry-run -v", "", "verbose"),
        ("-lv --verbose", "", "debug"),
        ("--verbose --verb -lv", "", "undefined"),
        ("-l", "3", "undefined"),
    ],
)
def test_messages_that_nobody_sees_are_not_made(words: str, verbose: str, level: str) -> None:
    assert site.log_level(words.split(), {"RFM_VERBOSE": verbose}) == level


def test_stacks_asked_for_in_vain_are_those_of_the_site_that_was_loaded(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A site beside the checkout has stacks of its own; those of the checkout are none of it."""
    asked: list[Path] = []
    extras = {"fabrics": {"shm": {"transport": "shm", "scope": "node"}}, "stacks": ["mine-*"]}
    partition = type("Partition", (), {"extras": extras, "fullname": "here:p"})()
    here = SimpleNamespace(name="here", partitions=[partition])
    monkeypatch.setattr(parameters.rt, "runtime", lambda: SimpleNamespace(system=here))
    monkeypatch.setattr(
        parameters.metadata, "discover", lambda root: (asked.append(root) or [], [])
    )
    for loaded in ([], [tmp_path]):
        monkeypatch.setattr(site, "LOADED", loaded)
        parameters.warn_of_unmatched_stacks()
    assert asked == [site.ROOT, tmp_path]


# ---- files of a system outside the checkout: read, written and named where they are ----


@pytest.fixture
def outside(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with one system, beside a checkout with none."""
    (tmp_path / "checkout" / "site_configs").mkdir(parents=True)
    (tmp_path / "sites" / "tiny").mkdir(parents=True)
    (tmp_path / "sites" / "tiny" / "system.py").write_text(SYSTEM)
    monkeypatch.setenv("MPIBENCH_SITES", str(tmp_path / "sites"))
    return tmp_path / "sites"


def test_a_system_outside_the_checkout_is_one_like_any(outside: Path, tmp_path: Path) -> None:
    """What is written first is written outside."""
    root = tmp_path / "checkout"
    assert [row["name"] for row in systems.read_all(root)] == ["tiny"]
    assert systems.find("tiny", root)["partitions"][0]["name"] == "node"
    assert expected.path_of("tiny", root) == outside / "tiny" / "expected.yaml"
    assert site.references_file("new", root) == outside / "new" / "references.yaml"
    names = [path.parent.name for path in systems.system_files()]
    assert "tiny" in names and "minicluster" in names


def test_each_of_its_files_is_read(outside: Path, tmp_path: Path) -> None:
    root = tmp_path / "checkout"
    (outside / "tiny" / "policy.yaml").write_text("confidence: 0.9\n")
    (outside / "tiny" / "expected.yaml").write_text("runs: 3\n")
    assert policy.load("tiny", root).source == str(outside / "tiny" / "policy.yaml")
    with refused_as("configuration-unusable", match=r"expected\.yaml"):
        expected.load_file("tiny", root)
    text = (site.ROOT / "site_configs" / "preflight.yaml").read_text()
    (root / "site_configs" / "preflight.yaml").write_text(text)
    before = {rule.fact for rule in rules.load("tiny", root)}
    some = min(yaml.safe_load(text))
    (outside / "tiny" / "preflight.yaml").write_text(f"{some}: null\n")
    assert before - {rule.fact for rule in rules.load("tiny", root)} == {some}


def test_what_is_no_folder_is_refused(outside: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """This machine would be taken for another system. Root may read
    everything, so the answer is made up.
    """
    checkout = outside.parent / "checkout"
    with monkeypatch.context() as patch:
        patch.setattr(os, "access", lambda path, mode: Path(path) != outside)
        with refused_as("not-ours", match="which you may not read"):
            systems.select(None, checkout)
    (checkout / "site_configs" / "tiny").mkdir()
    with refused_as("name-taken", match="/sites/tiny and .*/site_configs/tiny: remove one"):
        systems.find("tiny", checkout)
    for text in ("sites", "/nowhere/at/all"):
        monkeypatch.setenv("MPIBENCH_SITES", text)
        with refused_as("not-ours", match="which is not the full name of a folder"):
            systems.folders(checkout)

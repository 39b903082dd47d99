"""A centre's own ReFrame configuration: read as ReFrame reads it, and refused with one sentence."""

import copy
import json
import sys

import pytest
import yaml
from reframe.core import backends

from mpibench.judge import expected
from mpibench.stacks.spack import scope
from reframe_tests.harness import tools
from reframe_tests.harness.machine.topology import describe
from reframe_tests.harness.sites import centre, references, site, systems
from refusals import refused_as
from synthetic_site import CENTRE_FABRICS as FABRICS
from synthetic_site import STYLES, CentreSite
from synthetic_stack import write_stack


@pytest.fixture
def make(tmp_path, monkeypatch):
    """A project beside a configuration of a style, as the environment names both."""
    monkeypatch.setattr(centre, "GIVEN", [])
    # a centre's file adds to them
    monkeypatch.setattr(backends, "_launchers", dict(backends._launchers))
    monkeypatch.setenv("IMAGES", "mpich")

    def made(style, fabrics=FABRICS):
        beside = CentreSite(tmp_path / f"{style}{len([*tmp_path.iterdir()])}", style, fabrics)
        monkeypatch.setenv("RFM_CONFIG_FILES", beside.variable)
        return beside

    return made


def partition_of(system, name):
    [row] = [row for row in system["partitions"] if row["name"] == name]
    return row


@pytest.mark.parametrize("style", STYLES)
def test_a_system_is_used_as_it_is_and_measured_as_its_extras_say(make, style):
    beside = make(style)
    write_stack(beside.root / "environments" / "mpich")
    described = centre.read(beside.root)
    as_it_is = copy.deepcopy(next(row for row in described.systems if row["name"] == beside.system))
    configuration, problems = site.configuration(beside.root)
    assert problems == []
    [system] = [row for row in configuration["systems"] if row["name"] == beside.system]
    mine = partition_of(system, beside.partition)
    theirs = partition_of(as_it_is, beside.partition)
    for key in theirs.keys() - {"sched_options", "environs", "features", "extras"}:
        assert mine[key] == theirs[key], key
    assert mine["environs"] == list(dict.fromkeys([*theirs["environs"], "mpich-system", "builtin"]))
    assert set(mine["features"]) == {*theirs.get("features", ()), "hdr200", "eth1g", "shm"}
    for key in ("extras", "sched_options"):
        assert mine.get(key, {}).items() >= theirs.get(key, {}).items()
    for name in beside.others:
        assert partition_of(system, name) == {"extras": {}, **partition_of(as_it_is, name)}


def test_the_centres_systems_match_host_names_first_and_generic_last(make):
    beside = make("modules")
    (beside.folder.parent / "generic").mkdir()
    generic = "site_configs/generic/system.py"
    (beside.root / generic).write_text((site.ROOT / generic).read_text())
    names = [row["name"] for row in systems.read_all(beside.root)]
    assert names == ["lagoon", "default", "generic"]
    assert centre.matching(centre.read(beside.root)) == ("default",), "as ReFrame itself finds it"
    assert systems.select(None, beside.root)["name"] == "default"
    assert systems.select("generic", beside.root)["name"] == "generic"


def test_handlers_of_the_centre_stay_and_ours_stand_beside_them(make, monkeypatch):
    """Values go to our addresses first: ReFrame's ``httpjson`` raises where its server refuses,
    and Python then asks no handler behind it.
    """

    def types(entry, kind="handlers"):
        return [row["type"] for row in entry[kind]]

    monkeypatch.delenv("MPIBENCH_METRICS", raising=False)
    [entry] = site.logging_settings("/our.log", centre.read(make("modules").root))
    assert types(entry, "handlers_perflog") == ["filelog"]
    assert types(entry) == ["stream", "file", "file"]
    assert entry["handlers"][-1]["name"] == "/our.log"
    [alone] = site.logging_settings("/our.log", None)
    assert alone["handlers_perflog"] == [], "ReFrame's own performance logs are left out"
    monkeypatch.setenv("MPIBENCH_METRICS", "influx+file:///b")
    monkeypatch.setattr(tools, "find", lambda *_: lambda: [{"type": "influx"}])
    everywhere, reef = site.logging_settings("/our.log", centre.read(make("images").root))
    assert types(everywhere, "handlers_perflog") == ["influx", "filelog", "httpjson"]
    assert reef["target_systems"] == ["reef"] and types(reef) == ["file", "file"]
    assert reef["level"] == "undefined", "its file is to get all messages"


@pytest.mark.parametrize("installed", [True, False])
def test_values_that_no_tool_here_can_send_are_refused(installed, monkeypatch):
    """Also by a ReFrame whose Python has no package of ours."""
    monkeypatch.setenv("MPIBENCH_METRICS", "influx+file:///b")
    monkeypatch.setitem(sys.modules, "mpibench_site", None)
    if not installed:
        monkeypatch.setattr(tools.metadata, "entry_points", lambda **_: [])
    with refused_as("tool-missing", match="MPIBENCH_METRICS needs the package mpibench_site, "):
        site.logging_settings("/our.log", None)


def test_files_are_those_that_reframe_was_given(make):
    """Options replace the variable (frontend/argparse.py); its path is searched for settings.py."""
    beside = make("yaml")
    settings = str(beside.settings)
    path = {"RFM_CONFIG_PATH": str(beside.file.parent), "RFM_CONFIG_FILES": settings}
    for words, environ, found in (
        (["-r", *beside.options, "-n", "x"], {}, (beside.file,)),
        (["-l", "-C", settings], {"RFM_CONFIG_FILES": beside.variable}, ()),
        ([f"--config-file={beside.file}"], {}, (beside.file,)),
        ([], path, ()),
    ):
        centre.take(words, beside.root, environ)
        assert centre.files(beside.root) == found
    with refused_as("configuration-unusable", match=f"RFM_CONFIG_FILES={beside.variable} or -C "):
        centre.take([], beside.root, {"RFM_CONFIG_FILES": f"{settings}:{beside.file}"})


@pytest.mark.parametrize(
    ("style", "old", "new", "words"),
    [
        ("modules", '"scheduler": "slurm", ', "", "systems.lagoon.partitions.skiffs': 'sched"),
        ("modules", "MASKS = {", "1 / 0\nMASKS = {", "line 12, cannot be used (ZeroDivisionError"),
        ("modules", "MASKS = {", "import sys; sys.exit(0)\nMASKS = {", "(SystemExit: 0)"),
        ("yaml", "partitions:", "partitions: [", "invalid YAML syntax in configuration file"),
    ],
)
def test_a_configuration_with_errors_is_one_sentence(make, style, old, new, words):
    beside = make(style)
    beside.change(old, new)
    for _ in range(2):  # what failed to load is not there half the next time
        with refused_as("configuration-unusable") as caught:
            centre.read(beside.root)
        said = str(caught.value)
        assert words in said and str(beside.file) in said and "\n" not in said


def test_what_keeps_cases_from_being_measured_is_said(make, monkeypatch, tmp_path):
    monkeypatch.setenv("RFM_TOPOLOGY_PREFIX", str(tmp_path / "topology"))
    beside = make("modules")
    beside.change(
        '"scheduler": "slurm", "launcher": "skiff_mpirun",',
        f'"scheduler": "pbs2", "launcher": "skiff_mpirun", "extras": {{"rack": 7{FABRICS}}},',
    )
    launcher, scheduler, processor = systems.shortcomings("lagoon", beside.root)
    assert "is not supported; supported are" in launcher.sentence
    assert "is unknown (known are" in scheduler.sentence
    assert "has no topology, and ReFrame detects none" in processor.sentence
    assert [launcher.note, scheduler.note, processor.note] == [False, True, False]
    [nothing] = systems.shortcomings("cove", make("yaml", "").root)
    assert nothing.place == "cove" and nothing.sentence.startswith("no partition has fabrics in ")
    assert systems.shortcomings("generic", site.ROOT) == []
    # A topology that ReFrame detects, or has detected, is enough.
    [detected] = systems.shortcomings("atoll", make("features").root)
    assert detected.note and "general.remote_detect" in detected.sentence
    beside = make("yaml")
    [missing] = systems.shortcomings("cove", beside.root)
    path = tmp_path / "topology" / "cove-batch" / "processor.json"
    assert not missing.note and f"{path} does not exist either: run" in missing.sentence
    path.parent.mkdir(parents=True)
    path.write_text(json.dumps(describe(2, 4)))
    assert systems.shortcomings("cove", beside.root) == []


def test_every_reader_finds_such_a_system(make):
    """References, what is expected, Spack's scope, the night: one reader for all."""
    beside = make("modules", f'{FABRICS}, "stacks": ["mpich-*", "none-*"]')
    write_stack(beside.root / "environments" / "mpich")
    path = (2, 1, "none", "PingPong.latency.0000000064")
    leaf = [1, None, 0.1, "us"]
    for key in reversed(("lagoon:gpu", "mpich-system", "hdr200", *path)):
        leaf = {key: leaf}
    content = {"ImbPointToPoint": {"$index": list(references.INDEX), **leaf}}
    site.references_file("lagoon", beside.root).write_text(yaml.safe_dump(content))
    [fault] = site.reference_faults("lagoon", beside.root)
    assert "there is no partition 'lagoon:gpu'" in fault.sentence
    places, problems, _ = expected._registered("lagoon", beside.root)
    assert problems == [] and {place.partition for place in places} == {"compute"}
    assert scope.choose("lagoon", beside.root, {}) == beside.folder / "spack"
    [sentence] = site.left_unmeasured("lagoon", beside.root)
    assert sentence.startswith("lagoon:compute: 'none-*' in extras.stacks fits no stack")

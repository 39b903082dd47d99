"""A centre's own ReFrame configuration: read as ReFrame reads it, and refused with one sentence."""

from __future__ import annotations

import copy
import json
import socket
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import yaml
from reframe.core import backends

from centre_styles import FABRICS, STYLES, CentreSite
from mpibench.judge import expected
from mpibench.pages import published
from mpibench.stacks.spack import scope
from reframe_tests.harness.machine.topology import describe
from reframe_tests.harness.sites import centre, references, site, systems
from reframe_tests.harness.vocabulary import BadInput
from refusals import refused_as
from synthetic_stack import write_stack
from tiny_site import SETTINGS

Make = Callable[..., CentreSite]


@pytest.fixture
def make(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Make:
    """A project beside a configuration of a style, as the environment names both."""
    monkeypatch.setattr(centre, "GIVEN", [])
    monkeypatch.setattr(backends, "_launchers", dict(backends._launchers))  # a centre's file adds to them
    monkeypatch.setenv("IMAGES", "mpich")

    def made(style: str, fabrics: str = FABRICS) -> CentreSite:
        beside = CentreSite(tmp_path / f"{style}{len([*tmp_path.iterdir()])}", style, fabrics)
        monkeypatch.setenv("RFM_CONFIG_FILES", beside.variable)
        return beside

    return made


def partition_of(system: dict[str, Any], name: str) -> dict[str, Any]:
    [row] = [row for row in system["partitions"] if row["name"] == name]
    return row


@pytest.mark.parametrize("style", STYLES)
def test_a_system_is_used_as_it_is_and_measured_as_its_extras_say(make: Make, style: str) -> None:
    beside = make(style)
    write_stack(beside.root / "environments" / "mpich")
    described = centre.read(beside.root)
    assert described is not None and described.files == (beside.file,)
    as_it_is = copy.deepcopy(next(row for row in described.systems if row["name"] == beside.system))
    configuration, problems = site.configuration(beside.root)
    assert problems == []
    [system] = [row for row in configuration["systems"] if row["name"] == beside.system]
    assert {key: value for key, value in system.items() if key not in ("partitions", "prefix")} == {
        key: value for key, value in as_it_is.items() if key not in ("partitions", "prefix")
    }
    assert system["prefix"] == as_it_is.get("prefix", str(beside.root / "results"))
    mine, theirs = partition_of(system, beside.partition), partition_of(as_it_is, beside.partition)
    for key, value in theirs.items():
        if key == "sched_options":
            assert mine[key].items() >= value.items() and set(mine[key]) - set(value) == {"slurm_job_cancel_reasons"}
        elif key not in ("environs", "features", "extras"):
            assert mine[key] == value, key
    assert mine["environs"] == list(dict.fromkeys([*theirs["environs"], "mpich-system", "builtin"]))
    assert set(mine["features"]) == {*theirs.get("features", ()), "hdr200", "eth1g", "shm"}
    assert {key: mine["extras"][key] for key in theirs.get("extras", {})} == theirs.get("extras", {})
    assert set(site.fabrics_of(mine["extras"])) == {"hdr200", "eth1g", "shm"}
    for name in beside.others:
        untouched = {**partition_of(as_it_is, name), "extras": partition_of(as_it_is, name).get("extras", {})}
        assert partition_of(system, name) == untouched


def test_the_centres_systems_match_host_names_first_and_generic_last(make: Make) -> None:
    beside = make("modules")
    (beside.folder.parent / "generic").mkdir()
    (beside.folder.parent / "generic" / "system.py").write_text((site.ROOT / "site_configs/generic/system.py").read_text())
    assert [row["name"] for row in systems.read_all(beside.root)] == ["lagoon", "default", "generic"]
    described = centre.read(beside.root)
    assert described is not None and centre.matching(described) == ("default",), "as ReFrame itself finds it"
    assert systems.select(None, beside.root)["name"] == "default"
    assert systems.select("generic", beside.root)["name"] == "generic"


def test_a_generic_of_the_centre_replaces_ours(make: Make) -> None:
    beside = make("modules")
    beside.file.write_text(beside.file.read_text().replace('"name": "default", "descr"', '"name": "generic", "descr"'))
    (beside.folder.parent / "generic").mkdir()
    (beside.folder.parent / "generic" / "system.py").write_text("system = {}\n1 / 0")
    with refused_as("system-file", match="ZeroDivisionError"):
        systems.read_all(beside.root)
    (beside.folder.parent / "generic" / "system.py").write_text((site.ROOT / "site_configs/generic/system.py").read_text())
    assert [row.get("descr") for row in systems.read_all(beside.root)] == ["by module", "any other"]


def test_handlers_of_the_centre_stay_and_ours_stand_beside_them(make: Make, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("MPIBENCH_METRICS", raising=False)
    described = centre.read(make("modules").root)
    [entry] = site.logging_settings("/our.log", described)
    assert [row["type"] for row in entry["handlers_perflog"]] == ["filelog"]
    assert entry["handlers"][-1]["name"] == "/our.log"
    assert [row["type"] for row in entry["handlers"]] == ["stream", "file", "file"]
    assert entry["level"] == "debug"
    assert "target_systems" not in entry
    [alone] = site.logging_settings("/our.log", None)
    assert alone["handlers_perflog"] == [], "ReFrame's own performance logs are left out"


def test_handlers_for_one_system_of_the_centre_get_ours_too(make: Make) -> None:
    described = centre.read(make("images").root)
    everywhere, reef = site.logging_settings("/our.log", described)
    assert [row["type"] for row in everywhere["handlers_perflog"]] == ["filelog", "httpjson"]
    assert everywhere["perflog_multiline"] is True
    assert [row["type"] for row in everywhere["handlers"]] == ["file"]
    assert reef["target_systems"] == ["reef"]
    assert [row["type"] for row in reef["handlers"]] == ["file", "file"]
    assert reef["level"] == "undefined", "its file is to get all messages"


def test_values_go_to_our_addresses_before_a_handler_of_the_centre_can_raise(
    make: Make, monkeypatch: pytest.MonkeyPatch
) -> None:
    """ReFrame's ``httpjson`` raises where its server refuses, and Python then asks no handler behind it."""
    monkeypatch.setenv("MPIBENCH_METRICS", "influx+file:///b")
    everywhere, _ = site.logging_settings("/our.log", centre.read(make("images").root))
    assert [row["type"] for row in everywhere["handlers_perflog"]] == ["influx", "filelog", "httpjson"]


def test_settings_of_the_centre_stay(make: Make) -> None:
    beside = make("features")
    described = centre.read(beside.root)
    assert described is not None and described.general == {"remote_detect", "check_search_recursive", "report_file"}
    kept, own = site.general_settings(beside.root / "results", ["generic"], described)
    assert "report_file" not in kept and "generate_file_reports" not in kept and "topology_prefix" not in kept
    assert own["target_systems"] == ["generic"] and own["topology_prefix"].startswith(str(beside.root))
    [alone] = site.general_settings(beside.root / "results", [], None)
    assert {"report_file", "topology_prefix"} <= alone.keys()


def test_what_a_centres_file_prints_is_no_output_of_ours(make: Make, capsys: pytest.CaptureFixture[str]) -> None:
    centre.read(make("features").root)
    said = capsys.readouterr()
    assert said.out == "" and "a centre's file that prints" in said.err


def test_without_a_centre_nothing_is_read(make: Make, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A settings.py of ours is none of a centre's, that of another checkout neither."""
    other = tmp_path / "other" / "site_configs" / "settings.py"
    other.parent.mkdir(parents=True)
    other.write_text(SETTINGS + "1 / 0\n")
    for text in ("", str(other), f"{other}:<builtin>", f"{tmp_path}/site_configs/settings.py"):
        monkeypatch.setenv("RFM_CONFIG_FILES", text)
        assert centre.files(tmp_path) == () and centre.read(tmp_path) is None
    monkeypatch.delenv("RFM_CONFIG_FILES")
    assert centre.read(tmp_path) is None


def test_files_are_those_that_reframe_was_given(make: Make, monkeypatch: pytest.MonkeyPatch) -> None:
    beside = make("yaml")
    centre.take(["-r", *beside.options, "-n", "x"], beside.root, {})
    assert centre.files(beside.root) == (beside.file,)
    centre.take(["-r"], beside.root, {"RFM_CONFIG_FILES": str(beside.settings)})
    assert centre.files(beside.root) == (), "the variable has another, and ReFrame was not given it"
    centre.take(["-l", "-C", str(beside.settings)], beside.root, {"RFM_CONFIG_FILES": beside.variable})
    assert centre.files(beside.root) == (), "options replace the variable (frontend/argparse.py)"
    centre.take([f"--config-file={beside.file}"], beside.root, {})
    assert centre.files(beside.root) == (beside.file,)
    centre.take([], beside.root, {"RFM_CONFIG_PATH": str(beside.file.parent), "RFM_CONFIG_FILES": str(beside.settings)})
    assert centre.files(beside.root) == (), "it looks for settings.py there"


def test_names_of_files_are_made_those_of_the_same_files_anywhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    for given, wanted in (
        ("site.py:/x/settings.py", f"{tmp_path}/site.py:/x/settings.py"),
        (":../a.yaml:<builtin>:", f":{tmp_path.parent}/a.yaml:<builtin>:"),
        ("", ""),
    ):
        environ = {"RFM_CONFIG_FILES": given}
        centre.make_absolute(environ)
        assert environ == {"RFM_CONFIG_FILES": wanted}
    nothing: dict[str, str] = {}
    centre.make_absolute(nothing)
    assert nothing == {}


def test_a_file_behind_ours_is_refused_with_the_order_to_use(make: Make) -> None:
    beside = make("yaml")
    with refused_as("configuration-unusable") as caught:
        centre.take([], beside.root, {"RFM_CONFIG_FILES": f"{beside.settings}:{beside.file}"})
    said = str(caught.value)
    assert said.startswith(f"{beside.file} is read after {beside.settings}, ")
    assert f"RFM_CONFIG_FILES={beside.variable} or -C {beside.file} -C {beside.settings}." in said


@pytest.mark.parametrize(
    ("style", "old", "new", "words"),
    [
        (
            "modules",
            '"scheduler": "slurm", "launcher": "srun",',
            '"launcher": "srun",',
            "systems.lagoon.partitions.compute': 'sched",
        ),
        ("modules", "site_configuration = {", "site_configuration = {'system': [], ", "'top level': Additional properties"),
        ("modules", "COUNTS = {", "COUNTS = {{", "settings.py, line "),
        (
            "modules",
            "MASKS = {",
            "MASKS = nothing\nMASKS = {",
            "settings.py, line 12, cannot be used (NameError: name 'nothing'",
        ),
        ("modules", "MASKS = {", "import sys; sys.exit(0)\nMASKS = {", "settings.py, line 12, cannot be used (SystemExit: 0)"),
        ("modules", "site_configuration =", "configuration =", "is not a valid Python configuration file"),
        ("yaml", "partitions:", "partitions: [", "invalid YAML syntax in configuration file"),
        ("images", '"name": "reef", "descr"', '"descr"', "cannot be used (KeyError: 'name')"),
    ],
)
def test_a_configuration_with_errors_is_one_sentence(make: Make, style: str, old: str, new: str, words: str) -> None:
    beside = make(style)
    wrong = beside.file if style != "images" else beside.file.parent / "systems" / "reef.py"
    assert old in wrong.read_text()
    wrong.write_text(wrong.read_text().replace(old, new, 1))
    for _ in range(2):  # what failed to load is not there half the next time
        with refused_as("configuration-unusable") as caught:
            centre.read(beside.root)
        said = str(caught.value)
        assert words in said and str(beside.file) in said and "\n" not in said and said.endswith(".")


def test_a_file_that_is_not_there_is_named(make: Make) -> None:
    beside = make("modules")
    beside.file.unlink()
    with refused_as(
        "configuration-unusable",
        match=r"settings\.py cannot be used \(FileNotFoundError: .*; correct it, or take it out of RFM_",
    ):
        centre.read(beside.root)


@pytest.mark.parametrize(
    ("old", "new", "words"),
    [
        ('"hdr200":', '"hdr-200":', "key 'fabrics': 'hdr-200' does not match"),
        ('"transport": "ucx"', '"transport": "infiniband"', "key 'fabrics.hdr200.transport': 'infiniband' is not"),
        ('"node_counts": [2]', '"node_counts": 2', "key 'node_counts': 2 is not"),
        (FABRICS[FABRICS.index('"fabrics": ') :], '"fabrics": []', "key 'fabrics': [] is not of type 'object'"),
        (FABRICS[FABRICS.index('"fabrics": ') :], '"fabrics": None', "key 'fabrics': None is not of type 'object'"),
        (
            '"shm": {',
            '"plain": {"transport": "as_shipped", "scope": "cluster", "expect": "edr"}, "shm": {',
            "fabric plain of partition compute expects 'edr', which is not one of its other fabrics",
        ),
    ],
)
def test_bad_extras_are_one_sentence(make: Make, old: str, new: str, words: str) -> None:
    assert old in FABRICS
    beside = make("modules", FABRICS.replace(old, new))
    with pytest.raises(BadInput) as caught:
        systems.find("lagoon", beside.root)
    said = str(caught.value)
    assert words in said and said.startswith(str(beside.file)) and "compute" in said and "\n" not in said


def test_what_keeps_cases_from_being_measured_is_said(make: Make, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("RFM_TOPOLOGY_PREFIX", str(tmp_path / "topology"))
    beside = make("modules")
    beside.change('"launcher": "skiff_mpirun",', f'"launcher": "skiff_mpirun", "extras": {{"rack": 7{FABRICS}}},')
    launcher, processor = systems.shortcomings("lagoon", beside.root)
    assert launcher.sentence.startswith(
        f"launcher skiff_mpirun of {beside.file}: nothing is known about pinning under launcher"
    )
    assert "has no topology, and ReFrame detects none where one is stated: run 'reframe --detect" in processor.sentence
    assert {launcher.place, processor.place} == {"lagoon:skiffs"} and not launcher.note and not processor.note
    [nothing] = systems.shortcomings("cove", make("yaml", "").root)
    assert nothing.place == "cove" and nothing.sentence.startswith("no partition has fabrics in ")
    assert "'mpibench doctor --system cove --draft' prints a draft" in nothing.sentence
    assert systems.shortcomings("generic", site.ROOT) == []


def test_a_topology_that_reframe_detects_is_enough(make: Make, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("RFM_TOPOLOGY_PREFIX", str(tmp_path / "topology"))
    [detected] = systems.shortcomings("atoll", make("features").root)
    assert detected.note and "ReFrame detects it with a job when it starts (general.remote_detect)" in detected.sentence
    beside = make("yaml")
    [missing] = systems.shortcomings("cove", beside.root)
    path = tmp_path / "topology" / "cove-batch" / "processor.json"
    assert not missing.note and f"has no 'processor', and {path} is not there either: run 'reframe --detect" in missing.sentence
    path.parent.mkdir(parents=True)
    path.write_text(json.dumps(describe(2, 4)))
    assert systems.shortcomings("cove", beside.root) == []


def test_a_scheduler_that_is_not_known_is_a_note(make: Make) -> None:
    beside = make("modules")
    beside.file.write_text(beside.file.read_text().replace('"scheduler": "slurm"', '"scheduler": "harbourmaster"', 1))
    [note] = systems.shortcomings("lagoon", beside.root)
    assert note.note and note.sentence.startswith(
        f"scheduler harbourmaster of {beside.file} is not known here (known are slurm,"
    )


def test_a_machine_of_both_is_to_be_chosen(make: Make, monkeypatch: pytest.MonkeyPatch) -> None:
    beside = make("features")
    own = beside.folder.parent / "pier"
    own.mkdir()
    text = (site.ROOT / "site_configs/generic/system.py").read_text()
    (own / "system.py").write_text(text.replace('"generic"', '"pier"').replace('".*"', repr(socket.gethostname())))
    with refused_as("system-ambiguous") as caught:
        systems.select(None, beside.root)
    said = str(caught.value)
    assert said.startswith(f"this machine is system 'atoll' of {beside.file} and system 'pier' of ") and "--system" in said
    assert systems.select("pier", beside.root)["name"] == "pier"
    (own / "system.py").write_text(text.replace('"generic"', '"pier"').replace('".*"', '"another"'))
    assert systems.select(None, beside.root)["name"] == "atoll"


def test_a_system_that_is_described_twice_is_refused(make: Make) -> None:
    beside = make("yaml")
    text = (site.ROOT / "site_configs/generic/system.py").read_text()
    (beside.folder / "system.py").write_text(text.replace('"generic"', '"cove"'))
    with refused_as("system-twice", match=r"system 'cove' is in .*site\.yaml and in .*/cove/system\.py; remove one of them\."):
        systems.read_all(beside.root)


def test_the_centres_own_detection_is_asked(make: Make) -> None:
    beside = make("images")
    described = centre.read(beside.root)
    assert described is not None and centre.matching(described) == ()
    own = 'def name_of_host():\n    return "alps-reef-7"\n\n\nsite_configuration["autodetect_methods"] = ["py::name_of_host"]\n'
    beside.file.write_text(f"{beside.file.read_text()}\n{own}")
    # A file that changed is another module for nobody: ReFrame keeps what it has loaded.
    again = beside.file.rename(beside.file.with_name("again.py"))
    assert centre.matching(centre.Centre((again,), described.systems, (), frozenset(), frozenset())) == ("reef",)


def test_every_reader_finds_such_a_system(make: Make) -> None:
    """References, what is expected, Spack's scope, published curves, the night: one reader for all."""
    text = FABRICS.replace('"transport": "tcp",', '"transport": "tcp", "published": ["openhpc-mini/eth1g"],')
    beside = make("modules", f'{text}, "stacks": ["mpich-*", "none-*"]')
    write_stack(beside.root / "environments" / "mpich")
    keys = {
        "lagoon:gpu": {"mpich-system": {"hdr200": {2: {1: {"none": {"PingPong.latency.0000000064": [1, None, 0.1, "us"]}}}}}}
    }
    path = site.references_file("lagoon", beside.root)
    path.write_text(yaml.safe_dump({"ImbPointToPoint": {"$index": list(references.INDEX), **keys}}))
    [fault] = site.reference_faults("lagoon", beside.root)
    assert "there is no partition 'lagoon:gpu'" in fault.sentence
    places, problems, _ = expected._registered("lagoon", beside.root)
    assert problems == [] and {place.partition for place in places} == {"compute"}
    assert {place.fabric for place in places} >= {"hdr200", "eth1g", "shm"}
    assert scope.choose("lagoon", beside.root, {}) == beside.folder / "spack"
    assert published.declared("lagoon", beside.root)["eth1g"] == ["openhpc-mini/eth1g"]
    [sentence] = site.left_unmeasured("lagoon", beside.root)
    assert sentence.startswith("lagoon:compute: 'none-*' in extras.stacks fits no stack")

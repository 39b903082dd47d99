"""Tuned settings are what they were when they were proven, and of
the same library; everything else is refused.
"""

from __future__ import annotations

import errno
import json
import os
import shutil
from dataclasses import replace
from pathlib import Path

import pytest

from mpibench_tune import settings
from reframe_tests.harness.cases.job import condition
from reframe_tests.harness.mpis import registry
from reframe_tests.harness.mpis.tuning.model import AlgorithmRule, Tuning
from reframe_tests.harness.sites import tuned_settings
from reframe_tests.harness.sites.tuned_settings import NAME, TunedPlace
from reframe_tests.harness.stacks import metadata
from reframe_tests.harness.stacks.stack import Stack
from reframe_tests.harness.vocabulary import NotMeasured
from refusals import refused_as
from synthetic_conditions import resolved
from synthetic_settings import INTEL
from synthetic_stack import write_stack

RULES = (AlgorithmRule("Allreduce", 8, 1023, "3"), AlgorithmRule("Alltoallv", 0, 0, "2"))


@pytest.fixture
def stack(tmp_path: Path) -> Stack:
    found = metadata.read(write_stack(tmp_path / "stack"))
    return replace(found, mpi="openmpi", mpi_version="5.0.11")


@pytest.fixture
def tuning() -> Tuning:
    found = registry.find("openmpi").tuning
    assert found is not None
    return found


def install(stack: Stack, tuning: Tuning, folder: Path, place: TunedPlace | None = None) -> Path:
    place = place or TunedPlace("generic", stack.name, "eth", 1, 1, "none")
    made = settings.make(place, stack, tuning, RULES)
    settings.install(*made, folder)
    return folder


def test_settings_are_read_as_they_were_written(
    stack: Stack, tuning: Tuning, tmp_path: Path
) -> None:
    folder = install(stack, tuning, tmp_path / "of all 'users' $HOME")
    found = tuned_settings.read(folder)
    assert found.rules == RULES and found.mpi_version == "5.0.11"
    name = "OMPI_MCA_coll_tuned_dynamic_rules_filename"
    assert found.environment(folder)[name] == f"{folder}/openmpi_rules.conf"
    module = (folder / settings.MODULEFILE).read_text()
    assert f'setenv("{name}", folder .. "/openmpi_rules.conf")' in module


def test_a_file_that_was_changed_or_is_gone_is_refused(
    stack: Stack, tuning: Tuning, tmp_path: Path
) -> None:
    folder = install(stack, tuning, tmp_path / "tuned")
    rules = folder / "openmpi_rules.conf"
    rules.write_text(rules.read_text().replace("8 3 0 0", "8 4 0 0"))
    with refused_as("changed-since"):
        tuned_settings.read(folder)
    rules.unlink()
    with refused_as("nothing-measured"):
        tuned_settings.read(folder)
    for text in ("{", "[]", '{"layout": 9}'):
        (folder / NAME).write_text(text)
        with refused_as("file-unreadable"):
            tuned_settings.read(folder)


def test_a_condition_under_tuned_settings_says_so(
    tuning: Tuning, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    references = tmp_path / "references.yaml"
    monkeypatch.setattr(tuned_settings.site, "references_file", lambda system: references)
    own = resolved()
    build = {"mpi": "openmpi", "mpi_version": "5.0.11", "build": {"lock_hash": "0123abcd"}}
    own = replace(own, stack=replace(own.stack, **build))
    with pytest.raises(NotMeasured):
        condition.apply_tuned("generic", own)
    place = condition.tuned_place("generic", own)
    install(own.stack, tuning, place.folder, place)
    tuned = condition.apply_tuned("generic", own)
    assert "tuned" not in own.as_dict()
    assert tuned.as_dict()["tuned"] == tuned_settings.read(place.folder).id
    assert tuned.asked_env["OMPI_MCA_coll_tuned_use_dynamic_rules"] == "1"


@pytest.mark.parametrize(
    "change",
    [
        {"env": {"LD_PRELOAD": "/tmp/x.so"}},
        {"proof": {"rows": [{"collective": "Allreduce", "outcome": "better", "ratio": 0.5}]}},
        {"sha256": ""},
    ],
)
def test_an_edited_record_is_refused(
    change: dict[str, object], stack: Stack, tuning: Tuning, tmp_path: Path
) -> None:
    folder = install(stack, tuning, tmp_path / "tuned")
    content = json.loads((folder / NAME).read_text())
    (folder / NAME).write_text(json.dumps({**content, **change}))
    with refused_as("changed-since"):
        tuned_settings.read(folder)


def test_a_folder_that_was_copied_is_not_of_its_condition(
    stack: Stack, tuning: Tuning, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    references = tmp_path / "references.yaml"
    monkeypatch.setattr(tuned_settings.site, "references_file", lambda system: references)
    mine, other = (
        TunedPlace("generic", stack.name, fabric, 1, 1, "none") for fabric in ("eth", "opa")
    )
    shutil.copytree(install(stack, tuning, mine.folder, mine), other.folder)
    assert tuned_settings.find(mine, stack).place == mine
    with refused_as("not-comparable"):
        tuned_settings.find(other, stack)


def test_settings_stay_where_there_is_no_room_for_new_ones(
    stack: Stack, tuning: Tuning, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = install(stack, tuning, tmp_path / "tuned")
    before = tuned_settings.read(folder)
    write = Path.write_bytes

    def until_full(path: Path, content: bytes) -> int:
        if "tuned.json" in path.name:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        return write(path, content)

    rules = (AlgorithmRule("Allreduce", 8, 1023, "4"),)
    made = settings.make(before.place, stack, tuning, rules)
    monkeypatch.setattr(Path, "write_bytes", until_full)
    with refused_as("cannot-write", match="No space left on device"):
        settings.install(*made, folder)
    monkeypatch.undo()
    assert tuned_settings.read(folder) == before


def test_the_librarys_own_file_is_of_the_settings_it_lies_beside(tmp_path: Path) -> None:
    """One that was cut short makes Intel MPI hang, and one of
    settings of before says what these do not.
    """
    place = TunedPlace("generic", INTEL.name, "eth", 1, 4, "none")
    tuning = registry.find("intelmpi").tuning
    assert tuning is not None
    made, texts = settings.make(place, INTEL, tuning, RULES[:1])
    content = bytes(range(256)) * 8
    whole = replace(made, compiled={"tuned.dat": tuned_settings.checksum(content)})
    settings.install(whole, texts, tmp_path, (), {"tuned.dat": content})
    file = tmp_path / "tuned.dat"
    assert tuned_settings.read(tmp_path) == whole and file.read_bytes() == content
    assert whole.id == made.id, "a test that loads the variables measures the same with it"
    file.write_bytes(content[:-1])
    with refused_as("changed-since"):
        tuned_settings.read(tmp_path)
    file.unlink()
    with refused_as("nothing-measured"):
        tuned_settings.read(tmp_path)
    settings.install(whole, texts, tmp_path, (), {"tuned.dat": content})
    settings.install(made, texts, tmp_path)
    assert tuned_settings.read(tmp_path) == made and not file.exists()


def test_another_release_is_refused(stack: Stack, tuning: Tuning, tmp_path: Path) -> None:
    found = tuned_settings.read(install(stack, tuning, tmp_path / "tuned"))
    tuned_settings.check_release(found, stack)
    with refused_as("not-comparable"):
        tuned_settings.check_release(found, replace(stack, mpi_version="5.0.12"))

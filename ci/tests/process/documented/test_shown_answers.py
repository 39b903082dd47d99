"""The commands of README and docs that ask what is stored, run as they are shown, on nights of a site that was made for it:
its names stand in place of ``ID``, ``SEL``, ``STACK`` and ``FILE``."""

from __future__ import annotations

import json
import os
import shlex
import shutil
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime, timedelta, timezone
from pathlib import Path

import pytest

import composed_profiles
import synthetic_session as synthetic
from folders import DATA
from mpibench import cli
from mpibench.results import sessions
from reframe_tests.harness.vocabulary import ROOT
from shown_commands import HERE, Example
from site_nights import write_night
from synthetic_verdicts import write_session

NIGHTS = 9


@dataclass(frozen=True)
class Place:
    """What the commands find.

    :param names: words of the examples in braces, and what stands for them here.
    """

    folder: Path
    names: dict[str, str]


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Place:
    folder = tmp_path_factory.mktemp("shown")
    now = datetime.now(timezone.utc)
    ids = [
        write_night(folder / "nights", number, started=now - timedelta(days=NIGHTS - number, hours=-12))
        for number in range(NIGHTS)
    ]
    write_night(folder / "nights", 99, started=now - timedelta(hours=11), stacks=("openmpi-spack", "mpich-spack"))
    database = shutil.copy(synthetic.mixed_folder() / "results.db", folder / "results.db")
    for number in range(8):
        day = now - timedelta(days=8 - number)
        write_session(folder / "learn", number, started=day, benchmarks={"PingPong": "latency_us"}, labels={"run": "nightly"})
    (folder / "app.mpiP").write_bytes((composed_profiles.FOLDER / "mpip.txt").read_bytes())
    (folder / "aps.txt").write_bytes((composed_profiles.FOLDER / "aps.txt").read_bytes())
    names = {
        "id": ids[-1],
        "first": ids[0],
        "nights": str(folder / "nights"),
        "learn": str(folder / "learn"),
        "db": str(database),
        "session": sessions.read_session(Path(database), None).uuid,
        "folder": str(folder),
        "noise": str(DATA / "golden_noise" / "repeats.parquet"),
        "imb": str(DATA / "golden" / "imb-mpi1-2018.1-n2.txt"),
    }
    return Place(folder, names)


@pytest.fixture
def inside(place: Place, monkeypatch: pytest.MonkeyPatch) -> Iterator[Place]:
    """What a command writes into its own folder goes where nobody looks."""
    monkeypatch.chdir(place.folder)
    monkeypatch.setenv("COLUMNS", "200")
    monkeypatch.setenv("RFM_CONFIG_FILES", str(ROOT / "site_configs" / "settings.py"))
    yield place


@pytest.mark.parametrize(("shown", "example"), HERE.items(), ids=list(HERE))
def test_a_command_that_is_shown_does_what_is_said(
    shown: str, example: Example, inside: Place, capfd: pytest.CaptureFixture[str]
) -> None:
    words = [word.format(**inside.names) for word in shlex.split(example.words)]
    status = cli.main(words)
    said = capfd.readouterr()
    assert (status, example.said in said.out) == (example.status, True), said.out[-2000:] + said.err[-2000:]
    if "--json" in words:
        json.loads(said.out)
    for name in example.written:
        assert (inside.folder / name).stat().st_size, name


def test_the_manual_page_is_one_for_man(capfd: pytest.CaptureFixture[str]) -> None:
    """``mpibench manual | man -l -``"""
    if shutil.which("man") is None:
        pytest.skip("[man] no man here (Debian's man-db)")
    assert cli.main(["manual"]) == 0
    page = capfd.readouterr().out
    environ = {**os.environ, "MANPAGER": "cat", "MAN_DISABLE_SECCOMP": "1"}
    done = subprocess.run(["man", "-l", "-"], input=page, env=environ, capture_output=True, text=True)
    assert done.returncode == 0 and "NAME" in done.stdout and "withdraw" in done.stdout, done.stderr

"""Job scripts as ReFrame writes them in a dry run, made comparable with golden files."""

from __future__ import annotations

import os
import re
from pathlib import Path

import yaml

from folders import DATA

GOLDEN = DATA / "golden" / "job_scripts"


def kept(system: str) -> dict[str, str]:
    """Golden scripts and listing of a system, by file; ``alike.yaml`` has
    those that are another's but for some words.
    """
    files = {path.name: path.read_text() for path in (GOLDEN / system).glob("*.txt")}
    alike = yaml.safe_load((GOLDEN / "alike.yaml").read_text()).get(system, {})
    made = {
        name: "".join(
            row["words"].get(word, word)
            for word in re.split(r"([^A-Za-z0-9_.-])", files[row["of"]])
        )
        for name, row in alike.items()
    }
    return {**made, **files}


def compare(system: str, written: dict[str, str]) -> None:
    """Hold what was written against the golden files; with
    ``MPIBENCH_GOLDEN=write`` what differs is written first.
    """
    if os.environ.get("MPIBENCH_GOLDEN") == "write":
        (GOLDEN / system).mkdir(parents=True, exist_ok=True)
        for name, text in written.items():
            if kept(system).get(name) != text:
                (GOLDEN / system / name).write_text(text)
    assert len(written) > 1, "something must be left to run"
    assert written == kept(system)


def normalised(script: str) -> str:
    """The parts of a job script that depend on system, stack and condition,
    without hashes, times and paths of this machine.
    """
    text = re.sub(
        r"^\. \S*measure\.sh.*?^set_debug\(\) \{.*?^\}\n",
        "",
        script,
        flags=re.MULTILINE | re.DOTALL,
    )
    text = re.sub(
        r"^measure\(\) \{.*?^ +launch (.*?)^ +done.*\Z", r"\1", text, flags=re.MULTILINE | re.DOTALL
    )
    text = re.sub(r"\A#!/bin/bash\n", "", text)
    text = re.sub(
        r"^#SBATCH --(comment|time)=.*\n|^#PBS -l walltime=.*\n", "", text, flags=re.MULTILINE
    )
    text = re.sub(r"^ *sh \S*record\.sh.*\n", "", text, flags=re.MULTILINE)
    text = re.sub(r"^cd /.*", "cd WORKDIR", text, flags=re.MULTILINE)
    text = re.sub(r"(ImbPointToPoint_)[0-9a-f]{8}", r"\1HASH", text)
    text = re.sub(r"/\S*?/stacks\d*/([a-z0-9]+-[a-z0-9]+)/", r"/opt/\1/", text)
    text = re.sub(r"(IMB-MPI1) .*", r"\1 ...", text)
    return re.sub(r"^ +", "    ", text, flags=re.MULTILINE)


def fabric_of(script: Path, listing: str) -> str:
    """Fabric of a script, by the hash of its test in the listing."""
    digest = script.parent.name.rsplit("_", 1)[1]
    match = re.search(rf"%fabric=(\S+) .*/{digest}", listing)
    assert match, (digest, listing[-2000:])
    return match[1]


def listed(printed: str) -> str:
    """What ``reframe -lC`` lists, without the hashes: a line a test and
    cases, with all places that have these cases.
    """
    cases: dict[tuple[str, str], list[str]] = {}
    for test, point, place in re.findall(
        r"^ *- (\S+) (.*?) ?/[0-9a-f]{8} @(.*)$", printed, re.MULTILINE
    ):
        cases.setdefault((test, place), []).append(point)
    places: dict[tuple[str, str], list[str]] = {}
    for (test, place), points in sorted(cases.items()):
        places.setdefault((test, " | ".join(points)), []).append(place)
    return "".join(
        f"{test} @ {' '.join(where)}: {points}\n" for (test, points), where in places.items()
    )

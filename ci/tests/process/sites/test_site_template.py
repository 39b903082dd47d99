"""The template of a modern site: valid as it stands, never loaded,
and the doctor says what a copy still lacks.
"""

import os
import re

import pytest

from folders import write
from mpibench.commands.listings import doctor
from reframe_tests.harness.sites import site

TEMPLATE = site.ROOT / "site_configs" / "template" / "modern.py"


@pytest.fixture
def copied(tmp_path):
    """A root with one site: a fresh copy of the template."""
    write(tmp_path / "site_configs" / "mysystem" / "system.py", TEMPLATE.read_text())
    return tmp_path


def filled(code):
    return re.sub('_NUMA = ".*"', "_NUMA = 0", code).replace("FILL_IN: ", "")


def test_a_copy_is_valid_and_the_doctor_lists_what_is_to_be_filled_in(copied):
    file = copied / "site_configs" / "mysystem" / "system.py"
    system = site.read_system(file)
    *findings, last = doctor.examine("mysystem", copied)
    assert {row.state for row in findings} == {doctor.MISSING}
    assert last.state == doctor.NOTE and "nothing else was checked" in last.detail
    details = {row.subject.removeprefix("mysystem "): row.detail for row in findings}
    assert details["prefix"] == "still to be filled in: folder all nodes see"
    assert "partitions.5.extras.fabrics.ss200.rails.0.numa_node" in details
    # Name, description and one prefix; two options per partition, a
    # device each and its NUMA node; one interface.
    assert len(findings) == 3 + 4 * len(system["partitions"]) + 1
    file.write_text(filled(file.read_text().partition('"""\n\n')[2]))
    assert list(doctor.unfilled(site.read_system(file))) == []
    assert "template" not in {path.parent.name for path in site.system_files()}


def test_cpus_that_slurm_keeps_are_to_be_described(tmp_path, monkeypatch):
    """As ``scontrol show node`` of Slurm 23.11 has them."""
    kept = "NodeName=n{} CoreSpecCount=1 CPUSpecList=0,64 Partitions=thin,all State=IDLE"
    lines = [*(kept.format(at) for at in range(1, 6)), "NodeName=m1 Partitions=fat State=IDLE"]
    script = "#!/bin/sh\ncat <<'END'\n" + "\n".join(lines) + "\nEND\n"
    write(tmp_path / "scontrol", script, executable=True)
    monkeypatch.setenv("PATH", str(tmp_path), prepend=os.pathsep)

    def said(queue, reserved="", scheduler="slurm"):
        extras = {"reserved_cpus": reserved} if reserved else {}
        partition = {"scheduler": scheduler, "access": [f"--partition={queue}"], "extras": extras}
        return [finding.detail for finding in doctor.check_reserved("s:p", partition)]

    (text,) = said("thin")
    assert text.startswith("Slurm keeps CPUs 0,64 of n1, n2, n3, ... for itself")
    for words in (("thin", "0-1,64"), ("fat",), ("thin", "", "local")):
        assert said(*words) == []

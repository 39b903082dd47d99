"""The page of the papers: each measurement of the papers has a command, and each command names what there is."""

from __future__ import annotations

import re
import shlex

import pytest

import documentation
from reframe_tests.harness.sites import references
from reframe_tests.harness.sites.site import ROOT
from reframe_tests.harness.suites.catalogue import OPTIONS
from reframe_tests.harness.vocabulary import PINNING_POLICIES

TEXT = documentation.page("background/papers")
ROWS = re.findall(r"^\| (.*?) \| (.*?) \| `(reframe .*?)` \|$", TEXT, re.MULTILINE)
#: What the papers measured.
MEASURED = (
    *("osu_put_bw", "IMB-P2P", "ib_send_bw", "Uniband and Biband", "latency", "exchange bandwidth", "NAS class C", "RRBW"),
    *("Alltoallv on 64 ranks", "1 to 12 ranks", "zone_reclaim_mode", "joblets", "checklist"),
)
PARAMETERS = {"nodes", "ppn", "pinning", "fabric", "memory", "page_cache", "programs"}


@pytest.mark.parametrize("what", MEASURED)
def test_each_measurement_of_the_papers_has_a_command(what: str) -> None:
    assert len([row for row in ROWS if what in row[1]]) == 1


@pytest.mark.parametrize("command", [row[2] for row in ROWS])
def test_each_command_names_a_test_parameters_and_options_that_exist(command: str) -> None:
    words = shlex.split(command)
    assert words[:4] == ["reframe", "-c", "reframe_tests", "-r"]
    given = list(zip(words[4::2], words[5::2], strict=True))
    [test] = [value for option, value in given if option == "-n"]
    assert test in {*references.tests(), "NodePreflight"}  # which measures nothing that could have a reference
    for option, value in given:
        name, _, values = value.partition("=")
        if option == "-P":
            assert name in PARAMETERS and values
            assert name != "pinning" or set(values.split(",")) <= set(PINNING_POLICIES)
        elif option == "-S":
            assert name == "suite_options"
            for pair in values.split(","):
                key, _, chosen = pair.partition(":")
                assert chosen in OPTIONS[key].values and references.tests()[test] in OPTIONS[key].groups
        else:
            assert option == "-n"


@pytest.mark.parametrize("system", sorted({name for row in ROWS for name in re.findall(r"[a-z0-9]+-[a-z0-9-]+", row[0])}))
def test_each_system_is_described(system: str) -> None:
    assert (ROOT / "site_configs" / system / "published").is_dir()

"""The page of the papers: each measurement of the papers has a
command, and each command names what there is.
"""

from __future__ import annotations

import re
import shlex

import pytest

import documentation
from reframe_tests.harness.sites import references
from reframe_tests.harness.suites.catalogue import OPTIONS
from reframe_tests.harness.vocabulary import PINNING_POLICIES

TEXT = documentation.page("background/papers")
ROWS = re.findall(r"^\| (.*?) \| (.*?) \| `(reframe .*?)` \|$", TEXT, re.MULTILINE)

PARAMETERS = {"nodes", "ppn", "pinning", "fabric", "memory", "page_cache", "programs"}


@pytest.mark.parametrize("command", [row[2] for row in ROWS])
def test_each_command_names_a_test_parameters_and_options_that_exist(command: str) -> None:
    words = shlex.split(command)
    assert words[:4] == ["reframe", "-c", "reframe_tests", "-r"]
    given = list(zip(words[4::2], words[5::2], strict=True))
    [test] = [value for option, value in given if option == "-n"]
    # which measures nothing that could have a reference
    assert test in {*references.tests(), "NodePreflight"}
    for option, value in given:
        name, _, values = value.partition("=")
        if option == "-P":
            assert name in PARAMETERS and values
            assert name != "pinning" or set(values.split(",")) <= set(PINNING_POLICIES)
        elif option == "-S":
            assert name == "suite_options"
            for pair in values.split(","):
                key, _, chosen = pair.partition(":")
                option = OPTIONS[key]
                assert chosen in option.values and references.tests()[test] in option.groups
        else:
            assert option == "-n"

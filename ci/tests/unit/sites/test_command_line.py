"""Options of the suites on ReFrame's command line."""

from __future__ import annotations

import pytest

from reframe_tests.harness import command_line
from reframe_tests.harness.vocabulary import BadInput


@pytest.mark.parametrize(
    "words",
    [
        "-S suite_options=multi",
        "-S suite_options=",
        "-S suite_options=multi:0,multi:1",
        "-S suite_options=multi:0 -S suite_options=off_cache:-1",
        "--setvar=ImbPointToPoint.suite_options=multi:",
    ],
)
def test_options_of_a_suite_are_written_once_with_a_value_each(words: str) -> None:
    with pytest.raises(BadInput, match=r"write all options once, as -S .*suite_options=NAME:VALUE,NAME:VALUE"):
        command_line.check_suite_options(words.split())


@pytest.mark.parametrize("words", ["-S suite_options=window:allocate,sync:flush", "-S suite_options=lengths:/a:b -S repeats=3"])
def test_options_of_a_suite_that_are_well_formed_are_taken(words: str) -> None:
    command_line.check_suite_options(words.split())

"""A test named on ReFrame's command line as it was called before: said, where ReFrame would find or set nothing and pass."""

from __future__ import annotations

import pytest

from mpibench.night import options as options_of_nights
from reframe_tests.harness.sites import named_tests
from reframe_tests.harness.vocabulary import BadInput

#: What would find or set nothing, and what is said of it.
REFUSED = {
    "-n ^PointToPoint": r"-n \^PointToPoint means 'PointToPoint', which is called 'ImbPointToPoint' now: correct the pattern.",
    "-rn ^PointToPoint%fabric=shm": "-n .*means 'PointToPoint'",
    "--name=^(Osu|)PointToPoint%fabric=(": "-n .*means 'PointToPoint'",
    "-n PointToPoint@3": "-n PointToPoint@3 means",
    "-n Placement -n ^Collectives$": "called 'ImbCollectives' now",
    "-x ^ParallelTransfer": "-x .*called 'ImbParallelTransfer' now",
    "-S PointToPoint.limit_s=5": "-S PointToPoint.limit_s=5 means 'PointToPoint'.* now: write -S ImbPointToPoint.limit_s=5.",
    "--setvar=Collectives.repeats=5": "write -S ImbCollectives.repeats=5",
}


@pytest.mark.parametrize("words", REFUSED)
def test_a_former_name_that_fits_nothing_is_refused(words: str) -> None:
    with pytest.raises(BadInput, match=REFUSED[words]):
        named_tests.check(words.split())
    with pytest.raises(BadInput, match=REFUSED[words]):
        options_of_nights.check(words.split())


@pytest.mark.parametrize(
    "words",
    [
        "-n PointToPoint",
        "-n PointToPoint%fabric=eth.*",
        "-n (PointToPoint|Mpi4pyPingPong)%nodes=1",
        "-n ^(Osu|Imb)PointToPoint",
        "-n ^OsuPointToPoint",
        "-n ^P",
        "-n /1a2b3c4d",
        "-n OsuPointToPoint@3",
        "-x Collectives",
        "-n",
        "-S limit_s=5",
        "-S OsuPointToPoint.limit_s=5",
        "-n ^PointToPoint --list-stored-testcases=now-1y:now/mean:/",
        "--performance-compare=now-1y:now/now-1d:now/mean:/ -n ^PointToPoint",
    ],
)
def test_what_fits_todays_name_or_looks_stored_ones_up_is_taken(words: str) -> None:
    named_tests.check(words.split())


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
        named_tests.check(words.split())


@pytest.mark.parametrize("words", ["-S suite_options=window:allocate,sync:flush", "-S suite_options=lengths:/a:b -S repeats=3"])
def test_options_of_a_suite_that_are_well_formed_are_taken(words: str) -> None:
    named_tests.check(words.split())

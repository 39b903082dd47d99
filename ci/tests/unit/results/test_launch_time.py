"""The time of a whole launch, where that is what is measured."""

from __future__ import annotations

import pytest

from catalogue_launches import launches
from reframe_tests.harness.cases.results.measurement import fill_launch_time
from reframe_tests.harness.suites import reader
from reframe_tests.harness.suites.benchmark import OutputError
from studies.output_damage import golden


def records_of(number: int, text: str) -> list[reader.Record]:
    launch = launches("startup_osu", nodes=2)[number]
    return reader.complete(reader.parse(text), launch.expected)


def test_a_program_that_prints_no_time_has_that_of_its_launch() -> None:
    hello = launches("startup_osu", nodes=2)[1]
    (record,) = fill_launch_time(hello, records_of(1, golden("osu/osu-7.5-mpich-n2-hello.txt")), 1.25)
    assert (record.benchmark, record.variant, record.ranks) == ("osu_hello", "nodes=2", 2)
    assert record.values == {"time_s": 1.25}


@pytest.mark.parametrize("seconds", [None, 0.0])
def test_without_a_time_there_is_no_measurement(seconds: float | None) -> None:
    hello = launches("startup_osu", nodes=2)[1]
    with pytest.raises(
        OutputError, match=r"the job left no time of launch osu_hello, which is what is measured; run it again\.$"
    ):
        fill_launch_time(hello, records_of(1, golden("osu/osu-7.5-mpich-n2-hello.txt")), seconds)


@pytest.mark.parametrize("seconds", [None, 1.25])
def test_what_a_program_prints_itself_is_left_alone(seconds: float | None) -> None:
    init, records = launches("startup_osu", nodes=2)[0], records_of(0, golden("osu/osu-7.5-mpich-n2-init.txt"))
    assert fill_launch_time(init, records, seconds) == records
    assert set(records[0].values) == {"t_min_us", "t_avg_us", "t_max_us"}

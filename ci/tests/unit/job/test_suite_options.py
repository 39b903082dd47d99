"""Options of the suites: what they make of launches, that outputs
are held against them, and what is refused.
"""

from __future__ import annotations

import re
from dataclasses import replace
from fnmatch import fnmatchcase
from pathlib import Path

import pytest

from reframe_tests.harness.suites import catalogue, options, reader
from refusals import refused_as
from studies.output_damage import golden
from synthetic_stack import launches, stack_of

OSU = "osu/osu-7.5-mpich-n2-{}.txt"
IMB = "imb-mpi1-2021.11-{}.txt"


def launch_of(
    group: str, chosen: dict[str, str], binary: str = "", ranks: int = 2, **more
) -> catalogue.Launch:
    """The first launch of a binary under options."""
    under = options.of_group(catalogue.OPTIONS, group, chosen)
    return next(
        each for each in launches(group, ranks, chosen=under, **more) if binary in ("", each.binary)
    )


def as_asked(launch: catalogue.Launch, name: str, *, benchmarks: slice = slice(None)) -> list:
    """Records of a recorded output, judged as that of a launch; those of
    7.5 were recorded without ``-T mpi_float``.
    """
    text = golden(name).replace("# Datatype: MPI_INT.", "# Datatype: MPI_FLOAT.")
    reader.check_arguments(text, launch, source=name)
    return reader.complete(
        reader.parse(text, source=name), launch.expected[benchmarks], source=name
    )


def one_size(launch: catalogue.Launch, *sizes: int) -> catalogue.Launch:
    """The launch as if it measured these sizes only, as many repetitions as were recorded."""
    return replace(
        launch,
        expected=tuple(item._replace(sizes=sizes, repetitions=None) for item in launch.expected),
    )


# OSU: windows and synchronisation.


# OSU: columns.


def test_all_columns_of_a_nonblocking_collective():
    launch = launch_of("nonblocking_osu", {"full": "on", "percentiles": "on"}, "osu_iallreduce")
    (first, *_) = as_asked(one_size(launch, 4, 8, 16), OSU.format("iallreduce-full-tail"))
    assert set(launch.expected[0].quantities) == set(first.values)
    assert {"t_init_us", "t_min_us", "t_max_us", "latency_p99_us"} <= set(first.values)
    with refused_as("output-damaged", match="no column of"):
        as_asked(one_size(launch, 4, 8, 16, 32, 64, 128, 256), OSU.format("iallreduce-short"))


# IMB.


def test_imb_shows_its_arguments_and_they_must_be_those_asked_for():
    cold = launch_of("p2p", {"off_cache": "8"}, level="smoke")
    assert {record.variant for record in as_asked(cold, IMB.format("n2-off-cache"))} == {
        "off_cache=8"
    }
    with refused_as(
        "output-mixed", match="IMB-MPI1 says it was started with '8' where '16' was asked for"
    ):
        as_asked(launch_of("p2p", {"off_cache": "16"}, level="smoke"), IMB.format("n2-off-cache"))
    with refused_as(
        "output-mixed", match="started with '-off_cache' where 'PingPong' was asked for"
    ):
        as_asked(launch_of("p2p", {}, level="smoke"), IMB.format("n2-off-cache"))


@pytest.mark.parametrize(
    "value",
    ["on; rm -rf x", "$(id)", "a b", "--", "/etc/passwd"],
)
def test_a_value_is_one_word_that_no_shell_reads(value: str):
    with refused_as("bad-option", match="is not a value of msg_pause"):
        options.check(catalogue.OPTIONS, {"msg_pause": value})


# What is refused.


@pytest.mark.parametrize("option", catalogue.OPTIONS.values(), ids=lambda option: option.name)
def test_every_option_changes_what_is_started_and_is_kept_apart(
    option: options.SuiteOption, tmp_path: Path
):
    """A default changes nothing; any other value is in the arguments or in a file, and in the
    metrics unless it is measured alike. The messages of HPCC's rings are always the same.
    """
    (tmp_path / "lengths").write_text("262144\n1048576\n")
    shaped = {
        "off_cache": ("-1", "32"),
        "map": ("2x4", "8x1"),
        "lengths": (str(tmp_path / "lengths"),),
    }
    shaped |= {
        "hpcc_mib_per_rank": ("1", "3000"),
        "npmin": ("1", "2", "6"),
        "imb_window": ("1", "100"),
        "pairs": ("1", "3"),
    }
    handed_on = ("on", "8")
    stack = stack_of(osu="7.0") if option.name == "pairs" else stack_of()
    for group in option.groups:
        ranks = 2 if any(row.ranks == "only_pair" for row in catalogue.rows(group)) else 8
        plain = launches(group, ranks, stack=stack)
        planned = catalogue.planned_metrics(group)
        if option.default:
            assert options.of_group(catalogue.OPTIONS, group, {option.name: option.default}) == {}
        for value in (
            each
            for each in option.values or shaped.get(option.name, handed_on)
            if each != option.default
        ):
            chosen = options.of_group(catalogue.OPTIONS, group, {option.name: value})
            under = launches(group, ranks, stack=stack, chosen=chosen)
            changed = [(a, b) for a, b in zip(plain, under, strict=True) if b.options]
            assert changed, (group, value)
            for before, after in changed:
                assert (before.args, before.files) != (after.args, after.files)
                common = {m.name for m in catalogue.metrics([before])} & {
                    m.name for m in catalogue.metrics([after])
                }
                common = {name for name in common if "OrderedRing" not in name}
                names = {
                    re.sub(r"\.[0-9]{10}$", "", metric.name)
                    for metric in catalogue.metrics([after])
                }
                may = {
                    name: [
                        each for each in planned if each.startswith(f"{name.partition('.')[0]}.")
                    ]
                    for name in names
                }
                assert all(
                    any(fnmatchcase(name, pattern) for pattern in may[name]) for name in names
                ), "may have references"
                assert bool(common) == (option.apart == options.ALIKE), (group, value, after.binary)
            assert all(a == b for a, b in zip(plain, under, strict=True) if not b.options)

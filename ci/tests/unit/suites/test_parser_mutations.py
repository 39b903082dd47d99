"""Outputs damaged at random: either the same records or an error, never anything else."""

import re
from functools import cache
from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from reframe_tests.harness.suites import reader
from reframe_tests.harness.suites.benchmark import OutputError
from refusals import refused_as
from studies.output_damage import (
    MUTATIONS,
    ends_visibly,
    good_goldens,
    read,
    whole,
)

TEXTS = good_goldens()
NAMES = sorted(TEXTS)


@cache
def records_of(name):
    """Of the undamaged output."""
    return whole(name, TEXTS[name])


#: Lines that may be missing although they are not blank, by whose outputs: notes on who waits or
#: belongs to which group and the frame of a mode (IMB); what is no row (GPCNeT, nccl-tests);
#: whatever is not the head, a frame of a section or the summary (HPCC, NPB), or title, head or row
#: of a table (perftest), which the numbers are not read from; checksums of what the last one holds,
#: too, and how long it took (maps of pairs).
HARMLESS = {
    "gpcnet": re.compile(r"(?!.*[0-9]\.[0-9]|.* nodes)"),
    "hpcc": re.compile(r"FFT_API=|(?!.*section\.|\w+=|.*version)"),
    "npb": re.compile(
        r"(?!.*NAS Parallel| Class  | Iterations  .* = | Time in| Total proc| Mop| Verification  )"
    ),
    "perftest": re.compile(r"(?! [0-9]| +RDMA| #bytes)"),
    "imb": re.compile("#"),
    "pair_map": re.compile(r"# (?:so far|took)"),
    **dict.fromkeys(
        ("nccl/nccl", "nccl/rccl"),
        re.compile(r"(?! *\d+ +\d+ +\w+ |# nThread|# Out of|# Avg|# +size|# +Rank)"),
    ),
    "": re.compile(r"# \(|# Group|#    |# window|!!!!|\s*#\s*$"),
}


@pytest.mark.parametrize("mutation", sorted(MUTATIONS))
@given(name=st.sampled_from(NAMES), other=st.sampled_from(NAMES), seed=st.integers(0, 2**32 - 1))
def test_damage_is_seen_or_harmless(mutation, name, other, seed):
    damaged = MUTATIONS[mutation](TEXTS[name], TEXTS[other], Random(seed))
    try:
        records = read(name, damaged, records_of(name))
    except OutputError as error:
        sentence = str(error)
        assert sentence.startswith(name)
        assert sentence.endswith(".")
        assert "\n" not in sentence
    else:
        assert records == records_of(name)


def test_output_of_two_suites_is_refused():
    """Found by damaging 2,000 outputs: the head of perftest's output may hold
    anything, so it was read with another's in it.
    """
    name = "composed/perftest-4.5-ib_write_bw-65536.txt"
    other = "collective_times-mpich-n4-allreduce.txt"
    title, *rest = TEXTS[name].splitlines(keepends=True)[1:]
    mixed = "".join([title, TEXTS[other], *rest])
    with refused_as(
        "output-damaged",
        match=r"line 2: output of .* is inside that of perftest; outputs are mixed up, run",
    ):
        reader.parse(mixed)


#: Of those that need what was asked for to tell that they are whole, one of each suite.
ASKED = (
    "imb-mpi1-2021.11-n2-mpich.txt",
    "osu/osu-7.5-mpich-n2-allreduce.txt",
    "mpi4py-pingpong-mpich-n2.txt",
)


@pytest.mark.parametrize("name", [name for name in NAMES if ends_visibly(name) or name in ASKED])
def test_no_line_of_a_table_can_go_missing(name):
    """The first lines, heads and rows, one after the other; of the others every few. Where only
    what was asked for tells, none can stand there twice, either.
    """
    lines = TEXTS[name].splitlines(keepends=True)
    known = HARMLESS.get(name.split("-")[0], HARMLESS[""])
    for index in (*range(min(20, len(lines))), *range(20, len(lines), 1 + len(lines) // 25)):
        line = lines[index]
        for there in ([], [line, line])[: 1 + (name in ASKED)]:
            damaged = "".join([*lines[:index], *there, *lines[index + 1 :]])
            try:
                records = read(name, damaged, records_of(name))
            except OutputError:
                continue
            assert records == records_of(name)
            assert there or not line.strip() or known.match(line), line


def test_the_damage_does_something():
    """The mutations themselves: nearly all of them change the text."""
    text = TEXTS["imb-mpi1-2021.11-n2-all.txt"]
    other = TEXTS["mpi4py-pingpong-mpich-n2.txt"]
    for mutation in MUTATIONS.values():
        changed = [mutation(text, other, Random(seed)) != text for seed in range(20)]
        assert sum(changed) > 10, mutation

"""Profiles of every form: what is read of them, and that no damage loses calls in silence."""

from __future__ import annotations

from pathlib import Path

import pytest

import composed_profiles
from composed_profiles import FILES, read, read_text, row, text_of
from mpibench_tune import profiles
from mpibench_tune.profiles import ProfiledCalls
from reframe_tests.harness.vocabulary import BadInput
from refusals import refused_as


@pytest.mark.parametrize("name", FILES)
def test_every_form_gives_the_same_run(name: str) -> None:
    found = read(name)
    assert found.ranks == 2 and all(one.count > 0 for one in found.calls)
    counts = {one.call: one.count for one in found.calls}
    if name != "aps.txt":  # a run of its own
        assert counts["Allreduce"] == 2000
        assert counts.get("Isend", counts.get("Send")) == 1000
    sized = [one.message_bytes for one in found.calls if one.call in ("Isend", "Send")]
    assert sized == [pytest.approx(2048, rel=0.002)]
    if name in ("mpip.txt", "ipm.xml", "darshan.txt", "plain.csv", "mpip_concise.txt"):
        assert found.wall_s == pytest.approx(4.0) and 0.05 < found.share_in_mpi < 0.3
        assert sum(one.seconds or 0 for one in found.calls) == pytest.approx(found.mpi_s, rel=0.01)


def test_mpip_has_means_with_their_bounds_and_no_sizes_of_receives() -> None:
    found = read("mpip.txt")
    isend = row(found, "Isend")
    assert (isend.smallest, isend.largest, isend.seconds) == (1024, 3072, pytest.approx(0.02))
    assert row(found, "Irecv").message_bytes is None and row(found, "Waitall").message_bytes is None
    assert found.imbalance == pytest.approx(1.0)


def test_ipm_gives_shares_as_whole_vectors() -> None:
    found = read("ipm.xml")
    assert row(found, "Reduce_scatter").message_bytes == 1024
    assert row(found, "Alltoall") == ProfiledCalls("Alltoall", 4096, 400, pytest.approx(0.6))
    assert any("Reduce_scatter" in note for note in found.notes)


def test_intel_statistics_give_communicators_and_leave_out_what_collectives_send() -> None:
    found = read("intel_stats.txt")
    assert row(found, "Alltoall") == ProfiledCalls("Alltoall", 4096, 400, None, 2)
    assert "Csend" not in {one.call for one in found.calls}
    assert found.mpi_s is None


def test_aps_gives_means_and_nothing_where_the_volume_rounds_to_nothing() -> None:
    found = read("aps.txt")
    assert row(found, "Alltoall").message_bytes == pytest.approx(4096, rel=1e-3)
    assert row(found, "Allreduce").message_bytes is None


def test_spc_as_csv_are_the_same(tmp_path: Path) -> None:
    lines = ["rank,counter,value"]
    for rank in (0, 1):
        lines += [
            f"{rank},runtime_spc_OMPI_SPC_ISEND,500",
            f"{rank},runtime_spc_OMPI_SPC_BYTES_SENT_USER,1024000",
        ]
    found = read_text(tmp_path, "open_mpi_spc.txt", "\n".join([*lines, ""]))
    assert found.calls == (ProfiledCalls("Isend", 2048, 1000),)


def test_darshan_has_bounds_from_its_ranges() -> None:
    isend = row(read("darshan.txt"), "Isend")
    assert (isend.smallest, isend.largest, isend.message_bytes) == (1024, 8192, 2048)
    assert read("darshan.txt").calls == read("darshan.csv").calls


@pytest.mark.parametrize("name", [name for name in FILES if name not in ("open_mpi_spc.txt",)])
def test_a_line_that_is_lost_is_seen(name: str, tmp_path: Path) -> None:
    """Refused, or the same calls: never fewer."""
    whole = read(name)
    lines = text_of(name).splitlines(keepends=True)
    lost = []
    for at in range(len(lines)):
        try:
            found = read_text(tmp_path, name, "".join(lines[:at] + lines[at + 1 :]))
        except BadInput:
            continue
        lost += [lines[at]] if found.calls != whole.calls and not said(found) else []
    assert lost == []


def said(found: profiles.Profile) -> bool:
    """A table that has lost its own number of rows says that nobody knows."""
    return any("nobody knows" in note for note in found.notes)


@pytest.mark.parametrize("name", FILES)
def test_a_file_that_is_cut_off_is_refused(name: str, tmp_path: Path) -> None:
    whole = read(name)
    text = text_of(name)
    for at in range(0, len(text) - 1, max(1, len(text) // 97)):
        try:
            found = read_text(tmp_path, name, text[:at])
        except BadInput:
            continue
        assert found.calls == whole.calls or said(found), f"cut after {at} characters"


@pytest.mark.parametrize("name", FILES)
def test_a_count_that_is_no_number_is_refused_with_its_place(name: str, tmp_path: Path) -> None:
    text = text_of(name)
    count = next(word for word in ("1000", "2000", "200000") if word in text)
    with refused_as("output-damaged", match=name):
        read_text(tmp_path, name, text.replace(count, "1o00"))
    with refused_as("output-damaged", match="no text"):
        read_text(tmp_path, name, text.replace(count, "10\x0000"))


def test_what_is_no_profile_is_refused(tmp_path: Path) -> None:
    with refused_as("other-release"):
        read_text(tmp_path, "plain.csv", "hello\n")
    with refused_as("output-damaged"):
        profiles.read(tmp_path)


@pytest.mark.parametrize(
    ("written", "call"),
    [
        ("mpi_allreduce_", "Allreduce"),
        ("MPI_File_read_all", "File_read_all"),
        ("PMPI_Isend", "Isend"),
        ("Put", "Put"),
    ],
)
def test_calls_have_one_name(written: str, call: str) -> None:
    assert profiles.call_of(written) == call


def test_equal_rows_are_added_and_unknown_times_stay_apart() -> None:
    rows = [
        ProfiledCalls("Bcast", 8, 2, 0.5),
        ProfiledCalls("Bcast", 8, 3, 0.25),
        ProfiledCalls("Bcast", 8, 1, None),
        ProfiledCalls("Bcast", 16, 1, 0.1),
    ]
    assert profiles.gathered(rows) == (
        ProfiledCalls("Bcast", 8, 5, 0.75),
        ProfiledCalls("Bcast", 8, 1, None),
        ProfiledCalls("Bcast", 16, 1, 0.1),
    )


@pytest.mark.parametrize(
    ("name", "old", "new", "sentence"),
    [
        ("ipm.xml", 'ntasks="2"', 'ntasks="3"', "mixes ranks"),
        ("ipm.xml", "?>", "?><!DOCTYPE x [<!ENTITY a 'b'>]>", "entities"),
        ("intel_stats.txt", "Communication Activity by", "Something else", "no message sizes"),
        ("intel_stats.txt", "Message size", "Message siz", "there is no Message size among"),
        ("plain.csv", "0.1,2", "0.1,16", "mixes ranks"),
        ("plain.csv", "call,bytes,", "call,size,", "no column 'bytes'"),
        ("plain.csv", "0.1,2", "nan,2", "expected a number"),
        ("plain.csv", "MPI_Isend", "M;PI", "not the name of an MPI call"),
        ("mpip.txt", "@ MPI Task Assignment      : 1 n1\n", "", "task assignments"),
        ("aps.txt", "Time(sec) ", "Zeit(sec) ", r"no column Time\(sec\)"),
        ("open_mpi_spc.txt", "BYTES_SENT_USER -> 1024000", "BYTES_PUT -> 1", "without sizes"),
        ("darshan.csv", "0,MPI_ISEND_CALL_COUNT,500", "0,MPI_ISEND_CALL_COUNT,600", "ranges of"),
    ],
)
def test_what_cannot_be_is_refused(
    name: str, old: str, new: str, sentence: str, tmp_path: Path
) -> None:
    text = text_of(name)
    assert old in text
    with pytest.raises(BadInput, match=sentence):
        read_text(tmp_path, name, text.replace(old, new))


def test_ranks_and_run_time_that_are_given() -> None:
    """They fill what is missing, and contradict nothing."""
    aps = composed_profiles.FOLDER / "aps.txt"
    assert profiles.read(aps, 2, 250.0).share_in_mpi == pytest.approx(0.2)
    with refused_as("output-mixed"):
        profiles.read(aps, 2, 10.0)
    with refused_as("nothing-measured"):
        profiles.read(aps)
    with refused_as("output-damaged"):
        profiles.read(composed_profiles.FOLDER / "plain.csv", 4)

"""Profiles of every form: what is read of them, and that no damage loses calls in silence."""

import pytest

from reframe_tests.harness.vocabulary import BadInput
from refusals import refused_as
from synthetic_tuning import PROFILE_FILES as FILES
from synthetic_tuning import read, read_text, text_of


@pytest.mark.parametrize("name", FILES)
def test_every_form_gives_the_same_run(name):
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


@pytest.mark.parametrize("name", [name for name in FILES if name not in ("open_mpi_spc.txt",)])
def test_a_line_that_is_lost_is_seen(name, tmp_path):
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


def test_a_list_of_transfers_lacks_times_and_says_so(tmp_path):
    """``aps-report -u`` has sizes."""
    text = text_of("aps.txt").replace("Time(sec)", "Transfers")
    with refused_as("nothing-measured", match=r"lacks the column Time\(sec\), and without times"):
        read_text(tmp_path, "aps.txt", text)


def said(found):
    """A table that has lost its own number of rows says that lost rows go unnoticed."""
    return any("unnoticed" in note for note in found.notes)


@pytest.mark.parametrize("name", FILES)
def test_a_file_that_is_cut_off_is_refused(name, tmp_path):
    whole = read(name)
    text = text_of(name)
    for at in range(0, len(text) - 1, max(1, len(text) // 97)):
        try:
            found = read_text(tmp_path, name, text[:at])
        except BadInput:
            continue
        assert found.calls == whole.calls or said(found), f"cut after {at} characters"


@pytest.mark.parametrize("name", FILES)
def test_a_count_that_is_no_number_is_refused_with_its_place(name, tmp_path):
    text = text_of(name)
    count = next(word for word in ("1000", "2000", "200000") if word in text)
    with refused_as("output-damaged", match=name):
        read_text(tmp_path, name, text.replace(count, "1o00"))
    with refused_as("output-damaged", match="not text"):
        read_text(tmp_path, name, text.replace(count, "10\x0000"))

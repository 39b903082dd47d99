"""Colour codes and control characters of programs never reach a
sentence, and ReFrame's JUnit stays well-formed XML.
"""

from __future__ import annotations

from xml.etree import ElementTree

import pytest
from hypothesis import given
from hypothesis import strategies as st

from reframe_tests.harness.cases.results import measurement
from reframe_tests.harness.cases.results.error_excerpt import excerpt
from reframe_tests.harness.printable import (
    first_line,
    one_line,
    printable,
    printable_data,
    without_secrets,
)


@pytest.mark.parametrize(
    ("text", "wanted"),
    [
        ("plain, \u00b5s, tab\tand\nnewline", "plain, \u00b5s, tab\tand\nnewline"),
        ("\x1b[1;31merror:\x1b[0m no such device", "error: no such device"),
        ("\x1b]0;title of the window\x07said", "said"),
        ("\x1b]8;;http://x/\x1b\\link\x1b]8;;\x1b\\", "link"),
        ("\x1b(Bcharset\x1b7", "charset"),
        ("\x9b31mred", "red"),
        ("bell\x07 back\x08 null\x00 return\r delete\x7f", "bell back null return delete"),
        ("line\u2028paragraph\u2029end", "line\nparagraph\nend"),
        ("back\u202ewards\u202c and \u2067isolated\u2069", "backwards and isolated"),
        ("cut off \x1b[31", "cut off 31"),
    ],
)
def test_what_is_taken_out(text: str, wanted: str) -> None:
    assert printable(text) == wanted
    assert printable_data({"a": [text, 1, None], "c": (text,)}) == {
        "a": [wanted, 1, None],
        "c": [wanted],
    }


def test_one_datum_is_one_line() -> None:
    assert one_line("a stack\x1b[2J\r\n  PASS: all is well\n") == "a stack PASS: all is well"
    assert one_line("a stack\u2028PASS\u2029: all\x85 is well") == "a stack PASS : all is well"


@given(st.text(st.characters(exclude_categories=()), max_size=40))
def test_a_line_is_one_line_for_whoever_splits_it(text: str) -> None:
    assert len(one_line(text).splitlines()) <= 1


@given(st.text(st.characters(exclude_categories=()), max_size=40))
def test_whatever_is_left_is_valid_xml(text: str) -> None:
    left = printable(text)
    root = ElementTree.Element("x", said=left)
    root.text = left
    read = ElementTree.fromstring(ElementTree.tostring(root, encoding="unicode"))
    assert read.text == (left or None)
    assert printable(left) == left


def test_a_coloured_line_is_known_for_what_it_is() -> None:
    coloured = (
        "\x1b[2m[1795272961.092024] [c2:208  :0]  ucp_context.c:1381 UCX  WARN  network device "
        "'e' is not available\x1b[0m"
    )
    assert excerpt(f"{coloured}\nlater\n") == "c2: UCX WARN network device 'e' is not available"


def test_sentences_name_the_repeats_they_are_of() -> None:
    outcome = measurement.JobOutcome(4)
    for repeat in (1, 2, 4):
        outcome.add("pair", repeat, measurement.MISSING, ["lost"])
    outcome.add("pair", 3, measurement.CONTRADICTED, ["\x1b[31mwrong"])
    assert outcome.sentences == ["pair, repeat 3 of 4: wrong", "pair, repeats 1-2,4 of 4: lost"]


def test_a_long_reason_is_cut_behind_a_word_and_marked() -> None:
    assert first_line(None) == ""
    assert first_line("short\nmore") == "short"
    assert first_line("asked for lo, went over shm", 13) == "asked for lo, ..."
    assert first_line("x" * 300) == "x" * 200 + " ..."


@pytest.mark.parametrize(
    ("name", "value", "wanted"),
    [
        ("FI_PROVIDER", "tcp;ofi_rxm", "tcp;ofi_rxm"),
        ("UCX_NET_DEVICES", "mlx5_0:1,mlx5_1:1", "mlx5_0:1,mlx5_1:1"),
        ("FI_HMEM_BYPASS", "1", "1"),
        ("FI_X_PASSWORD", "hunter2", "..."),
        ("I_MPI_AUTH_FILE", "/x", "..."),
        ("FI_LOG_URL", "https://me:hun/ter2@logs:80/x", "https://...@logs:80/x"),
        ("I_MPI_EXTRA", "-t a token=abc,level=2", "-t a token=...,level=2"),
        ("FI_EMPTY_KEY", "", ""),
    ],
)
def test_what_is_secret_is_not_stored(name: str, value: str, wanted: str) -> None:
    assert without_secrets(name, value) == wanted

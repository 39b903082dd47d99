"""Templates of outputs: what each hole takes, what may be missing, and which line is said to be odd."""

from __future__ import annotations

import pytest

from reframe_tests.harness.suites.fixed_text import FixedText

TEXT = FixedText("""
Relay <w:version>
? note: <t>
Size = <n:size>
* step <n>
[
Details
a.b (c) <x>
]
Time = <d:seconds> s
<r>
""")
GOOD = "Relay 1.2\nSize   =  64\n step 1\n\n step 2\nDetails\n a.b (c) -1.5E-03\nTime = 0.25 s\n-------\n\n"


def test_holes_are_asked_for_by_name() -> None:
    found = TEXT.pattern.fullmatch(GOOD)
    assert found and (found["version"], found["size"], found["seconds"]) == ("1.2", "64", "0.25")


@pytest.mark.parametrize("gone", ["\n", " step 1\n", "Details\n a.b (c) -1.5E-03\n"])
def test_what_may_be_missing(gone: str) -> None:
    assert TEXT.pattern.fullmatch(GOOD.replace(gone, "" if gone != "\n" else "\r\n\n", 1))


@pytest.mark.parametrize(
    ("old", "new", "where", "line"),
    [
        ("0.25", "0e25", 7, "Time = 0e25 s"),
        ("64", "6 4", 1, "Size   =  6 4"),
        ("a.b", "aXb", 6, "aXb (c) -1.5E-03"),
        ("Details\n", "", 0, ""),
        ("step 2", "Time = 0.25 s", 0, ""),
        ("-------\n", "", 0, ""),
        ("\n-------\n\n", "\n-------", 0, ""),
    ],
)
def test_where_it_is_odd(old: str, new: str, where: int, line: str) -> None:
    text = GOOD.replace(old, new)
    assert not TEXT.pattern.fullmatch(text)
    assert TEXT.find_fault(text) == (where, line)

"""Colours of the report: seen on the page, distinguished by every kind of eye."""

from __future__ import annotations

import itertools
import math
import operator

import pytest

from mpibench.pages import page


def luminance(colour: str) -> list[float]:
    parts = [int(colour[place : place + 2], 16) / 255 for place in (1, 3, 5)]
    return [part / 12.92 if part <= 0.04045 else ((part + 0.055) / 1.055) ** 2.4 for part in parts]


def contrast(one: str, other: str) -> float:
    """Contrast ratio of WCAG 2.1, section 1.4.3."""
    first, second = (
        sum(w * c for w, c in zip((0.2126, 0.7152, 0.0722), luminance(x), strict=True))
        for x in (one, other)
    )
    return (max(first, second) + 0.05) / (min(first, second) + 0.05)


#: Machado, Oliveira, Fernandes, "A physiologically-based model for simulation of color vision
#: deficiency" (2009), table 1, severity 1.0.
DEFICIENCIES = {
    "none": ((1, 0, 0), (0, 1, 0), (0, 0, 1)),
    "protan": (
        (0.152286, 1.052583, -0.204868),
        (0.114503, 0.786281, 0.099216),
        (-0.003882, -0.048116, 1.051998),
    ),
    "deutan": (
        (0.367322, 0.860646, -0.227968),
        (0.280085, 0.672501, 0.047413),
        (-0.011820, 0.042940, 0.968881),
    ),
}


def lab(rgb: list[float]) -> tuple[float, float, float]:
    """CIE L*a*b* (D65) of linear sRGB."""
    red, green, blue = (min(max(part, 0), 1) for part in rgb)
    xyz = (
        (0.4124 * red + 0.3576 * green + 0.1805 * blue) / 0.9505,
        0.2126 * red + 0.7152 * green + 0.0722 * blue,
        (0.0193 * red + 0.1192 * green + 0.9505 * blue) / 1.089,
    )
    x, y, z = (part ** (1 / 3) if part > 0.008856 else 7.787 * part + 16 / 116 for part in xyz)
    return 116 * y - 16, 500 * (x - y), 200 * (y - z)


@pytest.mark.parametrize(("theme", "paper"), [("light", "#ffffff"), ("dark", "#14171a")])
def test_colours_can_be_seen_on_the_page(theme: str, paper: str) -> None:
    style = page.TEMPLATES.get_template("page.css").render()
    assert f"--paper: {paper}" in style
    assert min(contrast(colour, paper) for colour in page.PALETTE[theme]) >= 3.0
    assert len(page.PALETTE[theme]) == len(page.SYMBOLS)


@pytest.mark.parametrize("deficiency", DEFICIENCIES)
@pytest.mark.parametrize("theme", ["light", "dark"])
def test_colours_can_be_distinguished(theme: str, deficiency: str) -> None:
    """Stacks differ by 15 or more in CIE76 for every kind of eye, and always by their markers."""
    seen = []
    for colour in page.PALETTE[theme]:
        linear = luminance(colour)
        rows = DEFICIENCIES[deficiency]
        seen.append(lab([sum(map(operator.mul, row, linear)) for row in rows]))
    assert min(math.dist(one, other) for one, other in itertools.combinations(seen, 2)) >= 15

"""Colours and markers that distinguish stacks, on every page and chart."""

from __future__ import annotations

#: One colour per stack, on white and on the dark page. The first two are of Okabe and Ito, "Color Universal Design"
#: (2008); the others were searched so that all differ for protan, deutan and normal eyes and stand out from the page
#: (the tests hold them to both).
PALETTE = {
    "light": ("#0072b2", "#d55e00", "#19a677", "#7a1040", "#3f2ad6", "#403300", "#5b6570", "#000000"),
    "dark": ("#5bb4f0", "#ff9a4d", "#2fe0b0", "#f0e442", "#8a63ff", "#b5554d", "#2d7a80", "#ffffff"),
}
#: Marker per stack, so that a print in black and white can be read: name in plotly.js, sign in text.
SYMBOLS = {
    "circle": "●",
    "square": "■",
    "diamond": "◆",
    "triangle-up": "▲",
    "x": "✖",
    "cross": "✚",
    "triangle-down": "▼",
    "star": "★",
}

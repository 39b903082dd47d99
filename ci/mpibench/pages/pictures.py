"""Figures as SVG and PNG files, for a ticket or a paper: drawn by a
headless Chromium from the same source as the page.

The browser loads one page that holds all figures, plotly.js turns each into an image, and the
browser prints the page as it then is (``--dump-dom``; it waits for the images because virtual time
stands still while there is work). No package is needed for that.
"""

from __future__ import annotations

import base64
import html
import re
import shutil
import subprocess
import tempfile
from collections.abc import Sequence
from pathlib import Path
from urllib.parse import unquote

import plotly.graph_objects as go

from reframe_tests.harness.vocabulary import BadInput

from .. import whole_file
from .page import TEMPLATES, writing

#: What a Chromium is called, as it may be installed.
BROWSERS = ("chromium", "chromium-browser", "google-chrome", "chrome")
_FLAGS = (
    "--headless",
    "--no-sandbox",
    "--disable-gpu",
    "--virtual-time-budget=600000",
    "--dump-dom",
)
_WIDTH = 900
_SCALE = 2
#: Seconds until the browser hangs.
_LIMIT_S = 300


def save(figures: Sequence[go.Figure], folder: Path, width: int = _WIDTH) -> list[Path]:
    """Write each figure as ``<number>-<title>.svg`` and ``.png``.

    :raises BadInput: there is no Chromium, it draws nothing, or the folder cannot be written.
    """
    browser = next(filter(None, map(shutil.which, BROWSERS)), None)
    if browser is None:
        raise BadInput(
            "tool-missing",
            f"pictures are drawn by a Chromium and there is none ({', '.join(BROWSERS)}): "
            "install one.",
        )
    page = TEMPLATES.get_template("pictures.html").render(
        figures=figures, width=width, scale=_SCALE
    )
    with tempfile.TemporaryDirectory() as name:
        source = Path(name) / "figures.html"
        source.write_text(page, encoding="utf-8")
        command = [browser, *_FLAGS, f"--user-data-dir={name}/profile", source.as_uri()]
        try:
            done = subprocess.run(command, capture_output=True, text=True, timeout=_LIMIT_S)
        except subprocess.TimeoutExpired:
            raise BadInput("tool-failed", f"{browser} drew nothing within {_LIMIT_S} s.") from None
    images = [
        html.unescape(image) for image in re.findall(r"<pre>(data:image/[^<]*)</pre>", done.stdout)
    ]
    if len(images) != 2 * len(figures):
        said = (done.stderr.strip().splitlines() or ["nothing"])[-1][:200]
        raise BadInput(
            "tool-failed",
            f"{browser} drew {len(images)} of {2 * len(figures)} pictures; it said: {said}.",
        )
    paths = []
    with writing(folder):
        folder.mkdir(parents=True, exist_ok=True)
        for place, image in enumerate(images):
            kind, _, content = image.partition(",")
            suffix = "png" if "png" in kind else "svg"
            path = folder / f"{place // 2 + 1:02}-{_file_name(figures[place // 2])}.{suffix}"
            with whole_file.replacing(path) as partial:
                partial.write_bytes(
                    base64.b64decode(content) if "base64" in kind else unquote(content).encode()
                )
            paths.append(path)
    return paths


def _file_name(figure: go.Figure) -> str:
    return (
        re.sub(r"[^A-Za-z0-9]+", "-", figure.layout.title.text or "").strip("-").lower()[:60]
        or "figure"
    )

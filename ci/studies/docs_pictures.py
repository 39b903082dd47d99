"""The pictures of the docs: pages of ``mpibench demo`` as a browser shows them.

``PYTHONPATH=ci python -m studies.docs_pictures`` writes ``docs/images`` anew; it needs a Chromium.
"""

from __future__ import annotations

import shutil
import subprocess
import tempfile
from pathlib import Path

from mpibench_site import demo
from reframe_tests.harness.vocabulary import ROOT

FOLDER = ROOT / "docs" / "images"
#: Picture to its page, and its height in pixels.
PICTURES = {
    "results-site.png": (demo.SITE, 900),
    "red-night.png": (demo.REPORT, 700),
    "comparison.png": (demo.COMPARISON, 900),
    "map-of-pairs.png": (demo.MAP, 1400),
}
BROWSERS = ("chromium", "chromium-browser", "google-chrome", "chrome")


def main() -> None:
    browser = next(filter(None, map(shutil.which, BROWSERS)))
    with tempfile.TemporaryDirectory() as folder:
        out = Path(folder) / "demo"
        demo.make(out)
        for name, (page, height) in PICTURES.items():
            words = f"--headless --no-sandbox --hide-scrollbars --window-size=1280,{height}"
            words += f" --virtual-time-budget=20000 --screenshot={FOLDER / name}"
            subprocess.run([browser, *words.split(), (out / page).as_uri()], check=True)


if __name__ == "__main__":
    main()

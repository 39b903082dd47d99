"""The documentation site is built strictly (no dead link, page or anchor) and fetches nothing, neither built nor read."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from html.parser import HTMLParser
from pathlib import Path

import pytest

import documentation
from reframe_tests.harness.vocabulary import ROOT

#: Attributes whose target a browser fetches by itself.
FETCHED = {("script", "src"), ("img", "src"), ("link", "href"), ("iframe", "src"), ("source", "src"), ("video", "src")}
#: Links of a page's head that name it and load nothing.
NAMING = {"canonical", "next", "prev"}


def build(folder: Path, *, configuration: Path = ROOT / "mkdocs.yml") -> subprocess.CompletedProcess[str]:
    """``mkdocs build`` into a folder, where nothing outside this machine can be reached."""
    proxy = "http://127.0.0.1:9"  # discard: refused
    without = {"http_proxy": proxy, "https_proxy": proxy, "NO_MKDOCS_2_WARNING": "1"}
    return subprocess.run(
        [sys.executable, "-m", "mkdocs", "build", "--config-file", configuration, "--site-dir", folder],
        env={**os.environ, **without},
        capture_output=True,
        text=True,
    )


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("docs")
    done = build(folder)
    assert done.returncode == 0, done.stderr
    return folder


class FetchedTargets(HTMLParser):
    """Targets that a page makes a browser fetch."""

    def __init__(self) -> None:
        super().__init__()
        self.targets: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        given = dict(attrs)
        if tag == "link" and given.get("rel") in NAMING:
            return
        self.targets += [value for name, value in attrs if (tag, name) in FETCHED and value]


def test_each_page_is_there(built: Path) -> None:
    pages = [path.relative_to(documentation.DOCS).with_suffix(".html") for path in documentation.PAGES[1:]]
    assert len(pages) > 30
    assert [str(page) for page in pages if not (built / page).is_file()] == []


def test_pages_fetch_nothing_from_elsewhere(built: Path) -> None:
    elsewhere, local = {}, 0
    for path in built.rglob("*.html"):
        parser = FetchedTargets()
        parser.feed(path.read_text())
        local += len(parser.targets)
        elsewhere[path.name] = [target for target in parser.targets if re.match(r"(https?:)?//", target)]
    assert local > 100
    assert {name: targets for name, targets in elsewhere.items() if targets} == {}
    styles = [path.read_text() for path in built.rglob("*.css")]
    assert styles and not any(re.search(r"(@import|url\()\s*[\"']?(https?:)?//", style) for style in styles)


def test_a_dead_link_ends_the_build(tmp_path: Path) -> None:
    """Page, anchor and omitted page: each is an error by the settings that are committed."""
    text = (ROOT / "mkdocs.yml").read_text().partition("\nnav:\n")[0]
    (tmp_path / "mkdocs.yml").write_text(f"{text}\nnav:\n  - Home: index.md\n")
    (tmp_path / "docs").mkdir()
    index = tmp_path / "docs" / "index.md"
    for link, fault in (("absent.md", "absent.md"), ("#absent", "#absent")):
        index.write_text(f"# Home\n\n[somewhere]({link})\n")
        done = build(tmp_path / "site", configuration=tmp_path / "mkdocs.yml")
        assert done.returncode != 0 and fault in done.stderr, done.stderr
    index.write_text("# Home\n")
    assert build(tmp_path / "site", configuration=tmp_path / "mkdocs.yml").returncode == 0
    (tmp_path / "docs" / "forgotten.md").write_text("# Forgotten\n")
    done = build(tmp_path / "site", configuration=tmp_path / "mkdocs.yml")
    assert done.returncode != 0 and "forgotten.md" in done.stderr

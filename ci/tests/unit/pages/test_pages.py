"""All pages alike: whatever is inserted stays text, and one
policy lets nothing else load or run.
"""

from __future__ import annotations

import html
import re
from collections.abc import Callable
from pathlib import Path

import jinja2
import pytest

from hostile_pages import PAGES, hostile_comparison, hostile_report
from mpibench.pages import page
from page_reader import Reader
from reframe_tests.harness.stacks import metadata
from synthetic_report import HOSTILE

PRODUCT = metadata.ROOT / "ci" / "mpibench"
each_page = pytest.mark.parametrize(
    "write", PAGES, ids=lambda write: write.__name__.removeprefix("hostile_")
)


def scripts_of(read: Reader) -> list[dict[str, str | None]]:
    """Those that run."""
    data = ("application/json", "text/plain")
    return [one for one in read.named("script") if one.get("type") not in data]


@each_page
def test_hostile_names_stay_text(write: Callable[[Path], str], tmp_path: Path) -> None:
    """And one policy lets nothing else load or run."""
    page = write(tmp_path)
    read = Reader(page)
    assert not {"img", "iframe", "object", "embed", "link", "base"} & {tag for tag, _ in read.tags}
    keys = {key for _, attributes in read.tags for key in attributes}
    assert not [key for key in keys if key.startswith("on") or key == "src"]
    for one in read.named("a"):
        assert re.match(r"#|file:///|\.\./|[\w%]", one["href"] or "")
        assert not re.match(r"\s*(javascript|data|http)", one["href"] or "", re.IGNORECASE)
    assert sum(HOSTILE in text for text in read.text.values()) >= 1
    for style in re.findall(r"<style>(.*?)</style>", page, re.DOTALL):
        assert "url(" not in style
    (policy,) = re.findall(r'http-equiv="Content-Security-Policy" content="([^"]*)"', page)
    policy = html.unescape(policy)
    nonces = re.findall(r"'nonce-([^']{20,})'", policy)
    assert re.sub(r"'nonce-[^']*'", "'none'", policy) == (
        "default-src 'none'; script-src 'none'; style-src 'unsafe-inline'; img-src data: blob:; "
        "base-uri 'none'; form-action 'none'"
    )
    assert [one.get("nonce") for one in scripts_of(read)] == nonces * PAGES[write]
    assert len(nonces) == bool(PAGES[write])


def test_each_section_and_chart_shows_hostile_names(tmp_path: Path) -> None:
    read = Reader(hostile_report(tmp_path))
    sections = "top summary failures figures gates evidence stacks case-0"
    assert all(HOSTILE in read.text[name] for name in sections.split())
    figures = Reader(hostile_comparison(tmp_path)).blocks["figures"]
    assert HOSTILE in {trace.get("name") for figure in figures for trace in figure["data"]}


# Templates.


def test_templates_escape_and_are_given_what_they_name() -> None:
    assert page.TEMPLATES.autoescape is True
    assert page.TEMPLATES.undefined is jinja2.StrictUndefined
    paths = list(PRODUCT.parent.glob("mpibench*/**/templates/*"))
    assert len(paths) > 3
    for path in paths:
        text = path.read_text()
        assert "autoescape" not in text
        safe = re.findall(r"\|\s*safe\b", text)
        ours = re.findall(r'(?<="<br>" )\| safe', text)
        assert safe == ours, "only what the template itself wrote"


def test_markup_is_made_in_templates_only() -> None:
    """Not tags: plotly breaks lines of what it shows so."""
    texts = {}
    for path in [*PRODUCT.glob("pages/*.py"), *PRODUCT.parent.glob("mpibench_*/*.py")]:
        text = path.read_text()
        if path.parent.name == "pages" or "mpibench.pages" in text:
            texts[path.name] = text
    for pattern, names in (
        (r"\bMarkup\(", {"page.py"}),
        (r"(?<!\bre\.)(?<!\bglob\.)\bescape\(|import escape", set()),
        (r"[\"']<[a-zA-Z!]", {"figures.py"}),
    ):
        assert {name for name, text in texts.items() if re.search(pattern, text)} == names

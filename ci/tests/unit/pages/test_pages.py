"""All pages alike: whatever is inserted stays text, and one
policy lets nothing else load or run.
"""

from __future__ import annotations

import re
from pathlib import Path

import jinja2

from mpibench.pages import page
from page_reader import Reader, hostile_comparison, hostile_report
from reframe_tests.harness.stacks import metadata
from synthetic_session import HOSTILE

PRODUCT = metadata.ROOT / "ci" / "mpibench"


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

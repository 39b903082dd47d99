"""All pages alike: whatever is inserted stays text, and one
policy lets nothing else load or run.
"""

import json
import re

import jinja2

from mpibench.pages import page
from page_reader import Reader, hostile_comparison, hostile_report
from reframe_tests.harness.stacks import metadata
from synthetic_session import HOSTILE

PRODUCT = metadata.ROOT / "ci" / "mpibench"


def test_each_section_and_chart_shows_hostile_names(tmp_path):
    read = Reader(hostile_report(tmp_path))
    sections = "top summary failures figures gates evidence stacks case-0"
    assert all(HOSTILE in read.text[name] for name in sections.split())
    drawn = [one["data-figure"] for one in Reader(hostile_comparison(tmp_path)).named("figure")]
    assert HOSTILE in {trace.get("name") for one in drawn for trace in json.loads(one)["data"]}


def test_plotly_is_beside_a_page_that_draws_once_for_its_folder(tmp_path):
    name, source = page.plotly_script()
    page.write(tmp_path / "plain.html", page.sections("kind", "title", [("", ["a text"])]))
    assert not list(tmp_path.glob("*.js"))
    drawing = page.Block("drawing", {"data": [], "layout": {"height": 300}}, label="one")
    text = page.sections("kind", "title", [("", [drawing])])
    for number in range(2):
        page.write(tmp_path / f"{number}.html", text)
    (script,) = tmp_path.glob("*.js")
    assert (script.name, script.read_text(encoding="utf-8")) == (name, source)
    assert len(text) < 40_000
    script.write_text("half of it", encoding="utf-8")
    page.write(tmp_path / "2.html", text)
    assert script.read_text(encoding="utf-8") == source


# Templates.


def test_templates_escape_and_are_given_what_they_name():
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

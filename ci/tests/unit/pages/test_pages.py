"""All pages alike: whatever is inserted stays text, and one policy lets nothing else load or run."""

from __future__ import annotations

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
each_page = pytest.mark.parametrize("write", PAGES, ids=lambda write: write.__name__.removeprefix("hostile_"))


@each_page
def test_hostile_names_stay_text(write: Callable[[Path], str], tmp_path: Path) -> None:
    read = Reader(write(tmp_path))
    assert not {"img", "iframe", "object", "embed", "link", "base"} & {tag for tag, _ in read.tags}
    assert not [key for _, attributes in read.tags for key in attributes if key.startswith("on") or key == "src"]
    assert not [one for one in read.named("a") if not re.match(r"#|file:///|\.\./|[\w%]", one["href"] or "")]
    assert not [one for one in read.named("a") if re.match(r"\s*(javascript|data|http)", one["href"] or "", re.IGNORECASE)]
    assert sum(HOSTILE in text for text in read.text.values()) >= 1
    run = [one for one in read.named("script") if one.get("type") not in ("application/json", "text/plain")]
    assert len(run) == PAGES[write]


@each_page
def test_one_policy_for_all(write: Callable[[Path], str], tmp_path: Path) -> None:
    page = write(tmp_path)
    read = Reader(page)
    assert all("url(" not in style for style in re.findall(r"<style>(.*?)</style>", page, re.DOTALL))
    (policy,) = (one["content"] for one in read.named("meta") if one.get("http-equiv") == "Content-Security-Policy")
    assert policy is not None
    nonces = re.findall(r"'nonce-([^']{20,})'", policy)
    assert re.sub(r"'nonce-[^']*'", "'none'", policy) == (
        "default-src 'none'; script-src 'none'; style-src 'unsafe-inline'; img-src data: blob:; base-uri 'none'; "
        "form-action 'none'"
    )
    run = [one for one in read.named("script") if one.get("type") not in ("application/json", "text/plain")]
    assert [one.get("nonce") for one in run] == nonces * PAGES[write]
    assert len(nonces) == bool(PAGES[write])


@pytest.mark.parametrize(
    "name", ["top", "summary", "failures", "figures", "gates", "published", "evidence", "stacks", "case-0"]
)
def test_each_section_shows_hostile_names(name: str, tmp_path: Path) -> None:
    assert HOSTILE in Reader(hostile_report(tmp_path)).text[name]


def test_a_comparison_draws_hostile_names_as_data(tmp_path: Path) -> None:
    figures = Reader(hostile_comparison(tmp_path)).blocks["figures"]
    assert HOSTILE in {trace.get("name") for figure in figures for trace in figure["data"]}


# Templates.


def test_templates_escape_and_are_given_what_they_name() -> None:
    assert [path.parent.name for path in PRODUCT.rglob("templates")] == ["pages"]
    templates = page.TEMPLATES
    assert templates.autoescape is True
    assert templates.undefined is jinja2.StrictUndefined
    names = templates.list_templates(["html", "css"])
    assert {"base.html", "parts.html", "page.css"} <= set(names)
    for name in names:
        text = templates.loader.get_source(templates, name)[0]  # type: ignore[union-attr]
        assert re.findall(r"\|\s*safe\b", text) == re.findall(r'(?<="<br>" )\| safe', text), (
            "only what the template itself wrote"
        )
        assert "autoescape" not in text
        templates.get_template(name)


def test_a_name_that_nobody_gave_is_an_error() -> None:
    with pytest.raises(jinja2.UndefinedError, match="'kind' is undefined"):
        page.render("sections.html", title="")


def test_markup_is_made_in_templates_only() -> None:
    sources = {path: path.read_text() for folder in PRODUCT.rglob("templates") for path in folder.parent.glob("*.py")}
    assert len(sources) > 15
    assert {path.name for path, text in sources.items() if re.search(r"\bMarkup\(", text)} == {"page.py"}
    assert {
        path.name for path, text in sources.items() if re.search(r"(?<!\bre\.)(?<!\bglob\.)\bescape\(|import escape", text)
    } == set()
    # Not tags: what the browser that draws the pictures leaves is read, and plotly breaks lines of what it shows so.
    assert {path.name for path, text in sources.items() if re.search(r"[\"']<[a-zA-Z!]", text)} == {
        "pictures.py",
        "figures.py",
    }

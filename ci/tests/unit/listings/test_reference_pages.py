"""The generated pages of the documentation are current and whole."""

from __future__ import annotations

import json
import re

import pytest

from mpibench.store import dataset_layout
from reframe_tests.harness.vocabulary import ROOT
from studies import reference_pages


@pytest.mark.parametrize("name", reference_pages.PAGES)
def test_the_generated_pages_are_current(name: str) -> None:
    """If this fails after a change: cd ci && python -m studies.reference_pages."""
    text = reference_pages.PAGES[name]()
    assert (reference_pages.FOLDER / f"{name}.md").read_text() == text and str(ROOT) not in text


def test_every_property_of_every_schema_is_on_the_page() -> None:
    page = reference_pages.files()
    for folder in reference_pages.SCHEMA_FOLDERS:
        for path in (ROOT / folder).rglob("*.schema.json"):
            [section] = re.findall(rf"(?ms)^Schema: `{re.escape(str(path.relative_to(ROOT)))}`\n(.*?)(?=^## |\Z)", page)
            for name in json.loads(path.read_text()).get("properties", {}):
                assert f"`{name}`" in section, (path.name, name)


def test_every_column_and_benchmark_is_on_its_page() -> None:
    page = reference_pages.dataset()
    for table, schema in dataset_layout.SCHEMAS.items():
        section = page.partition(f"## {table}\n")[2].partition("\n## ")[0]
        assert [name for name in schema if f"`{name}`" not in (page if name in dataset_layout.CASE_COLUMNS else section)] == []
    assert "in unit; null where this repeat gave none" in page.partition("## samples")[2].partition("\n## ")[0]

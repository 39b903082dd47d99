"""The manual page and the generated pages of the documentation: whole, current, and readable by what reads them."""

from __future__ import annotations

import json
import re

import pytest
import typer
from typer.core import TyperGroup

from mpibench import cli
from mpibench.listings import manual
from mpibench.results import dataset_layout
from reframe_tests.harness.suites import catalogue
from reframe_tests.harness.vocabulary import ROOT

PROGRAM = typer.main.get_command(cli.app)
assert isinstance(PROGRAM, TyperGroup)
ENTRIES = list(manual.entries(PROGRAM))


@pytest.mark.parametrize("name", ["commands", "files", "dataset", "benchmarks"])
def test_the_generated_pages_are_current(name: str) -> None:
    """If this fails after a change: mpibench manual --pages."""
    assert (manual.PAGES / f"{name}.md").read_text() == manual.pages(PROGRAM)[name]


def test_every_command_has_its_purpose() -> None:
    named = [name for names in cli.PURPOSES.values() for name in names]
    assert len(named) == len(set(named)) and {entry.words[0] for entry in ENTRIES} == set(named)
    assert list(dict.fromkeys(entry.purpose for entry in ENTRIES)) == list(cli.PURPOSES)


def test_commands_of_groups_are_there_with_their_options() -> None:
    by_words = {entry.words: entry for entry in ENTRIES}
    assert ("cluster", "fault") in by_words and ("stacks",) in by_words
    assert "--prepend-path" in " ".join(left for left, _ in by_words["stacks", "add"].parameters)
    assert str(ROOT) not in manual.commands_page(PROGRAM) + manual.man_page(PROGRAM, "1")


def test_words_of_a_help_are_no_macros() -> None:
    assert manual._roff(".TH is 'text' \\fB") == r"\&.TH is 'text' \efB"


def test_prose_keeps_code_and_nothing_else() -> None:
    assert manual._prose("a*b <stack> ``c*<d>``") == r"a\*b &lt;stack> `c*<d>`"


def test_keys_are_followed_through_references_lists_and_choices() -> None:
    schema = {
        "required": ["rows"],
        "properties": {"rows": {"type": "array", "items": {"$ref": "#/$defs/row"}}},
        "additionalProperties": {"enum": ["a", 1]},
        "$defs": {
            "row": {
                "type": "object",
                "required": ["size"],
                "properties": {
                    "size": {"description": "in bytes", "oneOf": [{"type": "integer", "minimum": 0}, {"type": "null"}]},
                    "rows": {"type": "array", "items": {"$ref": "#/$defs/row"}},
                },
            }
        },
    }
    assert list(manual.keys(schema)) == [
        ("rows", True, "list of object", ""),
        ("rows[].size", True, "integer (at least 0) or null", "in bytes"),
        ("rows[].rows", False, "list of object", ""),
        ("*", False, '"a", 1', ""),
    ]


def test_every_property_of_every_schema_is_on_the_page() -> None:
    page = manual.schemas_page()
    for folder in manual.SCHEMA_FOLDERS:
        for path in (ROOT / folder).rglob("*.schema.json"):
            [section] = re.findall(rf"(?ms)^Schema: `{re.escape(str(path.relative_to(ROOT)))}`\n(.*?)(?=^## |\Z)", page)
            for name in json.loads(path.read_text()).get("properties", {}):
                assert f"`{name}`" in section, (path.name, name)


def test_every_column_and_benchmark_is_on_its_page() -> None:
    page = manual.dataset_page()
    for table, schema in dataset_layout.SCHEMAS.items():
        section = page.partition(f"## {table}\n")[2].partition("\n## ")[0]
        assert [name for name in schema if f"`{name}`" not in (page if name in dataset_layout.CASE_COLUMNS else section)] == []
    assert "in unit; null where this repeat gave none" in page.partition("## samples")[2].partition("\n## ")[0]
    benchmarks = manual.catalogue_page()
    assert [group for group in catalogue.GROUPS if f"### {group}\n" not in benchmarks] == []

"""The published schemas: what a pattern lets through, as the validator in use reads it."""

import json

import jsonschema
import pytest
from hypothesis import given
from hypothesis import strategies as st

from reframe_tests.harness.stacks import metadata

ROOT = metadata.ROOT
SCHEMAS = sorted(
    path
    for folder in ("environments", "site_configs", "ci/mpibench")
    for path in (ROOT / folder).rglob("*.schema.json")
    if path.is_file()
)
#: What ends a pattern: Python's ``$`` alone also matches before a newline that ends the text
#: (``re``), which ECMA 262, the language of JSON Schema's patterns, does not; with the look-ahead
#: both mean the same.
END = "$(?!\\n)"


def patterns(node, place=""):
    """Every ``pattern`` of a schema with its place; a property that is called so is none."""
    if isinstance(node, dict):
        for key, inner in node.items():
            if key == "pattern" and isinstance(inner, str):
                yield place, inner
            else:
                yield from patterns(inner, f"{place}/{key}")
            if key == "patternProperties":
                yield from ((f"{place}/{key}", one) for one in inner)
    elif isinstance(node, list):
        for number, inner in enumerate(node):
            yield from patterns(inner, f"{place}/{number}")


FOUND = [
    (f"{path.name}{place}", text)
    for path in SCHEMAS
    for place, text in patterns(json.loads(path.read_text()))
]
ANCHORED = sorted({text for _, text in FOUND if text.endswith(("$", END))})


@pytest.mark.parametrize("pattern", ANCHORED)
def test_no_pattern_lets_a_newline_in_at_the_end(pattern):
    accepts = jsonschema.Draft202012Validator({"pattern": pattern}).is_valid

    @given(st.from_regex(pattern.removesuffix("(?!\\n)"), fullmatch=True))
    def check(text):
        assert accepts(text) == ("\n" not in text)
        assert not accepts(f"{text}\n")

    check()

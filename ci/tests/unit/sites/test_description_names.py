"""A sentence about what a site says of itself is right where a centre has a ``fabrics.yaml`` and no ``system.py``, too."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

from reframe_tests.harness.vocabulary import ROOT, SITE_FILES

#: What reads or means a ``system.py`` itself: the two kinds of description side by side, and systems that are published.
OF_ONE_KIND = ("harness/sites/systems.py", "mpibench/commands/listings/beside.py", "mpibench/pages/published.py")


def sentences(text: str) -> Iterator[str]:
    """Texts of a module that name ``system.py``, but for docstrings and names of files."""
    tree = ast.parse(text)
    docstrings = {id(node.value) for node in ast.walk(tree) if isinstance(node, ast.Expr)}
    constants = [node for node in ast.walk(tree) if isinstance(node, ast.Constant) and id(node) not in docstrings]
    for value in (node.value for node in constants if isinstance(node.value, str)):
        if "system.py" in value.replace(SITE_FILES, "") and value != "system.py":
            yield value


def test_a_text_that_knows_of_one_kind_only_is_seen() -> None:
    text = '"""of system.py"""\npath = "system.py"\nsaid = f"{path}: correct system.py."\nboth = "system.py or fabrics.yaml"\n'
    assert list(sentences(text)) == [": correct system.py."]


def test_no_sentence_sends_a_centre_to_a_file_that_it_does_not_have() -> None:
    modules: list[Path] = [path for top in ("ci/mpibench", "reframe_tests") for path in sorted((ROOT / top).rglob("*.py"))]
    assert len(modules) > 300
    found = {
        f"{path.relative_to(ROOT)}: {text}"
        for path in modules
        if not str(path).endswith(OF_ONE_KIND)
        for text in sentences(path.read_text(encoding="utf-8"))
        if "fabrics.yaml" not in text
    }
    assert not found

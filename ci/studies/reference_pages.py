"""The pages below docs/reference/generated, from what they describe:
commands, schemas, columns of the dataset.

``PYTHONPATH=ci python -m studies.reference_pages`` writes them;
``test_catalogue_listing.py`` says when that is due.
"""

from __future__ import annotations

import inspect
import json
import re
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

import typer
from typer.cli import get_docs_for_click

from mpibench import cli
from mpibench.answers import ANSWERS, schema
from mpibench.store import dataset_layout
from reframe_tests.harness.schema import read as read_schema
from reframe_tests.harness.vocabulary import ROOT

FOLDER = ROOT / "docs" / "reference" / "generated"
#: Folders whose schemas describe files that people or other programs meet.
SCHEMA_FOLDERS = ("site_configs", "environments")
#: Levels of keys that the page of schemas follows.
_DEEPEST = 6


def prose(text: str) -> str:
    """Markdown in which only code in backticks is markup."""
    parts = re.split("(`+)", text)
    for place in range(0, len(parts), 4):
        parts[place] = re.sub(r"([*_\\])", r"\\\1", parts[place]).replace("<", "&lt;")
    return "".join(parts)


def table(head: Iterable[str], rows: Iterable[Iterable[str]]) -> str:
    names = list(head)
    lines = (
        " | ".join(re.sub(r"\s+", " ", text).replace("|", "\\|").strip() for text in row)
        for row in (names, *rows)
    )
    first, *others = (f"| {line} |" for line in lines)
    return "\n".join((first, "|" + "---|" * len(names), *others)) + "\n"


def commands() -> str:
    """Every command with its arguments and options, as typer documents them."""
    program = typer.main.get_command(cli.app)
    text = get_docs_for_click(
        obj=program,
        ctx=typer.Context(program, info_name="mpibench", **program.context_settings),
        name="mpibench",
        title="All commands",
    )
    blocks = text.replace(f"{ROOT}/", "").split("```")
    # "<system>" in a help is no tag of HTML.
    blocks[::2] = [
        "`".join(p if n % 2 else p.replace("<", "&lt;") for n, p in enumerate(b.split("`")))
        for b in blocks[::2]
    ]
    return "```".join(blocks)


def files() -> str:
    """Every schema of files that people or other programs meet."""
    parts = [
        "`[]`: each entry of a list; `*`: each key of a mapping; keys in bold are required "
        "where their parent is.\n"
    ]
    paths = (
        path for folder in SCHEMA_FOLDERS for path in sorted((ROOT / folder).rglob("*.schema.json"))
    )
    schemas = {f"Schema: `{path.relative_to(ROOT)}`": read_schema(path) for path in paths}
    schemas |= {
        f"Record: `{kind.__name__}` of `ci/mpibench/answers.py`": schema(c)
        for c, kind in ANSWERS.items()
    }
    for source, whole in schemas.items():
        name = whole.get("$ref", "").rpartition("/")[2]
        about = whole["$defs"][name] if name else whole
        parts.append(f"## {prose(whole['title'])}\n\n{source}\n")
        if about.get("description"):
            parts.append(f"{prose(about['description'])}\n")
        rows = (
            (f"**`{key}`**" if required else f"`{key}`", prose(kind), prose(says))
            for key, required, kind, says in keys(whole)
        )
        parts.append(table(("key", "value", "meaning"), rows))
    return "# Files and their keys\n\n" + "\n".join(parts)


def keys(whole: Mapping[str, Any]) -> Iterator[tuple[str, bool, str, str]]:
    """Keys of a schema in its order: path, whether it is required, kind of value, description."""

    def resolve(
        part: Any, seen: frozenset[str] = frozenset()
    ) -> tuple[Mapping[str, Any], frozenset[str]]:
        while "$ref" in part:
            name = part["$ref"]
            if name in seen or not name.startswith("#/"):  # listed already, or in another file
                return {}, seen
            seen = seen | {name}
            part = whole
            for word in name[2:].split("/"):
                part = part[word]
        return part, seen

    def kind(part: Mapping[str, Any]) -> str:
        if "const" in part or "enum" in part:
            return ", ".join(json.dumps(each) for each in part.get("enum", [part.get("const")]))
        named = part.get("type", [])
        kinds = [
            kind(resolve(choice)[0]) for name in ("anyOf", "oneOf") for choice in part.get(name, ())
        ]
        kinds += [named] if isinstance(named, str) else named
        if "array" in kinds and isinstance(part.get("items"), Mapping):
            inner = kind(resolve(part["items"])[0])
            kinds[kinds.index("array")] = f"list of {inner}" if inner else "list"
        words = {
            "minimum": "at least",
            "exclusiveMinimum": "above",
            "maximum": "at most",
            "exclusiveMaximum": "below",
        }
        limits = ", ".join(f"{word} {part[key]}" for key, word in words.items() if key in part)
        return " or ".join(dict.fromkeys(filter(None, kinds))) + (f" ({limits})" if limits else "")

    def walk(
        part: Any, path: str, seen: frozenset[str], level: int
    ) -> Iterator[tuple[str, bool, str, str]]:
        part, seen = resolve(part, seen)
        if level > _DEEPEST:
            return
        for choice in (
            choice for name in ("allOf", "anyOf", "oneOf") for choice in part.get(name, ())
        ):
            yield from walk(choice, path, seen, level + 1)
        inner = [(name, name, value) for name, value in part.get("properties", {}).items()]
        inner += [
            ("*", "", value)
            for value in (
                part.get("additionalProperties"),
                *part.get("patternProperties", {}).values(),
            )
            if value
        ]
        for shown, name, value in inner:
            if isinstance(value, Mapping):
                key = f"{path}.{shown}".lstrip(".")
                meant = resolve(value, seen)[0]
                says = str(value.get("description") or meant.get("description") or "")
                yield key, name in part.get("required", ()), kind(meant), says
                yield from walk(value, key, seen, level + 1)
        if isinstance(part.get("items"), Mapping):
            yield from walk(part["items"], f"{path}[]", seen, level + 1)

    return walk(whole, "", frozenset(), 0)


def dataset() -> str:
    """Tables and columns of the dataset; what stands beside a column
    in the layout's own file is its meaning.
    """
    source = inspect.getsource(dataset_layout)
    shared = dataset_layout.CASE_COLUMNS

    def columns(found: Mapping[str, Any], block: str) -> str:
        [text] = re.findall(rf"(?ms)^{block}\b[^\n]*= (.*?)^[)}}]$", source)
        says: dict[str, str] = {}
        above: list[str] = []
        for line in text.splitlines():
            comment = line.partition("#")[2].strip()
            if line.lstrip().startswith("#"):
                above.append(comment)
            elif named := re.match(r' +"(\w+)": pl\.', line):
                says[named[1]] = " ".join([*above, comment]).strip()
                above = []
        rows = (
            (f"`{name}`", prose(str(kind)), prose(says.get(name, "")))
            for name, kind in found.items()
        )
        return table(("column", "type (polars)", "meaning"), rows)

    parts = [
        f"# The dataset's columns\n\nLayout {dataset_layout.LAYOUT}. Files: "
        "`TABLE/system=SYSTEM/date=DATE/SESSION.parquet`;\n"
        "`system` and `date` are columns, too. A file of another layout is refused: export its "
        "session again.\n"
    ]
    for name, layout in dataset_layout.SCHEMAS.items():
        own = {column: kind for column, kind in layout.items() if column not in shared}
        parts.append(f"## {name}\n\nThe columns of [each table](#each-table), and\n")
        parts.append(columns(own, f"{name.upper()}_SCHEMA"))
    parts.append("## Each table\n\nWhich case a row belongs to.\n")
    parts.append(columns(shared, "CASE_COLUMNS"))
    return "\n".join(parts)


PAGES = {"commands": commands, "files": files, "dataset": dataset}


if __name__ == "__main__":
    for page, write in PAGES.items():
        (FOLDER / f"{page}.md").write_text(write(), encoding="utf-8")

"""``mpibench manual``: the manual page of the command, and the reference pages of the documentation, from what it is made of:
the commands' own options, the schemas of files that people write or read, the dataset's columns, the catalogue."""

from __future__ import annotations

import inspect
import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from typer.core import TyperGroup

from mpibench import whole_file
from mpibench.results import dataset_layout
from reframe_tests.harness.suites import catalogue
from reframe_tests.harness.vocabulary import QUANTITIES, ROOT

from . import catalogue as catalogue_listing
from .coverage import tests_by_group
from .doctor import test_folders

#: Folder of the generated pages.
PAGES = ROOT / "docs" / "reference" / "generated"
#: Folders whose schemas describe files that people or other programs meet.
SCHEMA_FOLDERS = ("site_configs", "environments", "ci/mpibench")
#: Levels of keys that a page follows.
_DEEPEST = 6
_SAYS = "Made by `mpibench manual --pages`; a test holds it against {source}.\n"


@dataclass(frozen=True)
class Entry:
    """A command with what it takes.

    :param words: by which it is called, behind ``mpibench``.
    :param purpose: heading of the help under which it stands.
    :param synopsis: its own words, behind its name.
    :param text: its help: paragraphs, separated by blank lines.
    :param parameters: arguments and options as they are given, each with its help.
    """

    words: tuple[str, ...]
    purpose: str
    synopsis: str
    text: str
    parameters: tuple[tuple[str, str], ...]


def entries(program: TyperGroup, words: tuple[str, ...] = (), purpose: str = "") -> Iterator[Entry]:
    """All commands of a program, in the order of its help; a group that does something by itself stands in front of its own."""
    names = list(program.commands)
    panels = list(dict.fromkeys(_purpose(program.commands[name]) for name in names))
    for name in sorted(names, key=lambda each: panels.index(_purpose(program.commands[each]))):
        command = program.commands[name]
        under, called = purpose or _purpose(command), (*words, name)
        if not isinstance(command, TyperGroup) or command.invoke_without_command:
            yield _entry(command, called, under)
        if isinstance(command, TyperGroup):
            yield from entries(command, called, under)


def _purpose(command: Any) -> str:
    panel = getattr(command, "rich_help_panel", None)
    return panel if isinstance(panel, str) else ""


def _entry(command: Any, words: tuple[str, ...], purpose: str) -> Entry:
    context = command.make_context(" ".join(words), [], resilient_parsing=True)
    records = [parameter.get_help_record(context) for parameter in command.params if not getattr(parameter, "hidden", False)]
    return Entry(
        words,
        purpose,
        " ".join(re.sub(r"[{}]", "", piece).upper() for piece in command.collect_usage_pieces(context)),
        re.sub(r"[ \t]*\n(?=\S)(?<!\n\n)", " ", (command.help or "").strip()),
        tuple((left, _relative(right)) for left, right in filter(None, records)),
    )


def _relative(text: str) -> str:
    """A help without the path of this checkout."""
    return re.sub(r"[ ]{2,}", " ", text.replace(f"{ROOT}/", "")).strip()


def man_page(program: TyperGroup, version: str) -> str:
    """The manual page in roff, for ``man -l``; man(7) lists the macros."""
    lines = [
        f'.TH MPIBENCH 1 "" "mpibench {version}" "User Commands"',
        ".SH NAME",
        r"mpibench \- what happens around ReFrame tests of MPI fabrics",
        ".SH SYNOPSIS",
        ".B mpibench",
        r"\fICOMMAND\fR [\fIOPTIONS\fR] [\fIARGUMENTS\fR]",
        ".SH DESCRIPTION",
        _roff(_relative(program.help or "")),
    ]
    purpose = ""
    for entry in entries(program):
        if entry.purpose != purpose:
            purpose = entry.purpose
            lines.append(f".SH {purpose.upper()}")
        lines += [f'.SS "mpibench {_roff(" ".join(entry.words))} {_roff(entry.synopsis)}"']
        for number, paragraph in enumerate(entry.text.split("\n\n")):
            lines += [*([".PP"] if number else []), _roff(paragraph)]
        for left, right in entry.parameters:
            lines += [".TP", f".B {_roff(left)}", _roff(right or " ")]
    lines += [
        ".SH EXIT STATUS",
        "0, 1 and 3 are answers and said with each command. 2: bad input, nothing was judged. 70: a defect of mpibench and no",
        "answer. 130: interrupted. 141: the output was not read to its end.",
        ".SH SEE ALSO",
        "reframe(1), spack(1), sbatch(1); README.md and docs/ of the checkout.",
    ]
    return "\n".join(lines) + "\n"


def _roff(text: str) -> str:
    """Words of a manual page: nothing in them is a macro or an escape."""
    safe = re.sub(r"\s+", " ", text).replace("\\", r"\e").replace("-", r"\-").replace('"', r"\(dq").replace("`", "")
    return rf"\&{safe}" if safe.startswith((".", "'")) else safe


def commands_page(program: TyperGroup) -> str:
    """Every command with its arguments and options, as a page of Markdown."""
    parts = [
        "# All commands\n",
        _SAYS.format(source="the commands"),
        "`mpibench manual | man -l -` shows the same as a manual page; `mpibench --install-completion` completes commands and\n"
        "options in bash, zsh, fish and PowerShell. Exit statuses: [Commands and exit statuses](../commands.md).\n",
    ]
    purpose = ""
    for entry in entries(program):
        if entry.purpose != purpose:
            purpose = entry.purpose
            parts.append(f"## {purpose}\n")
        parts.append(f"### {' '.join(entry.words)}\n\n    mpibench {' '.join(entry.words)} {entry.synopsis}\n")
        parts.append(f"{_prose(entry.text)}\n")
        if entry.parameters:
            rows = [f"| `{left}` | {_cell(right)} |" for left, right in entry.parameters]
            parts.append("\n".join(("| given as | meaning |", "|---|---|", *rows)) + "\n")
    return "\n".join(parts)


def _prose(text: str) -> str:
    """Text of a page of Markdown in which only code within backticks is markup."""
    parts = text.replace("``", "`").split("`")
    parts[::2] = [re.sub(r"([*_\\])", r"\\\1", part).replace("<", "&lt;") for part in parts[::2]]
    return "`".join(parts)


def _cell(text: str) -> str:
    """Text of a table: one line, and no column of its own."""
    return re.sub(r"\s+", " ", _prose(text)).replace("|", "\\|").strip()


def schemas_page() -> str:
    """Every schema of files that people or other programs meet, as a page of Markdown."""
    paths = [path for folder in SCHEMA_FOLDERS for path in sorted((ROOT / folder).rglob("*.schema.json"))]
    parts = [
        "# Files and their keys\n",
        _SAYS.format(source="the schemas"),
        "`[]`: each entry of a list; `*`: each key of a mapping; keys in bold are required where their parent is.\n",
    ]
    for path in paths:
        schema = json.loads(path.read_text(encoding="utf-8"))
        parts.append(f"## {_cell(schema.get('title', path.name))}\n\nSchema: `{path.relative_to(ROOT)}`\n")
        if schema.get("description"):
            parts.append(f"{_cell(schema['description'])}\n")
        rows = [f"| {_key(key, required)} | {_cell(kind)} | {_cell(says)} |" for key, required, kind, says in keys(schema)]
        parts.append("\n".join(("| key | value | meaning |", "|---|---|---|", *rows)) + "\n")
    return "\n".join(parts)


def _key(name: str, required: bool) -> str:
    return f"**`{name}`**" if required else f"`{name}`"


def keys(schema: Mapping[str, Any]) -> Iterator[tuple[str, bool, str, str]]:
    """Keys of a schema in its order: path, whether it is required, kind of value, description."""
    yield from _keys(schema, schema, "", frozenset(), 0)


def _keys(
    whole: Mapping[str, Any], part: Mapping[str, Any], path: str, seen: frozenset[str], level: int
) -> Iterator[tuple[str, bool, str, str]]:
    part, seen = _resolve(whole, part, seen)
    if level > _DEEPEST or part is _CYCLE:
        return
    for combined in ("allOf", "anyOf", "oneOf"):
        for choice in part.get(combined, ()):
            yield from _keys(whole, choice, path, seen, level + 1)
    required = part.get("required", ())
    for name, value in part.get("properties", {}).items():
        yield from _one_key(whole, value, f"{path}.{name}".lstrip("."), name in required, seen, level)
    for name in ("additionalProperties", *part.get("patternProperties", {})):
        value = part.get(name) if name == "additionalProperties" else part["patternProperties"][name]
        if isinstance(value, Mapping) and value:
            yield from _one_key(whole, value, f"{path}.*".lstrip("."), False, seen, level)
    items = part.get("items")
    if isinstance(items, Mapping):
        yield from _keys(whole, items, f"{path}[]", seen, level + 1)


def _one_key(
    whole: Mapping[str, Any], value: Any, path: str, required: bool, seen: frozenset[str], level: int
) -> Iterator[tuple[str, bool, str, str]]:
    if not isinstance(value, Mapping):
        return
    meant, _ = _resolve(whole, value, seen)
    yield path, required, _kind(whole, meant), str(value.get("description") or meant.get("description") or "")
    yield from _keys(whole, value, path, seen, level + 1)


_CYCLE: Mapping[str, Any] = {}


def _resolve(
    whole: Mapping[str, Any], part: Mapping[str, Any], seen: frozenset[str]
) -> tuple[Mapping[str, Any], frozenset[str]]:
    """What a part of a schema refers to; :data:`_CYCLE` where that is being listed already or lies in another file."""
    while "$ref" in part:
        name = part["$ref"]
        if name in seen or not name.startswith("#/"):
            return _CYCLE, seen
        seen = seen | {name}
        meant: Any = whole
        for word in name[2:].split("/"):
            meant = meant[word]
        part = meant
    return part, seen


def _kind(whole: Mapping[str, Any], part: Mapping[str, Any]) -> str:
    """What a value may be, in a few words."""
    if "const" in part:
        return json.dumps(part["const"])
    if "enum" in part:
        return ", ".join(json.dumps(each) for each in part["enum"])
    choices = [choice for name in ("anyOf", "oneOf") for choice in part.get(name, ())]
    kinds = [_kind(whole, _resolve(whole, choice, frozenset())[0]) for choice in choices]
    named = part.get("type")
    kinds += [named] if isinstance(named, str) else list(named or ())
    if "array" in kinds and isinstance(part.get("items"), Mapping):
        inner = _kind(whole, _resolve(whole, part["items"], frozenset())[0])
        kinds[kinds.index("array")] = f"list of {inner}" if inner else "list"
    limits = [f"{word} {part[key]}" for key, word in _LIMITS.items() if key in part]
    return " or ".join(dict.fromkeys(filter(None, kinds))) + (f" ({', '.join(limits)})" if limits else "")


#: Limits of numbers, in words.
_LIMITS = {"minimum": "at least", "exclusiveMinimum": "above", "maximum": "at most", "exclusiveMaximum": "below"}


def dataset_page() -> str:
    """Tables and columns of the dataset, as a page of Markdown."""
    source = inspect.getsource(dataset_layout)
    parts = [
        "# The dataset's columns\n",
        _SAYS.format(source="the tables"),
        f"Layout {dataset_layout.LAYOUT}. Files: `TABLE/system=SYSTEM/date=DATE/SESSION.parquet`; `system` and `date` are\n"
        "columns, too. A file of another layout is refused: export its session again.\n",
    ]
    shared = dataset_layout.CASE_COLUMNS
    for table, schema in dataset_layout.SCHEMAS.items():
        own = {name: kind for name, kind in schema.items() if name not in shared}
        parts.append(f"## {table}\n\nThe columns of [each table](#each-table), and\n")
        parts.append(_columns(own, _column_notes(source, f"{table.upper()}_SCHEMA")))
    parts.append("## Each table\n\nWhich case a row belongs to.\n")
    parts.append(_columns(shared, _column_notes(source, "CASE_COLUMNS")))
    return "\n".join(parts)


def _columns(columns: Mapping[str, Any], says: Mapping[str, str]) -> str:
    rows = [f"| {_key(name, False)} | {_cell(str(kind))} | {_cell(says.get(name, ''))} |" for name, kind in columns.items()]
    return "\n".join(("| column | type (polars) | meaning |", "|---|---|---|", *rows)) + "\n"


def _column_notes(source: str, table: str) -> dict[str, str]:
    """What stands beside the columns of a table in the layout's own file."""
    [block] = re.findall(rf"(?ms)^{table}\b[^\n]*= (.*?)^[)}}]$", source)
    return dict(re.findall(r'(?m)^ +"(\w+)": pl\.[^#\n]+#\s*(.+)$', block))


def catalogue_page() -> str:
    """Every group of benchmarks with its test, programs, quantities and sizes, as a page of Markdown."""
    tests = tests_by_group(test_folders(ROOT))
    parts = [
        "# All benchmarks\n",
        _SAYS.format(source="the catalogue"),
        "`mpibench catalogue NAME` prints a group, a suite or a benchmark. Gated sizes, in bytes, may have a reference.\n",
    ]
    for title, groups in catalogue_listing.groups_by_suite().items():
        parts.append(f"## {_cell(title[:1].upper() + title[1:])}\n")
        for group in groups:
            about = catalogue.GROUPS[group]
            parts.append(f"### {group}\n\n{_cell(about.description)}. Test: `{tests.get(group, catalogue_listing.NOT_RUN)}`.\n")
            if catalogue.rows(group):
                parts.append(_benchmarks(group))
    return "\n".join(parts)


def _benchmarks(group: str) -> str:
    alike: dict[tuple[str, ...], list[str]] = {}
    for row in catalogue.rows(group):
        quantities = ", ".join(f"{QUANTITIES[name].short} [{QUANTITIES[name].unit}]" for name in row.quantities)
        alike.setdefault((row.binary, row.ranks, quantities, catalogue_listing.gated_text(row)), []).append(row.name)
    rows = ["| " + " | ".join(_cell(cell) for cell in (", ".join(names), *cells)) + " |" for cells, names in alike.items()]
    return "\n".join(("| benchmarks | program | ranks | quantities | gated sizes |", "|---|---|---|---|---|", *rows)) + "\n"


def pages(program: TyperGroup) -> dict[str, str]:
    """The generated pages by name."""
    return {
        "commands": commands_page(program),
        "files": schemas_page(),
        "dataset": dataset_page(),
        "benchmarks": catalogue_page(),
    }


def write_pages(program: TyperGroup, folder: Path = PAGES) -> list[Path]:
    """Write them, each whole or not at all.

    :returns: the files that are not as they were.
    """
    changed = []
    for name, text in pages(program).items():
        path = folder / f"{name}.md"
        if not path.is_file() or path.read_text(encoding="utf-8") != text:
            whole_file.write_text(path, text)
            changed.append(path)
    return changed

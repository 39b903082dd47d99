"""YAML written by people: what YAML 1.2 forbids but PyYAML accepts is rejected, with file and line.

The project reads such files only here. PyYAML keeps the last of several equal keys; YAML 1.2.2,
section 3.2.1.1, requires unique ones, because a reader may believe the first.
"""

from __future__ import annotations

from collections.abc import Hashable
from pathlib import Path
from typing import Any

import yaml

from .vocabulary import BadInput

#: Values that aliases may add, each counted as often as it is read: some lines of aliases of
#: aliases are more than any check comes to the end of.
_MOST_BY_ALIASES = 100_000
#: Tags of ``<<`` and ``=``, which PyYAML replaces before it
#: constructs a key (YAML 1.1 types merge and value).
_REPLACED = ("tag:yaml.org,2002:merge", "tag:yaml.org,2002:value")


class _Loader(yaml.SafeLoader):
    """Refuses a key that appears twice, and what no check comes to the
    end of: what contains itself, or is too much.
    """

    def __init__(self, stream: str) -> None:
        super().__init__(stream)
        self._open: list[str] = []
        self._values = self._by_aliases = 0
        self._sizes: dict[str, int] = {}

    def compose_node(self, parent: yaml.Node | None, index: Any) -> yaml.Node | None:
        event: Any = self.peek_event()  # type: ignore[no-untyped-call]
        mark: Any = event.start_mark
        anchor = str(getattr(event, "anchor", None) or "")
        if isinstance(event, yaml.AliasEvent) and anchor in self._open:
            raise yaml.composer.ComposerError(None, None, f"*{anchor} contains itself", mark)
        if isinstance(event, yaml.AliasEvent):
            size = self._sizes.get(anchor, 0)
            self._values += size
            self._by_aliases += size
            if self._by_aliases > _MOST_BY_ALIASES:
                reason = f"its aliases expand to more than {_MOST_BY_ALIASES} values"
                raise yaml.composer.ComposerError(None, None, reason, mark)
            node: yaml.Node | None = super().compose_node(parent, index)
            return node
        before = self._values
        self._values += 1
        self._open.append(anchor)
        node = super().compose_node(parent, index)
        self._open.pop()
        self._sizes[anchor] = self._values - before
        return node

    def compose_mapping_node(self, anchor: Any) -> yaml.MappingNode:
        node: yaml.MappingNode = super().compose_mapping_node(anchor)
        lines: dict[Hashable, int] = {}
        for key, _ in node.value:
            if not isinstance(key, yaml.ScalarNode):
                continue  # no key of a Python mapping; construction says so
            # As constructed: 1 and 0x1 are one key, 1 and "1" are two.
            value = key.value if key.tag in _REPLACED else self.construct_object(key)
            if value in lines:
                first = f"key {key.value!r} appears twice, first in line {lines[value]}"
                raise yaml.composer.ComposerError(None, None, first, key.start_mark)
            lines[value] = key.start_mark.line + 1
        return node

    def construct_object(self, node: yaml.Node, deep: bool = False) -> Any:
        try:
            return super().construct_object(node, deep)
        except ValueError as error:  # a day that there is not, such as 2026-02-30
            raise yaml.constructor.ConstructorError(
                None, None, str(error), node.start_mark
            ) from None
        except (
            AttributeError,
            KeyError,
            IndexError,
        ):  # what a tag promises and the text is not, such as !!bool x
            kind = node.tag.rpartition(":")[2]
            raise yaml.constructor.ConstructorError(
                None, None, f"{node.value!r} is no {kind}", node.start_mark
            ) from None


class _LoaderOfText(_Loader):
    """YAML in which a day is text, as in JSON, with quotation marks or without."""


_LoaderOfText.add_constructor("tag:yaml.org,2002:timestamp", lambda _, node: str(node.value))


def read_text(path: Path) -> str:
    """The text of a file, without a byte order mark.

    :raises BadInput: it cannot be read, or is not UTF-8.
    """
    try:
        content = path.read_bytes()
    except OSError as error:
        raise BadInput(
            "file-unreadable",
            f"{path} cannot be read ({error.strerror}): correct the link or its permissions, or "
            "remove it.",
        ) from None
    try:
        return content.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = content.count(b"\n", 0, error.start) + 1
        byte = content[error.start]
        raise BadInput(
            "file-unreadable",
            f"{path}, line {line} is not YAML (byte 0x{byte:02x} is not UTF-8); save it as UTF-8.",
        ) from None


def parse(text: str, source: str, *, days_as_text: bool = False) -> Any:
    """What a text says; ``None`` if it holds nothing but comments.

    :param source: of the text, for messages.
    :param days_as_text: ``2026-01-31`` is text and no ``date``.
    :raises BadInput: it is not YAML; naming the line.
    """
    try:
        return yaml.load(text, _LoaderOfText if days_as_text else _Loader)
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        line = f", line {mark.line + 1}" if mark else ""
        reason = " ".join(
            filter(None, (error.context if not error.problem else None, error.problem))
        )
        raise BadInput(
            "configuration-unusable", f"{source}{line} is not YAML ({reason}); correct it."
        ) from None
    except yaml.YAMLError as error:
        raise BadInput(
            "configuration-unusable",
            f"{source} is not YAML ({' '.join(str(error).split())[:200]}); correct it.",
        ) from None
    except RecursionError:
        raise BadInput(
            "configuration-unusable", f"{source} is nested too deeply; correct it."
        ) from None


def parse_mapping(text: str, source: str, *, days_as_text: bool = False) -> dict[str, Any]:
    """The keys a text gives; none where all of it are comments.

    :raises BadInput: it is not YAML, is empty as after a write that failed,
        or is something else than keys with values.
    """
    if not text.strip():
        raise BadInput("file-unreadable", f"{source} is empty; write it again, or remove it.")
    content = parse(text, source, days_as_text=days_as_text)
    lines = (line.strip() for line in text.splitlines())
    if content is None and all(line.startswith("#") for line in lines if line):
        return {}
    if not isinstance(content, dict):
        kinds = {type(None): "null", list: "a list"}
        raise BadInput(
            "configuration-unusable",
            f"{source} is {kinds.get(type(content), 'a single value')} at its top level; write "
            "'key: value' lines.",
        )
    odd = next((key for key in content if not isinstance(key, str)), None)
    if odd is not None:
        raise BadInput(
            "configuration-unusable",
            f"{source}: key {odd!r} is not a string; quote or correct it.",
        )
    return content


def read(path: Path) -> Any:
    """As :func:`parse` of a file's text.

    :raises BadInput: also where the file cannot be read.
    """
    return parse(read_text(path), str(path))


def read_mapping(path: Path, source: str = "", *, days_as_text: bool = False) -> dict[str, Any]:
    """As :func:`parse_mapping` of a file's text.

    :raises BadInput: also where the file cannot be read.
    """
    return parse_mapping(read_text(path), source or str(path), days_as_text=days_as_text)

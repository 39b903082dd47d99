"""Reads a page of HTML the way a browser does, for tests of what is in it."""

from __future__ import annotations

import json
from collections.abc import Iterator
from html.parser import HTMLParser
from typing import Any


class Reader(HTMLParser):
    """Tags with their attributes, text per section, JSON blocks."""

    def __init__(self, page: str) -> None:
        super().__init__(convert_charrefs=True)
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.text: dict[str, str] = {}
        self.blocks: dict[str, Any] = {}
        self._section = self._script = ""
        self._raw = False
        self.feed(page)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        attributes = dict(attrs)
        self.tags.append((tag, attributes))
        if tag in ("section", "header"):
            self._section = attributes.get("id") or ""
        self._raw = tag in ("script", "style")
        self._script = (
            (attributes.get("id") or "") if attributes.get("type") == "application/json" else ""
        )

    def handle_data(self, data: str) -> None:
        if self._script:
            self.blocks[self._script] = json.loads(data)
        elif not self._raw:
            self.text[self._section] = self.text.get(self._section, "") + data

    def handle_endtag(self, tag: str) -> None:
        if tag in ("script", "style"):
            self._raw = False
            self._script = ""

    def named(self, tag: str) -> Iterator[dict[str, str | None]]:
        return (attributes for name, attributes in self.tags if name == tag)

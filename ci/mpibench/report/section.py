"""A section of the report: one template, ``templates/sections/<name>.html``, which says how it looks, and one function."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from .view import View

#: What a template inserts, by name.
Content = Mapping[str, Any]


@dataclass(frozen=True)
class Section:
    """One section.

    :param name: of its template, and its id in the page.
    :param order: its place in the page, from the smallest.
    :param content: what it shows; ``None``: it is left out of this page.
    :param title: its heading.
    :param link: its name in the navigation; without one it has no entry there.
    :param within: ids of further headings in it to their names in the navigation.
    """

    name: str
    order: int
    content: Callable[[View], Content | None]
    title: str = ""
    link: str = ""
    within: Mapping[str, str] = field(default_factory=dict)

"""Outputs that are a fixed text with numbers in it: a template says each line, and whatever is none of its lines is an error.

A template is the text itself. ``<n>`` stands for a whole number, ``<x>`` for a finite number, ``<d>`` for one with decimals and
no exponent (in which no letter can be a damaged digit), ``<w>`` for a word, ``<t>`` for the rest of a line, ``<e>`` for a rest
that may be missing, ``<r>`` for a ruler; ``<n:name>`` can be asked for by that name. A line that begins with ``? `` may be
missing, one with ``* `` may be there any number of times; lines between ``[`` and ``]`` may be missing together. Blank lines,
and how many blanks there are between words, say nothing.
"""

from __future__ import annotations

import re
from functools import cached_property

_HOLES = {
    "n": "-?[0-9]+",
    "x": r"[-+]?(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:[EDed][-+]?[0-9]+)?",
    "d": r"[0-9]+\.[0-9]+",
    "w": r"\S+",
    "t": r"\S(?:.*\S)?",
    "e": r"(?:[ \t]+\S(?:.*\S)?)?",
    "r": "[-=#]{5,}",
}
_HOLE = re.compile("<([nxdwter])(?::([a-z_]+))?>")
#: Blank lines, and blanks at both ends of a line.
_BEFORE, _AFTER = r"(?:[ \t\r]*\n)*[ \t]*", r"[ \t\r]*\n"


class FixedText:
    """A template, compiled."""

    def __init__(self, template: str) -> None:
        self._template = [line.strip() for line in template.splitlines() if line.strip()]

    @cached_property
    def pattern(self) -> re.Pattern[str]:
        """What the whole text must be."""
        parts = []
        for line in self._template:
            if line in ("[", "]"):
                parts.append("(?:" if line == "[" else ")?")
                continue
            marker, text = (line[0], line[2:]) if line[:2] in ("? ", "* ") else ("", line)
            parts.append(f"(?:{_BEFORE}{_content(text)}{_AFTER}){marker}")
        return re.compile("".join(parts) + r"[ \t\r\n]*")

    @cached_property
    def _lines(self) -> re.Pattern[str]:
        texts = [line[2:] if line[:2] in ("? ", "* ") else line for line in self._template if line not in ("[", "]")]
        return re.compile("|".join(re.sub(r"\(\?P<[a-z_]+>", "(?:", _content(text)) for text in dict.fromkeys(texts)))

    def find_fault(self, text: str) -> tuple[int, str]:
        """Where a text that the template does not fit first differs, as far as one line shows it.

        :returns: number of the line, from 0, and the line; 0 and nothing where a line is missing, repeated or out of order.
        """
        for number, line in enumerate(text.split("\n")):
            if line.strip() and not self._lines.fullmatch(line.strip()):
                return number, line.strip()
        return 0, ""


def _content(text: str) -> str:
    """Regular expression of one line."""
    parts, end = [], 0
    for hole in _HOLE.finditer(text):
        parts.append(_literal(text[end : hole.start()]))
        parts.append(f"(?P<{hole[2]}>{_HOLES[hole[1]]})" if hole[2] else f"(?:{_HOLES[hole[1]]})")
        end = hole.end()
    return "".join([*parts, _literal(text[end:])])


def _literal(text: str) -> str:
    """Fixed text, with any number of blanks where there is one."""
    return "".join(r"[ \t]+" if part.isspace() else re.escape(part) for part in re.split(r"([ \t]+)", text) if part)

"""Makes text fit for a sentence: output of programs without colour codes and characters that break
JUnit, JSON and terminals; and numbers of bytes.
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence
from typing import Any

#: Escape sequences (ECMA-48, sections 5.3 to 5.6): control sequences such as colours, control
#: strings such as window titles with their text, and what else begins with ESC.
_ESCAPES = re.compile(
    r"(?:\x1b\[|\x9b)[0-?]*[ -/]*[@-~]"
    r"|(?:\x1b[\]PX^_]|[\x9d\x90\x98\x9e\x9f])[^\x07\x1b\x9c]*(?:\x07|\x1b\\|\x9c)?"
    r"|\x1b[ -/]*[0-~]?"
)
#: Characters that no XML 1.0 document may hold (section 2.2, ``Char``), the other controls but
#: tabulator and newline, and those that make a terminal or browser show what follows in another
#: order (Unicode Standard Annex 9, section 2: explicit directional embeddings, overrides and
#: isolates).
_CONTROLS = re.compile(
    "[\x00-\x08\x0b-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069\ud800-\udfff\ufffe\uffff]"
)
#: Line and paragraph separator: line ends for Python and
#: JavaScript, and nothing at all for a terminal.
_SEPARATORS = re.compile("[\u2028\u2029]")
_NEWLINES = re.compile(r"\s*\n\s*")
#: A text that a spreadsheet takes for a formula (OWASP, "CSV Injection"); a sign alone is none.
FORMULA = r"(?s)^([=+\-@\t\r\n\uff1d\uff0b\uff0d\uff20].)"


#: Last word of the name of a secret, at its end or before an underscore: ``API_TOKEN``,
#: ``KEY_FILE``; of ``BYPASS`` it is none.
_SECRET = r"(?:KEY|TOKEN|SECRET|(?<!BY)PASS(?:WORD|WD|PHRASE)?|CRED(?:ENTIAL)?S?|COOKIE|AUTH)"
_SECRET_NAME = re.compile(rf"{_SECRET}(?:_|$)", re.IGNORECASE)
#: In values: what stands before a host (RFC 3986, section 3.2.1,
#: ``userinfo``), and what is assigned to such a name.
_USER = re.compile(r"(?<=//)[^\s,;]*@")
_ASSIGNED = re.compile(rf"(\b\w*{_SECRET}[=:])[^\s,;&]+", re.IGNORECASE)


def without_secrets(name: str, value: str) -> str:
    """The value of a variable as it may be stored and said."""
    if _SECRET_NAME.search(name):
        return "..." if value else ""
    return _ASSIGNED.sub(r"\1...", _USER.sub("...@", value))


def open_environment(variables: Mapping[str, str]) -> dict[str, str]:
    """Variables as they may be stored."""
    return {name: without_secrets(name, value) for name, value in variables.items()}


def printable(text: str) -> str:
    """The text without escape sequences and control characters; tabulators
    and newlines stay, as which all separators count.
    """
    return _SEPARATORS.sub("\n", _CONTROLS.sub("", _ESCAPES.sub("", text)))


def one_line(text: str) -> str:
    """The text, :func:`printable`, as one line: a blank stands for
    each newline and the space around it.
    """
    return _NEWLINES.sub(" ", printable(text).strip("\n"))


def clause(sentence: object) -> str:
    """A sentence as part of another one: without the full stop at its end."""
    return str(sentence).rstrip(".")


def few(names: Sequence[object], most: int = 3, between: str = ", ") -> str:
    """Some names of a list, and how many more there are."""
    more = f" and {len(names) - most} more" if len(names) > most else ""
    return f"{between.join(map(str, names[:most]))}{more}"


def plural(count: int, word: str) -> str:
    """``1 session``, ``2 sessions``."""
    return f"{count} {word}{'' if count == 1 else 's'}"


def printable_data(value: Any) -> Any:
    """Plain data (dictionaries, lists, texts) with all its texts
    :func:`printable`; keys stay as they are.
    """
    if isinstance(value, str):
        return printable(value)
    if isinstance(value, dict):
        return {key: printable_data(inner) for key, inner in value.items()}
    if isinstance(value, (list, tuple)):
        return [printable_data(inner) for inner in value]
    return value


def plain_data(value: Any) -> Any:
    """:func:`printable_data` as JSON can hold it: a number that is not
    finite is ``None``, and any mapping a dictionary.
    """
    if isinstance(value, float) and not math.isfinite(value):
        return None
    if isinstance(value, Mapping):
        return {key: plain_data(inner) for key, inner in value.items()}
    if isinstance(value, (list, tuple)):
        return [plain_data(inner) for inner in value]
    return printable_data(value)


def format_bytes(count: float) -> str:
    """Bytes in the units of the reports (1 kB = 1000 B): ``12 kB``, ``2.1 GB``."""
    for unit, size in (("TB", 1e12), ("GB", 1e9), ("MB", 1e6), ("kB", 1e3)):
        if abs(count) >= size:
            return (
                f"{count / size:.1f} {unit}"
                if abs(count) < 9.95 * size
                else f"{count / size:.0f} {unit}"
            )
    return f"{count:.0f} B"


def first_line(text: object, longest: int = 200) -> str:
    """The first line of a reason, cut behind a word and marked where it is longer; empty for none.

    :param longest: characters that are kept.
    """
    line = next(iter(str(text or "").strip().splitlines()), "")
    if len(line) <= longest:
        return line
    return f"{line[: longest + 1].rpartition(' ')[0] or line[:longest]} ..."

"""JSON Schemas of the project's files, with the names that only code knows filled in.

If a schema file says ``"x-words": "mpis"``, the names of all MPIs (:mod:`mpis.registry`) are
allowed there, so that neither an MPI nor a site's own needs a change of a schema.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any

from .launchers import registry as launchers
from .machine.gpu import KINDS
from .mpis import registry as mpis

#: Value of ``x-words`` to the words.
WORDS: Mapping[str, Callable[[], tuple[str, ...]]] = {
    "mpis": mpis.names,
    "gpu_kinds": lambda: tuple(KINDS),
    "abis": mpis.abis,
    "launchers": lambda: tuple(launchers.families()),
    "transports": lambda: tuple(mpis.transports()),
    "transports_in_memory": lambda: tuple(
        row.name for row in mpis.transports().values() if row.in_memory
    ),
}
#: Reference to a definition in ``$defs`` of a schema beside the one that has it.
_OTHER = re.compile(r'("\$ref": ")([\w.-]+)#(?=/\$defs/)')


def read(path: Path) -> dict[str, Any]:
    """A schema, with each ``x-words`` replaced by its ``enum``."""
    return _read(path, tuple((name, words()) for name, words in WORDS.items()))


def validator(path: Path) -> Any:
    """A ``jsonschema`` validator of :func:`read`."""
    return _validator(path, tuple((name, words()) for name, words in WORDS.items()))


@dataclass(frozen=True)
class SchemaFault:
    """What a schema has against a document.

    :param key: dotted key it is about, ``top level`` for the whole document.
    :param expected: what the schema describes the key as; empty if it does not.
    """

    key: str
    message: str
    expected: str


def find_fault(path: Path, document: Any, part: str = "") -> SchemaFault | None:
    """The most specific error of a document against a schema file
    (``jsonschema.exceptions.best_match``).

    :param part: reference to the part of the schema that describes
        the document; by default the whole.
    """
    from jsonschema.exceptions import best_match

    if odd := _find_odd_key(document):
        return odd
    checker = validator(path)
    checker = (
        checker.evolve(schema={"$defs": checker.schema["$defs"], "$ref": part}) if part else checker
    )
    error = best_match(checker.iter_errors(document))
    if error is None:
        return None
    described = error.schema.get("description", "") if isinstance(error.schema, dict) else ""
    return SchemaFault(
        ".".join(map(str, error.absolute_path)) or "top level", error.message, described
    )


def _find_odd_key(node: Any, above: tuple[str, ...] = ()) -> SchemaFault | None:
    """A key that is not text, which a schema's patterns cannot
    be asked about: JSON has no other.
    """
    rows = (
        node.items()
        if isinstance(node, Mapping)
        else enumerate(node)
        if isinstance(node, (list, tuple))
        else ()
    )
    for key, value in rows:
        if isinstance(node, Mapping) and not isinstance(key, str):
            return SchemaFault(
                ".".join(above) or "top level",
                f"key {key!r} is not a string; quote it",
                "",
            )
        if fault := _find_odd_key(value, (*above, str(key))):
            return fault
    return None


Words = tuple[tuple[str, tuple[str, ...]], ...]


def _read(path: Path, words: Words) -> dict[str, Any]:
    text = path.read_text(encoding="utf-8")
    document = json.loads(_OTHER.sub(r"\1#", text))
    for name in {name for _, name in _OTHER.findall(text)}:
        other = json.loads((path.parent / name).read_text(encoding="utf-8"))
        document["$defs"] = {**document.get("$defs", {}), **other["$defs"]}
    schema: dict[str, Any] = _filled(document, dict(words))
    return schema


@lru_cache(maxsize=16)
def _validator(path: Path, words: Words) -> Any:
    import jsonschema

    return jsonschema.Draft202012Validator(_read(path, words))


def _filled(node: Any, words: Mapping[str, tuple[str, ...]]) -> Any:
    if isinstance(node, list):
        return [_filled(inner, words) for inner in node]
    if not isinstance(node, dict):
        return node
    filled = {key: _filled(inner, words) for key, inner in node.items()}
    return (
        {**filled, "enum": list(words[node["x-words"]])}
        if isinstance(node.get("x-words"), str)
        else filled
    )

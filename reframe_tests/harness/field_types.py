"""Values of a record's fields, held against their annotations: what a type checker would say of a file that it never sees."""

from __future__ import annotations

import types
import typing
from collections.abc import Callable, Iterable, Mapping
from dataclasses import fields, is_dataclass
from typing import Any


def find_fault(record: Any, where: str = "") -> str:
    """The first field of a dataclass, or of one below it, whose value is not of its type; empty where there is none.

    :param where: dotted name of the record within another.
    """
    hints = typing.get_type_hints(type(record))
    faults = (_find(getattr(record, each.name), hints[each.name], f"{where}{each.name}") for each in fields(record))
    return next(filter(None, faults), "")


def _find(value: Any, hint: Any, where: str) -> str:
    origin, inner = typing.get_origin(hint), typing.get_args(hint)
    if hint is Any:
        return ""
    if origin in (typing.Union, types.UnionType):
        faults = [_find(value, each, where) for each in inner]
        return "" if "" in faults else faults[0]
    if origin is tuple:
        return _find_in_tuple(value, inner, where)
    if origin is Callable:
        return "" if callable(value) else _say(value, "a function", where)
    if origin is Mapping:
        if not isinstance(value, Mapping):
            return _say(value, "a mapping", where)
        pairs = [(key, inner[0], f"{where} (key)") for key in value]
        pairs += [(each, inner[1], f"{where}[{key!r}]") for key, each in value.items()]
        return _first(pairs)
    kind = origin or hint
    if not isinstance(value, (int, float) if kind is float else kind):
        return _say(value, kind.__name__, where)
    return find_fault(value, f"{where}.") if is_dataclass(kind) else ""


def _find_in_tuple(value: Any, inner: tuple[Any, ...], where: str) -> str:
    if not isinstance(value, tuple):
        return _say(value, "a tuple (one of a single element ends with a comma)", where)
    wanted = [inner[0]] * len(value) if inner[1:] == (...,) else list(inner)
    if len(wanted) != len(value):
        return f"{where!r} has {len(value)} elements, not {len(wanted)}"
    return _first((each, hint, f"{where}[{at}]") for at, (each, hint) in enumerate(zip(value, wanted, strict=True)))


def _first(rows: Iterable[tuple[Any, Any, str]]) -> str:
    return next(filter(None, (_find(*row) for row in rows)), "")


def _say(value: Any, wanted: str, where: str) -> str:
    return f"{where!r} is of type {type(value).__name__}, not {wanted}"

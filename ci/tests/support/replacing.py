"""Documents with another value in one place."""

from __future__ import annotations

import copy
from collections.abc import Sequence
from functools import reduce
from operator import getitem
from typing import Any

#: Stands for the absence of a key.
DELETED = object()


def replaced(document: Any, path: Sequence[Any], value: object) -> Any:
    """The document with what is at a path of keys replaced, added or (``DELETED``) removed."""
    made = copy.deepcopy(document)
    *parents, last = path
    place = reduce(getitem, parents, made)
    if value is DELETED:
        del place[last]
    else:
        place[last] = value
    return made

"""What a test expects to be refused: by its code, since sentences may be reworded."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from reframe_tests.harness.vocabulary import BadInput


def refused_as(code: str, match: str | None = None) -> pytest.RaisesExc[BadInput]:
    """``pytest.raises`` for a refusal with this code.

    :param match: pattern of what its sentence names: a file, a number, what would help.
    """
    return pytest.raises(BadInput, match=match, check=lambda error: error.code == code)


def refusal(action: Callable[..., object], *words: Any, **options: Any) -> str:
    """The sentence with which a call is refused."""
    with pytest.raises(BadInput) as refused:
        action(*words, **options)
    return str(refused.value)

"""The Grafana dashboard against Grafana's own models
(``grafana-foundation-sdk``, made from Grafana's schemas).
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pytest

from servers import RULES

pytest.importorskip("grafana_foundation_sdk", reason="[python] Grafana's models need Python 3.11")

from grafana_foundation_sdk.cog import plugins
from grafana_foundation_sdk.cog.encoder import JSONEncoder
from grafana_foundation_sdk.models.dashboard import Dashboard

BOARD = json.loads((RULES / "grafana.json").read_text())


def unknown(written: Any, known: Any, place: str = "") -> Iterator[str]:
    """What a document has and its model does not."""
    if isinstance(written, dict):
        for name, value in written.items():
            if not isinstance(known, dict) or name not in known:
                yield f"{place}.{name}"
            else:
                yield from unknown(value, known[name], f"{place}.{name}")
    elif isinstance(written, list):
        if len(written) != len(known):
            yield place
        for at, (one, other) in enumerate(zip(written, known, strict=False)):
            yield from unknown(one, other, f"{place}[{at}]")
    elif written != known:
        yield place


def as_grafana_reads(board: Any) -> Any:
    plugins.register_default_plugins()
    return json.loads(json.dumps(Dashboard.from_json(board), cls=JSONEncoder))


def test_the_board_is_what_grafana_reads_and_nothing_else() -> None:
    assert list(unknown(BOARD, as_grafana_reads(BOARD))) == []

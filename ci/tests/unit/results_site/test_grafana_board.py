"""The Grafana dashboard against Grafana's own models
(``grafana-foundation-sdk``, made from Grafana's schemas).
"""

import json

import pytest

from servers import RULES

pytest.importorskip("grafana_foundation_sdk", reason="[python] Grafana's models need Python 3.11")

from grafana_foundation_sdk.cog import plugins
from grafana_foundation_sdk.cog.encoder import JSONEncoder
from grafana_foundation_sdk.models.dashboard import Dashboard

BOARD = json.loads((RULES / "grafana.json").read_text())


def rows(document, place=""):
    """Every value of a document with its place."""
    if isinstance(document, dict | list):
        items = document.items() if isinstance(document, dict) else enumerate(document)
        for name, value in items:
            yield from rows(value, f"{place}.{name}")
    else:
        yield place, document


def test_the_board_is_what_grafana_reads_and_nothing_else():
    """Its models add what the board leaves out."""
    plugins.register_default_plugins()
    read = json.loads(json.dumps(Dashboard.from_json(BOARD), cls=JSONEncoder))
    assert dict(rows(BOARD)).items() <= dict(rows(read)).items()

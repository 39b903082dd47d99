"""Printed bandwidths against the links of their machines: to the last
digit, directly, and nothing is made up around them.
"""

import json

from mpibench import cli
from mpibench.commands.listings import doctor
from mpibench_tune import published

SYSTEM = "openhpc-mini"


def curve_of(fabric, benchmark="PingPong"):
    [curve] = [
        row
        for row in published.bandwidths(SYSTEM)
        if (row.fabric.name, row.benchmark) == (fabric, benchmark)
    ]
    return curve


def test_what_holds_and_what_does_not(monkeypatch, capsys):
    assert curve_of("eth1g").problem == curve_of("eth1g", "osu_put_bw").problem == ""
    # "While 39.89Gbs is near the theoretical peak of 40Gb/s, this is still a high number."
    assert "shows 4986.1 MB/s, 1.06 times" in curve_of("eth40g").problem
    # "78.91Gb/s is much less than the theoretical peak rate of
    # 100Gb/s for the Omni-Path connection."
    assert "shows 5567.7 MB/s, 0.445 of the line rate" in curve_of("opa100").problem
    monkeypatch.setattr(doctor, "examine", lambda system: ())
    cli.main(["doctor", "--system=openhpc-mini", "--json"])
    said = json.loads(capsys.readouterr().out)["published"]
    assert [row["holds"] for row in said].count(True) == 3

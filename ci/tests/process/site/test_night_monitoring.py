"""A night's answer at the site's own monitoring: real servers, and the
rules and the dashboard that come with the project.
"""

import json
import time

import pytest
import yaml

from mpibench.store import records
from mpibench_site import notices
from servers import RULES, fetch, pushgateway, read

ODD = 'a b,c=d"e\n<b>'


def send(folder, metrics, problems, session="s1"):
    cases = {"pass": 3, "fail": len(problems)}
    where = (folder, "sys" if session else "", "nightly", session)
    return notices.send(*where, problems, cases, {"MPIBENCH_METRICS": metrics})


def by_system(url):
    """Values of a gateway by name and system."""
    return {
        (name, dict(labels).get("system")): value
        for name, labels, value in read(fetch(f"{url}/metrics"))
    }


def test_a_green_night_follows_a_red_one_on_a_real_gateway(tmp_path):
    """Of a night without session and system nothing stays red for ever."""
    with pushgateway(tmp_path) as url:
        address = f"prometheus+{url}/metrics/job/mpibench"
        assert send(tmp_path, address, ["no session"], session=None) == []
        assert send(tmp_path, address, ["one", "two"]) == []
        until = time.monotonic() + 30
        # A gateway answers a deletion before it has done it.
        while ("mpibench_night_ok", None) in (first := by_system(url)) and time.monotonic() < until:
            time.sleep(0.1)
        assert first["mpibench_night_ok", "sys"] == 0
        assert first["mpibench_night_problems", "sys"] == 2
        assert ("mpibench_night_ok", None) not in first
        assert send(tmp_path, address, []) == []
        rows = read(fetch(f"{url}/metrics"))
    said = {(name, dict(labels).get("result")): value for name, labels, value in rows}
    assert said["mpibench_night_ok", None] == 1
    assert said["mpibench_night_cases", "pass"] == 3 and said["mpibench_night_cases", "fail"] == 0


@pytest.mark.parametrize("by_gate", [True, False])
def test_a_night_that_was_not_judged_is_not_green(tmp_path, by_gate):
    """Neither by the gate nor by the night itself."""
    if by_gate:
        records.answer(tmp_path, "s1", records.GATE, "nightly", [], finding="busy", unjudged=True)
    log = tmp_path / "log"
    night = (tmp_path, "sys", "nightly", "s1", [], {"pass": 3})
    to = {"MPIBENCH_METRICS": f"json+file://{log}"}
    assert notices.send(*night, to, unjudged=not by_gate) == []
    row = json.loads(log.read_text())
    assert (row["result"], row["problems"]) == ("not judged", [])


def test_every_alert_is_seen_to_call():
    """An alert without a series that raises it in ``tests/rules.yml`` might never call."""
    groups = yaml.safe_load((RULES / "alerts.rules.yml").read_text())["groups"]
    tests = yaml.safe_load((RULES / "tests" / "rules.yml").read_text())["tests"]
    seen = [one for test in tests for one in test["alert_rule_test"] if one["exp_alerts"]]
    named = {rule["alert"] for group in groups for rule in group["rules"]}
    assert named == {one["alertname"] for one in seen} and len(named) == 11

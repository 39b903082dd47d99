"""A night's answer at the site's own monitoring: real servers, and the rules and the dashboard that come with the project."""

from __future__ import annotations

import json
import subprocess
import time
from pathlib import Path

import pytest
import yaml

from metrics_gateway import read
from monitoring_servers import RULES, fetch, influx_rows, influxdb, program, pushgateway
from mpibench.night import monitoring
from mpibench.store import records

ODD = 'a b,c=d"e\n<b>'


def send(folder: Path, metrics: str, problems: list[str], session: str | None = "s1", system: str = "sys") -> list[str]:
    cases = {"pass": 3, "fail": len(problems)}
    environ = {"MPIBENCH_METRICS": metrics}
    return monitoring.send(folder, system if session else "", "nightly", session, problems, cases, environ)


def by_system(url: str) -> dict[tuple[str, str | None], float]:
    """Values of a gateway by name and system."""
    return {(name, dict(labels).get("system")): value for name, labels, value in read(fetch(f"{url}/metrics"))}


def test_a_green_night_follows_a_red_one_on_a_real_gateway(tmp_path: Path) -> None:
    with pushgateway(tmp_path) as url:
        address = f"prometheus+{url}/metrics/job/mpibench"
        assert send(tmp_path, address, ["no session"], session=None) == []
        assert send(tmp_path, address, ["one", "two"]) == []
        until = time.monotonic() + 30
        # A gateway answers a deletion before it has done it.
        while ("mpibench_night_ok", None) in (first := by_system(url)) and time.monotonic() < until:
            time.sleep(0.1)
        assert first[("mpibench_night_ok", "sys")] == 0 and first[("mpibench_night_problems", "sys")] == 2
        assert ("mpibench_night_ok", None) not in first, "of a night without session and system nothing stays red for ever"
        assert send(tmp_path, address, []) == []
        rows = read(fetch(f"{url}/metrics"))
    said = {name: value for name, _, value in rows if name != "mpibench_night_cases"}
    assert said["mpibench_night_ok"] == 1 and said["mpibench_night_end_time_seconds"] > 1.7e9
    assert {dict(labels)["session"] for name, labels, _ in rows if name == "mpibench_night_info"} == {"s1"}
    assert {dict(labels)["result"]: value for name, labels, value in rows if name == "mpibench_night_cases"} == {
        "pass": 3,
        "fail": 0,
    }


def test_what_the_gate_said_is_part_of_the_answer(tmp_path: Path) -> None:
    records.answer(tmp_path, "s1", records.GATE, "nightly", ["Uniband is 9 % slower", "both"], judged=5)
    log = tmp_path / "log"
    assert send(tmp_path, f"json+file://{log}", ["both"]) == []
    row = json.loads(log.read_text())
    assert row["problems"] == ["both", "Uniband is 9 % slower"] and row["result"] == "fail"
    assert (row["event"], row["system"], row["run"], row["session"]) == ("mpibench_night", "sys", "nightly", "s1")


def test_a_night_in_a_real_influxdb(tmp_path: Path) -> None:
    with influxdb(tmp_path) as url:
        assert send(tmp_path, f"influx+{url}/write?db=mpibench", [ODD], system=ODD) == []
        [row] = influx_rows(url, "SELECT * FROM mpibench_night")
    assert (row["ok"], row["problems"], row["cases_pass"], row["session"]) == (False, 1, 3, "s1")
    assert row["system"] == 'a b,c=d"e <b>'


def test_many_problems_are_counted(tmp_path: Path) -> None:
    log = tmp_path / "log"
    send(tmp_path, f"json+file://{log}", [f"problem {number} {'x' * 5000}" for number in range(100)])
    row = json.loads(log.read_text())
    assert len(row["problems"]) == monitoring.MOST_NAMED and row["more_problems"] == 80
    assert len(log.read_text()) < 64 * 1024


@pytest.mark.parametrize(
    ("metrics", "where"),
    [
        ("prometheus+http://user:secret@127.0.0.1:9/metrics/job/x", "127.0.0.1:9/metrics/job/x"),
        ("influx+http://127.0.0.1:9/write?db=x&p=secret", "127.0.0.1:9/write"),
        ("json+file:///proc/nowhere/x", "/proc/nowhere/x"),
    ],
)
def test_a_server_that_does_not_answer_is_a_sentence_without_its_password(metrics: str, where: str, tmp_path: Path) -> None:
    [sentence] = send(tmp_path, metrics, [])
    assert sentence.startswith("the site's monitoring did not get this night's answer") and where in sentence
    assert "secret" not in sentence


def test_answers_that_cannot_be_read_end_no_night(tmp_path: Path) -> None:
    (tmp_path / records.StoredAnswer.kind).symlink_to(tmp_path / records.StoredAnswer.kind)
    assert send(tmp_path, f"json+file://{tmp_path}/log", ["the answer of this night is not kept"]) == []
    assert json.loads((tmp_path / "log").read_text())["problems"] == ["the answer of this night is not kept"]


def test_nothing_is_sent_unasked(tmp_path: Path) -> None:
    assert send(tmp_path, "", ["x"]) == []
    assert send(tmp_path, "http://127.0.0.1:9/list-of-each-case", ["x"]) == []


def promtool(*words: str | Path) -> str:
    done = subprocess.run([program("promtool"), *map(str, words)], capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout + done.stderr


def test_prometheus_takes_the_configuration_and_the_rules() -> None:
    said = promtool("check", "config", "--lint-fatal", RULES / "prometheus.yml")
    assert "9 rules found" in said and "10 rules found" in said


def test_rules_do_what_their_names_say() -> None:
    assert "SUCCESS" in promtool("test", "rules", RULES / "tests" / "rules.yml")


def test_every_alert_is_seen_to_call() -> None:
    """An alert without a series that raises it in ``tests/rules.yml`` might never call."""
    named = {
        rule["alert"] for group in yaml.safe_load((RULES / "alerts.rules.yml").read_text())["groups"] for rule in group["rules"]
    }
    tests = yaml.safe_load((RULES / "tests" / "rules.yml").read_text())["tests"]
    raised = {one["alertname"] for test in tests for one in test["alert_rule_test"] if one["exp_alerts"]}
    assert named == raised and len(named) == 10


def test_a_rule_that_does_not_call_is_seen(tmp_path: Path) -> None:
    """The test of the rules can fail."""
    for path in RULES.glob("*.yml"):
        (tmp_path / path.name).write_text(path.read_text().replace("> 1.1", "> 11"))
    (tmp_path / "tests").mkdir()
    (tmp_path / "tests" / "rules.yml").write_text((RULES / "tests" / "rules.yml").read_text())
    done = subprocess.run(
        [program("promtool"), "test", "rules", str(tmp_path / "tests" / "rules.yml")], capture_output=True, text=True
    )
    assert done.returncode != 0 and "MpibenchSlower" in done.stderr

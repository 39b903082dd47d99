"""Values of real sessions pushed to a site's own monitoring through ReFrame's own handler."""

import json
import re
from types import SimpleNamespace

import pytest

from mpibench_site import metrics_push, notices
from servers import RULES, prometheus, pushgateway, query, wait

ONE = "ImbPointToPoint%fabric=shm%nodes=1%ppn=2%pinning=bunch"


def expressions(largest, smallest):
    """Every query of the dashboard: its panel, and the query as
    Grafana sends it with everything chosen.
    """
    board = json.loads((RULES / "grafana.json").read_text())
    sizes = {"bandwidth_bytes": largest, "latency_bytes": smallest}
    chosen = {**dict.fromkeys(("system", "fabric", "stack", "benchmark"), ".*"), **sizes}
    names = {row["name"] for row in board["templating"]["list"]}
    assert names == {*chosen, "datasource"}
    found = [
        (panel["title"], target["expr"]) for panel in board["panels"] for target in panel["targets"]
    ]
    found += [(one["name"], one["expr"]) for one in board["annotations"]["list"]]
    return [
        (title, re.sub(r"\$(\w+)", lambda match: chosen[match[1]], text)) for title, text in found
    ]


#: Panels that are empty where all is well.
WHERE_SOMETHING_IS_WRONG = {"What is not as it should be", "Night not accepted"}


def test_a_real_session_is_on_the_board(require_stack, run_reframe, tmp_path):
    """Session, Pushgateway and Prometheus are real, the rules are the
    project's: every query of every panel is answered.
    """
    require_stack("mpich-wheels")
    require_stack("intelmpi-wheels")
    with pushgateway(tmp_path) as gateway, prometheus(tmp_path, gateway) as url:
        address = f"prometheus+{gateway}/metrics/job/mpibench"
        lines = tmp_path / "metrics.influx"
        cases = tmp_path / "cases.jsonl"
        # ReFrame's own performance log of a centre goes on beside ours.
        done = run_session(
            run_reframe, tmp_path, f"{address} influx+file://{lines} json+file://{cases}"
        )
        assert done.returncode == 0, done.stdout[-2000:]
        # which shared memory has not
        metrics_push.push(with_line_rate(), f"{gateway}/metrics/job/mpibench")
        notices.send(
            tmp_path, "generic", "nightly", "id", [], {"pass": 2}, {"MPIBENCH_METRICS": address}
        )
        wait(
            lambda: bool(query(url, "mpibench_night_ok == 1")),
            "Prometheus did not ask the Pushgateway",
        )
        for record in ("case_age:seconds", "line_rate:fraction", "slowdown:median_of_sizes"):
            wait(
                lambda record=record: bool(query(url, f"mpibench:{record}")),
                f"no {record} by the recording rules",
            )
        in_prometheus = {
            (
                row["metric"]["stack"],
                row["metric"]["benchmark"],
                int(row["metric"]["message_bytes"]),
            ): float(row["value"][1])
            for row in query(url, "mpibench_latency_us")
        }
        sizes = sorted({size for *_, size in in_prometheus})
        empty = {
            title
            for title, text in expressions(str(sizes[-1]), str(sizes[0]))
            if not query(url, text)
        }
        slower = query(url, "mpibench:slowdown:median_of_sizes")
        called = query(url, 'ALERTS{alertstate="firing"}')
    rows = [json.loads(line) for line in cases.read_text().splitlines()]
    assert {(row["stack"], row["evidence"], row["result"]) for row in rows} == {
        ("mpich-wheels", "proven", "pass"),
        ("intelmpi-wheels", "proven", "pass"),
    }
    in_lines = {
        (row["stack"], name, size): value
        for row in rows
        for (name, quantity, size), value in (
            (split_name(key), value) for key, value in row["medians"].items()
        )
        if quantity == "latency"
    }
    assert in_prometheus == in_lines and len(in_lines) > 4
    assert len(lines.read_text().splitlines()) == len(in_lines) + 2
    assert empty == WHERE_SOMETHING_IS_WRONG
    assert {float(row["value"][1]) for row in slower} == {1.0}, "held against themselves"
    assert called == []


def with_line_rate():
    """A case on a fabric with a line rate and a reference, as ReFrame's log has it."""
    sample = {
        "suite": "imb",
        "benchmark": "Uniband",
        "variant": "",
        "ranks": 2,
        "groups": 1,
        "message_bytes": 4194304,
        "quantity": "bandwidth_mb_per_s",
        "unit": "MB/s",
        "direction": "higher",
        "values": [117.0],
    }
    gate = {
        "metric": "Uniband.bandwidth.0004194304",
        "layer": "learned",
        "lower": 110.0,
        "upper": None,
        "outcome": "pass",
    }
    logged = {
        "system": "s",
        "partition": "p",
        "environ": "e",
        "fabric": "eth1g",
        "nodes": 2,
        "ranks_per_node": 1,
        "pinning": "bunch",
        "group": "transfer",
        "result": "pass",
        "proof": {"verdict": "proven"},
        "samples": [sample],
        "gates": [gate],
        "condition": {"line_rate_gbit_per_s": 1},
    }
    return SimpleNamespace(**{f"check_{name}": value for name, value in logged.items()})


def split_name(name):
    """Benchmark, quantity and size of a performance variable."""
    benchmark, quantity, size = name.split(".")
    return benchmark, quantity, int(size)


def run_session(run_reframe, folder, metrics):
    environ = {"MPIBENCH_METRICS": metrics, "RFM_PREFIX": str(folder)}
    environ["RFM_SQLITE_DB_FILE"] = str(folder / "results.db")
    environ["NO_PROXY"] = environ["no_proxy"] = "127.0.0.1"
    words = f"-r --system=generic -n {ONE} -p (mpich|intelmpi)-wheels -S level=smoke -S repeats=1"
    done = run_reframe(words=words, environ=environ, only="point_to_point.py")
    if "[    SKIP ]" in done.stdout:
        pytest.skip("[cores] two ranks in one node are not measured here")
    return done

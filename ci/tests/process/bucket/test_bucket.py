"""Datasets in a bucket, on a real S3 server on this machine."""

import errno
import json
import os
import socket
import subprocess
import sys
import threading
import time
import urllib.request
from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta
from pathlib import Path

import pytest

from mpibench import cli
from mpibench.store.store import Store
from refusals import refused_as
from synthetic_verdicts import write_session

pytest.importorskip("obstore", reason="[python] no client of S3 here (ci/setup test)")
pytest.importorskip("moto", reason="[python] no server of S3 here (ci/setup test)")

import boto3
from moto.server import ThreadedMotoServer

from mpibench_s3 import bucket as buckets
from mpibench_s3.bucket import Bucket

PLACE = "results/all"
ADDRESS = f"s3://{PLACE}"


@pytest.fixture(scope="module")
def endpoint():
    server = ThreadedMotoServer("127.0.0.1", port=0, verbose=False)
    server.start()
    host, port = server.get_host_and_port()
    yield f"http://{host}:{port}"
    server.stop()


@pytest.fixture
def s3(endpoint, monkeypatch):
    """A client of the server, which has one empty bucket."""
    for name, value in {
        "AWS_ENDPOINT_URL": endpoint,
        "AWS_ALLOW_HTTP": "true",
        "AWS_ACCESS_KEY_ID": "one",
        "AWS_SECRET_ACCESS_KEY": "secret",
        "AWS_REGION": "us-east-1",
    }.items():
        monkeypatch.setenv(name, value)
    ask(endpoint, "reset")
    client = boto3.client("s3", region_name="us-east-1")
    client.create_bucket(Bucket="results")
    return client


def ask(endpoint, question, data=b""):
    request = urllib.request.Request(
        f"{endpoint}/moto-api/{question}",
        data=data,
        headers={"Content-Type": "text/plain"},
        method="POST",
    )
    urllib.request.urlopen(request).close()


def keys(s3):
    pages = s3.get_paginator("list_objects_v2").paginate(Bucket="results")
    return [one["Key"] for page in pages for one in page.get("Contents", ())]


def listed(capsys):
    """Systems of the sessions in the bucket."""
    capsys.readouterr()
    assert cli.main(["sessions", "list", "--json", "--dataset", ADDRESS]) == 0
    return sorted(row["system"] for row in json.loads(capsys.readouterr().out))


def refused(capsys, *words):
    """What a command says that gets no answer: one sentence, behind those on sessions that it left
    out.
    """
    capsys.readouterr()
    assert cli.main([*words, "--dataset-only"]) == 2
    said = capsys.readouterr()
    *left_out, sentence = said.err.splitlines()
    assert all("left out" in line for line in left_out) and not said.out
    return sentence


GATE = ("gate", "--system", "testbed", "--dataset", ADDRESS)


def test_writers_of_many_systems_and_a_reader_at_once(s3, tmp_path, capsys):
    """Four checkouts send their nights one by one, the first one again and
    again, while another one reads.
    """
    folders = [tmp_path / f"checkout{number}" for number in range(4)]
    write_session(folders[0], 0, system="system0")
    Bucket(PLACE).send(folders[0])
    done = threading.Event()
    seen = []

    def write(number):
        for night in range(4):
            again = number or 1
            noise = 0.01 * (night + 1)  # other values: the first one replaces its session
            write_session(
                folders[number], 10 * number + night * again, system=f"system{number}", noise=noise
            )
            if not number:
                write_session(folders[0], 0, system="system0", noise=noise)
            Bucket(PLACE).send(folders[number])

    def read():
        while not done.is_set():
            with Bucket(PLACE).fetched() as folder:
                store = Store(folder)
                for table in ("cases", "samples"):
                    store.files(table)  # refuses what is not whole
                seen.append({*store.session_systems})

    with ThreadPoolExecutor() as pool:
        reader = pool.submit(read)
        writers = [pool.submit(write, number) for number in range(4)]
        for writer in writers:
            writer.result()
        done.set()
        reader.result()
    assert len(seen) > 1 and len(seen[-1]) >= len(seen[0])
    assert listed(capsys) == sorted(4 * [f"system{number}" for number in range(4)])


def test_only_what_lacks_or_differs_is_copied(s3, tmp_path):
    write_session(tmp_path, 0)
    (tmp_path / ".nightly.lock").write_text("hidden")
    assert "2 files of 2" in Bucket(PLACE).send(tmp_path)
    assert "0 files of 2" in Bucket(PLACE).send(tmp_path)
    write_session(tmp_path, 0, noise=0.2)
    write_session(tmp_path, 1)
    assert "3 files of 4" in Bucket(PLACE).send(tmp_path)  # the cases of the first are the same
    assert len(keys(s3)) == 4


def test_an_export_takes_records_along_and_verdicts_find_all(s3, tmp_path, capsys):
    own = tmp_path / "dataset"
    last = [write_session(own, night, labels={"run": "nightly"}) for night in range(12)][-1]
    words = ("export", "--db", str(tmp_path / "results.db"), "--out", ADDRESS)
    assert cli.main([*words, "--dataset-only"]) == 0
    answers = []
    for dataset in (str(own), ADDRESS):
        capsys.readouterr()
        status = cli.main(
            ["drift", "--system", "testbed", "--dataset", dataset, "--dataset-only", "--json"]
        )
        answers.append((status, capsys.readouterr().out))
    assert answers[0] == answers[1] and answers[0][0] in (0, 3)
    assert cli.main(["sessions", "withdraw", last, "--why", "cable", "--dataset", ADDRESS]) == 0
    assert f"all/withdrawn/{last}.json" in keys(s3)
    assert cli.main(["sessions", "withdraw", last, "--undo", "--dataset", ADDRESS]) == 0
    assert f"all/withdrawn/{last}.json" not in keys(s3)
    Store(own).withdraw(last, "maintenance")
    assert cli.main([*words, "--dataset-only"]) == 0
    assert "maintenance" in refused(capsys, *GATE, "--session", last)


def test_csv_and_site(s3, tmp_path, monkeypatch, capsys):
    from mpibench_site import commands

    write_session(tmp_path / "dataset", 0, labels={"run": "nightly"})
    Bucket(PLACE).send(tmp_path / "dataset")
    values = ("export", "--csv", str(tmp_path / "values.csv"), "--out", ADDRESS, "--dataset-only")
    assert cli.main([*values]) == 0 and (tmp_path / "values.csv").stat().st_size
    monkeypatch.setattr(commands, "RESULTS", tmp_path)
    words = ("site", "--dataset", ADDRESS, "--dataset-only", "--out", "s3://results/site")
    assert cli.main([*words]) == 0
    page = s3.get_object(Bucket="results", Key="site/index.html")
    assert page["ContentType"] == "text/html"
    assert any(key.startswith("all/answers/") for key in keys(s3))  # the gate's, for the next build


#: Sends one night after the other.
WRITER = """
import sys
from pathlib import Path
from synthetic_verdicts import write_session
from mpibench_s3.bucket import Bucket
for night in range(1, 1000):
    write_session(Path(sys.argv[1]), night)
    Bucket("results/all").send(Path(sys.argv[1]))
"""


def test_a_killed_writer_loses_nothing(s3, tmp_path, capsys):
    environ = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    writer = subprocess.Popen([sys.executable, "-c", WRITER, str(tmp_path)], env=environ)
    try:
        until = time.monotonic() + 120
        while len(keys(s3)) < 4 and time.monotonic() < until:
            time.sleep(0.05)
    finally:
        writer.kill()
        writer.wait()
    whole = [key for key in keys(s3) if key.startswith("all/cases/")]
    assert 1 <= len(whole) == len(listed(capsys))
    Bucket(PLACE).send(tmp_path)
    assert len(listed(capsys)) == len([*tmp_path.glob("cases/*/*/*.parquet")]) >= len(whole)


def test_a_session_without_its_cases_is_left_out_and_later_refused(
    s3, tmp_path, capsys, monkeypatch
):
    names = [write_session(tmp_path, night) for night in range(2)]
    Bucket(PLACE).send(tmp_path)
    [lost] = [key for key in keys(s3) if key.startswith("all/cases/") and names[1] in key]
    s3.delete_object(Bucket="results", Key=lost)
    assert listed(capsys) == ["testbed"]
    assert names[1] in refused(capsys, *GATE, "--session", names[1])
    monkeypatch.setattr(buckets, "UNFINISHED", timedelta(0))
    assert names[1] in refused(capsys, *GATE, "--session", names[0])


def test_what_is_no_file_of_a_dataset_is_not_read(s3, tmp_path):
    write_session(tmp_path, 0)
    Bucket(PLACE).send(tmp_path)
    for key in ("all/", "all/cases/", "all/.hidden/a.json", "all/notes.txt"):
        s3.put_object(Bucket="results", Key=key, Body=b"")
    with Bucket(PLACE).fetched() as folder:
        assert sorted(path.suffix for path in folder.rglob("*") if path.is_file()) == [
            ".parquet",
            ".parquet",
        ]
    s3.put_object(Bucket="results", Key="all/maps/../../e.json", Body=b"")
    with refused_as("not-reached", r"\.\./e\.json"), Bucket(PLACE).fetched():
        pass


def test_damaged_objects_are_refused_by_name(s3, tmp_path, capsys):
    session = write_session(tmp_path, 0)
    Bucket(PLACE).send(tmp_path)
    [key] = [key for key in keys(s3) if key.startswith("all/samples/")]
    content = s3.get_object(Bucket="results", Key=key)["Body"].read()
    s3.put_object(Bucket="results", Key=key, Body=content[: len(content) // 2])
    assert key in refused(capsys, "export", "--csv", str(tmp_path / "x.csv"), "--out", ADDRESS)
    assert session in key and not (tmp_path / "x.csv").exists()


@pytest.mark.parametrize("words", [GATE, ("export", "--out", ADDRESS)])
def test_a_store_that_refuses_gets_one_sentence(
    s3,
    endpoint,
    words,
    tmp_path,
    capsys,
    monkeypatch,
):
    write_session(tmp_path / "dataset", 0)
    given = words if words is GATE else (*words, "--db", str(tmp_path / "results.db"))
    s3.delete_bucket(Bucket="results")
    assert "NoSuchBucket" in refused(capsys, *given)
    s3.create_bucket(Bucket="results")
    if words is GATE:
        assert f"no dataset in {ADDRESS}" in refused(capsys, *given)
    ask(endpoint, "reset-auth", b"0")  # from now on keys and rights count
    assert "InvalidAccessKeyId" in refused(capsys, *given)
    ask(endpoint, "reset-auth", b"inf")
    monkeypatch.setattr(buckets, "RETRIES", {"max_retries": 1})
    with socket.create_server(("127.0.0.1", 0)) as silent:
        place = f"http://127.0.0.1:{silent.getsockname()[1]}"
        monkeypatch.setenv("AWS_ENDPOINT_URL", place)
        monkeypatch.setenv("AWS_TIMEOUT", "1s")
        assert ADDRESS in refused(capsys, *given)  # it takes the connection and says nothing
    assert ADDRESS in refused(capsys, *given)  # nobody is there any more


def test_a_store_that_does_not_take_what_a_command_wrote_is_no_success(s3, endpoint, tmp_path):
    session = write_session(tmp_path, 0)
    Bucket(PLACE).send(tmp_path)
    with refused_as("not-reached", "NoSuchBucket"), Bucket(PLACE).fetched() as folder:
        Store(folder).withdraw(session, "cable")
        ask(endpoint, "reset")


def test_a_bucket_that_never_rests_is_given_up(s3, tmp_path, monkeypatch):
    write_session(tmp_path, 0)
    Bucket(PLACE).send(tmp_path)
    readable = Bucket._readable

    def then_changed(self):
        return dict.fromkeys(readable(self), '"another version"')

    monkeypatch.setattr(Bucket, "_readable", then_changed)
    with refused_as("changed-since"), Bucket(PLACE).fetched():
        pass


def test_a_folder_for_the_copy_that_takes_nothing_is_one_sentence(
    s3, tmp_path, monkeypatch, capsys
):
    write_session(tmp_path / "dataset", 0)
    Bucket(PLACE).send(tmp_path / "dataset")
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path / "absent"))
    assert "absent" in refused(capsys, *GATE)

    def full(path, content):
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), str(path))

    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    monkeypatch.setattr(Path, "write_bytes", full)
    assert "No space left on device" in refused(capsys, *GATE)


@pytest.mark.parametrize("address", ["gs://results/all", "s3://"])
def test_an_address_that_is_none_is_refused(address, capsys):
    assert address[:4] in refused(capsys, "gate", "--system", "testbed", "--dataset", address)

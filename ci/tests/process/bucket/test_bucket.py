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
from datetime import datetime, timezone
from pathlib import Path

import pytest
import typer

from mpibench import cli
from mpibench.store.records import Withdrawal
from mpibench.store.store import Store
from reframe_tests.harness.vocabulary import BadInput
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


def is_mark(s3, key):
    return s3.head_object(Bucket="results", Key=key)["ContentLength"] == buckets.MARK_BYTES


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
    whole = [key for key in keys(s3) if key.startswith("all/cases/") and not is_mark(s3, key)]
    assert 1 <= len(whole) == len(listed(capsys))
    Bucket(PLACE).send(tmp_path)
    assert len(listed(capsys)) == len([*tmp_path.glob("cases/*/*/*.parquet")]) >= len(whole)


@pytest.mark.parametrize("left", [None, b"m" * buckets.MARK_BYTES])
def test_no_verdict_takes_a_night_for_the_newest_beside_one_that_is_not_whole(
    s3, tmp_path, capsys, left
):
    """The newest night lacks its cases, or has a writer's mark instead of them."""
    names = [write_session(tmp_path, night) for night in range(2)]
    Bucket(PLACE).send(tmp_path)
    [lost] = [key for key in keys(s3) if key.startswith("all/cases/") and names[1] in key]
    s3.delete_object(Bucket="results", Key=lost)
    if left:
        s3.put_object(Bucket="results", Key=lost, Body=left)
    assert listed(capsys) == ["testbed"]
    assert names[1] in refused(capsys, *GATE, "--session", names[1])
    assert names[1] in refused(capsys, *GATE)
    assert "2 files" not in Bucket(PLACE).send(tmp_path) and len(listed(capsys)) == 2
    assert not any("refused" in key for key in keys(s3))


def test_a_session_that_is_whole_on_one_of_its_systems_is_not_whole(s3, tmp_path, capsys):
    name = write_session(tmp_path, 0, system="testbed")
    other = write_session(tmp_path, 1, system="other")
    Bucket(PLACE).send(tmp_path)
    assert len(listed(capsys)) == 2
    for key in keys(s3):
        if other in key and "/cases/" in key:
            s3.delete_object(Bucket="results", Key=key)
        elif name in key:  # one session on both
            s3.copy_object(
                Bucket="results",
                Key=key.replace(name, other),
                CopySource={"Bucket": "results", "Key": key},
            )
            s3.delete_object(Bucket="results", Key=key)
    assert "no session" in refused(capsys, *GATE)
    write_session(tmp_path / "older", 2, system="testbed", night=-1)
    Bucket(PLACE).send(tmp_path / "older")
    assert other in refused(capsys, *GATE)


def test_of_two_writers_of_one_session_one_is_refused_and_nothing_is_mixed(s3, tmp_path):
    folders = [tmp_path / name for name in ("one", "other")]
    for number, folder in enumerate(folders):
        write_session(folder, 0, noise=0.01 * (number + 1))

    def send(folder):
        try:
            return Bucket(PLACE).send(folder)
        except BadInput as error:
            assert error.code == "changed-since"
            return None

    for _ in range(5):
        with ThreadPoolExecutor() as pool:
            sent = [*pool.map(send, folders)]
        with Bucket(PLACE).fetched() as copy:
            there = [path.read_bytes() for path in copy.glob("samples/*/*/*")]
        if there:
            [samples] = there
            own = [path.read_bytes() for folder in folders for path in folder.glob("samples/*/*/*")]
            assert samples in own
        else:
            assert not any(sent)
    assert Bucket(PLACE).send(folders[0])


def test_a_writer_that_lost_its_session_to_another_replaces_nothing(s3, tmp_path, monkeypatch):
    for name, noise in {"one": 0.01, "other": 0.02}.items():
        write_session(tmp_path / name, 0, noise=noise)
    Bucket(PLACE).send(tmp_path / "other")
    put = Bucket._put

    def overtaken(self, name, content, version):
        if name.startswith("samples/"):
            monkeypatch.setattr(Bucket, "_put", put)
            write_session(tmp_path / "other", 0, noise=0.03)
            Bucket(PLACE).send(tmp_path / "other")
        return put(self, name, content, version)

    monkeypatch.setattr(Bucket, "_put", overtaken)
    with refused_as("changed-since", "samples/"):
        Bucket(PLACE).send(tmp_path / "one")
    assert "0 files" in Bucket(PLACE).send(tmp_path / "other")


def test_what_another_wrote_meanwhile_is_not_replaced_or_removed(s3, tmp_path):
    session = write_session(tmp_path, 0)
    Bucket(PLACE).send(tmp_path)
    key = f"all/withdrawn/{session}.json"
    with refused_as("changed-since", key), Bucket(PLACE).fetched() as folder:
        Store(folder).withdraw(session, "cable")
        s3.put_object(Bucket="results", Key=key, Body=b"of another")
    s3.delete_object(Bucket="results", Key=key)
    with Bucket(PLACE).fetched() as folder:
        Store(folder).withdraw(session, "cable")
    with refused_as("changed-since", key), Bucket(PLACE).fetched() as folder:
        Store(folder).restore(session)
        s3.put_object(Bucket="results", Key=key, Body=b"of another")
    assert s3.get_object(Bucket="results", Key=key)["Body"].read() == b"of another"


def test_a_newer_record_is_not_replaced_by_an_export(s3, tmp_path):
    session = write_session(tmp_path, 0)
    for hour in (8, 9, 7):
        when = datetime(2026, 1, 1, hour, tzinfo=timezone.utc)
        Withdrawal(session, f"at {hour}", "me", when).keep(tmp_path)
        said = Bucket(PLACE).send(tmp_path)
    assert "1 newer record there kept" in said and "0 files of 3" in said
    with Bucket(PLACE).fetched() as folder:
        assert Store(folder).withdrawn[session].why == "at 9"


@pytest.mark.parametrize("end", [KeyboardInterrupt, ValueError, typer.Exit(2)])
def test_a_command_that_gave_no_answer_publishes_nothing(s3, tmp_path, end):
    session = write_session(tmp_path, 0)
    Bucket(PLACE).send(tmp_path)
    before = keys(s3)
    with pytest.raises(end if isinstance(end, type) else type(end)), Bucket(PLACE).fetched() as to:
        Store(to).withdraw(session, "cable")
        raise end
    assert keys(s3) == before


def test_an_answer_of_any_status_publishes_what_was_changed(s3, tmp_path):
    session = write_session(tmp_path, 0)
    Bucket(PLACE).send(tmp_path)
    with pytest.raises(typer.Exit), Bucket(PLACE).fetched() as folder:
        Store(folder).withdraw(session, "cable")
        path = next(folder.glob("withdrawn/*"))
        for file in folder.rglob("*.parquet"):
            file.write_bytes(file.read_bytes())  # another time, the same contents
        os.utime(path, ns=(0, 0))
        raise typer.Exit(3)
    with Bucket(PLACE).fetched() as folder:
        path = next(folder.glob("withdrawn/*"))
        times = path.stat()
        path.write_text(path.read_text().replace("cable", "maint"))
        os.utime(path, ns=(times.st_atime_ns, times.st_mtime_ns))
    with Bucket(PLACE).fetched() as folder:
        assert Store(folder).withdrawn[session].why == "maint"


def test_one_copy_at_a_time_and_none_at_the_end(s3, tmp_path, monkeypatch):
    write_session(tmp_path / "dataset", 0)
    Bucket(PLACE).send(tmp_path / "dataset")
    (tmp_path / "copies").mkdir()
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path / "copies"))
    get, held = Bucket._get, []

    def late(self, name, version, folder):
        held.append(len([*(tmp_path / "copies").rglob("samples")]))
        get(self, name, '"another"' if name.startswith("cases/") else version, folder)

    monkeypatch.setattr(Bucket, "_get", late)
    with refused_as("changed-since"), Bucket(PLACE).fetched():
        pass
    assert len(held) == 2 * buckets.ATTEMPTS and max(held) == 1
    assert not [*(tmp_path / "copies").iterdir()]


@pytest.mark.parametrize(
    "names", [("n" * 300 + ".json",), ("a.json", "a.json/b.json"), ("m/a.json", "m/a.json/b.json")]
)
def test_an_object_that_can_be_no_file_is_named(s3, tmp_path, names):
    write_session(tmp_path, 0)
    Bucket(PLACE).send(tmp_path)
    for name in names:
        s3.put_object(Bucket="results", Key=f"all/{name}", Body=b"{}")
    with refused_as("file-unreadable", f"the object {names[0]}"), Bucket(PLACE).fetched():
        pass


def test_nothing_to_send_is_no_success(s3, tmp_path, capsys):
    (tmp_path / "dataset" / "cases" / "system=testbed").mkdir(parents=True)
    words = ("export", "--out", ADDRESS, "--db")
    assert "no file" in refused(capsys, *words, str(tmp_path / "results.db"))
    assert "no dataset" in refused(capsys, *words, str(tmp_path / "absent" / "results.db"))


def test_files_behind_links_are_sent_too(s3, tmp_path):
    write_session(tmp_path / "kept", 0)
    (tmp_path / "dataset").mkdir()
    for table in ("cases", "samples"):
        (tmp_path / "dataset" / table).symlink_to(tmp_path / "kept" / table)
    assert "2 files of 2" in Bucket(PLACE).send(tmp_path / "dataset")


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
    get = Bucket._get
    monkeypatch.setattr(
        Bucket, "_get", lambda self, name, _, folder: get(self, name, '"another"', folder)
    )
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


ADDRESSES = [
    "gs://results/all",
    "s3://",
    "S3://",
    " s3://results/all",
    "s3://results/all ",
    "s3://results /all",
    "s3://results/al\nl",
    "\ns3://results/all",
    "s3+http://results/all",
    "my-s3://results/all",
    "s3://results/../../all",
    "s3://..",
]


@pytest.mark.parametrize("address", ADDRESSES)
def test_an_address_that_is_none_is_refused(s3, address, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    write_session(tmp_path / "dataset", 0)
    words = ("export", "--db", str(tmp_path / "results.db"), "--out", address)
    assert "3" in refused(capsys, *words) or address[:2] == "gs"
    refused(capsys, "gate", "--system", "testbed", "--dataset", address)
    assert [path.name for path in tmp_path.iterdir()] == ["dataset"] and not keys(s3)


@pytest.mark.parametrize("name", ["./night:1", "night:1", "s3/a:"])
def test_a_folder_with_a_colon_is_a_folder(name, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    session = write_session(Path(name), 0)
    assert cli.main(["sessions", "withdraw", session, "--why", "cable", "--dataset", name]) == 0
    assert Path(name, "withdrawn").is_dir()

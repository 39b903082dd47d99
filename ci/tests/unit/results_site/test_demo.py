"""The demo: every page of the nights that were recorded, and what keeps it from being written."""

import errno
import shutil
from dataclasses import asdict

from mpibench.pages import session
from mpibench.store.store import Store
from mpibench_site import demo, site
from refusals import refused_as

MOST_BYTES = 520_000


def test_the_recorded_nights_become_every_page_and_the_red_one_names_its_node(tmp_path, capsys):
    assert sum(path.stat().st_size for path in demo.RECORDED.rglob("*.parquet")) < MOST_BYTES
    out = tmp_path / "demo"
    lines = demo.make(out)
    for name in (demo.SITE, demo.REPORT, demo.COMPARISON, demo.MAP):
        assert (out / name).is_file() and any(str(out / name) in line for line in lines)
    first = (out / demo.SITE).read_text()
    assert 'class="verdict red"' in first
    [series] = (out / "site").glob("*/index.html")
    assert series.read_text().count('class="badge part"') == 5
    assert "c2" in capsys.readouterr().out, "what locate says of the slow node"
    with refused_as("name-taken"):
        demo.make(out)


def test_a_folder_that_cannot_be_written_is_refused(tmp_path, monkeypatch):
    (tmp_path / "file").touch()
    with refused_as("cannot-write"):
        demo.make(tmp_path / "file" / "demo")

    def full(*_):
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(shutil, "copytree", full)
    with refused_as("cannot-write", match="No space left"):
        demo.make(tmp_path / "demo")


def test_the_reason_of_a_case_is_the_reference_that_it_missed_by_most():
    store = Store(demo.RECORDED)
    [system] = store.systems
    rows = {row["case"]: row for row in site.light_cases(store, system).to_dicts()}
    failed = [case for case in store.session().cases if case.result == "fail"]
    assert failed
    for case in failed:
        missed = [gate for gate in case.gates if gate.outcome == "fail"]
        assert rows[case.uuid]["check"] == asdict(min(missed, key=lambda gate: gate.value or 0))


def test_report_and_site_count_a_miss_that_is_not_judged_as_no_failure(tmp_path):
    store = Store(demo.RECORDED)
    [system] = store.systems
    nights = site.judge(store, system, site.light_cases(store, system), {})
    [night] = [one for one in nights if one.counts.get("unjudged")]
    assert "failed" not in night.counts and night.state.name == "part"
    lines = session.write(store, store.session(night.session), tmp_path, tmp_path / "r.html")
    assert "1 not judged" in lines[2] and "failed" not in lines[2]

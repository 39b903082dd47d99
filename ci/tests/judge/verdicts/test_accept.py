"""Acceptance: the decision, the exit status, and a record that holds what it should."""

import json
from pathlib import Path
from xml.etree import ElementTree

import msgspec
import pytest

from dataset_here import HERE, ask, write_before, write_session, write_sessions
from mpibench import answers
from mpibench.judge import accept, comparison
from mpibench.pages import acceptance as acceptance_record
from mpibench.store.store import Store
from refusals import refused_as
from synthetic_session import gate as reference_gate
from synthetic_verdicts import SIZES, by

SIDES = ("baseline", "candidate")


def run(*words, baseline="latest~1", candidate="latest"):
    sides = f"--baseline {baseline} --candidate {candidate} --out out"
    return ask(f"accept {sides}", *words)


def record():
    data = json.loads(Path("out/accept.json").read_text())
    msgspec.convert(data, answers.Accept)
    return data


def junit():
    return ElementTree.parse("out/accept.xml").getroot()


def page():
    return Path("out/accept.html").read_text()


def test_the_same_machine_is_accepted_and_five_percent_refused():
    """Noise of the mini-cluster's eth1g at large messages (under 1 %), with five nights before."""
    write_before(noise=0.006)
    write_sessions(2, noise=0.006)
    said = run()
    assert said.status == 0 and said.out.startswith("ACCEPTED: 21 metrics: ")
    assert record()["finding"] == ""
    assert 'class="stamp pass"' in page()
    write_session(2, noise=0.006, change=by(1.06, "Uniband"))
    said = run()
    found = record()
    assert said.status == 1 and found["headline"] == said.out.splitlines()[0]
    assert found["headline"].startswith(f"NOT ACCEPTED: {found['finding']}; 21 metrics: ")
    first_screen, _, _ = page().partition("Sessions</h2>")
    _, _, worst = first_screen.partition('class="stamp regressed"')
    assert "Uniband" in worst and worst.count("<tr>") == 4


#: Of two stacks, b is so much slower.
OF_B = by(1.3, stack="b")
AB = {"stacks": ("a", "b")}


def test_what_refuses_comes_before_what_is_open():
    """One stack has too few repeats for a verdict, and the other is 30 % slower."""
    few = {"edit": lambda row: row if row["stack"] == "b" or row["repeat"] == 1 else None}
    write_before(**AB)
    write_session(0, **AB)
    write_session(1, change=OF_B, **AB, **few)
    assert run().status == 1
    said = [line.partition(":")[0] for line in record()["sentences"]]
    assert said[:3] == ["regressed", "regressed", "too few repeats"]
    write_session(2, **AB, **few)
    assert run().status == 3
    assert record()["finding"].startswith("too few repeats: ")
    written = Path("out/accept.json").read_text()
    assert "NaN" not in written and "Infinity" not in written
    assert "nan" not in page().replace("nanosecond", "")


def test_the_record_says_what_changed_and_signs_the_values():
    write_before()
    for number, text in enumerate(("aa", "bb")):
        condition = {
            "machine": {"kernel": [text], "driver": "mlx5_core 5.0"},
            "programs": {"IMB-MPI1": text},
            "stack_environment": {"A": text},
            "suites": {"imb": {"version": "2021.11", "compiler": text}},
            "measured_with": {"commit": text, "modified": number > 0, "packages": {"scipy": text}},
        }
        version = f"5.0.1{number}"
        write_session(number, condition=condition, mpi_version=version, change=by(1 + number))
    assert run().status == 1
    found = record()
    changed = ("aa", "bb")
    assert {row["what"]: (row["before"], row["after"]) for row in found["changed"]} == {
        "kernel": changed,
        "MPI of openmpi-spack": ("openmpi 5.0.10", "openmpi 5.0.11"),
        "library of openmpi-spack": ("Open MPI v5.0.10", "Open MPI v5.0.11"),
        "lock hash of openmpi-spack": ("hash-5.0.10", "hash-5.0.11"),
        "IMB-MPI1 of openmpi-spack, SHA-256": changed,
        "imb compiler of openmpi-spack": changed,
        "A of openmpi-spack": changed,
        "commit of the tests": changed,
        "tests changed since that commit": ("no", "yes"),
        "package scipy": changed,
    }
    [identity] = found["candidate"]["identities"]
    signed = [identity["session"], *(found[side]["values_sha256"] for side in SIDES)]
    assert all(text in page() for text in signed)
    assert "http:" not in page()
    assert "content=\"default-src 'none'; script-src 'none';" in page()
    (job,) = found["candidate"]["jobs"]
    assert (job["job_id"], job["nodelist"], job["outputdir"]) == ("101", "n1,n2", "out")
    assert run().status == 1
    assert record()["candidate"]["values_sha256"] == signed[-1]


def test_junit_has_a_failure_per_regressed_or_missing_metric():
    """Of which what is slower is to be measured again."""
    write_before()
    write_session(0)
    write_session(1, sizes=SIZES[:-1], change=by(1.3, "Uniband", 64))
    assert run().status == 1
    cases = junit().findall(".//testcase")
    assert len(cases) == 22
    assert {
        case.get("name"): failure.get("type") for case in cases for failure in case.iter("failure")
    } == {
        "PingPong latency_us 4 MiB": "missing",
        "Uniband bandwidth_mb_per_s 4 MiB": "missing",
        "Uniband bandwidth_mb_per_s 64 B": "regressed",
        "decision": "refused",
    }
    found = accept.decide(Store(HERE), "latest~1", "latest")
    [slow] = comparison.called(found.judgement).to_dicts()
    assert (slow["benchmark"], slow["message_bytes"], slow["band"]) == ("Uniband", 64, "small")
    assert slow["slower"] == pytest.approx(0.3, abs=0.02)


def test_sides_that_cannot_be_compared_are_one_sentence():
    """With several systems in the dataset the candidate's session says which is meant."""
    assert run().status == 2
    before, ours = (write_session(number) for number in range(2))
    theirs = write_session(5, system="elsewhere")
    newer_first = (ours, before)
    sides = [(ours, ours), newer_first, (theirs[:9], ours), (before, theirs)]
    for baseline, candidate in [*sides, ("latest~7", ours), ("rubbish", ours)]:
        said = run(baseline=baseline, candidate=candidate)
        assert said.status == 2 and said.err.count("\n") == 1
    assert run(baseline=before, candidate=ours).status == 3
    assert record()["system"] == "testbed"


def test_a_side_without_values_that_can_be_held_is_refused():
    """Its file of values holds none, is gone, or is of another stack; or nobody knows how it was
    measured.
    """
    before = write_session(0)
    empty = write_session(1, edit=lambda row: None)
    (samples,) = Path("samples").glob(f"*/*/{empty}.parquet")
    for words in ("holds no value", f"{samples} is gone"):
        said = run()
        assert said.status == 2 and words in said.err
        samples.unlink(missing_ok=True)
    for path in HERE.glob(f"cases/*/*/{empty}.parquet"):
        path.unlink()
    for changes, code in (
        ({"stacks": ("mpich-spack",)}, "nothing-measured"),
        ({"where": {"condition": "[" * 5000}}, "file-damaged"),
    ):
        write_session(2, **changes)
        with refused_as(code):
            accept.decide(Store(HERE), before, "latest")


def contradicted(number, **changes):
    """A case that measured over the wrong network, as one of several of a session."""
    wrong = {
        "evidence": "contradicted",
        "result": "fail",
        "fail_phase": "sanity",
        "pinning": "none",
    }
    return {**wrong, "sentences": [f"asked for eth1g, {number} GB went over mgmt"], **changes}


@pytest.mark.parametrize(
    "case",
    [
        contradicted(2),
        contradicted(2, evidence="missing", result="fail_deps", fail_phase=None, samples=0),
        {"fail_phase": "cleanup", "result": "fail", "reason": "no room"},
        {"evidence": "replayed"},
        {"evidence": None},
    ],
)
def test_a_candidate_with_unproven_cases_is_refused_whatever_the_others_say(case):
    """What may be allowed; but then it is not accepted, and a regression is still refused."""
    write_before()
    write_session(0)
    where = [{}, *({**case, "pinning": f"p{n}"} for n in range(3))]
    write_session(1, where=where)
    assert run().status == 1
    found = record()
    assert found["headline"].startswith("NOT ACCEPTED: not proven: openmpi-spack on node, eth1g, ")
    assert "3 of 4 cases of the candidate are not proven; 21 metrics: " in found["headline"]
    assert len(found["candidate"]["unproven"]) == 3
    assert len(junit().findall(".//failure[@type='unproven']")) == 3
    assert "Cases of the candidate that are not proven" in page()
    assert run("--allow-unproven").status == 3
    assert record()["headline"].startswith("INCONCLUSIVE, hence not accepted: not proven")
    write_session(2, where=where, change=by(1.3))
    assert run("--allow-unproven", baseline="latest~2").status == 1


def test_a_candidate_that_proves_nothing_is_refused_with_a_record_that_no_colour_breaks():
    write_session(0)
    said = "it said: \x1b[31mfatal\x1b[0m \x01error <&>"
    write_session(1, where=contradicted(1, sentences=[], reason=said))
    assert run().status == 1
    found = record()
    assert (found["decision"], found["counts"]["missing"]) == ("refused", 21)
    assert found["finding"].startswith("not proven: ") and found["candidate"]["values"] == 0
    messages = [failure.get("message") for failure in junit().iter("failure")]
    assert any("it said: fatal error <&>" in message for message in messages)
    for name in acceptance_record.FILES:
        assert not {"\x1b", "\x01"} & set(Path("out", name).read_text())


def test_skipped_repeated_and_placement_cases_owe_no_proof():
    """Nor is the candidate held to what the baseline could not prove, which the headline says."""
    write_before()
    write_session(0, where=[{}, contradicted(2, pinning="scatter")])
    skipped = {"result": "skip", "evidence": None, "samples": 0}
    again = {**contradicted(2), "superseded": True}
    placement = {"group": "placement", "samples": 0}
    fixture = {"measurement": False, "evidence": "missing", "samples": 0}
    fixture |= {"group": None, "fabric": None}
    others = [{"pinning": "scatter"}, skipped, again, placement, fixture]
    write_session(1, where=[{"run": 1}, *others])
    assert run().status == 0
    found = record()
    assert found["candidate"]["unproven"] == []
    said = "ACCEPTED: 1 of 2 cases of the baseline are not proven; "
    assert found["headline"].startswith(said)


def test_an_earlier_record_is_kept_and_never_taken_for_todays(monkeypatch):
    """Also where that of today cannot be written, of which no half is left."""
    write_before()
    write_sessions(2)
    assert run().status == 0
    out = Path("out")
    signed = page()
    assert run(baseline="rubbish").status == 2
    assert [path.name for path in out.iterdir()] == ["earlier"]
    (kept,) = (out / "earlier").iterdir()
    assert (kept / "accept.html").read_text() == signed
    write = Path.write_text

    def fail(path, *words, **options):
        if "accept.html" in path.name:
            raise OSError(28, "No space left on device")
        return write(path, *words, **options)

    monkeypatch.setattr(Path, "write_text", fail)
    assert run().status == 2
    assert [path.name for path in out.iterdir()] == ["earlier"]
    monkeypatch.undo()
    for _ in range(2):
        assert run().status == 0
    assert len(list((out / "earlier").iterdir())) == 2


def of_reference(value):
    return {
        "gates": [reference_gate("Uniband.line_rate_fraction.4194304", value, 0.5, "1", "physics")]
    }


@pytest.mark.parametrize(("before", "status"), [(0.9, 1), (0.2, 0)])
def test_a_reference_that_the_baseline_reached_and_the_candidate_missed_refuses(before, status):
    """Whatever the curves leave open. What the baseline missed the candidate is not held to; but
    the headline says it, and that the machine was busy.
    """
    write_before()
    write_session(0, where=of_reference(before))
    missed = {**of_reference(0.2), "result": "fail", "fail_phase": "performance"}
    write_session(1, where=missed, condition={"lost_cores": True}, mpi_version="5.0.11")
    assert run().status == status
    headline = record()["headline"]
    refused = headline.startswith("NOT ACCEPTED: missed a reference that the baseline met: ")
    assert refused is bool(status)
    assert "1 of 1 case of the candidate failed (ImbPointToPoint " in headline
    assert " and missed 1 reference; the candidate: in 1 of 1 case ranks often lost" in headline


def test_what_was_left_out_is_said_in_every_form():
    """The slow half is left out by --where: accepted is a part,
    which headline, record and JUnit say.
    """
    write_before(**AB)
    write_session(0, **AB)
    write_session(1, change=OF_B, **AB)
    assert run().status == 1
    assert run("--where", "stack == 'a'").status == 0
    said = "only a part is judged, 1 of 2 cases of the candidate and 1 of 2 cases of the baseline"
    found = record()
    assert found["headline"].startswith(f"ACCEPTED: {said}")
    assert [found[side]["cases_left_out"] for side in SIDES] == [1, 1]
    for name in ("accept.xml", "accept.html"):
        assert said in Path("out", name).read_text()


def test_unlike_levels_are_said_instead_of_a_hundred_absences():
    many = {f"Call{number}": "t_avg_us" for number in range(20)}
    write_session(0, condition={"depth": "nightly"}, benchmarks=many)
    write_session(1, condition={"depth": "smoke"}, benchmarks={"Call0": "t_avg_us"})
    status, out, _ = run()
    lines = out.splitlines()
    assert status == 1
    said = "  different modes: the baseline was measured as nightly, the candidate as smoke; 209 "
    assert lines[3].startswith(said)
    assert len([line for line in lines if line.startswith("  missing: ")]) == 1

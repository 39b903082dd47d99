"""The papers' claims asked of stored sessions whose figures are known."""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path

import pytest

import published_tables as papers
from linked_sessions import KIB, MIB, NIGHTLY, OPA, Job, dual_rail, level, write
from mpibench import cli
from mpibench.published import session_answer, session_claims
from mpibench.published.claims import FAILS, HOLDS
from mpibench.published.session_claims import NOT_MEASURED, SessionClaimAnswer, SessionClaims
from reframe_tests.harness.vocabulary import BadInput

DUAL = "opa-dual-rail"


def ask(folder: Path, jobs: Iterable[Job], system: str = DUAL, **options: str) -> SessionClaims:
    """What a session of these jobs says."""
    write(folder, list(jobs), system=system, **options)
    return session_claims.ask(folder, system, "latest")


def of_claim(found: SessionClaims, name: str, fabric: str = "") -> list[SessionClaimAnswer]:
    return [one for one in found.answers if one.claim.id == name and fabric in ("", one.over.fabric.name)]


def only(found: SessionClaims, name: str, fabric: str = "") -> SessionClaimAnswer:
    (answer,) = of_claim(found, name, fabric)
    return answer


def one_rank(values: dict[int, float], benchmark: str = "Uniband") -> Job:
    return Job("opa100", 1, {benchmark: values})


def test_the_articles_machine_bears_its_claims_out(tmp_path: Path) -> None:
    found = ask(tmp_path, dual_rail())
    held = {(one.claim.id, one.over.fabric.name) for one in found.answers if one.outcome == HOLDS}
    assert held == {
        *(("uniband-32k", "opa100"), ("biband-128k", "opa100")),
        *(("uniband-rank-a-rail", "opa200"), ("biband-rank-a-rail", "opa200")),
        *(("striped-rank", "opa200_striped"), ("striped-rank-against-rank-a-rail", "opa200_striped")),
        *(("striped-rank-against-one-rail", "opa200_striped"),),
        *(("exchange-above-unidirectional", "opa100"), ("exchange-above-unidirectional", "opa200_striped")),
    }
    assert found.count(FAILS) == 0 and session_answer.status(found) == 0
    assert found.count(NOT_MEASURED), "what is not measured neither holds nor fails"


@pytest.mark.parametrize("size", NIGHTLY)
def test_every_size_from_32_kib_up_is_asked(tmp_path: Path, size: int) -> None:
    found = ask(tmp_path, [one_rank({**level(OPA), size: 0.9 * OPA, 16 * KIB: 0.1 * OPA})])
    answer = only(found, "uniband-32k", "opa100")
    assert answer.outcome == FAILS
    assert [(one.message_bytes, one.value, one.under, one.at_least) for one in answer.failing] == [(size, 11250, 12500, 0.95)]
    assert session_answer.status(found) == 1


def test_what_is_below_the_first_size_does_not_matter_and_what_is_above_does(tmp_path: Path) -> None:
    below = level(0.1 * OPA, (1, 1024, 16 * KIB))
    assert only(ask(tmp_path / "a", [one_rank({**below, **level(OPA)})]), "uniband-32k", "opa100").outcome == HOLDS
    above = ask(tmp_path / "b", [one_rank({**level(OPA), 4 * MIB: 0.5 * OPA, 2 * MIB: 0.9 * OPA})])
    answer = only(above, "uniband-32k", "opa100")
    assert [one.message_bytes for one in answer.failing] == [4 * MIB, 2 * MIB], "the worst first"
    assert session_answer.answer_text(answer) == (
        "does not hold: intelmpi-2019 on dual, opa100, 2 x 1, default: 32 KiB to 4 MiB; "
        "6250 MB/s at 4 MiB is 0.500 of 12500 MB/s, wanted at least 0.95, at most 1.03; nor at 2 MiB"
    )


def test_more_than_the_line_rate_does_not_hold_where_it_is_shown(tmp_path: Path) -> None:
    burst = ask(tmp_path / "a", [one_rank({**level(OPA), 64 * KIB: 1.3 * OPA})])
    assert only(burst, "uniband-32k", "opa100").outcome == HOLDS
    two_networks = ask(tmp_path / "b", [one_rank({**level(OPA), MIB: 1.3 * OPA})])
    assert only(two_networks, "uniband-32k", "opa100").outcome == FAILS


def test_a_size_that_is_missing_is_not_measured(tmp_path: Path) -> None:
    """Not even where all others hold."""
    sizes = [size for size in NIGHTLY if size != 128 * KIB]
    found = ask(tmp_path, [one_rank(level(OPA, sizes))])
    answer = only(found, "uniband-32k", "opa100")
    assert (answer.outcome, answer.unusable) == (NOT_MEASURED, False)
    assert answer.why == "these sessions lack Uniband with 1 on each of 2 nodes on opa100 at 128 KiB"
    assert session_claims.command(DUAL, [answer]) == (
        "reframe -c reframe_tests -r -n ImbParallelTransfer --system=opa-dual-rail:dual -P fabric=opa100 -P nodes=2 -P ppn=1 "
        "-P pinning=default -p 'intelmpi-2019$'"
    )
    assert session_answer.status(found) == session_answer.NOTHING_MEASURED, "and so nothing was answered"


def test_one_rank_that_is_not_striped_fails_and_is_named(tmp_path: Path) -> None:
    """The figure of one rail where two were to carry it."""
    found = ask(tmp_path, dual_rail(striped=Job("opa200_striped", 1, {"Uniband": level(OPA)})))
    assert {one.claim.id for one in found.answers if one.outcome == FAILS} == {
        *("striped-rank", "striped-rank-against-rank-a-rail", "striped-rank-against-one-rail"),
    }
    assert only(found, "striped-rank-against-one-rail").nearest.ratio == pytest.approx(1)


def test_ranks_on_one_rail_do_not_saturate_two(tmp_path: Path) -> None:
    found = ask(tmp_path, dual_rail(two=Job("opa200", 2, {"Uniband": level(OPA), "Biband": level(2 * OPA)})))
    assert only(found, "uniband-rank-a-rail").nearest.ratio == only(found, "biband-rank-a-rail").nearest.ratio == 0.5
    assert only(found, "striped-rank-against-rank-a-rail").outcome == HOLDS


def test_stacks_and_pinnings_are_asked_apart(tmp_path: Path) -> None:
    jobs = [replace(one_rank(level(OPA)), pinning=name) for name in ("bunch", "scatter", "nic_remote")]
    jobs[1] = replace(jobs[1], values={"Uniband": level(0.5 * OPA)})
    found = ask(tmp_path, jobs)
    answers = {one.pinning: one.outcome for one in of_claim(found, "uniband-32k", "opa100")}
    assert answers == {"bunch": HOLDS, "scatter": FAILS}, "the article's ranks are next to their adapter"
    write(tmp_path, jobs[:1], stack="mpich-5", number=1)
    both = session_claims.ask(tmp_path, DUAL, "latest,latest~1")
    by_stack = [(one.stack, one.pinning, one.outcome) for one in of_claim(both, "uniband-32k", "opa100")]
    assert by_stack == [
        *(("intelmpi-2019", "bunch", HOLDS), ("intelmpi-2019", "scatter", FAILS), ("mpich-5", "bunch", HOLDS)),
    ]


def test_two_sessions_answer_what_one_alone_does_not(tmp_path: Path) -> None:
    one, two, striped = dual_rail()
    write(tmp_path, [one, two])
    write(tmp_path, [striped], number=1)
    alone = only(session_claims.ask(tmp_path, DUAL, "latest"), "striped-rank-against-rank-a-rail")
    assert alone.outcome == NOT_MEASURED and alone.why.endswith("Uniband with 2 on each of 2 nodes on opa200 at 1 MiB")
    assert "-P fabric=opa200_striped,opa200 -P nodes=2 -P ppn=1,2 " in session_claims.command(DUAL, [alone])
    both = session_claims.ask(tmp_path, DUAL, "latest~1,latest")
    assert only(both, "striped-rank-against-rank-a-rail").outcome == HOLDS


def test_the_median_of_jobs_counts(tmp_path: Path) -> None:
    """One slow job of three changes nothing, two do."""
    slow, good = one_rank(level(0.5 * OPA)), one_rank(level(OPA))
    assert only(ask(tmp_path / "a", [good, slow, good]), "uniband-32k", "opa100").outcome == HOLDS
    assert only(ask(tmp_path / "b", [slow, good, slow]), "uniband-32k", "opa100").outcome == FAILS


def test_what_was_measured_with_options_answers_nothing(tmp_path: Path) -> None:
    found = ask(tmp_path, [replace(one_rank(level(OPA)), variant="off_cache=-1")])
    assert only(found, "uniband-32k", "opa100").outcome == NOT_MEASURED


def test_a_bandwidth_of_nothing_does_not_hold(tmp_path: Path) -> None:
    found = ask(tmp_path / "a", [one_rank({**level(OPA), 256 * KIB: 0.0})])
    assert [one.value for one in only(found, "uniband-32k", "opa100").failing] == [0.0]
    two = Job("opa200", 2, {"Uniband": level(0.0)})
    answer = only(ask(tmp_path / "b", dual_rail(two=two)), "striped-rank-against-rank-a-rail")
    assert (answer.outcome, answer.unusable, answer.why) == (NOT_MEASURED, True, "what it is compared with is 0 at 1 MiB")


@pytest.mark.parametrize(
    ("result", "evidence", "why"),
    [("fail", "contradicted", "has no proof of its condition"), ("abort", "proven", "failed")],
)
def test_what_may_not_be_used_is_never_green(tmp_path: Path, result: str, evidence: str, why: str) -> None:
    """All others hold; this one was measured, and nobody knows what."""
    one, two, striped = dual_rail()
    found = ask(tmp_path, [one, two, replace(striped, result=result, evidence=evidence)])
    answer = only(found, "striped-rank")
    assert (answer.outcome, answer.unusable) == (NOT_MEASURED, True)
    assert answer.why == f"a case of it in these sessions {why}"
    assert found.count(HOLDS) and not found.count(FAILS)
    assert session_answer.status(found) == session_answer.NOTHING_MEASURED
    assert "of these because what was measured may not be used" in session_answer.headline(found)


def test_a_session_without_any_proof_measures_nothing(tmp_path: Path) -> None:
    found = ask(tmp_path, [replace(job, evidence="missing", result="fail") for job in dual_rail()])
    assert session_answer.status(found) == session_answer.NOTHING_MEASURED
    assert "NOTHING MEASURED that a claim asks for" in session_answer.headline(found)


def test_a_session_of_something_else_measures_nothing(tmp_path: Path) -> None:
    found = ask(tmp_path, [Job("opa100", 1, {"PingPong": level(5.0)}, group="p2p")])
    assert session_answer.status(found) == session_answer.NOTHING_MEASURED
    assert not found.count(HOLDS) + found.count(FAILS)
    assert all("nothing of these sessions is on" in one.why for one in found.answers if one.stack is None)


def test_only_pingpong_of_its_own_program_answers(tmp_path: Path) -> None:
    """4 MiB in 370 us are 11336 MB/s; IMB-MPI1 has a PingPong, too."""
    times = {4 * MIB: 370.0}
    other = ask(tmp_path / "a", [Job("opa100", 1, {"PingPong": times}, group="p2p")])
    assert only(other, "pingpong-bandwidth", "opa100").outcome == NOT_MEASURED
    found = ask(tmp_path / "b", [Job("opa100", 1, {"PingPong": times}, group="p2p_pairs")])
    answer = only(found, "pingpong-bandwidth", "opa100")
    assert (answer.outcome, answer.nearest.value) == (HOLDS, pytest.approx(4 * MIB / 370))


def test_tcp_is_held_against_what_its_headers_leave(tmp_path: Path) -> None:
    """117.69 MB/s of 125; the mini-cluster times two ranks and no more."""
    values = {"Uniband": level(117.5), "Biband": level(233.0)}
    found = ask(tmp_path, [Job("eth1g", 1, values, partition="eth1g")], "minicluster", stack="mpich-wheels")
    here = [one for one in found.answers if (one.over.partition, one.stack) == ("eth1g", "mpich-wheels")]
    assert {one.claim.id for one in here if one.outcome == HOLDS} == {
        *("uniband-32k", "biband-128k", "exchange-above-unidirectional"),
    }
    assert only(found, "uniband-32k", "eth10g").why == "nothing of these sessions is on eth10g"
    reasons = {(claim.id, why) for claim, why in found.not_asked}
    assert ("latency-four-tasks-a-link", "it takes 8 ranks, and on eth1g at most 2 are timed (most_timed_ranks)") in reasons
    assert ("striped-rank", "no fabric has striped rails") in reasons
    assert any("no claim is asked of eth40g on eth40g: it has no line rate" in note for note in found.notes)


def test_ibms_own_tables_bear_its_claims_out(tmp_path: Path) -> None:
    """Tables 3a and 4 written as a session of the p5-575; the ratios are those of its printed claims."""
    rows = [
        row
        for (system, name), table in papers.tables().items()
        if system == "ibm-p5-575" and "-bandwidth" in name
        for row in table
    ]
    values: dict[tuple[str, str], dict[str, dict[int, float]]] = {}
    for row in rows:
        if row["benchmark"] in ("Uniband", "Biband"):
            curves = values.setdefault((row["links"], row["ppn"]), {})
            curves.setdefault(row["benchmark"], {})[int(row["message_bytes"])] = float(row["value"])
    jobs = [Job("ib4x", int(ppn), curves, partition=f"links{links}") for (links, ppn), curves in values.items()]
    found = ask(tmp_path, jobs, "ibm-p5-575", stack="pempi-43")
    own = [one for one in found.answers if one.claim.paper == "ibm-p5-575" and one.claim.over.quantity != "latency_us"]
    ratios = {(one.claim.id, one.over.partition): round(one.nearest.ratio, 3) for one in own}
    assert {one.outcome for one in own} == {HOLDS}
    assert ratios == {
        **{("unidirectional-links", "links2"): 1.978, ("unidirectional-links", "links4"): 2.019},
        **{("exchange-one-adapter", "links2"): 1.651, ("exchange-two-adapters", "links4"): 2.033},
        **{("exchange-above-unidirectional", f"links{links}"): ratio for links, ratio in ((1, 1.806), (2, 1.801), (4, 1.803))},
    }


def refused(folder: Path, selector: str = "latest", system: str = DUAL, where: str | None = None) -> str:
    with pytest.raises(BadInput) as caught:
        session_claims.ask(folder, system, selector, where=where)
    sentence = str(caught.value)
    assert "\n" not in sentence and sentence.endswith(".")
    return sentence


def test_bad_input_is_one_sentence(tmp_path: Path) -> None:
    assert "there is no dataset in" in refused(tmp_path)
    session = write(tmp_path, dual_rail())
    other = write(tmp_path, [Job("eth1g", 1, {"Uniband": level(100.0)}, partition="eth1g")], system="minicluster", number=7)
    assert refused(tmp_path, "abcd1234").startswith("selector 'abcd1234' selects none of the 1 sessions in the dataset")
    assert f"session {other} was measured on minicluster and not on opa-dual-rail" in refused(tmp_path, other)
    assert "the dataset holds no system 'ibm-js21'" in refused(tmp_path, session, "ibm-js21")
    assert "no claim can be scaled" in refused(tmp_path, session, "nowhere")
    assert "keeps none of 3 cases" in refused(tmp_path, where="fabric == 'x'")


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        (
            {"line_rate_gbit_per_s": 200.0},
            "with line_rate_gbit_per_s 200.0, where site_configs/opa-dual-rail has 100.0",
        ),
        ({"devices": ["hfi1_1"]}, "with devices ['hfi1_1'], where"),
        ({"striped": True}, "with striped True, where"),
    ],
)
def test_links_described_otherwise_since_then_scale_nothing(tmp_path: Path, changes: dict[str, object], said: str) -> None:
    write(tmp_path, dual_rail(one=replace(one_rank(level(OPA)), changes=changes)))
    assert said in refused(tmp_path)
    found = session_claims.ask(tmp_path, DUAL, "latest", where="fabric != 'opa100'")
    assert only(found, "striped-rank").outcome == HOLDS


def test_two_builds_of_a_stack_are_no_figure(tmp_path: Path) -> None:
    for number, version in enumerate(("5.0.9", "5.0.10")):
        write(tmp_path, dual_rail(), number=number, mpi_version=version)
    assert "has intelmpi-2019 in 2 builds (MPI 5.0.10, 5.0.9): give sessions of one." in refused(tmp_path, "latest,latest~1")
    assert session_claims.ask(tmp_path, DUAL, "latest~1").count(HOLDS)


def run(folder: Path, *words: str) -> int:
    return cli.main(["claims", DUAL, "--session", "latest", "--dataset-only", "--dataset", str(folder), *words])


def test_the_command_says_it_and_its_status(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    name = write(tmp_path, dual_rail())
    assert run(tmp_path) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[0].startswith(f"opa-dual-rail, session {name[:8]}: 9 hold, 0 do not hold, ")
    assert 'opa-dual-rail/striped-rank: "This means that even when using a single rank per node, ' in "\n".join(lines)
    where, said = "intelmpi-2019 on dual, opa200_striped, 2 x 1, default", "24375 MB/s at 1 MiB is 0.975 of 25000 MB/s"
    assert f"  holds: {where}: 1 MiB; {said}, wanted at least 0.9, at most 1.03" in lines
    assert not [line for line in lines if "  does not hold" in line]
    unmeasured = [line for line in lines if line.startswith("  not measured: ")]
    assert unmeasured and all("; measure it with: reframe -c reframe_tests -r -n " in line for line in unmeasured)


def test_the_command_in_json(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    write(tmp_path, dual_rail(striped=Job("opa200_striped", 1, {"Uniband": level(OPA)})))
    assert run(tmp_path, "--json") == 1
    data = json.loads(capsys.readouterr().out)
    assert (data["system"], data["status"], data["does_not_hold"]) == (DUAL, 1, 3)
    assert data["holds"] + data["does_not_hold"] + data["not_measured"] == len(data["claims"])
    (row,) = (one for one in data["claims"] if one["claim"] == "opa-dual-rail/striped-rank")
    assert (row["outcome"], row["stack"], row["pinning"], row["command"]) == (FAILS, "intelmpi-2019", "default", None)
    assert row["sizes"] == [
        *(
            {
                "message_bytes": MIB,
                "holds": False,
                "value": OPA,
                "under": 2 * OPA,
                "ratio": 0.5,
                "at_least": 0.9,
                "at_most": 1.03,
            },
        ),
    ]
    assert all(one["command"] for one in data["claims"] if one["outcome"] == NOT_MEASURED)


def test_the_command_without_a_session_is_as_before_and_takes_json(capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["claims", "ibm-p5-575", "--json"]) == 0
    data = json.loads(capsys.readouterr().out)
    assert [row["outcome"] for row in data["claims"]] == [HOLDS] * 5
    assert cli.main(["claims", "ibm-p5-575", "--dataset-only"]) == 2
    assert "give --session, too." in capsys.readouterr().err

"""What a session must hold: holes are found however old they are, and only a reviewed line closes one."""

from __future__ import annotations

import ast
import inspect
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
from reframe.frontend import cli as reframe_cli

from mpibench import cli
from mpibench.judge import expected
from mpibench.store import selection_options
from mpibench.store.store import Store
from reframe_tests.harness.vocabulary import BadInput
from synthetic_stack import write_stack
from synthetic_verdicts import FIRST, write_session

NIGHTLY = {"run": "nightly"}
BOTH = ("a-spack", "b-spack")


def judge(folder: Path, session: str, **options: Any) -> expected.Completeness:
    return expected.judge(Store(folder / "set"), "testbed", session, root=folder, **options)


def night(folder: Path, number: int, **options: Any) -> str:
    return write_session(folder / "set", number, sizes=(8,), **{"labels": NIGHTLY, "stacks": BOTH, **options})


def groups(folder: Path, number: int, places: Mapping[str, str]) -> str:
    """A night with one case per stack and group, each group on a fabric."""
    return night(folder, number, where=[{"group": group, "fabric": fabric} for group, fabric in places.items()])


def write_file(folder: Path, text: str) -> None:
    path = expected.path_of("testbed", folder)
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)


def test_a_stack_that_vanished_is_missing_every_night_until_it_is_retired(tmp_path: Path) -> None:
    for number in range(3):
        night(tmp_path, number)
    for number in range(3, 9):
        gone = night(tmp_path, number, stacks=BOTH[:1])
    answer = judge(tmp_path, gone)
    assert not answer.complete
    assert (answer.expected, answer.there) == (4, 2)
    (line,) = answer.missing
    assert line == (
        "missing: stack b-spack: none of the 2 expected of it is proven; not among the cases of this session; "
        "last proven 2026-01-07 in session 00000003"
    )
    write_file(tmp_path, "retired: [{stack: b-*, date: 2026-01-07, reason: licence ended}]")
    answer = judge(tmp_path, gone)
    assert answer.complete and answer.expected == 2
    assert "2 retired" in answer.summary


def test_a_retired_stack_that_comes_back_is_expected_again(tmp_path: Path) -> None:
    for number in range(4):
        night(tmp_path, number)
    write_file(tmp_path, "retired: [{stack: b-spack, date: 2026-01-06, reason: replaced}]")
    assert not judge(tmp_path, night(tmp_path, 5, stacks=BOTH[:1])).complete


def test_what_failed_the_night_before_is_still_expected(tmp_path: Path) -> None:
    """A hole after a failure is no silence: the failure was never a proof, the night before it was."""
    night(tmp_path, 0)
    night(tmp_path, 1, evidence="contradicted", result="fail")
    gone = night(tmp_path, 2, stacks=BOTH[:1])
    assert "last proven 2026-01-05" in judge(tmp_path, gone).missing[0]
    failed = night(tmp_path, 3, evidence="contradicted", result="fail", where={"reason": "asked for a, went over b"})
    answer = judge(tmp_path, failed)
    assert answer.there == 0 and "failed: asked for a, went over b" in answer.missing[0]
    skipped = night(tmp_path, 4, result="skip", evidence="", where={"reason": "no topology"})
    assert "skipped: no topology" in judge(tmp_path, skipped).missing[0]


def test_fabric_group_and_benchmark_are_missed_by_name(tmp_path: Path) -> None:
    groups(tmp_path, 0, {"p2p": "eth1g", "transfer": "hdr200", "collectives": "hdr200"})
    assert judge(tmp_path, groups(tmp_path, 1, {"p2p": "eth1g", "transfer": "hdr200", "collectives": "hdr200"})).complete
    (line,) = judge(tmp_path, groups(tmp_path, 2, {"p2p": "eth1g"})).missing
    assert line.startswith("missing: fabric hdr200: none of the 8 expected of it is proven")
    (line,) = judge(tmp_path, groups(tmp_path, 3, {"p2p": "eth1g", "transfer": "hdr200"})).missing
    assert line.startswith("missing: group collectives: none of the 4 expected of it is proven")
    lacking = night(tmp_path, 4, benchmarks={"PingPong": "latency_us"}, where={"fabric": "eth1g"})
    lines = judge(tmp_path, lacking).missing
    assert "missing: partition node, stack a-spack, fabric eth1g, group p2p: benchmark Uniband; " in "\n".join(lines)


def test_another_label_or_system_is_another_series(tmp_path: Path) -> None:
    night(tmp_path, 0)
    night(tmp_path, 1, stacks=("c-spack",), system="elsewhere")
    night(tmp_path, 2, labels={"run": "smoke"}, stacks=BOTH[:1])
    answer = judge(tmp_path, night(tmp_path, 3, labels={"run": "smoke"}, stacks=BOTH[:1]))
    assert answer.complete and "2 of 2 expected there (1 earlier session of its label" in answer.summary


def test_a_session_of_which_nothing_is_known_is_not_complete(tmp_path: Path) -> None:
    first = night(tmp_path, 0)
    assert judge(tmp_path, first).missing == (
        "missing: nothing says what this session must hold: no earlier session, expected.yaml, the system's description",
    )


def test_a_partial_session_is_not_complete_unless_that_is_asked_for(tmp_path: Path) -> None:
    night(tmp_path, 0)
    command = "reframe -c reframe_tests -r -p a-spack"
    partial = night(tmp_path, 1, stacks=BOTH[:1], command_line=command)
    answer = judge(tmp_path, partial)
    assert [line.partition(":")[0] for line in answer.missing] == ["partial", "missing"]
    answer = judge(tmp_path, partial, partial=True)
    assert answer.complete
    assert answer.summary.startswith("partial (started with --prgenv=a-spack): 2 of 2 expected there (")
    assert answer.summary.endswith(", 2 more not asked for")
    everything = night(tmp_path, 2, command_line=command)
    assert not judge(tmp_path, everything).complete, "it had all, but nobody can know what it would have had"
    lacking = night(tmp_path, 3, stacks=BOTH[:1], benchmarks={"PingPong": "latency_us"}, command_line=command)
    assert "benchmark Uniband" in judge(tmp_path, lacking, partial=True).missing[0]
    write_file(tmp_path, "runs: {nightly: {options: [-p a-spack]}}")
    assert [line.partition(":")[0] for line in judge(tmp_path, partial).missing] == ["missing"]


@pytest.mark.parametrize("known", [True, False])
def test_of_a_partial_session_of_what_is_not_known_its_own_cases_are_expected(tmp_path: Path, known: bool) -> None:
    """A test that was never measured here, asked for by its name."""
    if known:
        night(tmp_path, 0)
    new = {"group": "pair_map", "name": "PairMap"}
    command = "reframe -c reframe_tests -r -n PairMap"
    answer = judge(tmp_path, night(tmp_path, 1, where=new, command_line=command), partial=True)
    assert answer.complete and (answer.expected, answer.there) == (2, 2) and "its own jobs" in answer.summary
    assert answer.not_asked == (4 if known else 0)
    failed = night(
        tmp_path, 2, where={**new, "reason": "no proof"}, command_line=command, evidence="contradicted", result="fail"
    )
    assert not judge(tmp_path, failed, partial=True).complete


def test_a_modes_own_options_make_no_session_of_its_label_partial(tmp_path: Path) -> None:
    """ReFrame forgets ``-p`` beside ``--mode``, so that the mode's options are given one by one."""
    line = "reframe -c reframe_tests -r -t smoke -S level=smoke -p a-spack"
    write_file(tmp_path, "runs: {smoke: {options: [-p a-spack]}}")
    file = expected.load_file("testbed", tmp_path)
    assert file.narrowing(line, "smoke") == ()
    assert expected.ExpectedFile().narrowing(line, "smoke") == ("--prgenv=a-spack",)
    assert file.narrowing(line, "nightly") == ("--tag=smoke", "--prgenv=a-spack")
    assert file.narrowing(None, "smoke") == ()


def test_what_a_night_has_time_for_is_a_whole_night_and_no_whole_acceptance() -> None:
    line = "reframe -c reframe_tests -r -t production -S level=acceptance"
    file = expected.ExpectedFile()
    assert (file.narrowing(line, "nightly"), file.narrowing(line, "acceptance")) == ((), ("--tag=production",))


def test_the_file_names_what_must_be_there(tmp_path: Path) -> None:
    night(tmp_path, 0, stacks=BOTH[:1])
    first = night(tmp_path, 1, stacks=BOTH[:1])
    assert judge(tmp_path, first).complete
    write_file(tmp_path, "runs: {nightly: {expected: [{stack: [a-spack, c-spack], fabric: eth*}]}}")
    answer = judge(tmp_path, first)
    assert answer.missing == ("missing: stack c-spack, fabric eth*; not among the cases of this session",)
    write_file(tmp_path, "runs: {nightly: {expected: [{stack: a-*, benchmark: Uniband}]}, nigthly: {expected: [{stack: x}]}}")
    answer = judge(tmp_path, first)
    assert answer.complete
    assert answer.notes == ("site_configs/testbed/expected.yaml: runs.nigthly: no session carries this label",)
    write_file(tmp_path, "history: false\nruns: {nightly: {expected: [{stack: a-spack}]}}")
    night(tmp_path, 2)
    answer = judge(tmp_path, night(tmp_path, 3, stacks=BOTH[:1]))
    assert answer.complete and "without history" in answer.summary


@pytest.mark.parametrize(
    ("text", "part"),
    [
        ("runs: [", "is not YAML"),
        ("run: {}", "'run' was unexpected"),
        ("runs: {nightly: {expected: [{stak: a}]}}", "runs.nightly.expected.0"),
        ("runs: {nightly: {expected: [{stack: []}]}}", "runs.nightly.expected.0.stack"),
        ("runs: {nightly: {options: [--nocolor]}}", "'--nocolor' selects nothing"),
        ("retired: [{stack: a, date: 2026-01-01}]", "retired.0"),
        ("retired: [{stack: a, date: 2026-01-01, reason: ''}]", "retired.0"),
        ("retired: [{stack: a, date: soon, reason: x}]", "retired.0.date is 'soon'"),
        ("retired: [{stack: a, date: 2999-01-01, reason: x}]", "retired.0.date is 2999-01-01, which is to come"),
        ("retired: [{run: nightly, date: 2026-01-01, reason: x}]", "names nothing that is retired"),
    ],
)
def test_a_bad_file_is_one_sentence(tmp_path: Path, text: str, part: str) -> None:
    write_file(tmp_path, text)
    with pytest.raises(BadInput) as caught:
        expected.load_file("testbed", tmp_path)
    assert part in str(caught.value) and "\n" not in str(caught.value)


SYSTEM = """
system = {"name": "testbed", "descr": "d", "hostnames": ["x"], "partitions": [{
    "name": "node", "descr": "d", "scheduler": "local", "launcher": "local",
    "extras": {"stacks": ["*-spack"], "fabrics": {"eth1g": {"transport": "tcp", "scope": "cluster",
        "rails": [{"device": "eth0"}]}, "shm": {"transport": "shm", "scope": "node"}}}}]}
"""


def test_a_first_night_is_held_against_registered_stacks_and_described_fabrics(tmp_path: Path) -> None:
    path = tmp_path / "site_configs" / "testbed" / "system.py"
    path.parent.mkdir(parents=True)
    path.write_text(SYSTEM)
    for name in ("a-spack", "b-spack", "c-wheels"):
        write_stack(tmp_path / "environments" / name, name=name)
    answer = judge(tmp_path, night(tmp_path, 0, stacks=BOTH[:1]))
    remedy = "never proven here: if it cannot be, retire it in site_configs/testbed/expected.yaml"
    assert answer.missing == (
        f"missing: partition node, stack b-spack; not among the cases of this session; {remedy}",
        f"missing: partition node, fabric shm; not among the cases of this session; {remedy}",
    )
    write_file(tmp_path, "retired: [{fabric: shm, date: 2026-01-01, reason: measured by hand}]")
    assert judge(tmp_path, night(tmp_path, 1)).complete
    (tmp_path / "environments" / "b-spack" / "lib" / "libmpi.so.12").unlink()
    answer = judge(tmp_path, night(tmp_path, 2, stacks=BOTH[:1]))
    assert any("stack 'b-spack' is left out" in line for line in answer.missing)


def test_the_command_tells_and_exits(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    words = ["gate", "--only=completeness", "--dataset-only", "--dataset", str(tmp_path / "set"), "--session"]
    night(tmp_path, 0)
    assert cli.main([*words, night(tmp_path, 1)]) == 0
    assert capsys.readouterr().out.startswith(
        "complete: testbed, session 00000002 (run=nightly, 2026-01-06 02:00 UTC): 4 of 4 "
    )
    gone = night(tmp_path, 2, stacks=BOTH[:1])
    assert cli.main([*words, gone]) == 1
    head, line = capsys.readouterr().out.splitlines()
    assert head.startswith("INCOMPLETE: testbed") and "missing: stack b-spack" in line
    assert cli.main([*words, "ffff0000"]) == 2
    assert cli.main(["gate", *words[2:], gone, "--max-age", "100000"]) == 1
    assert "missing: stack b-spack" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("line", "found"),
    [
        ("reframe --nocolor -c reframe_tests -r --mode=nightly --session-extras run=nightly", ()),
        ("reframe -c /opt/mpibench/reframe_tests -r --report-junit=results/nightly.xml --system=minicluster", ()),
        ("reframe -c reframe_tests -rn ImbPointToPoint", ("--name=ImbPointToPoint",)),
        ("reframe -c reframe_tests -r -t production -S level=nightly", ("--tag=production",)),
        ("reframe -c reframe_tests -r -t maintenance", ()),
        ("reframe -c reframe_tests -r -t smoke", ("--tag=smoke",)),
        ("reframe -c reframe_tests -r -nImbPointToPoint -p '.*'", ("--name=ImbPointToPoint",)),
        ("reframe -c reframe_tests -r --na 'A B' -E 'x == 1'", ("--name=A B", "--filter-expr=x == 1")),
        ("reframe -c reframe_tests -r --system=minicluster:eth1g", ("--system=minicluster:eth1g",)),
        ("reframe -c reframe_tests/placement.py -r", ("--checkpath=reframe_tests/placement.py",)),
        ("reframe -c reframe_tests -c more.py -r", ()),
        ("reframe -c reframe_tests -r -S level=smoke -S valid_systems=a:b", ("--setvar=valid_systems=a:b",)),
        ("reframe -c reframe_tests -r --cpu-only --restore-session=x", ("--cpu-only", "--restore-session=x")),
        ("reframe -c reframe_tests -r --exec-policy=serial --timestamp --max-retries=1", ()),
        ("reframe -c reframe_tests -r --skip-performance-check", ("--skip-performance-check",)),
        ("reframe -c reframe_tests -r --skip-san", ("--skip-sanity-check",)),
        ("reframe -c reframe_tests -r -S paired_stack=x -S level=smoke", ()),
        ("reframe -c reframe_tests -r --disable-hook=set_metrics", ("--disable-hook=set_metrics",)),
        ("reframe -c reframe_tests -r -S strict_check=no -S ImbThreads.repeats=5", ("--setvar=strict_check=no",)),
        ("reframe 'unfinished", ("reframe 'unfinished",)),
    ],
)
def test_options_that_make_a_session_partial(line: str, found: tuple[str, ...]) -> None:
    assert selection_options.narrowing(line) == found


def test_every_selection_option_of_reframe_is_known() -> None:
    """The group ``select_options`` of ReFrame's own parser, name by name."""
    given = {}
    for call in ast.walk(ast.parse(inspect.getsource(reframe_cli))):
        if isinstance(call, ast.Call) and isinstance(call.func, ast.Attribute) and call.func.attr == "add_argument":
            names = [word.value for word in call.args if isinstance(word, ast.Constant) and str(word.value).startswith("-")]
            if not names:
                continue
            given[names[-1]] = (getattr(call.func.value, "id", ""), names)
    assert len(given) > 60
    ours = {long: {long, short} - {""} for long, (short, _, _) in selection_options.NARROWING.items()}
    assert {long: set(names) for long, (group, names) in given.items() if group == "select_options"}.items() <= ours.items()
    assert {long: set(given[long][1]) for long in ours} == ours


def test_a_condition_that_vanished_is_missing_every_night_until_it_is_retired(tmp_path: Path) -> None:
    """Half of the cores or nodes gone: something of every stack, fabric and benchmark is still proven."""
    wheres = [{"nodes": nodes, "ppn": ppn, "ppn_symbol": "full"} for nodes in (2, 4) for ppn in (8, 16)]
    for number in range(3):
        night(tmp_path, number, where=wheres)
    for number in range(3, 7):
        halved = night(tmp_path, number, where=wheres[:1])
    answer = judge(tmp_path, halved)
    assert not answer.complete
    assert answer.missing[0] == (
        "missing: partition node, stack a-spack, fabric eth1g, group p2p: not proven at 2 x 16 bunch, 4 x 16 bunch, "
        "4 x 8 bunch (nodes x processes per node, pinning): PingPong, Uniband; last proven 2026-01-07 in session 00000003"
    )
    assert len(answer.missing) == 2
    write_file(tmp_path, "retired: [{stack: '*', fabric: eth1g, date: 2026-01-07, reason: half of the nodes were sold}]")
    assert judge(tmp_path, halved).complete
    again = night(tmp_path, 8, where=wheres)
    assert judge(tmp_path, again).complete
    assert not judge(tmp_path, night(tmp_path, 9, where=wheres[:1])).complete


def test_a_benchmark_that_vanished_under_one_condition_is_missing(tmp_path: Path) -> None:
    wheres = [{"ppn": ppn} for ppn in (1, 8)]
    night(tmp_path, 0, stacks=BOTH[:1], where=wheres)
    lacking = night(
        tmp_path,
        1,
        stacks=BOTH[:1],
        where=wheres,
        edit=lambda row: None if (row["ppn"], row["benchmark"]) == (8, "Uniband") else row,
    )
    (line,) = judge(tmp_path, lacking).missing
    assert "not proven at 2 x 8 bunch" in line and "): Uniband; last" in line


def test_half_a_curve_or_a_curve_of_zeros_is_missing_every_night(tmp_path: Path) -> None:
    """Level smoke under the label of another, or a link that carries nothing: the benchmark is there by name."""
    for number in range(2):
        write_session(tmp_path / "set", number, labels=NIGHTLY)
    for number in range(2, 5):
        short = write_session(tmp_path / "set", number, labels=NIGHTLY, sizes=(8, 64))
    (line,) = judge(tmp_path, short).missing
    assert "not proven at 2 x 1 bunch" in line
    assert "PingPong (2 of 11 sizes), Uniband (2 of 10 sizes); last proven 2026-01-06" in line
    nothing = write_session(
        tmp_path / "set", 5, labels=NIGHTLY, edit=lambda row: row if row["benchmark"] == "PingPong" else {**row, "value": 0.0}
    )
    (line,) = judge(tmp_path, nothing).missing
    assert line.startswith("missing: partition node, stack openmpi-spack, fabric eth1g, group p2p: benchmark Uniband; ")


def test_a_partial_session_lacks_no_condition_it_was_not_asked_for(tmp_path: Path) -> None:
    night(tmp_path, 0, where=[{"ppn": ppn} for ppn in (1, 8)])
    part = night(tmp_path, 1, where={"ppn": 1}, command_line="reframe -c reframe_tests -r -P ppn=1")
    assert judge(tmp_path, part, partial=True).complete


@pytest.mark.parametrize(
    ("options", "lost"),
    [("-p a-spack", 1), ("-n ppn=1$", 0), ("-n PointToPoint -p a", 1), ("-n /0123abcd", 0), ("-t smoke", 0)],
)
def test_a_partial_session_lacks_the_conditions_its_options_ask_for(tmp_path: Path, options: str, lost: int) -> None:
    """Options that select by something that is not stored say nothing of a condition there is no case of."""
    wheres = [{"ppn": ppn, "name": f"PointToPoint %ppn={ppn}"} for ppn in (1, 8)]
    night(tmp_path, 0, stacks=BOTH[:1], where=wheres)
    line = f"reframe -c reframe_tests -r {options}"
    part = night(tmp_path, 1, stacks=BOTH[:1], where=wheres[0], command_line=line)
    answer = judge(tmp_path, part, partial=True)
    assert [line.count("not proven at 2 x 8 bunch") for line in answer.missing] == [1] * lost


@pytest.mark.parametrize(
    ("options", "partition", "stack", "name", "asked"),
    [
        ("-p a", "node", "a-spack", None, True),
        ("-p '^b' -p a", "node", "a-spack", None, True),
        ("-p spack", "node", "a-spack", None, False),
        ("-p a", "node", None, None, None),
        ("-n 'X %p=1'", None, None, "X %p=1", False),
        ("-n X%p=1", None, None, "X %p=1 %q=2", True),
        ("-n Y -n X", None, None, "X %p=1", True),
        ("-n Y", None, None, "X %p=1", False),
        ("-n X@2", None, None, "X %p=1", None),
        ("-n '('", None, None, "X %p=1", None),
        ("-x p=1 -x p=2", None, None, "X %p=2", False),
        ("-x p=1 -x p=2", None, None, "X %p=3", True),
        ("-x p=1", None, None, None, None),
        ("--system=s:node", "node", None, None, True),
        ("--system=s:node", "node2", None, None, False),
        ("-E x -p b", None, "a-spack", None, False),
        ("-E x -p a", None, "a-spack", None, None),
    ],
)
def test_what_selection_options_ask_for(
    options: str, partition: str | None, stack: str | None, name: str | None, asked: bool | None
) -> None:
    narrowed = selection_options.narrowing(f"reframe {options}")
    assert selection_options.asks_for(narrowed, partition, stack, name) is asked


def test_a_label_that_moves_to_another_system_is_said_every_night_until_it_is_accepted(tmp_path: Path) -> None:
    """As when the site's folder cannot be reached, so that the night is that of the fallback system."""
    night(tmp_path, 0, system="elsewhere")
    for number in (1, 2):
        (moved, *_) = [line for line in judge(tmp_path, night(tmp_path, number)).missing if line.startswith("system: ")]
        assert f"sessions of run=nightly are of elsewhere (last {FIRST:%Y-%m-%d}, session " in moved
        assert "this one is of testbed" in moved and "runs in site_configs/testbed/expected.yaml" in moved
    write_file(tmp_path, "runs: {nightly: {expected: [{group: p2p}]}}")
    assert judge(tmp_path, night(tmp_path, 3)).complete
    smoke = judge(tmp_path, night(tmp_path, 4, labels={"run": "smoke"}))
    assert not [line for line in smoke.missing if line.startswith("system: ")], "another label is another series"

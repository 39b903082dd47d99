"""What a session must hold: holes are found however old they
are, and only a reviewed line closes one.
"""

import inspect
import re
from pathlib import Path

import pytest
from reframe.frontend import cli as reframe_cli

from dataset_here import HERE, write_session
from mpibench.judge import expected
from mpibench.store import selection_options
from mpibench.store.store import Store, StoredNight
from reframe_tests.harness.vocabulary import BadInput
from synthetic_stack import write_stack
from synthetic_verdicts import NIGHTLY, SIZES

BOTH = ("a-spack", "b-spack")


def judge(session, **options):
    return expected.judge(StoredNight(Store(HERE), "testbed", session), root=HERE, **options)


def night(number, **options):
    given = {"labels": NIGHTLY, "stacks": BOTH, "sizes": (8,), **options}
    return write_session(number, **given)


def groups(number, places):
    """A night with one case per stack and group, each group on a fabric."""
    where = [{"group": group, "fabric": fabric} for group, fabric in places.items()]
    return night(number, where=where)


def write_file(text):
    path = expected.path_of("testbed", HERE)
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)


HALVES = [{"nodes": nodes, "ppn": ppn} for nodes in (2, 4) for ppn in (8, 16)]


@pytest.mark.parametrize(
    ("whole", "lost", "words", "retired"),
    [
        ({}, {"stacks": BOTH[:1]}, "stack b-spack: none of its 2 expected cases is", "stack: b-*"),
        (
            {"where": HALVES},
            {"where": HALVES[:1]},
            "group p2p: not proven at 2 x 16 bunch, 4 x 16 bunch, 4 x 8 bunch (nodes x",
            "stack: '*', fabric: eth1g",
        ),
    ],
    ids=["a stack", "a condition"],
)
def test_what_vanished_is_missing_every_night_until_it_is_retired(whole, lost, words, retired):
    """Half of the cores or nodes gone, too: something of every
    stack, fabric and benchmark is still proven.
    """
    for number in range(3):
        night(number, **whole)
    for number in range(3, 6):
        gone = night(number, **lost)
    answer = judge(gone)
    assert (answer.expected, answer.there) == (4, 2) or whole
    line = answer.missing[0]
    assert line.startswith("missing: ") and words in line
    assert line.endswith("last proven 2026-01-07 in session 00000003")
    write_file(f"retired: [{{{retired}, date: 2026-01-07, reason: licence ended}}]")
    assert judge(gone).complete
    assert judge(night(6, **whole)).complete
    again = judge(night(7, **lost))
    assert not again.complete, "it came back, and is expected again"


def test_what_failed_the_night_before_is_still_expected():
    """A hole after a failure is no silence: the failure was
    never a proof, the night before it was.
    """
    night(0)
    failed = {"evidence": "contradicted", "result": "fail", "where": {"reason": "went over b"}}
    answer = judge(night(1, **failed))
    assert answer.there == 0 and "failed: went over b" in answer.missing[0]
    gone = night(2, stacks=BOTH[:1])
    assert "last proven 2026-01-05" in judge(gone).missing[0]


def test_fabric_group_and_benchmark_are_missed_by_name():
    groups(0, {"p2p": "eth1g", "transfer": "hdr200", "collectives": "hdr200"})
    lacking = {"benchmarks": {"PingPong": "latency_us"}, "where": {"fabric": "eth1g"}}
    for session, named in (
        (groups(2, {"p2p": "eth1g"}), "missing: fabric hdr200: none of its 8 expected"),
        (
            groups(3, {"p2p": "eth1g", "transfer": "hdr200"}),
            "missing: group collectives: none of its 4 expected",
        ),
        (night(4, **lacking), "stack a-spack, fabric eth1g, group p2p: benchmark Uni"),
    ):
        assert named in "\n".join(judge(session).missing)


def test_another_label_or_system_is_another_series():
    first = night(0)
    assert not judge(first).complete, "nothing says what it must hold"
    night(1, stacks=("c-spack",), system="elsewhere")
    smoke = {"labels": {"run": "smoke"}, "stacks": BOTH[:1]}
    night(2, **smoke)
    answer = judge(night(3, **smoke))
    assert answer.complete and answer.expected == 2


def test_a_partial_session_is_not_complete_unless_that_is_asked_for():
    night(0)
    command = "reframe -c reframe_tests -r -p a-spack"
    partial = night(1, stacks=BOTH[:1], command_line=command)
    answer = judge(partial)
    assert [line.partition(":")[0] for line in answer.missing] == ["partial", "missing"]
    answer = judge(partial, partial=True)
    assert answer.complete and answer.not_asked == 2
    everything = night(2, command_line=command)
    assert not judge(everything).complete, "nobody can know what it would have had"
    latency = {"benchmarks": {"PingPong": "latency_us"}, "command_line": command}
    lacking = night(3, stacks=BOTH[:1], **latency)
    assert "benchmark Uniband" in judge(lacking, partial=True).missing[0]
    write_file("runs: {nightly: {options: [-p a-spack]}}")
    assert [line.partition(":")[0] for line in judge(partial).missing] == ["missing"]


@pytest.mark.parametrize("known", [True, False])
def test_of_a_partial_session_of_what_is_not_known_its_own_cases_are_expected(known):
    """A test that was never measured here, asked for by its name."""
    if known:
        night(0)
    new = {"group": "pair_map", "name": "PairMap"}
    command = {"command_line": "reframe -c reframe_tests -r -n PairMap"}
    answer = judge(night(1, where=new, **command), partial=True)
    assert answer.complete and (answer.expected, answer.there) == (2, 2)
    assert answer.not_asked == (4 if known else 0)
    failed = night(2, where=new, evidence="contradicted", result="fail", **command)
    assert not judge(failed, partial=True).complete


def test_a_modes_own_options_make_no_session_of_its_label_partial():
    """ReFrame forgets ``-p`` beside ``--mode``, so that the mode's options are given one by one.
    What a night has time for is a whole night, and no whole acceptance.
    """
    line = "reframe -c reframe_tests -r -t smoke -S level=smoke -p a-spack"
    write_file("runs: {smoke: {options: [-p a-spack]}}")
    file = expected.load_file("testbed", HERE)
    assert file.narrowing(line, "smoke") == ()
    assert expected.ExpectedFile().narrowing(line, "smoke") == ("--prgenv=a-spack",)
    assert file.narrowing(line, "nightly") == ("--tag=smoke", "--prgenv=a-spack")
    line = "reframe -c reframe_tests -r -t production -S level=acceptance"
    assert (file.narrowing(line, "nightly"), len(file.narrowing(line, "acceptance"))) == ((), 1)


def test_the_file_names_what_must_be_there():
    night(0, stacks=BOTH[:1])
    first = night(1, stacks=BOTH[:1])
    assert judge(first).complete
    write_file("runs: {nightly: {expected: [{stack: [a-spack, c-spack], fabric: eth*}]}}")
    [line] = judge(first).missing
    assert line.startswith("missing: stack c-spack, fabric eth*; not among")
    named = "{nightly: {expected: [{stack: a-*}]}, nigthly: {expected: [{stack: x}]}}"
    write_file(f"runs: {named}")
    answer = judge(first)
    assert answer.complete and "runs.nigthly: no session" in answer.notes[0]
    write_file("history: false\nruns: {nightly: {expected: [{stack: a-spack}]}}")
    night(2)
    assert judge(night(3, stacks=BOTH[:1])).complete


@pytest.mark.parametrize(
    "text",
    [
        "runs: [",
        "run: {}",
        "runs: {nightly: {expected: [{stak: a}]}}",
        "runs: {nightly: {options: [--nocolor]}}",
        "retired: [{stack: a, date: 2026-01-01, reason: ''}]",
        "retired: [{stack: a, date: soon, reason: x}]",
        "retired: [{stack: a, date: 2999-01-01, reason: x}]",
        "retired: [{run: nightly, date: 2026-01-01, reason: x}]",
    ],
)
def test_a_bad_file_is_one_sentence(text):
    write_file(text)
    with pytest.raises(BadInput):
        expected.load_file("testbed", HERE)


SYSTEM = """
system = {"name": "testbed", "descr": "d", "hostnames": ["x"], "partitions": [{
    "name": "node", "descr": "d", "scheduler": "local", "launcher": "local",
    "extras": {"stacks": ["*-spack"], "fabrics": {"eth1g": {"transport": "tcp", "scope": "cluster",
        "rails": [{"device": "eth0"}]}, "shm": {"transport": "shm", "scope": "node"}}}}]}
"""


def describe(*stacks):
    """Registers stacks, and describes a system of two fabrics."""
    path = Path("site_configs/testbed/system.py")
    path.parent.mkdir(parents=True)
    path.write_text(SYSTEM)
    for name in stacks:
        write_stack(Path("environments", name).absolute(), name=name)


def test_a_first_night_is_held_against_registered_stacks_and_described_fabrics():
    describe(*BOTH, "c-wheels")
    stack, fabric = judge(night(0, stacks=BOTH[:1])).missing
    assert "partition node, stack b-spack; not among" in stack and "never proven here" in stack
    assert "partition node, fabric shm; not among" in fabric
    write_file("retired: [{fabric: shm, date: 2026-01-01, reason: measured by hand}]")
    assert judge(night(1)).complete
    Path("environments/b-spack/lib/libmpi.so.12").unlink()
    answer = judge(night(2, stacks=BOTH[:1]))
    assert any("stack 'b-spack' is left out" in line for line in answer.missing)


@pytest.mark.parametrize(
    ("line", "found"),
    [
        ("--nocolor --mode=nightly --session-extras run=nightly", ()),
        ("-t production -S level=nightly", ("--tag=production",)),
        ("-nImbPointToPoint -p '.*'", ("--name=ImbPointToPoint",)),
        ("--na 'A B' -E 'x == 1'", ("--name=A B", "--filter-expr=x == 1")),
        ("--system=minicluster:eth1g", ("--system=minicluster:eth1g",)),
        ("-S level=smoke -S valid_systems=a:b", ("--setvar=valid_systems=a:b",)),
        ("--cpu-only --restore-session=x", ("--cpu-only", "--restore-session=x")),
        ("--skip-san", ("--skip-sanity-check",)),
        ("--disable-hook=set_metrics", ("--disable-hook=set_metrics",)),
        ("-S strict_check=no -S ImbThreads.repeats=5", ("--setvar=strict_check=no",)),
        ("-c reframe_tests/placement.py", ("--checkpath=reframe_tests/placement.py",)),
        ("'unfinished", ("reframe -r 'unfinished",)),
    ],
)
def test_options_that_make_a_session_partial(line, found):
    assert selection_options.narrowing(f"reframe -r {line}") == found


def test_every_selection_option_of_reframe_is_known():
    """The group ``select_options`` of ReFrame's own parser, name by name."""
    calls = re.findall(
        r"(\w+)\.add_argument\(\s*((?:'-[^']*',?\s*)+)", inspect.getsource(reframe_cli)
    )
    given = {}
    for group, words in calls:
        names = re.findall("-[^']+", words)
        given[names[-1]] = (group, set(names))
    assert len(given) > 60
    ours = {
        long: {long, short} - {""} for long, (short, _, _) in selection_options.NARROWING.items()
    }
    assert {long for long, (group, _) in given.items() if group == "select_options"} <= set(ours)
    assert {long: given[long][1] for long in ours} == ours


def test_half_a_curve_or_a_curve_of_zeros_is_missing_every_night():
    """Level smoke under the label of another, or a link that carries
    nothing: the benchmark is there by name.
    """
    curve = {"sizes": SIZES, "stacks": BOTH[:1]}
    for number in range(2):
        night(number, **curve)
    for number in range(2, 4):
        short = night(number, stacks=BOTH[:1], sizes=(8, 64))
    (line,) = judge(short).missing
    assert "PingPong (2 of 11 sizes), Uniband (2 of 10 sizes); last proven 2026-01-06" in line

    def dead(row):
        return row if row["benchmark"] == "PingPong" else {**row, "value": 0.0}

    (line,) = judge(night(5, edit=dead, **curve)).missing
    assert "group p2p: benchmark Uniband; " in line


@pytest.mark.parametrize(
    ("options", "lost"),
    [("-p a-spack", 1), ("-n PointToPoint -p a", 1), ("-P ppn=1", 0), ("-n /0123abcd", 0)],
)
def test_a_partial_session_lacks_the_conditions_its_options_ask_for(options, lost):
    """Options that select by something that is not stored say
    nothing of a condition there is no case of.
    """
    wheres = [{"ppn": ppn, "name": f"PointToPoint %ppn={ppn}"} for ppn in (1, 8)]
    night(0, stacks=BOTH[:1], where=wheres)
    line = f"reframe -c reframe_tests -r {options}"
    part = night(1, stacks=BOTH[:1], where=wheres[0], command_line=line)
    answer = judge(part, partial=True)
    assert [line.count("not proven at 2 x 8 bunch") for line in answer.missing] == [1] * lost


@pytest.mark.parametrize(
    ("options", "asked"),
    [
        ("-p '^b' -p a", True),
        ("-p spack", False),
        ("-n 'X %p=1'", False),
        ("-n X%p=1", True),
        ("-n Y -n X", True),
        ("-n X@2", None),
        ("-n '('", None),
        ("-x p=1 -x q=2", False),
        ("-x p=2", True),
        ("--system=s:node", True),
        ("--system=s:nod", False),
        ("-E x -p b", False),
        ("-E x -p a", None),
    ],
)
def test_what_selection_options_ask_for(options, asked):
    narrowed = selection_options.narrowing(f"reframe {options}")
    assert selection_options.asks_for(narrowed, "node", "a-spack", "X %p=1 %q=2") is asked


def test_a_label_that_moves_to_another_system_is_said_every_night_until_it_is_accepted():
    """As when the site's folder cannot be reached, so that the
    night is that of the fallback system.
    """

    def moved(session):
        return any(line.startswith("system: ") for line in judge(session).missing)

    night(0, system="elsewhere")
    assert moved(night(1)) and moved(night(2))
    assert not moved(night(4, labels={"run": "smoke"})), "another series"
    write_file("runs: {nightly: {expected: [{group: p2p}]}}")
    assert judge(night(3)).complete

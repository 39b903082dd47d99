"""``mpibench locate``: which node, cable or switch is slow, from a map of pairs or from ordinary sessions."""

from __future__ import annotations

import fnmatch
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from mpibench import whole_file
from reframe_tests.harness.printable import one_line
from reframe_tests.harness.vocabulary import ROOT, BadInput

if TYPE_CHECKING:
    from mpibench.locate.effects import Accused
    from mpibench.locate.judgement import Localisation
    from mpibench.results.sessions import Case, Session

RESULTS = ROOT / "results"
#: Exit statuses: somebody is accused; nobody is, and that could not be decided for all.
ACCUSED, INCONCLUSIVE = 1, 3
#: MB/s that 1 Gbit/s is.
_MB_PER_GBIT = 125.0


@dataclass(frozen=True)
class Located:
    """The answer of one map.

    :param title: condition it was measured under.
    :param line_rate_mb_per_s: of a node's link; ``None``: not known.
    """

    title: str
    answer: Localisation
    line_rate_mb_per_s: float | None

    def say(self, finding: Accused) -> str:
        """A finding as a sentence, with what is known of its nodes beside."""
        from mpibench.locate import sentences

        beside = [fact for node in finding.nodes for fact in self.answer.facts.get(node, ())]
        return "; ".join([sentences.text(finding, self.line_rate_mb_per_s), *beside])

    @property
    def status(self) -> int:
        """Exit status."""
        return ACCUSED if self.answer.is_accusing else INCONCLUSIVE if self.answer.inconclusive else 0


def locate(
    session: Annotated[str, typer.Argument(help="Session with a map of pairs: id, or its beginning, or 'latest'.")] = "latest",
    db: Annotated[Path, typer.Option(help="ReFrame's results database.")] = RESULTS / "results.db",
    ordinary: Annotated[
        str | None, typer.Option(help="No map, but what ordinary sessions measured; a selector, e.g. now-30d:now.")
    ] = None,
    dataset: Annotated[Path, typer.Option(help="Folder of the Parquet dataset, for --ordinary.")] = RESULTS / "dataset",
    system: Annotated[str | None, typer.Option(help="System, for --ordinary; needed if the dataset holds several.")] = None,
    where: Annotated[str | None, typer.Option(help="Only matching cases of --ordinary, e.g. 'fabric == \"eth1g\"'.")] = None,
    rate: Annotated[float, typer.Option(help="Innocents accused per run, expected at most.")] = 0.05,
    bandwidth_margin: Annotated[float, typer.Option(help="Loss of bandwidth that is called slow at least, in percent.")] = 7.0,
    latency_margin: Annotated[float, typer.Option(help="Added latency that is called slow at least, in percent.")] = 25.0,
    kind: Annotated[
        list[str] | None,
        typer.Option(help="Nodes of another kind, judged among themselves, e.g. gpu=g[0-9]*; repeatable."),
    ] = None,
    oversubscribed: Annotated[
        bool | None,
        typer.Option(
            "--oversubscribed/--full-rate",
            help="Whether links between switches are meant to be slower than what is below them.",
        ),
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Everything as JSON on standard output.")] = False,
    junit: Annotated[Path | None, typer.Option(help="Also write a JUnit file: a test case for each node.")] = None,
    out: Annotated[Path | None, typer.Option(help="Also write an HTML page with the map.")] = None,
) -> None:
    """Say which node, cable or switch is slow, with the rate at which innocents are accused.

    Judges what the test PairMap measured, by a model that adds up on the log scale: node that sends, node that receives,
    switches and links between them, pairs. Commands for Slurm are printed and never run.
    Exit status: 0 nobody is accused and everything that should have been measured was, 1 somebody is accused, 2 bad input, also
    a session without a map, 3 nobody is accused, but not all could be decided.
    """
    from mpibench.locate import records
    from mpibench.results import session_values

    margins = {"bandwidth_mb_per_s": bandwidth_margin, "latency_us": latency_margin}
    if ordinary is not None:
        name = session_values.system_of(dataset, system)
        located = [_ordinary(dataset, name, ordinary, where, rate, margins)]
        identity = ordinary
    else:
        identity, name, located = _maps(db, session, kind or (), rate, margins, oversubscribed)
    if junit:
        _write(junit, records.junit([(one.title, one.answer, one.say) for one in located], name))
    if out:
        from mpibench.verdict_pages import locate_page

        shown = [locate_page.Shown(one.title, one.answer, one.say) for one in located]
        _write(out, locate_page.page(shown, f"{name}, session {identity}"))
    if as_json:
        data = [{"title": one.title, **records.as_data(one.answer, one.say, identity, name, one.status)} for one in located]
        typer.echo(json.dumps(data, indent=2))
    else:
        for one in located:
            for line in _lines(one, identity, name):
                typer.echo(one_line(line))
    statuses = [one.status for one in located]
    raise typer.Exit(ACCUSED if ACCUSED in statuses else max(statuses))


def _maps(
    db: Path, session: str, kind: Sequence[str], rate: float, margins: Mapping[str, float], oversubscribed: bool | None
) -> tuple[str, str, list[Located]]:
    """Session id, system and the answer of each map of a session."""
    from mpibench.report import preflight
    from mpibench.results.sessions import read_session

    read = read_session(db, None if session == "latest" else session)
    cases = [case for case in read.cases if case.pair_map is not None]
    if not cases:
        raise BadInput(
            f"session {read.uuid} holds no map of pairs; measure one with: reframe -c reframe_tests -r -n PairMap, or give "
            "ordinary sessions with --ordinary."
        )
    before = preflight.find(read, db)
    looked_at = before.session.cases if before and before.session else ()
    located = [_one_map(read, case, looked_at, kind, rate, margins, oversubscribed) for case in cases]
    return read.uuid, cases[0].system, located


def _one_map(
    session: Session,
    case: Case,
    looked_at: Sequence[Case],
    kind: Sequence[str],
    rate: float,
    margins: Mapping[str, float],
    oversubscribed: bool | None,
) -> Located:
    from mpibench.locate import facts, judgement, pair_maps
    from mpibench.results import eligibility

    pair_map = case.pair_map
    assert pair_map is not None
    ready = pair_maps.prepare(pair_map)
    places, contradictions = pair_maps.places_of(pair_map.tree, pair_map.nodes)
    answer = judgement.judge(
        ready.parts, places, _kinds(kind, pair_map.nodes), rate=rate, margins_percent=margins, oversubscribed=oversubscribed
    )
    seen = (case, *looked_at)
    known = facts.known(seen)
    evident = {
        **{node: f"{node}: stopped answering ({why})" for node, why in pair_map.silent.items()},
        **facts.odd_links([case]),
    }
    why_not = eligibility.why_not(eligibility.facts_of(session, case))
    unproven = [f"the case {why_not} ({one_line(case.reason) or 'no reason was stored'})"] if why_not else []
    answer = replace(
        answer,
        evident=evident,
        inconclusive=(*unproven, *ready.missing, *contradictions, *answer.inconclusive),
        notes=(*ready.notes, *answer.notes),
        facts={node: [*facts.unlike_others(known, node), *facts.link_errors(seen, node)] for node in answer.accused},
    )
    title = f"{case.stack} on {case.partition}, {case.fabric}"
    return Located(title, answer, _line_rate(case.condition))


def _line_rate(condition: Mapping[str, object]) -> float | None:
    """Line rate of what one rank a node can use, in MB/s: of one rail, unless messages are striped over all."""
    rate, devices = condition.get("line_rate_gbit_per_s"), condition.get("devices")
    if not isinstance(rate, (int, float)) or isinstance(rate, bool) or rate <= 0:
        return None
    rails = len(devices) if isinstance(devices, (list, tuple)) and not condition.get("striped") else 1
    return rate * _MB_PER_GBIT / max(rails, 1)


def _kinds(given: Sequence[str], nodes: Sequence[str]) -> dict[str, str]:
    """Node to its kind, from NAME=PATTERN; the first that fits.

    :raises BadInput: one that is not of this form, or fits no node.
    """
    found: dict[str, str] = {}
    for one in given:
        name, equals, pattern = one.partition("=")
        fitting = fnmatch.filter(nodes, pattern)
        if not (name and equals and fitting):
            raise BadInput(
                f"--kind {one!r}: expected NAME=PATTERN with a pattern that fits nodes of the map ({nodes[0]}, ...)."
            )
        for node in fitting:
            found.setdefault(node, name)
    return found


def _ordinary(
    folder: Path, system: str, selector: str, where: str | None, rate: float, margins: Mapping[str, float]
) -> Located:
    from mpibench.locate import ordinary
    from mpibench.results import session_values

    selection = session_values.read(folder, system, selector, where=where)
    return Located(f"ordinary sessions {selector}", ordinary.judge(ordinary.jobs_of(selection), rate, margins), None)


def _lines(located: Located, session: str, system: str) -> list[str]:
    from mpibench.locate import records, sentences

    answer = located.answer
    lines = [f"{system}, session {session[:8]}, {located.title}: {sentences.headline(answer)}"]
    lines += [f"  {text}" for text in answer.evident.values()]
    lines += [f"  {located.say(finding)}" for finding in answer.findings]
    lines += [f"  inconclusive: {text}" for text in answer.inconclusive]
    lines += [f"  note: {text}" for text in [*sentences.floors(answer), *answer.notes]]
    commands = records.drain(answer, located.say, session)
    return [*lines, *(["  to take them out of service:"] if commands else []), *(f"    {line}" for line in commands)]


def _write(path: Path, text: str) -> None:
    try:
        whole_file.write_text(path, text)
    except OSError as error:
        raise BadInput(f"cannot write {path}: {error.strerror}.") from None
    typer.echo(f"wrote {path}", err=True)


def register(app: typer.Typer) -> None:
    """Add the command to the program."""
    app.command()(locate)

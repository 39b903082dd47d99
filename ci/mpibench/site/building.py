"""Builds the site of all systems of a dataset: what changed since the last build, and nothing else."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence, Set
from dataclasses import dataclass, replace
from datetime import date, datetime, timezone
from functools import cache
from pathlib import Path
from typing import Any

import polars as pl

from reframe_tests.harness.printable import one_line
from reframe_tests.harness.samples import PASS
from reframe_tests.harness.vocabulary import BadInput

from ..pages import page
from ..report.summary import OUTCOMES, format_number
from ..results import answers, dataset_layout, eligibility, unreadable
from ..results.answers import StoredAnswer
from ..watch import gate
from . import metric_page, names, night_page, nights, over_time, series_page
from .medians import Kept
from .metric_page import MetricFamily
from .nights import STATES, SiteNight
from .nodes import shares
from .series import Series, SiteCase, anchor, family_file, is_confirming, labels_of
from .writer import SiteWriter

TEMPLATES = page.environment(__package__, number=format_number)
TEMPLATES.globals.update(
    outcomes=OUTCOMES,
    states=STATES,
    anchor=anchor,
    family_file=family_file,
    family_title=night_page.family_title,
    family_place=night_page.family_place,
)
#: Newest nights of a system that are held against those before them, if nobody did that yet.
JUDGED_NIGHTS = 1


@dataclass(frozen=True)
class BuiltSite:
    """What a build did.

    :param sentences: what could not be shown, one sentence each.
    """

    index: Path
    systems: int
    nights: int
    written: int
    unchanged: int
    sentences: tuple[str, ...] = ()

    def __str__(self) -> str:
        return (
            f"site: {self.index} ({self.systems} systems, {self.nights} sessions; {self.written} files written, "
            f"{self.unchanged} unchanged)"
        )


def build(
    folder: Path, out: Path, *, judged: int = JUDGED_NIGHTS, now: datetime | None = None, kept: Path | None = None
) -> BuiltSite:
    """Bring the site of a dataset up to date.

    :param folder: the dataset.
    :param out: the site's folder.
    :param judged: newest nights of each system that are held against those before, where no answer is stored.
    :param kept: folder of what is kept between builds; default: beside the site.
    :raises BadInput: no dataset, a damaged one, or a site that cannot be written.
    """
    moment = now or datetime.now(timezone.utc)
    systems = sorted(path.name.removeprefix("system=") for path in (folder / "cases").glob("system=*") if any(path.glob("*/*")))
    if not systems:
        raise BadInput(f"there is no dataset in {folder}: write one with `mpibench export`.")
    beside = kept or out.with_name(f".{out.name}-kept")
    writer = SiteWriter(out, beside, program_digest())
    readable = beside / "readable.json"
    dataset_layout.recall_readable(readable)
    build_of = _Build(folder, out, writer, beside, judged, moment)
    found = [one for system in systems for one in build_of.series_of(system)]
    build_of.assets()
    families = {one.folder: build_of.pages(one) for one in found}
    build_of.index(found, families)
    writer.finish()
    dataset_layout.keep_readable(readable, folder)
    count = sum(len(one.nights) for one in found)
    return BuiltSite(out / "index.html", len(systems), count, writer.written, writer.unchanged, tuple(build_of.sentences))


def program_digest() -> str:
    """Changes when the programs and templates of the site do."""
    here = Path(__file__).parent
    files = [*sorted(here.glob("*.py")), *sorted((here / "templates").glob("*")), *sorted((here.parent / "pages").rglob("*.*"))]
    return hashlib.sha256(b"".join(path.read_bytes() for path in files if path.suffix != ".pyc")).hexdigest()[:16]


class _Build:
    """One build; each part of it knows folder, writer and time."""

    def __init__(self, folder: Path, out: Path, writer: SiteWriter, kept: Path, judged: int, now: datetime) -> None:
        self.folder, self.out, self.writer, self.kept, self.judged, self.now = folder, out, writer, kept, judged, now
        self.sentences: list[str] = []
        self._maps: dict[str, Mapping[str, Path]] = {}
        self.answers = answers.read(folder)

    def series_of(self, system: str) -> list[Series]:
        """Series of a system, that of its nights first."""
        lost = unreadable.find(self.folder, [system])
        cases = nights.light_cases(self.folder, system, lost)
        kept = Kept(self.kept / "medians" / names.file_name((system,)), self.folder, system)
        ids = nights.identities(self.folder, system)
        measured = set(eligibility.split_cases(cases).eligible["session"])
        stems = {session: kept.bring(session, identity) for session, identity in ids.items() if session in measured}
        spoiled = {session: why for session, stem in stems.items() if (why := kept.about(stem)["spoiled"])}
        by = nights.Judging(self.folder, system, cases, ids, self.answers, spoiled, lost)
        every = nights.judge(by)
        if self._ask_the_gate(system, every, set(stems)):
            every = nights.judge(by)
        found = [self._series(system, run, every, cases, kept, stems) for run in labels_of(every)]
        kept.forget_unused()
        return found

    def _ask_the_gate(self, system: str, every: Sequence[SiteNight], measured: Set[str]) -> bool:
        """Hold the newest nights with values against those before, and keep the answers; whether there is a new one."""
        counting = [one for one in every if one.withdrawn is None and one.session in measured and not is_confirming(one)]
        asked = False
        for night in counting[-self.judged :] if self.judged else ():
            if any(one.source == answers.GATE for one in self.answers.get(night.session, ())):
                continue
            self.answers.setdefault(night.session, []).append(self._gate(system, night))
            asked = True
        return asked

    def _gate(self, system: str, night: SiteNight) -> StoredAnswer:
        """What the gate says of a night when it is young: its age is no property of it."""
        try:
            said = gate.decide(self.folder, system, night.session, partial=bool(night.options), now=night.started)
        except BadInput as error:
            why = f"the gate could not judge: {str(error).rstrip('.')}"
            return answers.record(self.folder, night.session, answers.GATE, night.run, [why], finding=why, now=self.now)
        counts = {check.kind: check.numbers for check in said.checks}
        judged = int(counts.get("history", {}).get("judged", 0))
        problems = [problem.text for problem in said.problems]
        return answers.record(
            self.folder,
            night.session,
            answers.GATE,
            night.run,
            problems,
            said.notes,
            finding=said.finding,
            judged=judged,
            now=self.now,
        )

    def _series(
        self, system: str, run: str, every: Sequence[SiteNight], cases: pl.DataFrame, kept: Kept, stems: Mapping[str, str]
    ) -> Series:
        own = [night for night in every if night.run == run and not is_confirming(night)]
        ids = [night.session for night in own]
        table = cases.filter(pl.col("session").is_in(ids))
        over = over_time.read([night for night in own if night.withdrawn is None], kept, stems)
        nodes = {session: _nodes(part["nodelist"]) for (session,), part in table.group_by("session")}
        confirming: dict[str, list[SiteNight]] = {}
        for night in filter(is_confirming, every):
            confirming.setdefault(night.run.partition("=")[2], []).append(night)
        lost = {date.fromisoformat(one.day): one.finding for one in nights.without_session(self.answers) if one.label == run}
        try:
            events = over_time.change_points(self.folder, system, over)
        except BadInput as error:
            events = []
            self.sentences.append(f"{system}: no change points are shown: {error}")
        slower = over_time.worse_nights(over, events)
        own = [nights.is_worse(night, slower.get(night.session, ())) for night in own]
        judged = {night.session: night for night in own}
        over = replace(over, nights=[judged[night.session] for night in over.nights])
        return Series(system, run, own, table, over, events, over_time.fact_changes(over, nodes), lost, confirming)

    def assets(self) -> None:
        """What all pages share, once."""
        from plotly.offline import get_plotlyjs_version

        for name in ("site.css", "site.js", "metric.js"):
            text = TEMPLATES.get_template(name).render()
            self.writer.put(f"assets/{name}", names.digest(text), lambda text=text: text)  # type: ignore[misc]
        self.writer.put("assets/plotly.min.js", get_plotlyjs_version(), lambda: str(page.plotly_source()))

    def _put(self, name: str, content: str, template: str, up: str, shown: Any, **more: Any) -> None:
        """A page; ``shown`` makes what its template shows, where the page is to be written."""

        def make() -> str:
            text = {**shown(), "up": up, "nonce": self.writer.nonce(name, content), **more}
            return TEMPLATES.get_template(template).render(text)

        self.writer.put(name, content, make)

    def pages(self, series: Series) -> list[MetricFamily]:
        """All pages of a series; its families."""
        found = metric_page.families(series)
        self._nodes_pages(series)
        events = {event.session: names.digest(event.session, str(event)) for event in series.events}
        before = ""
        for night in series.nights:
            # What is said of a night rests on that before it, too.
            known = names.digest(
                night.identity, night.state.name, before, events.get(night.session), series.changes.get(night.session)
            )
            again = [one.identity for one in series.confirming.get(night.session, ())]
            digest = names.digest(known, *again, *(one.session for one in series.days[night.day][1]))
            self._night(series, night, digest)
            before = night.identity
        self._metrics(series, found)
        files = names.digest(*(one.file for one in found))
        for history in series.histories:
            runs = names.digest(files, *(part for run in history.runs for part in (run.night.identity, run.outcome)))
            shown = _case_shown(series, history)
            self._put(f"{series.folder}/cases/{history.file}.html", runs, "case.html", "../../", shown)
        return found

    def _night(self, series: Series, night: SiteNight, digest: str) -> None:
        folder = f"{series.folder}/nights"

        def shown() -> dict[str, Any]:
            return {"series": series, **night_page.content(series, night)}

        def proofs() -> dict[str, Any]:
            return {"series": series, **night_page.proofs(self.folder, series, night, self.out / folder)}

        self._put(f"{folder}/{night.page}.html", digest, "night.html", "../../", shown)
        if night.counts:
            self._put(f"{folder}/{night.page}-proof.html", digest, "proof.html", "../../", proofs)

    def _metrics(self, series: Series, found: Sequence[MetricFamily]) -> None:
        """Pages of the families, and their values by month."""
        folder = f"{series.folder}/metrics"
        changes = metric_page.changes_script(series)
        if found:
            self.writer.put(f"{folder}/data/changes.js", names.digest(changes), lambda: changes)
        places = metric_page.months(series.over)
        digests = {month: metric_page.month_digest([series.over.nights[at] for at in there]) for month, there in places.items()}
        last = names.digest(*digests.values())
        for family in found:
            for month, there in places.items():
                self._values(folder, family, month, there, digests[month])
            known = names.digest(last, *(str(event) for event, _ in family.events))

            def shown(family: MetricFamily = family) -> dict[str, Any]:
                return {"series": series, **metric_page.content(family)}

            self._put(f"{folder}/{family.file}.html", known, "metric.html", "../../", shown)

    def _values(self, folder: str, family: MetricFamily, month: str, there: Sequence[int], digest: str) -> None:
        name = f"{folder}/data/{family.file}.{month}.js"
        content = names.digest(digest, *family.metrics["id"])
        self.writer.put(name, content, lambda: metric_page.values(family, month, there))

    def _nodes_pages(self, series: Series) -> None:
        """Pages of the nodes that maps of pairs measured; none without such a map."""
        files = self._maps[series.folder] = shares.files_of(self.folder, series)
        if not files:
            return
        content, folder = shares.digest(files), f"{series.folder}/nodes"
        shared = {"series": series, "shares": shares.SHARES, "usual": shares.HEIGHT * (1 - 100 / shares.TOP)}
        histories = cache(lambda: shares.read(files, series))
        by_node = cache(lambda: shares.by_node(histories()))

        def all_of_them() -> dict[str, Any]:
            return {**shared, "places": shares.by_stack_and_fabric(histories())}

        self._put(f"{folder}/index.html", content, "nodes.html", "../../", all_of_them)
        for node in shares.keep_names(self.kept / "nodes" / f"{series.folder}.json", content, lambda: list(by_node())):

            def shown(node: str = node) -> dict[str, Any]:
                return {**shared, "node": node, "histories": by_node()[node]}

            self._put(f"{folder}/{shares.file_of(node)}.html", content, "node.html", "../../", shown)

    def _series_page(self, series: Series, found: Sequence[MetricFamily], built: str) -> None:
        maps = bool(self._maps[series.folder])
        shown = {"series": series, "maps": maps, **series_page.content(series, found, self.now)}
        self._put(f"{series.folder}/index.html", built, "series.html", "../", lambda: shown, built=built)

    def index(self, found: Sequence[Series], families: Mapping[str, Sequence[MetricFamily]]) -> None:
        """The first screen, and the page of each series; both say when they were made."""
        built = f"{self.now:%Y-%m-%dT%H:%M:%SZ}"
        for series in found:
            self._series_page(series, families[series.folder], built)
        first = {series.system: series for series in reversed(found)}
        main = [series for series in found if first[series.system] is series]
        cards = [series_page.card(series, families[series.folder], self.now) for series in main]
        cards.sort(key=lambda card: -(card["night"].started.timestamp() if card["night"] else 0))
        others = [(series, series_page.verdict(series, self.now)) for series in found if first[series.system] is not series]
        labels = {series.run for series in found}
        lost = [one for one in nights.without_session(self.answers) if one.label not in labels][-5:]
        shown_first = {"cards": cards, "others": others, "lost": lost, "months": series_page.FIRST_MONTHS}
        self._put("index.html", built, "index.html", "", lambda: shown_first, built=built)


def _nodes(lists: pl.Series) -> list[str]:
    """Names of all nodes of a session."""
    return sorted({node for text in lists.drop_nulls().unique() for node in one_line(text).split(",") if node})


def _case_shown(series: Series, history: SiteCase) -> Any:
    def shown() -> dict[str, Any]:
        families = [(night_page.family_title(one), family_file(one)) for one in series.families_of_case.get(history.file, ())]
        return {"series": series, "history": history, "families": families, "runs": list(reversed(history.runs)), "pass": PASS}

    return shown

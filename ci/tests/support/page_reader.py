"""Reads a page of HTML the way a browser does, and pages of sessions in which everything is hostile."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from dataclasses import replace
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import synthetic_session as synthetic
from mpibench.judge import accept, pairing
from mpibench.pages import acceptance, comparison
from mpibench.pages import session as report
from mpibench.pages.additions import Curve
from mpibench.store import sessions
from mpibench.store.store import Store
from synthetic_session import HOSTILE, changed, hostile_session
from synthetic_stack import made_stack
from synthetic_verdicts import write_session

# ---- Reads a page of HTML the way a browser does, for tests of what is in it.


class Reader(HTMLParser):
    """Tags with their attributes, text per section, JSON blocks."""

    def __init__(self, page: str) -> None:
        super().__init__(convert_charrefs=True)
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.text: dict[str, str] = {}
        self.blocks: dict[str, Any] = {}
        self._section = self._script = ""
        self._raw = False
        self.feed(page)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        attributes = dict(attrs)
        self.tags.append((tag, attributes))
        if tag in ("section", "header"):
            self._section = attributes.get("id") or ""
        self._raw = tag in ("script", "style")
        self._script = (
            (attributes.get("id") or "") if attributes.get("type") == "application/json" else ""
        )

    def handle_data(self, data: str) -> None:
        if self._script:
            self.blocks[self._script] = json.loads(data)
        elif not self._raw:
            self.text[self._section] = self.text.get(self._section, "") + data

    def handle_endtag(self, tag: str) -> None:
        if tag in ("script", "style"):
            self._raw = False
            self._script = ""

    def named(self, tag: str) -> Iterator[dict[str, str | None]]:
        return (attributes for name, attributes in self.tags if name == tag)


# ---- Every kind of page, of sessions in which all that a person or a program may name is
# hostile.

#: A folder's name cannot have a slash, nor the text of a path.
FOLDER = "/jobs/" + HOSTILE.replace("/", "")


def read_report(session: sessions.Session) -> Reader:
    """The page of a session without its files."""
    return Reader(report.render(report.View(session, Path())))


def hostile_report(folder: Path) -> str:
    """A report of stacks, fabrics, cases, published curves and built stacks of hostile names."""
    session = hostile_session("proven")
    skipped = changed(session.cases[2], result="skip", fail_reason=HOSTILE, job_stderr=HOSTILE)
    session = sessions.Session(session.info, (*session.cases[:2], skipped))
    words = dict.fromkeys(("source", "title", "conditions"), HOSTILE)
    points = dict.fromkeys(synthetic.SIZES, "1.0")
    curve = Curve(
        **words,
        fabric=HOSTILE,
        benchmark="PingPong",
        quantity="latency_us",
        nodes=1,
        ppn=2,
        points=points,
    )
    wheels = [dict.fromkeys(("name", "version", "sha256"), HOSTILE)]
    built = made_stack(
        HOSTILE,
        HOSTILE,
        **dict.fromkeys(("name", "origin", "device", "abi", "launcher_family"), HOSTILE),
        **dict.fromkeys(("prefix", "library"), HOSTILE),
        suites={HOSTILE: {"version": HOSTILE, "built_with": HOSTILE}},
        build={"lock_hash": HOSTILE, "spec": HOSTILE, "compiler": HOSTILE, "wheels": wheels},
    )
    return report.render(
        report.View(session, folder, [built], [curve, replace(curve, benchmark=HOSTILE)])
    )


def hostile_dataset(folder: Path) -> Path:
    """Two sessions in which everything a person or a program may name is
    hostile, and one case of the second is not proven.
    """
    shared = {"fabric": HOSTILE, "nodelist": HOSTILE, "outputdir": FOLDER, "job_id": HOSTILE}
    failed = {"result": "fail", "fail_phase": "sanity", "evidence": "missing", "reason": HOSTILE}
    for number in range(2):
        write_session(
            folder,
            number,
            stacks=(HOSTILE, "mpich-spack"),
            sizes=(32, 65536),
            benchmarks={f"{HOSTILE}{place}": "t_avg_us" for place in range(3)},
            labels={"commit": f"{HOSTILE}{number}"},
            mpi_version=f"{HOSTILE}{number}",
            change=lambda _, __, stack: 1.5 if stack == HOSTILE else 1.0,
            where=[shared, {**shared, **failed, "pinning": HOSTILE}] if number else shared,
        )
    return folder


def hostile_acceptance(folder: Path) -> str:
    result = accept.decide(Store(hostile_dataset(folder)), "latest~1", "latest")
    return acceptance.page(acceptance.as_dict(result))


def hostile_comparison(folder: Path) -> str:
    hostile_dataset(folder)
    result = pairing.pair(Store(folder), "latest", "stack", HOSTILE, "mpich-spack")
    return comparison.page(result, Store(folder).select("testbed", "latest").values)


#: Each kind of page with the scripts it runs.
PAGES: dict[Callable[[Path], str], int] = {
    hostile_report: 1,
    hostile_acceptance: 0,
    hostile_comparison: 2,
}

"""The parts of the report that are there without any script: header, verdicts, failures, key figures, tables.

Every text that comes from outside (outputs, sentences, names) goes through :func:`html.escape`.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from html import escape
from typing import Any

from reframe_tests.harness.stacks.stack import Stack
from reframe_tests.harness.vocabulary import QUANTITIES

from ..results.samples import FAIL, NO_REFERENCE, PASS, PROVEN
from ..results.sessions import Case, Session, label_of
from .cases import Place, library_line, placement_text, traffic_text
from .charts import SYMBOLS, stack_names, unit_text
from .summary import (
    KEY_FIGURES,
    OUTCOMES,
    counted,
    counts,
    failures,
    format_number,
    gate_counts,
    key_figures,
    outcome_of,
    sentences,
    size_text,
    skip_reasons,
    title_of,
    verdict_line,
)

#: Missed or passed gates listed at once; more are folded away.
OPEN_ROWS = 40


def _tag(name: str, inner: str, **attributes: Any) -> str:
    rendered = "".join(f' {key.rstrip("_").replace("_", "-")}="{escape(str(value))}"' for key, value in attributes.items())
    return f"<{name}{rendered}>{inner}</{name}>"


def _mark(outcome: str) -> str:
    one = OUTCOMES[outcome]
    return _tag("span", f"{one.mark}&nbsp;{escape(one.word)}", class_=f"mark {outcome}", title=one.meaning)


def html_table(head: Sequence[str], rows: Iterable[Sequence[str]], *, numeric: Sequence[int] = (), **attributes: Any) -> str:
    """A table; heads are plain text, cells are markup."""
    names = ["num" if column in numeric else "" for column in range(len(head))]
    heads = "".join(f'<th scope="col"{_class(name)}>{escape(text)}</th>' for text, name in zip(head, names, strict=True))
    body = "\n".join(
        "<tr>" + "".join(f"<td{_class(name)}>{cell}</td>" for cell, name in zip(row, names, strict=True)) + "</tr>"
        for row in rows
    )
    table = f"<table><thead><tr>{heads}</tr></thead><tbody>{body}</tbody></table>"
    return _tag("div", table, **{"class_": "scroll", **attributes})


def _class(name: str) -> str:
    return f' class="{name}"' if name else ""


def case_button(number: int, text: str) -> str:
    """A control that opens the panel of a case."""
    return f'<button type="button" class="case" data-case="{number}">{escape(text)}</button>'


class Tables:
    """Renders one session; ``places`` says where the files of each case are."""

    def __init__(self, session: Session, places: Sequence[Place], stacks: Iterable[Stack] = ()) -> None:
        self.session = session
        self.places = places
        self.built = {stack.name: stack for stack in stacks}
        self.stacks = stack_names(session)
        self.numbers = {case.uuid: number for number, case in enumerate(session.cases)}

    def _stack(self, name: str) -> str:
        """Name of a stack with the sign and colour its curves have."""
        number = self.stacks.index(name) % len(SYMBOLS) if name in self.stacks else len(SYMBOLS) - 1
        return f'<span class="stack s{number}">{escape(name)}</span>'

    def button(self, case: Case, text: str | None = None) -> str:
        """A control that opens the panel of a case; its text is the case's title unless given."""
        return case_button(self.numbers[case.uuid], text or title_of(case))

    def _job(self, case: Case) -> str:
        place = self.places[self.numbers[case.uuid]]
        text = escape(f"job {case.job_id}") if case.job_id else ""
        return _tag("a", text, href=place.href) if place.href and text else text

    def heading(self) -> str:
        """System, labels, the verdict in one sentence, date, versions, command line."""
        session, info = self.session, self.session.info
        rows = [
            ("session", session.uuid),
            ("started", f"{session.started:%Y-%m-%d %H:%M:%S} UTC, took {session.seconds:.0f} s"),
            ("on", f"{info.get('hostname', '')}, as {info.get('user', 'unknown user')}"),
            ("with", f"ReFrame {info.get('version', '')}, " + ", ".join(self._stack_versions())),
            ("command", str(info.get("cmdline", ""))),
        ]
        items = "".join(f"<dt>{escape(key)}</dt><dd>{escape(value)}</dd>" for key, value in rows)
        name = ", ".join(session.systems) or "no system"
        return (
            f"<p class='kind'>MPI fabric report</p><h1>{escape(name)} <span>{escape(label_of(session))}</span></h1>"
            f"<p class='verdict {'bad' if counts(session)['failed'] else ''}'>{escape(verdict_line(session))}</p>"
            f"<dl class='facts'>{items}</dl>"
        )

    def _stack_versions(self) -> list[str]:
        found = {case.stack: case.condition for case in self.session.cases if case.condition.get("mpi_version")}
        return [f"{name} {found[name]['mpi_version']}" for name in sorted(found)]

    def verdict(self) -> str:
        """Counts of cases, counts of comparisons, and the cases of each stack on each fabric."""
        number, gates = counts(self.session), gate_counts(self.session)
        tiles = "".join(
            f"<li class='{name if number[name] else 'none'}'><b>{number[name]}</b><span>{one.mark} {escape(one.word)}</span>"
            f"<small>{escape(one.meaning)}</small></li>"
            for name, one in OUTCOMES.items()
            if number[name] or name in ("failed", "passed", "recorded")
        )
        line = (
            f"Comparisons with references: {gates[PASS]} reached, {gates[FAIL]} missed, "
            f"{gates[NO_REFERENCE]} had no reference and were not judged."
        )
        return f"<ul class='tiles'>{tiles}</ul><p>{escape(line)}</p>{self._coverage()}"

    def _coverage(self) -> str:
        rows: dict[tuple[str, str], Counter[str]] = {}
        for case in counted(self.session):
            if case.is_measurement:
                rows.setdefault((case.stack, case.fabric), Counter())[outcome_of(self.session, case)] += 1
        names = [name for name in OUTCOMES if any(row[name] for row in rows.values())]
        return html_table(
            ["stack", "fabric", *(OUTCOMES[name].word for name in names)],
            (
                [self._stack(stack), escape(fabric), *(str(row[name]) if row[name] else "" for name in names)]
                for (stack, fabric), row in sorted(rows.items())
            ),
            numeric=range(2, 2 + len(names)),
        )

    def failures(self) -> str:
        """Failed cases with their sentences."""
        found = failures(self.session)
        if not found:
            return "<p>None.</p>"
        items = "".join(
            f"<li><div class='who'>{_mark('failed')} {self._stack(case.stack)} {self.button(case)} {self._job(case)}</div>"
            + "".join(f"<p>{escape(one)}</p>" for one in sentences(case))
            + "</li>"
            for case in found
        )
        return f"<ol class='failures'>{items}</ol>"

    def skipped(self) -> str:
        """Skipped and retried cases, grouped by reason."""
        groups = [("skipped", reason, cases) for reason, cases in skip_reasons(self.session)]
        retried = [case for case in self.session.cases if case.uuid in self.session.superseded]
        groups += [("retried", " ".join(sentences(case)), [case]) for case in retried]
        if not groups:
            return "<p>None.</p>"
        return "".join(
            f"<details><summary>{_mark(name)} <b>{len(cases)}</b> {escape(reason)}</summary><ul>"
            + "".join(f"<li>{self._stack(case.stack)} {self.button(case)}</li>" for case in cases)
            + "</ul></details>"
            for name, reason, cases in groups
        )

    def key_figures(self) -> str:
        """The numbers people quote, each a link to its case."""
        table = key_figures(self.session)
        columns = [figure for figure in KEY_FIGURES if any(figure in row for row in table.values())]
        if not columns:
            return "<p>None of the benchmarks people quote was measured with proof.</p>"
        heads = []
        for figure in columns:
            best = next(row[figure] for row in table.values() if figure in row)
            size = size_text(best.sample.message_bytes)
            heads.append(f"{figure.title}{', ' + size if size else ''} [{unit_text(best.sample.unit)}]")
        rows = [
            [self._stack(stack), escape(f"{fabric}, {nodes} node{'' if nodes == 1 else 's'}")]
            + [
                self.button(row[figure].case, format_number(row[figure].value)).replace(
                    "<button ", f'<button title="{escape(title_of(row[figure].case))}" ', 1
                )
                if figure in row
                else ""
                for figure in columns
            ]
            for (stack, fabric, nodes), row in table.items()
        ]
        return html_table(["stack", "fabric", *heads], rows, numeric=range(2, 2 + len(columns)))

    def gates(self) -> str:
        """Comparisons with references: missed ones first, then reached, then those that could not be judged."""
        groups: dict[str, list[list[str]]] = {FAIL: [], PASS: [], NO_REFERENCE: []}
        for case in self.session.cases:
            if case.uuid in self.session.superseded:
                continue
            for gate in case.gates:
                bounds = [format_number(value) for value in (gate.reference, gate.lower, gate.upper)]
                groups[gate.outcome].append(
                    [
                        *(self._stack(case.stack), self.button(case), escape(gate.metric), escape(gate.layer)),
                        *(format_number(gate.value), *bounds, escape(unit_text(gate.unit))),
                    ]
                )
        if not any(groups.values()):
            return "<p>No metric of this session was compared with a reference, and none was meant to be.</p>"
        head = ["stack", "case", "metric", "layer", "value", "reference", "at least", "at most", "unit"]
        titles = {
            FAIL: "✕ missed",
            PASS: "✓ reached",
            NO_REFERENCE: "○ without reference: recorded, not judged",
        }
        return "".join(
            _tag(
                "details",
                f"<summary>{escape(titles[name])}: <b>{len(rows)}</b></summary>" + html_table(head, rows, numeric=(4, 5, 6, 7)),
                **({"open": ""} if name == FAIL or (name == PASS and len(rows) <= OPEN_ROWS) else {}),
            )
            for name, rows in groups.items()
            if rows
        )

    def evidence(self) -> str:
        """One row per case that ran: where its ranks were, which library, which devices, which transport."""
        rows = []
        for case in self.session.cases:
            if not case.is_measurement or outcome_of(self.session, case) == "skipped":
                continue
            proof, outcome = case.proof, outcome_of(self.session, case)
            verdict = case.evidence or "missing"
            shown = f"<span class='evidence {verdict}'>{'✓' if verdict == PROVEN else '✕'}&nbsp;{escape(verdict)}</span>"
            if proof and proof.notes:
                shown += f"<br><small>{len(proof.notes)} remark{'' if len(proof.notes) == 1 else 's'}</small>"
            cells = ["", "", "", ""]
            if proof:
                cells = [
                    "<br>".join(map(escape, placement_text(proof))),
                    _tag("span", escape(library_line(proof).split(",")[0]), title=f"{library_line(proof)}, {proof.library}"),
                    "<br>".join(map(escape, traffic_text(proof))),
                    _tag("span", escape(re.sub(r" \([^()]*\)", "", proof.transport)), title=proof.transport),
                ]
            rows.append([_mark(outcome), self._stack(case.stack), self.button(case), shown, *cells, self._job(case)])
        if not rows:
            return "<p>No case ran.</p>"
        head = ["outcome", "stack", "case", "condition", "ranks on CPUs", "library", "bytes by device", "transport", "files"]
        return html_table(head, rows, id="evidence-table")

    def provenance(self) -> str:
        """What each stack is made of, as its cases and its metadata file say."""
        rows = []
        for name in sorted({case.stack for case in self.session.cases if case.condition.get("stack")}):
            cases = [case for case in self.session.cases if case.stack == name and case.condition]
            condition = cases[0].condition
            hashes = sorted({str(case.condition.get("lock_hash", "")) for case in cases})
            proof = next((case.proof for case in cases if case.proof and case.proof.library), None)
            library = f"{escape(library_line(proof))}<br><small>{escape(proof.library)}</small>" if proof else ""
            mpi = " ".join(str(condition.get(key) or "") for key in ("mpi", "mpi_version"))
            kind = [str(condition.get(key) or "") for key in ("origin", "abi")]
            device = str(condition.get("stack_device") or (self.built[name].device if name in self.built else ""))
            rows.append(
                [
                    *(self._stack(name), escape(mpi), escape(kind[0]), escape(f"{kind[1]} {device}".strip()), library),
                    *("<br>".join(f"<code>{escape(one)}</code>" for one in hashes), self._parts(name, hashes)),
                ]
            )
        if not rows:
            return "<p>No stack was entered.</p>"
        return html_table(["stack", "MPI", "origin", "ABI, device", "library as loaded", "lock hash", "made of"], rows)

    def _parts(self, name: str, hashes: Sequence[str]) -> str:
        stack = self.built.get(name)
        if stack is None:
            return "its metadata file is not on this machine"
        if list(hashes) != [stack.lock_hash]:
            return "the stack of this name on this machine is another one by now"
        parts = [f"{escape(key)}: {escape(str(stack.build[key]))}" for key in ("spec", "compiler") if key in stack.build]
        wheels: Sequence[Mapping[str, str]] = stack.build.get("wheels", ())
        if wheels:
            names = ", ".join(f"{wheel['name']} {wheel['version']}" for wheel in wheels)
            sums = "".join(f"<div>{escape(one['name'])} <code>sha256:{escape(one['sha256'])}</code></div>" for one in wheels)
            parts.append(f"<details><summary>{escape(names)}</summary>{sums}</details>")
        suites = [f"{key} {suite.get('version', '')}: {suite.get('built_with', '')}" for key, suite in stack.suites.items()]
        return "".join(f"<div>{part}</div>" for part in [*parts, *map(escape, suites)])


def words() -> str:
    """What the words of the report mean."""
    rows = [(one.mark + " " + one.word, one.meaning) for one in OUTCOMES.values()]
    rows += [
        ("line and band", "median of the repeats; the band goes from the smallest to the largest repeat"),
        ("repeat", "one of several interleaved executions inside the same job on the same nodes"),
        ("MB/s", "1e6 bytes per second; KiB and MiB are 1024 and 1024² bytes"),
        ("lower is better", ", ".join(q.name for q in QUANTITIES.values() if q.direction == "lower")),
        ("higher is better", ", ".join(q.name for q in QUANTITIES.values() if q.direction == "higher")),
    ]
    items = "".join(f"<dt>{escape(key)}</dt><dd>{escape(value)}</dd>" for key, value in rows)
    return f"<dl class='facts'>{items}</dl>"

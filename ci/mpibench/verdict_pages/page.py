"""Records and comparisons as HTML that needs no network: headline first, then why, then every metric."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from html import escape
from pathlib import Path
from typing import Any

from ..report.page_policy import content_security_policy
from ..report.report import page_style
from ..results.session_values import describe_condition
from ..verdicts import text as verdict_text

_PAGE = """<!DOCTYPE html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta name="color-scheme" content="light dark">
<meta http-equiv="Content-Security-Policy" content="{policy}">
<title>{title}</title>
<style>
{style}
.regressed, .missing {{ color: var(--bad); }} .pass, .improved {{ color: var(--good); }} .inconclusive {{ color: var(--note); }}
td.long {{ min-width: 14rem; }}
</style>
</head>
<body>
<header><p class="kind">{kind}</p><h1>{title}</h1></header>
<main>
{body}
</main>
</body>
</html>
"""


def page(kind: str, title: str, sections: Iterable[tuple[str, str]], nonce: str = "") -> str:
    """A page from sections of (heading, inner HTML).

    :param nonce: of the scripts in the sections; without one none of them runs.
    """
    body = "\n".join(f"<section>{f'<h2>{escape(name)}</h2>' if name else ''}{inner}</section>" for name, inner in sections)
    return _PAGE.format(
        title=escape(title), kind=escape(kind), style=page_style(), body=body, policy=content_security_policy(nonce)
    )


def table(head: Sequence[str], rows: Iterable[Sequence[object]], numeric: Sequence[int] = (), marked: int | None = None) -> str:
    """A table; numbers in the columns ``numeric``, a verdict that is coloured in column ``marked``."""

    def cell(place: int, value: object, tag: str = "td") -> str:
        long = tag == "td" and place not in numeric and len(str(value)) > 30
        names = [
            *(["num"] if place in numeric else []),
            *(["long"] if long else []),
            *([str(value)] if place == marked and tag == "td" else []),
        ]
        kind = f' class="{escape(" ".join(names))}"' if names else ""
        return f"<{tag}{kind}>{escape(str(value))}</{tag}>"

    header = "".join(cell(place, name, "th") for place, name in enumerate(head))
    lines = "\n".join("<tr>" + "".join(cell(place, value) for place, value in enumerate(row)) + "</tr>" for row in rows)
    return f'<div class="scroll"><table><thead><tr>{header}</tr></thead><tbody>\n{lines}\n</tbody></table></div>'


def heading(text: str) -> str:
    """A heading inside a section."""
    return f"<h3>{escape(text)}</h3>"


def items(lines: Iterable[str]) -> str:
    """A list of sentences."""
    inner = "".join(f"<li>{escape(line)}</li>" for line in lines)
    return f"<ul>{inner}</ul>" if inner else "<p>None.</p>"


def number(value: float | None, digits: int = 3) -> str:
    """A number for a table cell; nothing where there is none."""
    return "" if value is None else f"{value:.{digits}f}"


def _interval(row: Mapping[str, Any]) -> str:
    return "" if row["low"] is None else f"{number(row['low'])} to {number(row['high'])}"


def _name(row: Mapping[str, Any]) -> str:
    return verdict_text.benchmark_text(row)


def _quantity(row: Mapping[str, Any]) -> str:
    return verdict_text.quantity_text(row["quantity"])


def _band_rows(rows: Iterable[Mapping[str, Any]]) -> list[list[object]]:
    return [
        [
            describe_condition(row),
            *(_name(row), _quantity(row), row["band"], row["sizes"] or "", number(row["ratio"])),
            _interval(row),
            *(number(row["margin_percent"], 0), number(row["spread_percent"], 1), row["verdict"]),
            row["why"] or (verdict_text.needed_text(row) if row["verdict"] == "inconclusive" else ""),
        ]
        for row in rows
    ]


def metric_table(rows: Iterable[Mapping[str, Any]], names: tuple[str, str] = ("baseline", "candidate")) -> str:
    """Every metric with both sides, ratio, interval and verdict."""
    cells = [
        [
            describe_condition(row),
            *(_name(row), _quantity(row), verdict_text.size_text(row["message_bytes"]), number(row.get("baseline"), 2)),
            *(number(row.get("candidate"), 2), row.get("unit") or "", number(row["ratio"])),
            _interval(row),
            f"{row.get('baseline_repeats') or 0} / {row.get('candidate_repeats') or 0}",
            row["verdict"],
            row["why"] or (verdict_text.needed_text(row) if row["verdict"] == "inconclusive" else ""),
        ]
        for row in rows
    ]
    head = ("condition", "benchmark", "quantity", "size", *names, "unit", "ratio", "95 % interval", "repeats", "verdict", "why")
    return table(head, cells, numeric=(3, 4, 5, 7, 8, 9), marked=10)


JOBS_HEAD = ("side", "session", "started", "job", "nodes", "condition", "script, outputs, evidence")


def jobs(sides: Mapping[str, Iterable[Mapping[str, Any]]]) -> str:
    """Where every number comes from: each job of each side, with a link to the folder of its script, outputs and evidence.

    :param sides: name to rows of ``cases``.
    """
    lines = []
    for side, rows in sides.items():
        for row in rows:
            folder = row["outputdir"]
            link = (
                f'<a href="{escape(Path(folder).as_uri())}">{escape(folder)}</a>' if folder and folder.startswith("/") else ""
            )
            told = (side, row["session"], str(row["started"])[:16], row["job_id"] or "", row["nodelist"] or "")
            cells = [*(escape(str(one)) for one in (*told, describe_condition(row))), link or escape(folder or "")]
            lines.append("<tr>" + "".join(f"<td>{cell}</td>" for cell in cells) + "</tr>")
    head = "".join(f"<th>{name}</th>" for name in JOBS_HEAD)
    inner = "\n".join(lines)
    return f'<div class="scroll"><table><thead><tr>{head}</tr></thead><tbody>\n{inner}\n</tbody></table></div>'


def acceptance(record: Mapping[str, Any]) -> str:
    """The signed-off record of an acceptance (``acceptance_record.as_dict``)."""
    sides = ("baseline", "candidate")
    facts = [(name, *(record[side]["facts"].get(name, ["-"]) for side in sides)) for name in _names(record)]
    known = [[name, ", ".join(one), ", ".join(two)] for name, one, two in facts]
    changed = [[row["what"], row["before"], row["after"]] for row in record["changed"]]
    asked = {name: value for name, value in record["options"].items() if value}
    signing = [
        ["decided", f"{record['decided']} on {record['decided_on']} by mpibench {record['mpibench']}"],
        ["asked for", ", ".join(f"{name} {value}" for name, value in asked.items()) or "everything both sides have"],
        ["policy", f"{record['policy']['source']}: {record['policy']['margins_percent']}"],
        *(
            [
                side,
                f"{', '.join(record[side]['sessions'])}; {record[side]['values']} values, "
                f"SHA-256 {record[side]['values_sha256']}",
            ]
            for side in sides
        ),
        ["name, date, signature", "........................................................................"],
    ]
    bands = (
        "condition",
        "benchmark",
        "quantity",
        "band",
        "sizes",
        "ratio",
        "interval",
        "margin %",
        "spread %",
        "verdict",
        "why",
    )
    return page(
        f"Acceptance of {record['system']}",
        record["headline"],
        [
            ("Sessions", _sessions(record, sides)),
            ("Why", items(record["sentences"])),
            *(
                (f"Cases of the {side} that are not proven", _unproven(record[side]["unproven"]))
                for side in reversed(sides)
                if record[side]["unproven"]
            ),
            (
                "What changed between the sides",
                table(("what", "before", "after"), changed) if changed else "<p>Nothing that is stored.</p>",
            ),
            ("Not used", items(record["remarks"])),
            ("Bands", table(bands, _band_rows(record["bands"]), numeric=(4, 5, 6, 7, 8), marked=9)),
            ("Metrics", metric_table(record["metrics"])),
            ("Jobs", jobs({side: record[side]["jobs"] for side in sides})),
            ("Versions on both sides", table(("what", "before", "after"), known)),
            ("Signed off", table(("", ""), signing)),
        ],
    )


def _sessions(record: Mapping[str, Any], sides: Sequence[str]) -> str:
    rows = [
        [
            *(side, record[side]["selector"], one["session"], one["started"][:16].replace("T", " "), f"{one['age_days']:g}"),
            ", ".join(f"{key}={value}" for key, value in one["labels"].items()),
            *(one["cases"], " ".join(one["options"])),
        ]
        for side in sides
        for one in record[side]["identities"]
    ]
    return table(("side", "asked for", "session", "started, UTC", "age, days", "labels", "cases", "narrowed by"), rows, (4, 6))


def _unproven(rows: Iterable[Mapping[str, Any]]) -> str:
    cells = [[row["session"], row["name"], describe_condition(row), row["why"], row["outputdir"] or ""] for row in rows]
    return table(("session", "case", "condition", "why", "folder"), cells)


def _names(record: Mapping[str, Any]) -> list[str]:
    return sorted({*record["baseline"]["facts"], *record["candidate"]["facts"]})

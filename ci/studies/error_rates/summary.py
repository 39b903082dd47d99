"""The answer in a few sentences, as an operator asks: what can this gate see here, and how often will it cry wolf?"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

from .answer import Row, spread_text
from .draws import ALL, MOST_SLOWER_PERCENT
from .history import TOGETHER
from .shares import FOUND_WITH, share_interval

#: Aims: sessions refused where nothing has changed, and how many intervals hold the truth, in percent.
MOST_REFUSED, COVERAGE, COVERAGE_TOLERANCE = 1.0, 95.0, 1.5


def sentences(answers: Sequence[Row], what: str) -> list[str]:
    """Three to six sentences on the first spread asked for and the longest history.

    :param what: whose noise it is.
    """
    chosen = [row for row in answers if row["spread_percent"] == answers[0]["spread_percent"]]
    longest: dict[str, int] = {}
    for row in chosen:
        longest[row["fabric"]] = max(row["history_jobs"], longest.get(row["fabric"], 0))
    chosen = [row for row in chosen if row["history_jobs"] == longest[row["fabric"]]]
    parts = [row for row in chosen if row["fabric"] != TOGETHER] or chosen
    whole = [row for row in chosen if row["fabric"] == TOGETHER] or chosen
    return [*_seen(parts, what), _acceptance(whole), *_nights(whole), *_known(whole)]


def _seen(rows: Sequence[Row], what: str) -> Iterator[str]:
    nights = " or ".join(map(str, sorted({row["history_jobs"] for row in rows})))
    scaled = "" if rows[0]["spread_percent"] is None else f", scaled to a spread of {spread_text(rows[0])}"
    said = []
    for jobs in sorted({row["candidate_jobs"] for row in rows}):
        at = [row for row in rows if row["candidate_jobs"] == jobs]
        said.append(f"{_range(at, lambda row: row['smallest_found_percent'][ALL])} with {jobs} after it")
    yield (
        f"{what}{scaled}, {nights} sessions before a change: the smallest slowdown of all sizes that is found with "
        f"{100 * FOUND_WITH:g} % probability is {', '.join(said)}."
    )
    few = min(row["candidate_jobs"] for row in rows)
    at = [row for row in rows if row["candidate_jobs"] == few]
    bands = list(dict.fromkeys(name for row in at for name in row["smallest_found_percent"] if name != ALL))
    shown = [
        f"{_range([row for row in at if band in row['smallest_found_percent']], _of_band(band))} for {band} messages"
        for band in bands
    ]
    if len(bands) > 1:
        yield f"Of one band alone, with {few} after it, it is {', '.join(shown)}; a smaller one may pass."


def _of_band(band: str) -> Callable[[Row], float | None]:
    return lambda row: row["smallest_found_percent"][band]


def _range(rows: Sequence[Row], value: Callable[[Row], float | None]) -> str:
    """From the fabric that shows most to the one that shows least."""
    ordered = sorted(((value(row), row["fabric"]) for row in rows), key=lambda one: (one[0] is None, one[0] or 0.0))
    low, high = (_slower(percent) for percent, _ in (ordered[0], ordered[-1]))
    return low if low == high else f"{low} ({ordered[0][1]}) to {high} ({ordered[-1][1]})"


def _slower(percent: float | None) -> str:
    return f"more than {MOST_SLOWER_PERCENT:g} %" if percent is None else f"{percent:.1f} %"


def _acceptance(rows: Sequence[Row]) -> str:
    shares = [row["sessions_refused_percent"] for row in rows]
    worst = max(rows, key=lambda row: row["interval_95"]["sessions_refused_percent"][1])
    low, high = worst["interval_95"]["sessions_refused_percent"]
    between = f"{max(shares):.1f} %" if max(shares) - min(shares) < 0.05 else f"{min(shares):.1f} to {max(shares):.1f} %"
    aim = "above" if max(shares) > MOST_REFUSED else "within"
    where = f", {worst['fabric']} with {worst['candidate_jobs']} after it" if len(rows) > 1 else ""
    again = [row for row in rows if row["confirmed_refused_percent"] is not None]
    if again:
        last = max(again, key=lambda row: row["interval_95"]["confirmed_refused_percent"][1])
        first, end = last["interval_95"]["confirmed_refused_percent"]
        where += f"; with --confirm at most {last['confirmed_refused_percent']:.1f} % [{first:.1f}, {end:.1f}]"
    return (
        f"An acceptance of the unchanged machine is refused in {between} of cases{_often(max(shares))}, {aim} the aim of "
        f"{MOST_REFUSED:g} %; by {worst['draws']} draws it is {low:.1f} to {high:.1f} %{where}."
    )


def _often(percent: float) -> str:
    return f" (about one in {100 / percent:.0f})" if percent else ""


def _nights(rows: Sequence[Row]) -> Iterator[str]:
    known = [row for row in rows if row["nights_called_percent"] is not None]
    if not known:
        yield "Whether the nightly gate cries wolf cannot be said: too few nights for any change to be found."
        return
    worst = max(known, key=lambda row: row["nights_called_percent"])
    low, high = worst["interval_95"]["nights_called_percent"]
    share, years = worst["nights_called_percent"], worst["years_called_percent"]
    first, last = worst["interval_95"]["years_called_percent"]
    yield (
        f"The nightly gate's search for changes, asked each night, is red for a change that is none in {share:.1f} % of nights "
        f"[{low:.1f}, {high:.1f}]; a year has such a night in {years:.0f} % of years [{first:.0f}, {last:.0f}]."
    )


def _known(rows: Sequence[Row]) -> Iterator[str]:
    """What the intervals are worth, and how much so few sessions can say."""
    held = [row["coverage_percent"] for row in rows]
    shown = f"{min(held):.1f}" if max(held) - min(held) < 0.05 else f"{min(held):.1f} to {max(held):.1f}"
    aim = "as they should" if all(abs(one - COVERAGE) <= COVERAGE_TOLERANCE for one in held) else "where 95 % are aimed at"
    jobs = min(row["jobs_recorded"] for row in rows)
    bound = 100 * share_interval(0, jobs)[1]
    yield (
        f"Nominal 95 % intervals hold the truth in {shown} %, {aim}; {jobs} recorded sessions cannot show a rate below "
        f"{bound:.1f} %: the more nights are stored, the more these figures are worth."
    )

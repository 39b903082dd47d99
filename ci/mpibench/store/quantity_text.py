"""Message sizes, node counts, units and changes as text, the same on terminals, on pages and in
answers.
"""

from __future__ import annotations

import statistics

import numpy as np
import polars as pl
from numpy.typing import NDArray

from reframe_tests.harness.vocabulary import ALL_NODES, LOWER, NONE, QUANTITIES

#: Quantities of which less is better: times, and what is a ratio of times.
LESS_IS_BETTER = tuple(name for name, row in QUANTITIES.items() if row.direction == LOWER)


def size_text(message_bytes: int | None) -> str:
    """Message size with a binary prefix: ``0 B``, ``16 KiB``; ``no
    message`` for what has none (a barrier).
    """
    if message_bytes is None:
        return "no message"
    for factor, unit in ((1 << 30, "GiB"), (1 << 20, "MiB"), (1 << 10, "KiB")):
        if message_bytes >= factor and message_bytes % factor == 0:
            return f"{message_bytes // factor} {unit}"
    return f"{message_bytes} B"


#: What a metric is of, by the last word of its name before the size; a share of the line rate is
#: said by its value.
_OF_METRIC = {row.short: row.title for row in QUANTITIES.values()} | {
    QUANTITIES["line_rate_fraction"].short: "bandwidth"
}


def metric_text(name: str) -> str:
    """A metric (``benchmark.metric_name``) in words: ``PingPong latency at 8 B``; other names, such
    as those of a site's own tests, unchanged.
    """
    words = name.split(".")
    size = int(words.pop()) if words[-1].isdecimal() else None
    title = _OF_METRIC.get(words.pop())
    if not (title and words):
        return name
    at = "" if size is None else f" at {size_text(size)}"
    return f"{' '.join(words)} {title}{at}"


def source_text(layer: str) -> str:
    """Where a reference comes from: that file has learned ones and some set by hand."""
    return "references.yaml" if layer == "learned" else layer


def better_text(quantity: str) -> str:
    """Which way is better: ``lower is better``; empty for what is only recorded."""
    direction = QUANTITIES[quantity].direction
    return "" if direction == NONE else f"{direction} is better"


def directed_text(quantity: str) -> str:
    """A quantity and which way is better: ``latency, lower is better``."""
    return ", ".join(filter(None, [QUANTITIES[quantity].title, better_text(quantity)]))


def nodes_text(nodes: int | None) -> str:
    """Number of nodes as the dataset has it: ``1 node``, ``4 nodes``, ``all idle nodes``."""
    return "all idle nodes" if nodes == ALL_NODES else f"{nodes} node{'' if nodes == 1 else 's'}"


def unit_text(unit: str) -> str:
    """Unit as printed on axes: ``us`` with its symbol, ``1`` as none."""
    return {"us": "µs", "1": ""}.get(unit, unit)


def loss(ratio: float, quantity: str) -> float:
    """How much worse a value is, as a fraction of the one before; negative where it is better.

    Of a time, new / old - 1; of a bandwidth or rate, 1 - new / old: a link at 60 % has lost 40 %
    of its bandwidth, and its messages take 67 % longer. Margins in policy.yaml are the same.

    :param ratio: new / old.
    """
    return ratio - 1 if quantity in LESS_IS_BETTER else 1 - ratio


def own_loss(slower: float, quantity: str) -> float:
    """The same of a change as verdicts hold it, as a fraction of time whatever the quantity is."""
    longer = 1 + slower
    return loss(longer if quantity in LESS_IS_BETTER else 1 / longer, quantity)


def slowness_of(losses: NDArray[np.float64], quantities: pl.Series) -> NDArray[np.float64]:
    """Losses of values (:func:`loss`) as slowness in log; of a bandwidth 99 % at most."""
    times = quantities.is_in(LESS_IS_BETTER).to_numpy()
    return np.where(times, np.log1p(losses), -np.log1p(-np.minimum(losses, 0.99)))


def with_own_loss(rows: pl.DataFrame) -> pl.DataFrame:
    """Rows with ``quantity`` and ``slower`` as answers have them: :func:`own_loss` of each."""
    changes = rows.select("slower", "quantity").iter_rows()
    losses = [None if slower is None else own_loss(slower, name) for slower, name in changes]
    return rows.with_columns(slower=pl.Series(losses, dtype=pl.Float64))


def percent_text(slower: float, quantity: str) -> str:
    """The size of a change, without its direction: ``67.0 %``."""
    return f"{abs(100 * own_loss(slower, quantity)):.1f} %"


def change_text(slower: float, quantity: str) -> str:
    """A change in words: ``67.0 % slower`` of a time, ``40.0 % lower bandwidth`` of a bandwidth.

    :param slower: as a fraction of time, positive for the worse.
    """
    percent = percent_text(slower, quantity)
    if quantity in LESS_IS_BETTER:
        return f"{percent} {'slower' if slower > 0 else 'faster'}"
    return f"{percent} {'lower' if slower > 0 else 'higher'} {QUANTITIES[quantity].title}"


def changes_by_kind(rows: pl.DataFrame) -> list[tuple[float, str]]:
    """Changes of metrics by kind, the largest first: each with :func:`own_loss` and its words.

    All times are one kind, bandwidths another, and so on. A kind is told by its median, by its own
    formula. Where one number stands for all of them, it is the first.

    :param rows: with ``quantity`` and ``slower``, a fraction of time.
    """
    kinds: dict[str, list[tuple[float, str]]] = {}
    for slower, name in rows.select("slower", "quantity").iter_rows():
        kind = "time" if name in LESS_IS_BETTER else name
        kinds.setdefault(kind, []).append((slower, name))
    found = []
    for group in kinds.values():
        middle = statistics.median(slower for slower, _ in group)
        name = group[0][1]
        found.append((own_loss(middle, name), change_text(middle, name)))
    return sorted(found, key=lambda change: -abs(change[0]))


def changes_text(rows: pl.DataFrame) -> str:
    """Changes of metrics by kind as text."""
    return " and ".join(text for _, text in changes_by_kind(rows))

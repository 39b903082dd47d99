"""Each node beside the others over the nights, from the maps of pairs of a series.

A node's share is the median over its partners, in percent of the median over all pairs of the same map: of the bandwidth that
it sends and receives, of its latencies. It accuses nobody (switches and kinds of nodes are not looked at): ``locate`` does.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import polars as pl

from reframe_tests.harness.pairs.pair_values import BANDWIDTH, LATENCY, MEAN
from reframe_tests.harness.samples import PROVEN
from reframe_tests.harness.vocabulary import BadInput

from ... import whole_file
from ...results import dataset_layout
from .. import names
from ..nights import SiteNight
from ..series import Series

#: Newest nights with a map that are shown.
MOST_NIGHTS = 90
#: Size of the small curve in pixels, and the percent at its top: most are near 100.
WIDTH, HEIGHT, TOP = 132, 34, 150.0


@dataclass(frozen=True)
class NodeShare:
    """What is compared.

    :param quantity: of the map.
    :param end: the end of a pair that the node is; empty: either.
    :param lower: less of it is better.
    """

    name: str
    title: str
    quantity: str
    end: str = ""
    lower: bool = False


SHARES = (
    NodeShare("sends", "sends", BANDWIDTH, "source"),
    NodeShare("receives", "receives", BANDWIDTH, "target"),
    NodeShare("latency", "latency", LATENCY, lower=True),
    NodeShare("mean", "mean latency", MEAN, lower=True),
)


@dataclass(frozen=True)
class NodeNight:
    """One map.

    :param percent: by the name of the share; what was not measured is absent.
    """

    night: SiteNight
    percent: Mapping[str, float]


@dataclass(frozen=True)
class NodeHistory:
    """One node on one stack and fabric.

    :param nights: oldest first.
    """

    node: str
    stack: str
    fabric: str
    nights: Sequence[NodeNight]

    @property
    def file(self) -> str:
        """Name of the node's page."""
        return file_of(self.node)

    @property
    def last(self) -> NodeNight:
        """The newest one."""
        return self.nights[-1]

    @property
    def worst(self) -> float:
        """How far behind the others it was last, in percent of them: 0 is as they are."""
        signs = {share.name: 1 if share.lower else -1 for share in SHARES}
        return max(signs[name] * (percent - 100) for name, percent in self.last.percent.items())

    def curve(self, share: NodeShare) -> str:
        """Points of a polyline of a share, the newest at the right."""
        step = WIDTH / max(len(self.nights) - 1, 1)
        return " ".join(
            f"{at * step:.1f},{HEIGHT * (1 - min(one.percent[share.name], TOP) / TOP):.1f}"
            for at, one in enumerate(self.nights)
            if share.name in one.percent
        )


def file_of(node: str) -> str:
    """Name of a node's page, the same in every build."""
    return names.file_name((node,))


def keep_names(path: Path, content: str, make: Callable[[], list[str]]) -> list[str]:
    """Names of the nodes, as they were kept for the same content; else they are made, and kept.

    :raises BadInput: they cannot be kept.
    """
    try:
        kept = json.loads(path.read_text(encoding="utf-8"))
        if kept["content"] == content:
            return [str(node) for node in kept["nodes"]]
    except (OSError, ValueError, KeyError, TypeError):
        pass
    found = make()
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        whole_file.write_text(path, json.dumps({"content": content, "nodes": found}))
    except OSError as error:
        raise BadInput(f"cannot write {path}: {error.strerror}.") from None
    return found


def files_of(folder: Path, series: Series) -> dict[str, Path]:
    """Files with maps of the newest nights of a series that have any, by session, oldest first."""
    found = {path.stem: path for path in dataset_layout.find_files(folder, "pairs", [series.system]).readable}
    there = [night.session for night in series.nights if night.withdrawn is None and night.session in found]
    return {session: found[session] for session in there[-MOST_NIGHTS:]}


def digest(files: Mapping[str, Path]) -> str:
    """Changes when one of the files does."""
    stats = ((session, path.stat()) for session, path in files.items())
    return names.digest(*(part for session, one in stats for part in (session, one.st_mtime_ns, one.st_size)))


def read(files: Mapping[str, Path], series: Series) -> list[NodeHistory]:
    """Histories of all nodes of proven maps, the one that was last furthest behind the others first."""
    columns = ("session", "stack", "fabric", "source", "target", "quantity", "message_bytes", "value")
    measured = (pl.col("evidence") == PROVEN) & (pl.col("value") > 0)
    rows = dataset_layout.scan_files(list(files.values()), "pairs").filter(measured).select(columns).collect()
    found: dict[tuple[str, str, str], dict[str, dict[str, float]]] = {}
    for share in SHARES:
        for session, stack, fabric, node, percent in _percent(rows, share):
            nights = found.setdefault((node, stack, fabric or ""), {})
            nights.setdefault(session, {})[share.name] = percent
    histories = [
        NodeHistory(*key, [NodeNight(series.by_session[session], nights[session]) for session in files if session in nights])
        for key, nights in found.items()
    ]
    return sorted(histories, key=lambda one: (one.stack, one.fabric, -one.worst, one.node))


def _percent(rows: pl.DataFrame, share: NodeShare) -> Iterator[tuple[str, str, str | None, str, float]]:
    """Session, stack, fabric, node and its percent of the median of all pairs."""
    where = ("session", "stack", "fabric", "message_bytes")
    pairs = rows.filter(pl.col("quantity") == share.quantity).group_by(*where, "source", "target").agg(pl.col("value").median())
    ends = (share.end,) if share.end else ("source", "target")
    each = pl.concat([pairs.select(*where, "value", node=pl.col(end)) for end in ends])
    shares = (
        each.with_columns(whole=pl.col("value").median().over(where))
        .group_by(*where, "node")
        .agg(percent=100 * (pl.col("value") / pl.col("whole")).median())
        .group_by("session", "stack", "fabric", "node")
        .agg(pl.col("percent").mean())
    )
    yield from shares.select("session", "stack", "fabric", "node", "percent").iter_rows()


def by_stack_and_fabric(histories: Sequence[NodeHistory]) -> dict[tuple[str, str], list[NodeHistory]]:
    """Histories by stack and fabric, in their order."""
    found: dict[tuple[str, str], list[NodeHistory]] = {}
    for one in histories:
        found.setdefault((one.stack, one.fabric), []).append(one)
    return found


def by_node(histories: Sequence[NodeHistory]) -> dict[str, list[NodeHistory]]:
    """Histories by node, in the order of the names."""
    found: dict[str, list[NodeHistory]] = {}
    for one in sorted(histories, key=lambda one: (one.node, one.stack, one.fabric)):
        found.setdefault(one.node, []).append(one)
    return found

"""Claims of papers as relative references: what any system's own sessions are asked, scaled by that system's links.

A claim (``site_configs/<paper>/published/relative_claims.yaml``) is a ratio between two bounds: of a figure to the line rate of
the rails that its ranks can use, less what packets' headers take of it (:func:`references.payload_limit`), or of two figures.
Every figure is one of two nodes, as in the papers.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from reframe_tests.harness import schema, yaml_file
from reframe_tests.harness.machine.fabric import Fabric
from reframe_tests.harness.sites import references
from reframe_tests.harness.sites.site import ROOT
from reframe_tests.harness.suites import catalogue
from reframe_tests.harness.vocabulary import BadInput

from .claims import Claim

#: Of which fabrics a claim is asked.
ANY, ONE_RAIL, SEVERAL_RAILS, STRIPED = "any", "one_rail", "several_rails", "striped"
#: What its figure is compared with: the line rate, or another figure on one of these fabrics.
LINE_RATE, SAME, HALF_THE_RAILS, NOT_STRIPED = "line_rate", "same", "half_the_rails", "not_striped"
#: Nodes of every figure.
NODES = 2
SCHEMA = ROOT / "site_configs" / "relative_claims.schema.json"
#: Why a claim cannot be asked of a system, by what it is asked of.
_NO_FABRIC = {
    ANY: "no fabric between nodes has a line rate",
    ONE_RAIL: "no fabric between nodes has a line rate and one rail for each rank",
    SEVERAL_RAILS: "no fabric has several rails of which each rank takes one",
    STRIPED: "no fabric has striped rails",
}
_NO_OTHER = {
    HALF_THE_RAILS: "no fabric has half as many rails of the same kind",
    NOT_STRIPED: "no fabric has the same rails not striped",
}


@dataclass(frozen=True)
class ClaimSide:
    """A figure of a claim, without the place where it was measured.

    :param ppn: ranks on each node; 0: ``ppn_a_rail`` for each rail.
    """

    program: str
    benchmark: str
    quantity: str
    ppn: int = 0
    ppn_a_rail: int = 0
    variant: str = ""
    suite_options: Mapping[str, str] = field(default_factory=dict)

    @property
    def row(self) -> catalogue.Benchmark:
        """Its row of the catalogue."""
        return catalogue.find(self.program, self.benchmark)

    def ranks_a_node(self, fabric: Fabric) -> int:
        """Ranks on each node."""
        return self.ppn or self.ppn_a_rail * len(fabric.rails)

    def columns(self, fabric: Fabric, message_bytes: int) -> dict[str, Any]:
        """Columns and values that select the figure, beside those of the place."""
        return {
            **{"fabric": fabric.name, "nodes": NODES, "ppn": self.ranks_a_node(fabric), "group": self.row.group},
            **{"benchmark": self.benchmark, "variant": self.variant, "quantity": self.quantity, "message_bytes": message_bytes},
        }


@dataclass(frozen=True)
class LinkedFabric:
    """A fabric between nodes whose rails have one line rate, on a partition.

    :param most_ranks: ranks of one job that have a core each; ``None``: no bound is described.
    """

    partition: str
    fabric: Fabric
    most_ranks: int | None = None

    @property
    def rail_gbit_per_s(self) -> float:
        """Line rate of one rail in Gbit/s."""
        return float(self.fabric.rails[0].line_rate_gbit_per_s or 0)

    @property
    def adapters(self) -> int | None:
        """Number of adapters its rails are on; ``None`` where the site does not say."""
        named = [rail.adapter for rail in self.fabric.rails]
        return len(set(named)) if all(named) else None


@dataclass(frozen=True)
class RelativeClaim:
    """One claim, as relative_claims.schema.json describes it.

    :param paper: the system of the paper.
    :param under: ``None``: the line rate.
    :param against: :data:`LINE_RATE`, :data:`SAME`, :data:`HALF_THE_RAILS` or :data:`NOT_STRIPED`.
    :param first_bytes: message size in bytes it begins with; ``alone``: and ends with.
    """

    paper: str
    id: str
    sentence: str
    section: str
    fabrics: str
    over: ClaimSide
    under: ClaimSide | None
    against: str
    adapters: str
    first_bytes: int
    alone: bool
    pinning: tuple[str, ...]
    at_least: float | None
    at_most: float | None
    bounds: str
    note: str = ""

    @property
    def name(self) -> str:
        """Paper and claim, unique over all papers."""
        return f"{self.paper}/{self.id}"

    @property
    def sizes(self) -> tuple[int, ...]:
        """Message sizes in bytes that must have been measured: doubled up to the first that is held against the line rate."""
        last = self.first_bytes if self.alone else max(self.first_bytes, self.over.row.line_rate_from_bytes)
        sizes = [self.first_bytes]
        while sizes[-1] * 2 <= last:
            sizes.append(sizes[-1] * 2)
        return tuple(sizes)

    def asks(self, message_bytes: int | None) -> bool:
        """Whether it says something about a message size."""
        if message_bytes is None or self.alone:
            return message_bytes == self.first_bytes
        return message_bytes >= self.first_bytes

    def fits(self, fabric: Fabric) -> bool:
        """Whether it is asked of a fabric."""
        several = len(fabric.rails) > 1
        return {
            ANY: True,
            ONE_RAIL: not (several and fabric.striped),
            SEVERAL_RAILS: several and not fabric.striped,
            STRIPED: several and fabric.striped,
        }[self.fabrics]

    def others(self, over: LinkedFabric, known: Iterable[LinkedFabric]) -> list[LinkedFabric]:
        """Fabrics that the one of its figure is compared with: itself, unless it is one with other rails.

        Those of the same partition go before those of the same name in others.
        """
        if self.against in (LINE_RATE, SAME):
            return [over]
        if self.against == NOT_STRIPED:
            return [one for one in known if one.partition == over.partition and _is_unstriped(one.fabric, over.fabric)]
        halves = [one for one in known if _is_half(one, over) and self._fits_adapters(one, over)]
        return [one for one in halves if one.partition == over.partition] or halves

    def _fits_adapters(self, under: LinkedFabric, over: LinkedFabric) -> bool:
        if not self.adapters:
            return True
        if under.adapters is None or over.adapters is None:
            return False
        return over.adapters == under.adapters * (2 if self.adapters == "twice" else 1)

    def why_not_asked(self, known: Sequence[LinkedFabric]) -> str:
        """Why it is asked of none of a system's fabrics."""
        fitting = [one for one in known if self.fits(one.fabric)]
        if not fitting or self.against not in _NO_OTHER:
            return _NO_FABRIC[self.fabrics]
        if self.adapters and (pairs := [pair for one in fitting for pair in replace(self, adapters="").others(one, known)]):
            if any(one.adapters is None for one in (*pairs, *fitting)):
                return "the site does not say which rails share an adapter ('adapter' of each rail)"
            what = "on as many adapters" if self.adapters == "same" else "on half as many adapters"
            return f"{_NO_OTHER[self.against]} {what}"
        return _NO_OTHER[self.against]

    def at(self, over: LinkedFabric, other: LinkedFabric, message_bytes: int, place: Mapping[str, Any]) -> Claim:
        """The claim at one place and size, with bounds and selections as numbers.

        :param place: columns that both figures have, with their values.
        """
        at_least, at_most = self.at_least, self.at_most
        under: Mapping[str, Any] | float
        if self.under is None:
            under = _mb_per_s(self.over.row, over, whole=self.fabrics in (SEVERAL_RAILS, STRIPED))
            # Below that a token bucket or a buffer may exceed the rate for a moment.
            at_most = at_most if self.over.row.shows_line_rate(self.over.quantity, message_bytes) else None
        else:
            under = {**place, "partition": other.partition, **self.under.columns(other.fabric, message_bytes)}
        factor = len(over.fabric.rails) / len(other.fabric.rails) if self.against == HALF_THE_RAILS else 1.0
        return Claim(
            id=self.name,
            sentence=self.sentence,
            section=self.section,
            over={**place, "partition": over.partition, **self.over.columns(over.fabric, message_bytes)},
            under=under,
            at_least=None if at_least is None else at_least * factor,
            at_most=None if at_most is None else at_most * factor,
            bounds=self.bounds,
            note=self.note,
        )


def _mb_per_s(row: catalogue.Benchmark, over: LinkedFabric, *, whole: bool) -> float:
    """What the rails that can be used carry as payload, in MB/s; both ways where the benchmark sends both ways.

    :param whole: all rails, and not one.
    """
    rails = len(over.fabric.rails) if whole else 1
    return rails * over.rail_gbit_per_s / references.GBIT_PER_MB * row.directions * references.payload_limit(over.fabric)


def _is_unstriped(one: Fabric, striped: Fabric) -> bool:
    return not one.striped and one.transport == striped.transport and set(one.devices) == set(striped.devices)


def _is_half(one: LinkedFabric, whole: LinkedFabric) -> bool:
    """Whether a fabric has half the rails of another, of the same kind and used the same way."""
    alike = one.fabric.transport == whole.fabric.transport and one.rail_gbit_per_s == whole.rail_gbit_per_s
    used_alike = len(one.fabric.rails) == 1 or one.fabric.striped == whole.fabric.striped
    if one.partition == whole.partition:
        there = set(one.fabric.devices) < set(whole.fabric.devices)
    else:
        there = one.fabric.name == whole.fabric.name
    return alike and used_alike and there and 2 * len(one.fabric.rails) == len(whole.fabric.rails)


def papers(root: Path = ROOT) -> list[str]:
    """Systems of the papers whose claims can be asked of others."""
    return sorted(path.parents[1].name for path in (root / "site_configs").glob("*/published/relative_claims.yaml"))


def read(paper: str, root: Path = ROOT) -> list[RelativeClaim]:
    """Relative claims of a paper.

    :raises BadInput: if the file cannot be read, breaks the schema, or asks for a benchmark that the catalogue lacks.
    """
    path = root / "site_configs" / paper / "published" / "relative_claims.yaml"
    rows = yaml_file.read(path)
    if fault := schema.find_fault(SCHEMA, rows):
        raise BadInput(f"{path}: {fault.key}: {fault.message}; see site_configs/relative_claims.schema.json.")
    found = [_claim(paper, row) for row in rows]
    for claim in found:
        for side in filter(None, (claim.over, claim.under)):
            if side.quantity not in side.row.quantities:
                raise BadInput(f"{path}: {claim.id}: {side.benchmark} of {side.program} does not measure {side.quantity}.")
        if claim.under is None and not claim.over.row.directions:
            raise BadInput(f"{path}: {claim.id}: {claim.over.benchmark} says nothing about a line rate.")
    return found


def _claim(paper: str, row: Mapping[str, Any]) -> RelativeClaim:
    over = ClaimSide(**row["over"])
    against, under = LINE_RATE, None
    if row["under"] != LINE_RATE:
        given = {key: value for key, value in row["under"].items() if key != "fabric"}
        ranks = {"ppn": 0, "ppn_a_rail": 0} if given.keys() & {"ppn", "ppn_a_rail"} else {}
        against, under = row["under"]["fabric"], replace(over, **{**ranks, **given})
    ((kind, first),) = row["sizes"].items()
    same = {key: row[key] for key in ("id", "sentence", "section", "fabrics", "at_least", "at_most", "bounds")}
    return RelativeClaim(
        paper=paper,
        over=over,
        under=under,
        against=against,
        adapters=row.get("adapters", ""),
        first_bytes=first,
        alone=kind == "only",
        pinning=tuple(row.get("pinning", ())),
        note=row.get("note", ""),
        **same,
    )

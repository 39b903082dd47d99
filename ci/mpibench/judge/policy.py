"""What a site considers equal: margins by quantity and band, error rates, and what is judged. One
file per system.

``site_configs/<system>/policy.yaml``, checked against ``site_configs/policy.schema.json``. A system
without one uses the defaults below; each key of the file replaces the default of the same name.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from datetime import date
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl

from reframe_tests.harness import optional_file, schema, yaml_file
from reframe_tests.harness.sites import systems
from reframe_tests.harness.sites.site import ROOT
from reframe_tests.harness.vocabulary import QUANTITIES, BadInput, meant

SMALL = "small"
MEDIUM = "medium"
LARGE = "large"
#: Largest message of each band, in bytes: eager messages of one packet, up to where transports
#: change to rendezvous, and what bandwidth decides.
BANDS = {SMALL: 1024, MEDIUM: 65535, LARGE: None}
#: Change for the worse, in percent, below which two sides are called equal.
MARGINS = {"latency_us": 5.0, "t_avg_us": 5.0, "bandwidth_mb_per_s": 3.0, "message_rate_per_s": 5.0}
DEFAULT_MARGIN = 5.0
#: Keys that files of before may have, and nothing reads any more.
UNREAD = ("power",)


@dataclass(frozen=True)
class AcceptedLevel:
    """An accepted level, from ``levels`` of policy.yaml.

    :param since: first day (UTC) on which it was measured.
    :param slower_percent: how much slower than before it is at most; 0 where it is faster.
    :param partition: ``None``, as for the others: whichever it is.
    """

    since: date
    slower_percent: float
    why: str
    partition: str | None = None
    stack: str | None = None
    fabric: str | None = None

    def covers(self, partition: str, stack: str, fabric: str) -> bool:
        """Whether it is one of what was measured there."""
        asked = (self.partition, self.stack, self.fabric)
        return all(
            mine in (None, there)
            for mine, there in zip(asked, (partition, stack, fabric), strict=True)
        )

    def __str__(self) -> str:
        return f"the level accepted since {self.since:%Y-%m-%d} ({self.why})"


@dataclass(frozen=True)
class Policy:
    """How verdicts are reached on one system.

    :param margins_percent: quantity to margin, or to one margin per band; a margin of ``None`` is
        none: what it stands for is recorded and not judged.
    :param bands_bytes: band to its largest message in bytes, ascending; the last has none.
    :param false_discovery_rate: of all changes called, the share that may
        be none (Benjamini and Hochberg 1995).
    :param between_jobs_percent: how much two jobs under one condition differ; the last resort,
        where a side has too few jobs to say and neither the baseline nor earlier sessions are
        a history.
    :param between_jobs_times_repeats: how many times as much as the repeats of one job two jobs are
        taken to differ at least, before a change is called where ``between_jobs_percent`` is asked.
        On the noise recorded here they differ 1 to 3.5 times as much.
    """

    margins_percent: Mapping[str, float | Mapping[str, float | None] | None] = field(
        default_factory=lambda: dict(MARGINS)
    )
    bands_bytes: Mapping[str, int | None] = field(default_factory=lambda: dict(BANDS))
    confidence: float = 0.95
    false_discovery_rate: float = 0.01
    between_jobs_percent: float = 1.0
    between_jobs_times_repeats: float = 2.0
    minimum_repeats: int = 3
    reference_jobs: int = 5
    drift_window_nights: int = 30
    max_age_hours: float = 36.0
    levels: tuple[AcceptedLevel, ...] = ()
    guidelines_margin_percent: float = 10.0
    guidelines_refuse: bool = False
    source: str = "defaults"

    def band(self, message_bytes: int | None) -> str:
        """Band of a message size; benchmarks without a size (Barrier) are in the first."""
        return next(
            name
            for name, last in self.bands_bytes.items()
            if last is None or (message_bytes or 0) <= last
        )

    def bands(self, sizes: pl.Series) -> pl.Series:
        return pl.Series("band", [self.band(size) for size in sizes], dtype=pl.String)

    def margin(self, quantity: str, band: str) -> float:
        """Margin as a fraction: the change for the worse that still counts
        as equal; infinite where nothing is judged.
        """
        given = self.margins_percent.get(quantity, DEFAULT_MARGIN)
        percent = given.get(band, DEFAULT_MARGIN) if isinstance(given, Mapping) else given
        return math.inf if percent is None else float(percent) / 100

    def margins(self, metrics: pl.DataFrame) -> np.ndarray:
        points = metrics.select("quantity", "message_bytes").iter_rows()
        return np.array(
            [self.margin(quantity, self.band(size)) for quantity, size in points], dtype=float
        )

    def judges(self, quantity: str, band: str) -> bool:
        return math.isfinite(self.margin(quantity, band))

    def judging_all(self) -> Policy:
        """The same with the default margin if there is none, for comparisons without a verdict."""
        filled = {
            quantity: {
                band: DEFAULT_MARGIN if margin is None else margin for band, margin in given.items()
            }
            if isinstance(given, Mapping)
            else (DEFAULT_MARGIN if given is None else given)
            for quantity, given in self.margins_percent.items()
        }
        return replace(self, margins_percent=filled)


def load(system: str, root: Path = ROOT) -> Policy:
    """Policy of a system.

    :raises BadInput: the file cannot be read, is not YAML, breaks the
        schema, or names an unknown quantity.
    """
    path = systems.folder_of(system, root) / "policy.yaml"
    if not optional_file.is_there(path):
        return Policy()
    content = yaml_file.read_mapping(path, days_as_text=True)
    where = str(path)
    fault = schema.find_fault(ROOT / "site_configs" / "policy.schema.json", content)
    if fault:
        raise BadInput(
            "configuration-unusable",
            f"{where}: {fault.key}: {fault.message}; see site_configs/policy.schema.json.",
        )
    odd = next(
        (
            key
            for key, value in _leaves(content)
            if isinstance(value, float) and not math.isfinite(value)
        ),
        None,
    )
    if odd:  # which no bound of a schema refuses, and no comparison ever exceeds
        raise BadInput("configuration-unusable", f"{where}: {odd} is not a finite number.")
    unknown = sorted(set(content.get("margins_percent", ())) - set(QUANTITIES))
    if unknown:
        raise BadInput(
            "unknown-name",
            f"{where}: margins_percent.{unknown[0]}: unknown "
            f"quantity{meant(unknown[0], QUANTITIES)}; there are {', '.join(QUANTITIES)}.",
        )
    levels = []
    for place, level in enumerate(content.get("levels", ())):
        try:
            levels.append(AcceptedLevel(**{**level, "since": date.fromisoformat(level["since"])}))
        except ValueError:
            raise BadInput(
                "bad-option",
                f"{where}: levels.{place}.since: {level['since']} is not a date; write it as "
                "2026-01-31.",
            ) from None
    bands = content.get("bands_bytes", BANDS)
    ends = list(bands.values())
    if ends[-1] is not None or None in ends[:-1] or ends[:-1] != sorted(set(ends[:-1])):
        raise BadInput(
            "configuration-unusable",
            f"{where}: bands_bytes must ascend, and only the last band may be open (null).",
        )
    for quantity, margin in content.get("margins_percent", {}).items():
        strange = sorted(set(margin) - set(bands)) if isinstance(margin, Mapping) else []
        if strange:
            raise BadInput(
                "unknown-name",
                f"{where}: margins_percent.{quantity}.{strange[0]}: unknown "
                f"band{meant(strange[0], bands)}; there are {', '.join(bands)}.",
            )
    read = {key: value for key, value in content.items() if key not in UNREAD}
    return Policy(**{**read, "levels": tuple(levels), "source": systems.shown(path, root)})


def _leaves(content: Any, key: str = "") -> Iterator[tuple[str, Any]]:
    """Each value that is neither a mapping nor a list, with its dotted key."""
    if not isinstance(content, Mapping | list):
        yield key, content
        return
    for name, value in content.items() if isinstance(content, Mapping) else enumerate(content):
        yield from _leaves(value, f"{key}.{name}" if key else str(name))

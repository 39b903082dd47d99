"""Which fabric and pinning were proven best for a stack, per partition;
what is not proven is left as the stack has it.

A fabric is chosen where it is the only one of its scope that was measured, or faster than each
other one by more than noise, and all of them are proven: one that was measured and is not may be
the fastest. Where the MPI was also measured with nothing forced, it must be faster than that, too.
A pinning is chosen where it is faster than the stack's own (``default``) with the most ranks a
node. Settings are those of the proven cases themselves, as they were stored, without what only
makes an MPI speak.

Collectives are tuned where ``mpibench tune`` has installed what it proved for that fabric and
pinning. Such rules hold for communicators of exactly as many ranks as were measured, so that
nothing changes for others. Of several conditions the one with most ranks is taken, and the others
are named: libraries read one file.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import polars as pl
import scipy

from mpibench.judge import engine
from mpibench.judge import policy as policies
from mpibench.judge.policy import Policy
from mpibench.store import session_values
from mpibench.store.dataset_layout import read_condition
from mpibench.store.quantity_text import size_text
from mpibench.store.session_values import METRIC, Selection, slowness
from mpibench.store.store import Store
from reframe_tests.harness.launchers import registry as launchers
from reframe_tests.harness.launchers.model import Binding
from reframe_tests.harness.machine.placement import RankPlacement
from reframe_tests.harness.mpis import registry as mpis
from reframe_tests.harness.mpis.tuning.model import DEFAULT
from reframe_tests.harness.printable import clause, first_line
from reframe_tests.harness.samples import PROVEN
from reframe_tests.harness.sites import site, systems, tuned_settings
from reframe_tests.harness.sites.tuned_settings import TunedSettings
from reframe_tests.harness.stacks import metadata
from reframe_tests.harness.stacks.stack import Stack
from reframe_tests.harness.vocabulary import SCOPE_CLUSTER, SCOPE_NODE, BadInput, NotMeasured

from .race import ALL_SIZES, BETTER

#: A metric: :data:`~mpibench.store.session_values.METRIC` without what is compared.
_Key = tuple[Any, ...]
FASTER = "faster"
SLOWER = "slower"
SAME = "not distinguishable"


@dataclass(frozen=True)
class Gain:
    """One condition against another.

    :param against: the other, as text.
    :param times: how many times faster, ``low`` to ``high`` its interval; ``nan`` without one.
    :param metrics: benchmarks and sizes both have.
    :param bands: the same by size of messages.
    """

    against: str
    times: float
    low: float
    high: float
    metrics: int
    bands: Mapping[str, Gain] = field(default_factory=dict)

    @property
    def outcome(self) -> str:
        return FASTER if self.low > 1 else SLOWER if self.high < 1 else SAME

    def as_data(self) -> dict[str, Any]:
        known = math.isfinite(self.low)
        return {
            "against": self.against,
            "times": self.times,
            "low": self.low if known else None,
            "high": self.high if known else None,
            "metrics": self.metrics,
            "bands": {
                name: {"times": band.times, "outcome": band.outcome}
                for name, band in self.bands.items()
            },
        }

    @property
    def better(self) -> bool:
        """Faster by more than noise, and at no size of messages slower."""
        return self.outcome == FASTER and all(
            band.outcome != SLOWER for band in self.bands.values()
        )

    @property
    def text(self) -> str:
        interval = (
            f" ({self.low:.2f} to {self.high:.2f})"
            if math.isfinite(self.low)
            else " (too few repeats for an interval)"
        )
        slower = [name for name, band in self.bands.items() if band.outcome == SLOWER]
        mixed = (
            f", but slower for {' and '.join(slower)} messages"
            if slower and self.outcome == FASTER
            else ""
        )
        said = f"{self.times:.2f} times as fast as {self.against}{interval}"
        return f"{said}{mixed}" if self.outcome != SAME else f"{said}: not more than noise"


def measure(
    values: pl.DataFrame, subject: str, first: str, second: str, policy: Policy
) -> Gain | None:
    """How many times faster one stack, fabric, ... is than another, over all
    that both measured; ``None``: that is nothing.

    Each benchmark, quantity and message size counts alike: the mean of the differences of
    logarithms. A unit is one repeat of one job: how much it lies above or below the others over all
    sizes of a benchmark says how much repeats differ, so that noise of single sizes averages out
    and what disturbs a whole repeat does not. Benchmarks are taken to err together. With few jobs a
    side the policy's spread between jobs is added (:mod:`mpibench.judge.policy`), at least
    ``between_jobs_times_repeats`` times what repeats differ by.

    :param values: values (:data:`mpibench.store.session_values.VALUES`);
        ``subject``: the column in which the two differ.
    """
    keys = [name for name in METRIC if name != subject]
    sides: list[dict[_Key, dict[tuple[str, int], float]]] = [{}, {}]
    for side, name in zip(sides, (first, second), strict=True):
        own = values.filter(pl.col(subject) == name)
        rows = own.with_columns(slowness(own)).select(*keys, "case", "repeat", "slowness")
        for *metric, case, repeat, value in rows.iter_rows():
            side.setdefault(tuple(metric), {})[case, repeat] = value
    common = sorted(sides[0].keys() & sides[1].keys(), key=str)
    if not common:
        return None
    by_band: dict[str, list[_Key]] = {}
    for key in common:
        by_band.setdefault(policy.band(key[keys.index("message_bytes")]), []).append(key)

    def gain(chosen: Sequence[_Key]) -> Gain:
        by_benchmark: dict[_Key, list[_Key]] = {}
        for key in chosen:
            name = tuple(
                key[keys.index(column)] for column in ("suite", "benchmark", "variant", "quantity")
            )
            by_benchmark.setdefault(name, []).append(key)
        effect = 0.0
        error = 0.0
        df = math.inf
        for part in by_benchmark.values():
            own, other = (_side([side[key] for key in part], policy) for side in sides)
            effect += len(part) / len(chosen) * (own[0] - other[0])
            error += len(part) / len(chosen) * math.sqrt(own[1] + other[1])
            df = min(df, own[2] + other[2]) if own[2] > 0 and other[2] > 0 else math.nan
            if math.isnan(df):
                means = [
                    np.array([np.mean(list(side[key].values())) for key in chosen])
                    for side in sides
                ]
                effect = float(np.mean(means[0] - means[1]))
                break
        reach = float(scipy.special.stdtrit(df, 0.5 + policy.confidence / 2)) * error
        return Gain(
            second,
            math.exp(-effect),
            math.exp(-effect - reach),
            math.exp(-effect + reach),
            len(chosen),
        )

    return replace(gain(common), bands={band: gain(part) for band, part in by_band.items()})


def _side(
    rows: Sequence[Mapping[tuple[str, int], float]], policy: Policy
) -> tuple[float, float, float]:
    """Slowness of one benchmark over its sizes, its squared error and degrees of freedom."""
    units = sorted({unit for row in rows for unit in row})
    table = np.array([[row.get(unit, math.nan) for unit in units] for row in rows])
    side = engine.describe(table)
    deviations = np.nanmean(table - side.location[:, None], axis=0)
    spread = float(np.var(deviations, ddof=1)) if len(units) > 1 else math.nan
    jobs = len({case for case, _ in units})
    least = policy.between_jobs_times_repeats**2 * np.nan_to_num(spread)
    between = max((policy.between_jobs_percent / 100) ** 2, float(least)) / jobs
    return float(np.mean(side.location)), between + spread / len(units), float(len(units) - 1)


#: Cases in host memory; what GPUs measure over the same links is no choice beside them.
_OF_HOST = pl.col("condition").str.json_path_match("$.memory").is_null()


class Variable(NamedTuple):
    """One variable and what it is for: ``fabric``, ``pinning``,
    ``tuning`` or ``site`` (what the site sets anyway).
    """

    name: str
    value: str
    purpose: str


@dataclass(frozen=True)
class TunedCollectives:
    """What was installed for one condition.

    :param folder: where it is installed.
    """

    settings: TunedSettings
    folder: Path

    def texts(self) -> dict[str, str]:
        """Name to text of each file that the library reads."""
        try:
            return {name: (self.folder / name).read_text() for name in self.settings.files}
        except OSError as error:
            raise BadInput(
                "file-unreadable",
                f"{error.filename} cannot be read ({error.strerror}): tune again.",
            ) from None

    @property
    def facts(self) -> list[str]:
        place = self.settings.place
        proof = self.settings.proof
        said = [
            f"tuning: collectives of communicators of {place.ranks} ranks, {place.ppn} a node, "
            f"on {place.fabric}; proven {self.settings.made[:10]}, session "
            f"{str(proof.get('session', ''))[:8]}"
        ]
        shown = proof.get("evidence", {})
        for collective in dict.fromkeys(rule.collective for rule in self.settings.rules):
            # All sizes together have no algorithm of their own where sizes have several.
            rows = [
                row
                for row in proof.get("rows", ())
                if row["collective"] == collective
                and row["outcome"] == BETTER
                and row["word"] != DEFAULT
            ]
            best = min(rows, key=lambda row: float(row["ratio"]), default=None)
            if best:
                size = (
                    "all sizes"
                    if best["message_bytes"] == ALL_SIZES
                    else size_text(best["message_bytes"])
                )
                times, low, high = (1 / float(best[name]) for name in ("ratio", "high", "low"))
                said.append(
                    f"tuning: MPI_{collective} is up to {times:.2f} ({low:.2f} to {high:.2f}) "
                    f"times as fast as by the library's own choice ({size}, algorithm "
                    f"{best['word']}); shown by {shown.get(collective)}"
                )
        if how := self.settings.compilation:
            said += [
                f"tuning: {self.folder / name} is the same as one file: set {how.read} instead of "
                "these variables"
                for name in self.settings.compiled
            ]
        if shared := proof.get("oversubscribed"):
            said.append(f"tuning: measured with {shared}")
        return [*said, *([f"tuning: {self.settings.note}"] if self.settings.note else [])]

    def as_data(self) -> Mapping[str, Any]:
        rules = [
            {
                "collective": rule.collective,
                "first": rule.first,
                "last": rule.last,
                "algorithm": rule.word,
            }
            for rule in self.settings.rules
        ]
        return {
            "id": self.settings.id,
            "ranks": self.settings.place.ranks,
            "rules": rules,
            "folder": str(self.folder),
        }


@dataclass(frozen=True)
class Recommendation:
    """For one stack on one partition.

    :param fabric: chosen one; empty: none.
    :param pinning: chosen policy; :data:`DEFAULT`: the stack's own.
    :param variables: what to set.
    :param options: words between ``mpirun -np N`` and the program that
        pin as chosen, where variables do not.
    :param ppn: ranks a node that pinning is for.
    :param gains: what each choice brings.
    :param reasons: why something is left as it is, a sentence each.
    :param jobs: what was measured.
    :param tuned: tuned collectives that are installed for it.
    """

    partition: str
    fabric: str
    pinning: str
    variables: Sequence[Variable]
    options: Sequence[str]
    ppn: int
    gains: Sequence[tuple[str, Gain]]
    reasons: Sequence[str]
    jobs: Sequence[Mapping[str, Any]]
    tuned: TunedCollectives | None = None


@dataclass(frozen=True)
class Recommended:
    """For one stack on all partitions.

    :param notes: what was not used and why.
    """

    system: str
    stack: Stack
    sessions: tuple[str, ...]
    rows: tuple[Recommendation, ...]
    notes: tuple[str, ...] = field(default=())


def recommend(
    store: Store, system: str | None, stack: str, selector: str, *, where: str | None = None
) -> Recommended:
    """Recommend settings from the sessions a selector means.

    :raises NotMeasured: nothing of the stack is proven there.
    """
    name = store.system_of(system)
    whole = store.select(name, selector, where=where, unproven_too=True)
    cases = whole.cases.filter(pl.col("stack") == stack, ~session_values.SHARED_CORES, _OF_HOST)
    if not cases.height:
        known = ", ".join(sorted(set(whole.cases["stack"]))) or "nothing"
        left = f" ({'; '.join(whole.notes)})" if whole.notes else ""
        raise NotMeasured(
            f"nothing of {stack} is proven on {name} in {selector!r}, so nothing is recommended; "
            f"proven: {known}{left}."
        )
    found = _registered(stack)
    _check_version(found, cases)
    described = systems.find(name) or {}
    extras = {row["name"]: row.get("extras", {}) for row in described.get("partitions", ())}
    policy = policies.load(name).judging_all()
    rows = [
        _Choice(
            found,
            whole,
            cases.filter(pl.col("partition") == partition),
            partition,
            extras.get(partition, {}),
            policy,
        ).made()
        for partition in sorted(set(cases["partition"]))
    ]
    return Recommended(name, found, whole.sessions, tuple(rows), whole.notes)


def _registered(name: str) -> Stack:
    stacks, problems = metadata.discover()
    found = next((stack for stack in stacks if stack.name == name), None)
    if found is None:
        why = f" ({'; '.join(problems)})" if problems else ""
        raise BadInput(
            "unknown-name",
            f"stack {name!r} was measured, but is not registered here{why}: build or register it "
            "again.",
        )
    return found


def _check_version(stack: Stack, cases: pl.DataFrame) -> None:
    """Measurements of another version prove nothing of this one."""
    for column, own in (("mpi_version", stack.mpi_version), ("lock_hash", stack.lock_hash)):
        measured = sorted({str(value) for value in cases[column] if value})
        if own and measured and measured != [own]:
            what = column.replace("_", " ")
            raise BadInput(
                "changed-since",
                f"stack {stack.name!r} has {what} {own} but was measured with "
                f"{', '.join(measured)}: measure it again, or select sessions of this one with "
                "--sessions.",
            )


class _Choice:
    """What is chosen for a partition, what each choice brings, and why something is left as it is.

    :param cases: rows of ``cases`` that are proven.
    """

    def __init__(
        self,
        stack: Stack,
        whole: Selection,
        cases: pl.DataFrame,
        partition: str,
        extras: Mapping[str, Any],
        policy: Policy,
    ) -> None:
        self.stack = stack
        self.system = whole.system
        self.partition = partition
        self.extras = extras
        self.policy = policy
        self.values = whole.values.filter(
            pl.col("case").is_in(cases["case"].to_list()), pl.col("variant").fill_null("") == ""
        )
        self.stored = [
            (row, read_condition(row["condition"])) for row in cases.sort("started").to_dicts()
        ]
        self.tried = whole.planned.filter(
            pl.col("stack") == stack.name, pl.col("partition") == partition, _OF_HOST
        )
        self.fabrics = systems.fabrics_of(extras)
        self.gains: list[tuple[str, Gain]] = []
        self.reasons: list[str] = []

    def made(self) -> Recommendation:
        fabric = self._fabric()
        pinning, measured = self._pinning(fabric)
        variables, options = self._variables(fabric, pinning, measured)
        columns = (
            "session",
            "started",
            "job_id",
            "nodelist",
            "fabric",
            "nodes",
            "ppn",
            "pinning",
            "group",
        )
        jobs = tuple({name: row[name] for name in columns} for row, _ in self.stored)
        ppn = int(measured.get("ppn") or 0)
        fabrics = {fabric} if fabric else {str(row["fabric"]) for row, _ in self.stored}
        tuned = _find_tuned(self.system, self.stack, fabrics, pinning, self.reasons)
        set_ = tuple(variables)
        gains = tuple(self.gains)
        reasons = tuple(self.reasons)
        return Recommendation(
            self.partition, fabric, pinning, set_, tuple(options), ppn, gains, reasons, jobs, tuned
        )

    def _fabric(self) -> str:
        """The fabric to choose; empty: none."""
        scopes = {
            str(row["fabric"]): str(condition.get("scope", SCOPE_NODE))
            for row, condition in self.stored
        }
        shipped = {
            str(row["fabric"])
            for row, condition in self.stored
            # the MPI was not made to use it
            if not mpis.transport(str(condition.get("transport", ""))).forced
        }
        between = any(fabric.scope == SCOPE_CLUSTER for fabric in self.fabrics.values())
        scope = SCOPE_CLUSTER if SCOPE_CLUSTER in scopes.values() else SCOPE_NODE
        if scope == SCOPE_NODE and between:
            self.reasons.append(
                "fabric: not set; only fabrics inside a node are proven, but jobs use several nodes"
            )
            return ""
        candidates = sorted(
            name for name, its in scopes.items() if its == scope and name not in shipped
        )
        if unproven := self._unproven(set(scopes), scope):
            names = f"{' and '.join(unproven)} {'was' if len(unproven) == 1 else 'were'}"
            self.reasons.append(
                f"fabric: {names} measured, too, and nothing of that is proven "
                f"({next(iter(unproven.values()))}), so that which is the fastest is not known; "
                "none is set"
            )
            return ""
        best = ""
        lost = []
        for candidate in candidates:
            against = {
                other: measure(self.values, "fabric", candidate, other, self.policy)
                for other in candidates
                if other != candidate
            }
            if all(found is not None and found.better for found in against.values()):
                best = candidate
                self.gains += [("fabric", found) for found in against.values() if found]
            else:
                lost += [
                    f"{candidate}: {found.text}"
                    if found
                    else f"{candidate} and {other} have no measurement in common"
                    for other, found in against.items()
                ]
        if not best:
            why = f" ({lost[0]})" if lost else ""
            self.reasons.append(
                f"fabric: none is faster than all others beyond noise{why}; none is set"
            )
            return ""
        baseline = sorted(name for name in shipped if scopes[name] == scope)
        for other in baseline:
            found = measure(self.values, "fabric", best, other, self.policy)
            if found is None or not found.better:
                self.reasons.append(
                    f"fabric: {best} is no better than {other}, where nothing is forced; none is "
                    "set"
                )
                return ""
            self.gains.append(("fabric", found))
        if len(candidates) == 1 and not baseline:
            self.reasons.append(f"fabric: {best} is the only proven one; its gain is unknown")
        return best

    def _unproven(self, proven: Collection[str], scope: str) -> dict[str, str]:
        """Fabrics of a scope that should be measured and of which
        nothing is proven that is used, each with why.

        One whose scope nobody says counts.
        """
        found: dict[str, str] = {}
        for row in self.tried.filter(pl.col("fabric").is_not_null()).sort("started").to_dicts():
            name = str(row["fabric"])
            described = self.fabrics.get(name)
            its = read_condition(row["condition"]).get("scope") or (
                described.scope if described else scope
            )
            if name not in proven and its == scope and not (described and described.memory.on_gpu):
                shared = row["evidence"] == PROVEN
                said = (
                    ["its ranks shared cores"]
                    if shared
                    else [*(row["sentences"] or ()), row["reason"] or ""]
                )
                found[name] = (
                    clause(first_line(next(filter(None, said), ""))) or "it gave no reason"
                )
        return found

    def _pinning(self, fabric: str) -> tuple[str, Mapping[str, Any]]:
        """The pinning policy to choose, and the condition it was measured in."""
        usable = [
            (row, condition) for row, condition in self.stored if fabric in ("", row["fabric"])
        ]
        ppn = max((int(row["ppn"] or 0) for row, _ in usable), default=0)
        chosen = self.values.filter(pl.col("ppn") == ppn)
        chosen = chosen.filter(pl.col("fabric") == fabric) if fabric else chosen
        usable = [(row, condition) for row, condition in usable if int(row["ppn"] or 0) == ppn]
        newest = usable[-1][1] if usable else {}
        if not chosen.filter(pl.col("pinning") == DEFAULT).height:
            self.reasons.append(
                "pinning: left as it is, because the stack's own was not measured and none can be "
                "proven better"
            )
            return DEFAULT, newest
        others = sorted(set(chosen["pinning"]) - {DEFAULT})
        found = {
            name: gain
            for name in others
            if (gain := measure(chosen, "pinning", name, DEFAULT, self.policy)) is not None
        }
        better = {name: gain for name, gain in found.items() if gain.better}
        if not better:
            said = "; ".join(f"{name} is {gain.text}" for name, gain in found.items())
            self.reasons.append(
                f"pinning: none is better than the stack's own{f' ({said})' if said else ''}; it "
                "is left as it is"
            )
            return DEFAULT, newest
        best = max(better, key=lambda name: better[name].times)
        self.gains.append(("pinning", better[best]))
        return best, [condition for row, condition in usable if row["pinning"] == best][-1]

    def _variables(
        self, fabric: str, pinning: str, measured: Mapping[str, Any]
    ) -> tuple[list[Variable], Sequence[str]]:
        """Variables with their values as they were stored, and options for what has none."""
        of_fabric = [condition for row, condition in self.stored if row["fabric"] == fabric]
        source = of_fabric[-1] if of_fabric else measured
        environment = {
            str(name): str(value) for name, value in (source.get("environment") or {}).items()
        }
        chosen = _transport_names(self.stack, str(source.get("transport", ""))) if fabric else set()
        site_ = {name for entry in self.extras.get("recommended", ()) for name in entry["env_vars"]}
        variables = [
            Variable(name, value, "site" if name in site_ else "fabric")
            for name, value in sorted(environment.items())
            if name in chosen | site_
        ]
        if pinning == DEFAULT:
            return variables, ()
        try:
            words, plain = (_binding(self.stack, policy, measured) for policy in (pinning, DEFAULT))
        except NotMeasured as error:
            self.reasons.append(
                f"pinning: {pinning} is set by the job script, not by a variable: {error}"
            )
            return variables, ()
        known = {variable.name for variable in variables} | set(plain.env)
        variables += [
            Variable(name, value, "pinning")
            for name, value in sorted(words.env.items())
            if name not in known
        ]
        options = words.options
        if options[: len(plain.options)] == plain.options:
            options = options[len(plain.options) :]
        if options:
            self.reasons.append(
                f"pinning: {self.stack.launcher_family} takes it as options, not as variables; "
                "pass them to mpirun"
            )
        if words.files:
            self.reasons.append(
                f"pinning: it needs the file {next(iter(words.files))} in the job's directory, as "
                "the job script writes it"
            )
        return variables, options


def _binding(stack: Stack, policy: str, measured: Mapping[str, Any]) -> Binding:
    """A policy in the words of the stack's launcher."""
    ranks = measured.get("placement") if policy != DEFAULT else None
    cpus = None if ranks is None else tuple(tuple(int(cpu) for cpu in rank) for rank in ranks)
    ppn = int(measured["ppn"])
    nodes = int(measured["nodes"])
    placed = RankPlacement(policy, ppn, cpus)
    return launchers.bind(
        placed, stack.launcher_family, nodes, ppn, mpi=stack.mpi, version=stack.version_tuple
    )


def _transport_names(stack: Stack, transport: str) -> set[str]:
    """Variables by which the MPI is made to use a transport;
    none of those that only make it speak.
    """
    rows = [
        row
        for row in mpis.find(stack.mpi).rows
        if row.transport == transport and stack.version_tuple in row.versions
    ]
    return {
        name
        for row in rows
        for part in (row.env, *row.by_scope.values(), *row.by_rails.values())
        for name in part
    } - {name for row in rows for name in row.debug_env}


def _find_tuned(
    system: str, stack: Stack, fabrics: set[str], pinning: str, reasons: list[str]
) -> TunedCollectives | None:
    """The tuned collectives for a recommendation; why there are
    none, or not all, is added to the reasons.

    :param fabrics: the recommended one; those that were measured where none is.
    """
    top = site.references_file(system).parent / "tuning" / stack.name
    usable: list[TunedCollectives] = []
    for path in sorted(top.glob(f"*/{tuned_settings.NAME}")):
        try:
            found = tuned_settings.read(path.parent)
            if found.place.fabric not in fabrics or found.place.pinning != pinning:
                continue
            tuned_settings.check_release(found, stack)
        except BadInput as error:
            reasons.append(f"tuning: {clause(error)}")
            continue
        usable.append(TunedCollectives(found, path.parent))
    if not usable:
        where = f"{', '.join(sorted(fabrics))} with pinning {pinning}"
        reasons.append(
            f"tuning: no tuned collectives are installed for {where}; see {tuned_settings.REMEDY}"
        )
        return None
    best = max(usable, key=lambda one: (one.settings.place.ranks, one.settings.place.name))
    reasons += [
        f"tuning: that of {usable_row.settings.place.name} is not used, because a library reads "
        "only one file"
        for usable_row in usable
        if usable_row is not best
    ]
    return best

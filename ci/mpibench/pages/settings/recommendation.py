"""Which fabric and pinning were proven best for a stack, per partition; what is not proven is left as the stack has it.

A fabric is chosen where it is the only one of its scope that was measured, or faster than each other one by more than noise,
and all of them are proven: one that was measured and is not may be the fastest. Where the MPI was also measured with nothing
forced, it must be faster than that, too. A pinning is chosen where it
is faster than the stack's own (``default``) with the most ranks a node. Collectives are tuned where ``mpibench tune`` has
installed what it proved for that fabric and pinning. Settings are those of the proven cases themselves, as
they were stored, without what only makes an MPI speak.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import polars as pl

from reframe_tests.harness.launchers import binding
from reframe_tests.harness.launchers.model import Binding
from reframe_tests.harness.machine.placement import RankPlacement
from reframe_tests.harness.mpis import registry as mpis
from reframe_tests.harness.printable import first_line
from reframe_tests.harness.samples import PROVEN
from reframe_tests.harness.sites import systems
from reframe_tests.harness.stacks import metadata
from reframe_tests.harness.stacks.stack import Stack
from reframe_tests.harness.vocabulary import SCOPE_CLUSTER, SCOPE_NODE, BadInput, NotMeasured

from ...judge import policy as policies
from ...judge.policy import Policy
from ...store import session_values
from ...store.dataset_layout import read_condition
from ...store.session_values import Selection
from ...store.store import Store
from . import gain, tuned_collectives
from .gain import Gain
from .tuned_collectives import TunedCollectives

#: Policy that leaves pinning to the stack.
DEFAULT = "default"


@dataclass(frozen=True)
class Variable:
    """One variable and what it is for: ``fabric``, ``pinning``, ``tuning`` or ``site`` (what the site sets anyway)."""

    name: str
    value: str
    purpose: str


@dataclass(frozen=True)
class Recommendation:
    """For one stack on one partition.

    :param fabric: chosen one; empty: none.
    :param pinning: chosen policy; :data:`DEFAULT`: the stack's own.
    :param variables: what to set.
    :param options: words between ``mpirun -np N`` and the program that pin as chosen, where variables do not.
    :param ppn: ranks a node that pinning is for.
    :param gains: what each choice brings.
    :param reasons: why something is left as it is, a sentence each.
    :param jobs: what was measured.
    :param tuned: tuned collectives that are installed for it.
    """

    partition: str
    fabric: str
    pinning: str
    variables: tuple[Variable, ...]
    options: tuple[str, ...]
    ppn: int
    gains: tuple[tuple[str, Gain], ...]
    reasons: tuple[str, ...]
    jobs: tuple[Mapping[str, Any], ...]
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


def recommend(store: Store, system: str, stack: str, selector: str, *, where: str | None = None) -> Recommended:
    """Recommend settings from the sessions a selector means.

    :raises NotMeasured: nothing of the stack is proven there.
    """
    name = store.system_of(system)
    whole = store.select(name, selector, where=where, unproven_too=True)
    cases = whole.cases.filter(pl.col("stack") == stack, ~session_values.SHARED_CORES)
    if not cases.height:
        known = ", ".join(sorted(set(whole.cases["stack"]))) or "nothing"
        left = f" ({'; '.join(whole.notes)})" if whole.notes else ""
        raise NotMeasured(
            f"nothing of {stack} is proven on {name} in {selector!r}, so nothing is recommended; proven is {known}{left}."
        )
    found = _registered(stack)
    _check_version(found, cases)
    described = systems.find(name) or {}
    extras = {row["name"]: row.get("extras", {}) for row in described.get("partitions", ())}
    policy = policies.load(name).judging_all()
    rows = [
        _of_partition(found, whole, cases.filter(pl.col("partition") == partition), extras.get(partition, {}), policy)
        for partition in sorted(set(cases["partition"]))
    ]
    return Recommended(name, found, whole.sessions, tuple(rows), whole.notes)


def _registered(name: str) -> Stack:
    stacks, problems = metadata.discover()
    found = next((stack for stack in stacks if stack.name == name), None)
    if found is None:
        why = next((f" ({text})" for text in problems if name in text), "")
        raise BadInput(f"stack {name!r} was measured and is not registered here{why}: build or register it again.")
    return found


def _check_version(stack: Stack, cases: pl.DataFrame) -> None:
    """Measurements of another version prove nothing of this one."""
    for column, own in (("mpi_version", stack.mpi_version), ("lock_hash", stack.lock_hash)):
        measured = sorted({str(value) for value in cases[column] if value})
        if own and measured and measured != [own]:
            what = column.replace("_", " ")
            raise BadInput(
                f"stack {stack.name!r} has {what} {own} and was measured with {', '.join(measured)}: measure it again, or name "
                "the sessions of this one with --sessions."
            )


def _of_partition(
    stack: Stack, whole: Selection, cases: pl.DataFrame, extras: Mapping[str, Any], policy: Policy
) -> Recommendation:
    (partition,) = set(cases["partition"])
    values = whole.values.filter(pl.col("case").is_in(cases["case"].to_list()), pl.col("variant").fill_null("") == "")
    stored = {row["case"]: (row, read_condition(row["condition"])) for row in cases.sort("started").to_dicts()}
    gains, reasons = list[tuple[str, Gain]](), list[str]()
    tried = whole.planned.filter(pl.col("stack") == stack.name, pl.col("partition") == partition)
    fabric = _fabric(stored, tried, values, extras, policy, gains, reasons)
    pinning, measured = _pinning(fabric, stored, values, policy, gains, reasons)
    variables, options = _settings(stack, fabric, pinning, measured, stored, extras, reasons)
    columns = ("session", "started", "job_id", "nodelist", "fabric", "nodes", "ppn", "pinning", "group")
    jobs = tuple({name: row[name] for name in columns} for row, _ in stored.values())
    ppn = int(measured.get("ppn") or 0)
    fabrics = {fabric} if fabric else {str(row["fabric"]) for row, _ in stored.values()}
    tuned = tuned_collectives.find(whole.system, stack, fabrics, pinning, reasons)
    return Recommendation(
        str(partition), fabric, pinning, tuple(variables), tuple(options), ppn, tuple(gains), tuple(reasons), jobs, tuned
    )


_Stored = Mapping[str, tuple[Mapping[str, Any], Mapping[str, Any]]]


def _fabric(
    stored: _Stored,
    tried: pl.DataFrame,
    values: pl.DataFrame,
    extras: Mapping[str, Any],
    policy: Policy,
    gains: list[tuple[str, Gain]],
    reasons: list[str],
) -> str:
    """The fabric to choose; empty: none.

    :param tried: rows of ``cases`` that were to be measured, proven or not.
    """
    scopes = {str(row["fabric"]): str(condition.get("scope", SCOPE_NODE)) for row, condition in stored.values()}
    shipped = {str(row["fabric"]) for row, condition in stored.values() if not _forced(condition)}
    between = any(one.get("scope") == SCOPE_CLUSTER for one in extras.get("fabrics", {}).values())
    scope = SCOPE_CLUSTER if SCOPE_CLUSTER in scopes.values() else SCOPE_NODE
    if scope == SCOPE_NODE and between:
        reasons.append("fabric: only those inside a node are proven, and jobs use several nodes; none is set")
        return ""
    candidates = sorted(name for name, its in scopes.items() if its == scope and name not in shipped)
    if unproven := _unproven(tried, set(scopes), scope, extras):
        names = " and ".join(unproven)
        reasons.append(
            f"fabric: {names} {'was' if len(unproven) == 1 else 'were'} measured, too, and nothing of that is proven "
            f"({next(iter(unproven.values()))}), so that which is the fastest is not known; none is set"
        )
        return ""
    baseline = sorted(name for name in shipped if scopes[name] == scope)
    best, lost = "", []
    for one in candidates:
        against = {other: _gain(values, "fabric", one, other, policy) for other in candidates if other != one}
        if all(found is not None and found.better for found in against.values()):
            best = one
            gains += [("fabric", found) for found in against.values() if found]
        else:
            lost += [
                f"{one}: {found.text}" if found else f"{one} and {other} share no measurement"
                for other, found in against.items()
            ]
    if not best:
        reasons.append(
            "fabric: none is faster than all others by more than noise" + (f" ({lost[0]})" if lost else "") + "; none is set"
        )
        return ""
    for other in baseline:
        found = _gain(values, "fabric", best, other, policy)
        if found is None or not found.better:
            reasons.append(f"fabric: {best} is no better than {other}, where nothing is forced; none is set")
            return ""
        gains.append(("fabric", found))
    if len(candidates) == 1 and not baseline:
        reasons.append(f"fabric: {best} is the only one that is proven; how much it brings is not known")
    return best


def _unproven(tried: pl.DataFrame, proven: Collection[str], scope: str, extras: Mapping[str, Any]) -> dict[str, str]:
    """Fabrics of a scope that were to be measured and of which nothing is proven that is used, each with why.

    One whose scope nobody says counts.
    """
    described = extras.get("fabrics", {})
    found: dict[str, str] = {}
    for row in tried.filter(pl.col("fabric").is_not_null()).sort("started").to_dicts():
        name = str(row["fabric"])
        its = read_condition(row["condition"]).get("scope") or described.get(name, {}).get("scope") or scope
        if name not in proven and its == scope:
            said = [*(row["sentences"] or ()), row["reason"] or ""] if row["evidence"] != PROVEN else ["its ranks shared cores"]
            found[name] = first_line(next(filter(None, said), "")).rstrip(".") or "it gave no reason"
    return found


def _forced(condition: Mapping[str, Any]) -> bool:
    """Whether the MPI was made to use its fabric."""
    return mpis.transport(str(condition.get("transport", ""))).forced


def _gain(values: pl.DataFrame, subject: str, first: str, second: str, policy: Policy) -> Gain | None:
    sides = [values.filter(pl.col(subject) == name) for name in (first, second)]
    return gain.measure(sides[0], sides[1], (subject,), second, policy)


def _pinning(
    fabric: str,
    stored: _Stored,
    values: pl.DataFrame,
    policy: Policy,
    gains: list[tuple[str, Gain]],
    reasons: list[str],
) -> tuple[str, Mapping[str, Any]]:
    """The pinning policy to choose, and the condition it was measured in."""
    usable = [(row, condition) for row, condition in stored.values() if fabric in ("", row["fabric"])]
    ppn = max((int(row["ppn"] or 0) for row, _ in usable), default=0)
    chosen = values.filter(pl.col("ppn") == ppn)
    chosen = chosen.filter(pl.col("fabric") == fabric) if fabric else chosen
    own = chosen.filter(pl.col("pinning") == DEFAULT)
    others = sorted(set(chosen["pinning"]) - {DEFAULT})
    newest = next((condition for row, condition in reversed(usable) if int(row["ppn"] or 0) == ppn), {})
    if not own.height:
        reasons.append(
            "pinning: the stack's own was not measured, so that no other is proven to be better; it is left as it is"
        )
        return DEFAULT, newest
    found = {name: _gain(chosen, "pinning", name, DEFAULT, policy) for name in others}
    better = {name: one for name, one in found.items() if one is not None and one.better}
    if not better:
        said = "; ".join(f"{name} is {one.text}" for name, one in found.items() if one is not None)
        reasons.append(f"pinning: none is better than the stack's own{f' ({said})' if said else ''}; it is left as it is")
        return DEFAULT, newest
    best = max(better, key=lambda name: better[name].times)
    gains.append(("pinning", better[best]))
    match = [condition for row, condition in usable if row["pinning"] == best and int(row["ppn"] or 0) == ppn]
    return best, match[-1]


def _settings(
    stack: Stack,
    fabric: str,
    pinning: str,
    measured: Mapping[str, Any],
    stored: _Stored,
    extras: Mapping[str, Any],
    reasons: list[str],
) -> tuple[list[Variable], Sequence[str]]:
    """Variables with their values as they were stored, and options for what has none."""
    of_fabric = [condition for row, condition in stored.values() if row["fabric"] == fabric]
    source = of_fabric[-1] if of_fabric else measured
    environment = {str(name): str(value) for name, value in (source.get("environment") or {}).items()}
    chosen = dict.fromkeys(_names(stack, str(source.get("transport", ""))), "fabric") if fabric else {}
    site = {name for entry in extras.get("recommended", ()) for name in entry["env_vars"]}
    variables = [
        Variable(name, value, "site" if name in site else chosen[name])
        for name, value in sorted(environment.items())
        if name in chosen or name in site
    ]
    if pinning == DEFAULT:
        return variables, ()
    try:
        words, plain = (_words(stack, policy, measured) for policy in (pinning, DEFAULT))
    except NotMeasured as error:
        reasons.append(f"pinning: {pinning} is as the job's script has it, and no variable: {error}")
        return variables, ()
    known = {one.name for one in variables} | set(plain.env)
    set_ = [Variable(name, value, "pinning") for name, value in sorted(words.env.items()) if name not in known]
    options = words.options[len(plain.options) :] if words.options[: len(plain.options)] == plain.options else words.options
    if options:
        reasons.append(f"pinning: {stack.launcher_family} takes it as options and not as variables; give them to mpirun")
    if words.files:
        reasons.append(
            f"pinning: it needs the file {next(iter(words.files))} in the job's directory, as the job's script has it"
        )
    return [*variables, *set_], options


def _words(stack: Stack, policy: str, measured: Mapping[str, Any]) -> Binding:
    """A policy in the words of the stack's launcher."""
    ranks = measured.get("placement") if policy != DEFAULT else None
    cpus = None if ranks is None else tuple(tuple(int(cpu) for cpu in one) for one in ranks)
    ppn, nodes = int(measured["ppn"]), int(measured["nodes"])
    placed = RankPlacement(policy, ppn, cpus)
    return binding.bind(placed, stack.launcher_family, nodes, ppn, mpi=stack.mpi, version=stack.version_tuple)


def _names(stack: Stack, transport: str) -> set[str]:
    """Variables by which the MPI is made to use a transport; none of those that only make it speak."""
    rows = [row for row in mpis.find(stack.mpi).rows if row.transport == transport and stack.version_tuple in row.versions]
    return {name for row in rows for part in (row.env, *row.by_scope.values(), *row.by_rails.values()) for name in part} - {
        name for row in rows for name in row.debug_env
    }

"""A tuning from beginning to end: what to measure, the race, the choice, the files, the proof, what is recommended."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime, timezone
from pathlib import Path

from reframe_tests.harness.mpis.tuning.model import DEFAULT, AlgorithmRule, Tuning
from reframe_tests.harness.sites import systems, tuned_settings
from reframe_tests.harness.sites.tuned_settings import Place, TunedSettings
from reframe_tests.harness.stacks import metadata
from reframe_tests.harness.stacks.stack import Stack
from reframe_tests.harness.vocabulary import PINNING_POLICIES, ROOT, BadInput, NotMeasured

from . import asked, compiling, measuring, proof, settings
from . import race as racing
from .compiling import Compiled
from .proof import Proof
from .race import ALL_SIZES, BETTER, WORSE, Compared, TuneState, Usage, choose, compare, keep_proven, ranges, read_state

RESULTS = ROOT / "results" / "tuning"
#: Share of the budget that is kept for the proof.
PROOF_SHARE = 0.25
CANDIDATE = "candidate"


@dataclass(frozen=True)
class TuneRequest:
    """What is asked for.

    :param algorithms: collective to algorithms, where not all are wanted.
    :param budget_s: seconds for everything.
    :param restart: forget what was measured before.
    :param held: as :attr:`measuring.Order.held` has it.
    :param usage: of an application that it is for.
    :param clock: of the budget; ``wait_s``: as :attr:`measuring.Order.wait_s`.
    """

    place: Place
    partition: str
    collectives: tuple[str, ...]
    algorithms: Mapping[str, tuple[str, ...]]
    budget_s: float
    level: str = "nightly"
    restart: bool = False
    options: tuple[str, ...] = ()
    held: tuple[int, ...] = ()
    usage: Usage | None = None
    clock: measuring.Clock = field(default_factory=measuring.Clock)
    wait_s: float = 0.0

    @property
    def folder(self) -> Path:
        """Where reports, logs and the state are kept."""
        return RESULTS / self.place.system / self.place.stack / self.place.name

    @property
    def order(self) -> measuring.Order:
        """A session of it, without algorithms."""
        return measuring.Order(
            self.place,
            self.partition,
            {},
            1,
            0.0,
            self.level,
            options=self.options,
            held=self.held,
            clock=self.clock,
            wait_s=self.wait_s,
        )


@dataclass(frozen=True)
class Tuned:
    """What came of it.

    :param compared: each algorithm against the library's own choice.
    :param chosen: collective to size to algorithm, before the proof.
    :param kept: likewise, what the proof showed to be better.
    :param rules: of what is kept.
    :param found: the proof; ``None`` where nothing was chosen.
    :param before: settings that were installed; ``None``: none, or none that can be used.
    :param compiled: the file that the library made of what is installed; ``None``: it makes none.
    """

    race: racing.Race
    compared: tuple[Compared, ...]
    chosen: Mapping[str, Mapping[int, str]]
    kept: Mapping[str, Mapping[int, str]]
    rules: tuple[AlgorithmRule, ...]
    found: Proof | None
    folder: Path
    before: TunedSettings | None = None
    compiled: Compiled | None = None


def find_stack(name: str) -> tuple[Stack, Tuning]:
    """A stack and what can be tuned of its MPI."""
    stacks, _ = metadata.discover()
    for stack in stacks:
        if stack.name == name:
            try:
                return stack, tuned_settings.tuning_of(stack)
            except NotMeasured as none:
                raise BadInput("no-algorithms", f"{none}.") from None
    there = ", ".join(stack.name for stack in stacks) or "none; run ci/setup"
    raise BadInput("stack-unknown", f"there is no stack {name!r}; there are {there}.")


def check_place(place: Place, partition: str) -> None:
    """Make sure that a system has what is asked for, before anything is looked for or written under such names."""
    rows = systems.select(place.system)["partitions"]
    if partition:
        there = ", ".join(row["name"] for row in rows)
        rows = [row for row in rows if row["name"] == partition]
        if not rows:
            raise BadInput("partition-unknown", f"{place.system} has no partition {partition!r}; there are {there}.")
    fabrics = dict.fromkeys(name for row in rows for name in systems.fabrics_of(row.get("extras", {})))
    if place.fabric not in fabrics:
        where = f"{place.system}{':' * bool(partition)}{partition}"
        raise BadInput("fabric-unknown", f"{where} has no fabric {place.fabric!r}; there are {', '.join(fabrics) or 'none'}.")
    if place.pinning not in PINNING_POLICIES:
        raise BadInput("pinning-unknown", f"--pinning {place.pinning} is not one of {', '.join(PINNING_POLICIES)}.")


def waits(system: str, partition: str) -> bool:
    """Whether jobs of a system, or of one of its partitions, may wait for nodes."""
    rows = systems.select(system)["partitions"]
    return any(row["scheduler"] != "local" for row in rows if partition in ("", row["name"]))


def installed(place: Place) -> TunedSettings | None:
    """Settings that are installed; ``None`` where there are none that can be used."""
    try:
        return tuned_settings.read_of(place)
    except BadInput:
        return None


def finished(request: TuneRequest, stack: Stack, tuning: Tuning) -> str:
    """When a tuning of the same library, algorithms and level came to its end, with nothing left to measure; empty where it
    did not, was another, or is to begin again.
    """
    state = None if request.restart else read_state(request.folder)
    if state is None or not state.finished or (state.library, state.level) != (_library(stack), request.level):
        return ""
    return state.finished if state.algorithms == _list_words(request, stack, tuning) else ""


def _list_words(request: TuneRequest, stack: Stack, tuning: Tuning) -> dict[str, tuple[str, ...]]:
    """Collective to what is measured of it, the library's own choice first."""
    listed = asked.ask(stack, tuning, request.collectives, spread=request.place.spread)
    return {
        name: (DEFAULT, *(each.word for each in asked.pick(listed[name], request.algorithms.get(name, ()))))
        for name in request.collectives
    }


def _library(stack: Stack) -> str:
    return f"{stack.mpi} {stack.mpi_version} {stack.lock_hash}"


def begin(request: TuneRequest, stack: Stack, tuning: Tuning) -> TuneState:
    """The state to go on with: that of an interrupted tuning of the same, or a new one."""
    words = _list_words(request, stack, tuning)
    library = _library(stack)
    if request.restart:
        shutil.rmtree(request.folder, ignore_errors=True)
    state = read_state(request.folder)
    if state is None:
        return TuneState(request.place, library, words, level=request.level)
    if (state.library, state.algorithms) != (library, words) or state.level not in ("", request.level):
        raise BadInput(
            "tuning-of-another",
            f"{request.folder} holds a tuning of {state.library.rpartition(' ')[0]}, {', '.join(state.algorithms)}, with other "
            "algorithms, another library or another --level: begin again with --restart.",
        )
    return state


def tune(request: TuneRequest, stack: Stack, tuning: Tuning, say: Callable[[str], None]) -> Tuned:
    """Tune, and install what is proven to be better."""
    state = begin(request, stack, tuning)
    race = racing.resume(tuning, state, request.folder, request.usage)
    if state.rounds:
        say(f"going on after {len(state.rounds)} rounds, which took {state.measured_s:.0f} s")
    race = racing.go_on(race, request.order, request.folder, request.budget_s * (1 - PROOF_SHARE), say)
    if not race.times:
        raise BadInput(
            "nothing-measured",
            f"nothing was measured within {request.budget_s:.0f} s: give a larger --budget, or fewer algorithms.",
        )
    before = installed(request.place)
    tables = {name: race.table(name) for name in race.times}
    compared = compare(tables)
    chosen = choose(compared)
    if not chosen:
        _finish(request, race)
        return Tuned(race, tuple(compared), {}, {}, (), None, request.folder, before)
    sizes = {name: race.times[name].sizes for name in chosen}
    weights = {name: race.weights(name) for name in chosen if tuning.find(name).as_a_whole}
    candidate = request.folder / CANDIDATE
    made = settings.make(request.place, stack, tuning, to_rules(chosen, sizes))
    settings.install(*made, candidate)
    say(f"proof: default against tuned, {proof.REPEATS} repeats of {', '.join(chosen)}")
    rest = max(request.budget_s - request.clock.spent_s, request.budget_s * PROOF_SHARE)
    found = proof.prove(request.order, tuning, chosen, candidate, request.folder, "proof", rest, race.messages, weights)
    kept = keep_proven(proof.recommended(found), chosen, judge_whole(tuning, found))
    rules = to_rules(kept, sizes)
    compiled = None
    if rules:
        rest = request.budget_s - request.clock.spent_s
        compiled = _install(request, stack, tuning, rules, found, weights, rest, say)
    _finish(request, race)
    return Tuned(race, tuple(compared), chosen, kept, tuple(rules), found, request.folder, before, compiled)


def _finish(request: TuneRequest, race: racing.Race) -> None:
    """Keep that a tuning came to its end, unless a larger budget would measure more."""
    if not race.open():
        race.state.finished = datetime.now(timezone.utc).strftime("%Y-%m-%dT%H:%M:%SZ")
        race.state.write(request.folder)


def _install(
    request: TuneRequest,
    stack: Stack,
    tuning: Tuning,
    rules: Sequence[AlgorithmRule],
    found: Proof,
    weights: Mapping[str, Mapping[int, float]],
    rest_s: float,
    say: Callable[[str], None],
) -> Compiled | None:
    """Install rules with their proof, and beside them what the library itself makes of them, if it does; what became of it."""
    final, texts = settings.make(request.place, stack, tuning, rules, settings.as_proof(found, weights))
    how = tuning.compilation
    if how is None:
        settings.install(final, texts, request.place.folder, found.rows)
        return None
    more = "" if rest_s > compiling.LEAST_S else f", for which at most {compiling.LEAST_S:.0f} s are taken beyond the budget"
    say(f"{how.name}: {stack.name} writes a tuning file of its own of these settings{more}")
    candidate = request.folder / CANDIDATE
    settings.install(final, texts, candidate)
    compiled = Compiled(how.name, why="interrupted")
    try:
        compiled = compiling.compile_settings(how, request.order, final, candidate, request.folder, rest_s)
    finally:
        # What was proven is installed, whatever becomes of the file.
        whole = replace(final, compiled={name: tuned_settings.checksum(content) for name, content in compiled.files.items()})
        settings.install(whole, texts, request.place.folder, found.rows, compiled.files)
    return compiled


def judge_whole(tuning: Tuning, found: Proof) -> dict[str, bool]:
    """Collectives whose settings change more than the sizes they name, and whether they may be used.

    Where a variable beside them holds at every size, they are to be better for all sizes together, as single choices are
    judged; where a choice for some sizes changes others as well, at no measured size worse.
    """
    rows: dict[str, list[Compared]] = {}
    for row in found.rows:
        rows.setdefault(row.collective, []).append(row)
    judged = {}
    for name in found.evidence:
        control, there = tuning.find(name), rows.get(name, [])
        if not control.by_size:
            continue
        if control.env:
            judged[name] = any(row.message_bytes == ALL_SIZES and row.outcome == BETTER for row in there)
        elif control.spills:
            judged[name] = not find_harmed(tuning, there)
    return judged


def find_harmed(tuning: Tuning, rows: Iterable[Compared]) -> list[Compared]:
    """Rows that are why settings which change more than the sizes they name are not used."""
    found = []
    for row in rows:
        control, in_all = tuning.find(row.collective), row.message_bytes == ALL_SIZES
        if in_all if control.env else control.spills and control.by_size and not in_all:
            found += [row] if row.outcome == WORSE or (in_all and row.outcome != BETTER) else []
    return found


def to_rules(chosen: Mapping[str, Mapping[int, str]], sizes: Mapping[str, Sequence[int]]) -> list[AlgorithmRule]:
    """Rules of all collectives."""
    return [rule for name, each in chosen.items() for rule in ranges(name, list(sizes[name]), each)]


def write_jobs(request: TuneRequest, stack: Stack, tuning: Tuning, say: Callable[[str], None]) -> None:
    """Write the job scripts of a first round, as a dry run of ReFrame. Nothing is measured or kept."""
    listed = asked.ask(stack, tuning, request.collectives, spread=request.place.spread)
    words = {}
    for name in request.collectives:
        picked = asked.pick(listed[name], request.algorithms.get(name, ()))
        words[name] = "+".join([DEFAULT, *(each.word for each in picked)])
        say(f"{name}: {len(picked)} algorithms, as {listed[name].source} lists them: {' '.join(each.word for each in picked)}")
    order = replace(request.order, algorithms=words, repeats=racing.REPEATS, seconds=racing.LAUNCH_S[0])
    log, scripts = measuring.dry_run(order, request.folder)
    expected = racing.predict(racing.Race(tuning, TuneState(request.place, "", {})), words, 0)
    say(f"about {expected:.0f} s on {request.place.nodes} nodes for the first round; log: {log}")
    for path in scripts:
        say(f"job: {path}")


@dataclass(frozen=True)
class Checked:
    """What proving installed settings again gave.

    :param held: rows of what is recommended that are better again; ``lost``: that are not.
    :param harmed: as :func:`find_harmed`.
    :param compiled: as :attr:`Tuned.compiled`.
    """

    found: Proof
    held: tuple[Compared, ...]
    lost: tuple[Compared, ...]
    harmed: tuple[Compared, ...] = ()
    compiled: Compiled | None = None

    @property
    def renewed(self) -> bool:
        """Whether the settings were written again, with what was measured now."""
        return not (self.lost or self.harmed)


def check(request: TuneRequest, stack: Stack, tuning: Tuning, say: Callable[[str], None]) -> Checked:
    """Prove installed settings again, also under another release of the library; they are renewed where all of them hold."""
    old = tuned_settings.read_of(request.place)
    if old.mpi != stack.mpi:
        raise BadInput(
            "tuned-for-another-mpi",
            f"the tuned settings of {request.place.text} are for {old.mpi}, and the stack is {stack.mpi}.",
        )
    chosen: dict[str, dict[int, str]] = {}
    wanted: set[tuple[str, int]] = set()
    for row in old.proof.get("rows", ()):
        name, size = row["collective"], row["message_bytes"]
        words = [rule.word for rule in old.rules if rule.collective == name and (not size or rule.first <= size <= rule.last)]
        if words and (size == ALL_SIZES) != tuning.find(name).by_size:
            chosen.setdefault(name, {})[size] = words[0]
            wanted |= {(name, size)} if row["outcome"] == BETTER else set()
    if not wanted:
        raise BadInput("tuned-not-proven", f"the record of {request.place.text} does not say what was proven; tune again.")
    known = asked.ask(stack, tuning, tuple(chosen), spread=request.place.spread)
    for name, each in chosen.items():
        asked.pick(known[name], tuple(dict.fromkeys(each.values())))
    candidate = request.folder / CANDIDATE
    shutil.rmtree(candidate, ignore_errors=True)
    settings.install(*settings.make(request.place, stack, tuning, old.rules), candidate)
    stored = old.proof.get("weights", {})
    weights = {name: {int(size): float(calls) for size, calls in each.items()} for name, each in stored.items()}
    found = proof.prove(request.order, tuning, chosen, candidate, request.folder, "check", request.budget_s, None, weights)
    better = {(row.collective, row.message_bytes) for row in proof.recommended(found)}
    rows = [row for row in found.rows if (row.collective, row.message_bytes) in wanted]
    held = tuple(row for row in rows if (row.collective, row.message_bytes) in better)
    lost = tuple(row for row in rows if (row.collective, row.message_bytes) not in better)
    whole = [name for name, usable in judge_whole(tuning, found).items() if not usable]
    harmed = tuple(row for row in find_harmed(tuning, found.rows) if row.collective in whole)
    if lost or harmed:
        return Checked(found, held, lost, harmed)
    compiled = _install(request, stack, tuning, old.rules, found, weights, request.budget_s - request.clock.spent_s, say)
    return Checked(found, held, lost, harmed, compiled)

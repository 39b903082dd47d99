"""A tuning from beginning to end: what to measure, the race, the
choice, the files, the proof, what is recommended.

The proof measures default against tuned, interleaved in fresh jobs and
paired, and what shows that the settings were taken.
"""

from __future__ import annotations

import shutil
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime, timezone
from pathlib import Path

from mpibench.night import supervision
from mpibench.store.quantity_text import size_text
from reframe_tests.harness.cases.sweep.variants import TUNED
from reframe_tests.harness.mpis.tuning.model import (
    COUNTED,
    DEFAULT,
    NAMED,
    NOT_PROVEN,
    STRICT,
    TIMED,
    AlgorithmRule,
    Compilation,
    Tuning,
)
from reframe_tests.harness.printable import clause
from reframe_tests.harness.sites import systems, tuned_settings
from reframe_tests.harness.sites.tuned_settings import TunedPlace, TunedSettings
from reframe_tests.harness.stacks import metadata
from reframe_tests.harness.stacks.stack import Stack
from reframe_tests.harness.vocabulary import PINNING_POLICIES, BadInput, NotMeasured, meant

from . import measuring, settings
from . import race as racing
from .measuring import Order, TuneRequest
from .race import (
    ALL_SIZES,
    BETTER,
    INCONCLUSIVE,
    WORSE,
    Compared,
    Times,
    TuneState,
    choose,
    compare,
    keep_proven,
    ranges,
    read_state,
)
from .settings import SettingsProof

#: Exit statuses: installed settings no longer hold; nothing is
#: better than the library's own choice.
LOST = 1
NOTHING_BETTER = 3
#: Share of the budget that is kept for the proof.
PROOF_SHARE = 0.25
#: Repeats of both in a proof, and seconds that a launch times its calls for at most, and at least.
REPEATS = 8
LAUNCH_S = 2.0
LEAST_LAUNCH_S = 0.3
#: Seconds that the library's own file may take at least, whatever is
#: left: three starts of the library, and a session.
LEAST_COMPILING_S = 120.0
LATE = (
    "not finished within the budget; repeat the command with a larger --budget to continue with "
    "the proof"
)


def find_stack(name: str) -> tuple[Stack, Tuning]:
    """A stack and what can be tuned of its MPI."""
    stacks, _ = metadata.discover()
    for stack in stacks:
        if stack.name == name:
            try:
                return stack, tuned_settings.tuning_of(stack)
            except NotMeasured as none:
                raise BadInput("nothing-measured", f"{none}.") from None
    there = ", ".join(stack.name for stack in stacks) or "none; run ci/setup"
    like = meant(name, [stack.name for stack in stacks])
    raise BadInput("unknown-name", f"there is no stack {name!r}{like}; there are {there}.")


def check_place(place: TunedPlace, partition: str) -> bool:
    """Make sure that a system has what is requested, before anything
    is looked for or written under such names.

    Whether jobs may wait for nodes there.
    """
    rows = systems.select(place.system)["partitions"]
    if partition:
        there = [row["name"] for row in rows]
        rows = [row for row in rows if row["name"] == partition]
        if not rows:
            raise BadInput(
                "unknown-name",
                f"{place.system} has no partition {partition!r}{meant(partition, there)}; there "
                f"are {', '.join(there)}.",
            )
    fabrics = dict.fromkeys(
        name for row in rows for name in systems.fabrics_of(row.get("extras", {}))
    )
    if place.fabric not in fabrics:
        where = f"{place.system}{':' * bool(partition)}{partition}"
        raise BadInput(
            "unknown-name",
            f"{where} has no fabric {place.fabric!r}{meant(place.fabric, fabrics)}; there are "
            f"{', '.join(fabrics) or 'none'}.",
        )
    if place.pinning not in PINNING_POLICIES:
        raise BadInput(
            "unknown-name",
            f"--pinning {place.pinning} is not one of {', '.join(PINNING_POLICIES)}"
            f"{meant(place.pinning, PINNING_POLICIES)}.",
        )
    return any(row["scheduler"] != "local" for row in rows)


def installed(place: TunedPlace) -> TunedSettings | None:
    """Settings that are installed; ``None`` if there are none that can be used."""
    try:
        return tuned_settings.read_of(place)
    except BadInput:
        return None


def finished(request: TuneRequest) -> str:
    """When a tuning of the same library, algorithms and level came to its end, with nothing left to
    measure; empty if it did not, was another, or is to begin again.
    """
    state = None if request.restart else read_state(request.folder)
    if (
        state is None
        or not state.finished
        or (state.library, state.level) != (request.library, request.level)
    ):
        return ""
    return state.finished if state.algorithms == _list_words(request) else ""


def _list_words(request: TuneRequest) -> dict[str, tuple[str, ...]]:
    """Collective to what is measured of it, the library's own choice first."""
    listed = measuring.list_algorithms(
        request.stack, request.tuning, [*request.algorithms], spread=request.place.spread
    )
    return {
        name: (DEFAULT, *listed[name].pick(words)) for name, words in request.algorithms.items()
    }


def begin(request: TuneRequest) -> TuneState:
    """The state to go on with: that of an interrupted tuning of the same, or a new one."""
    words = _list_words(request)
    if request.restart:
        shutil.rmtree(request.folder, ignore_errors=True)
    state = read_state(request.folder)
    if state is None:
        return TuneState(request.place, request.library, words, level=request.level)
    if (state.library, state.algorithms) != (request.library, words) or state.level not in (
        "",
        request.level,
    ):
        raise BadInput(
            "not-comparable",
            f"{request.folder} holds a tuning of {state.library.rpartition(' ')[0]}, "
            f"{', '.join(state.algorithms)}, with other algorithms, another library or another "
            "--level: begin again with --restart.",
        )
    return state


def tune(request: TuneRequest) -> int:
    """Tune, install what is proven to be better, and say what came of it; exit status."""
    say = request.say
    tuning = request.tuning
    place = request.place
    state = begin(request)
    race = racing.resume(request, state)
    if state.rounds:
        say(f"continuing after {len(state.rounds)} rounds, which took {state.measured_s:.0f} s")
    racing.go_on(race, request, request.budget_s * (1 - PROOF_SHARE))
    if not race.times:
        raise BadInput(
            "nothing-measured",
            f"nothing was measured within {request.budget_s:.0f} s: give a larger --budget, or "
            "fewer algorithms.",
        )
    before = installed(place)
    decision = _decide(request, race)
    if not race.open():  # unless a larger budget would measure more
        state.finished = datetime.now(timezone.utc).strftime("%Y-%m-%dT%H:%M:%SZ")
        state.write(request.folder)
    _say_all(request, _of_race(request, race))
    if left := [name for name in race.times if name not in decision.chosen]:
        say(
            "the library's own choice stays, because nothing was better beyond noise: "
            f"{', '.join(left)}"
        )
    _say_all(request, _of_decision(tuning, decision))
    if not decision.rules:
        say(f"nothing is better than the library's own choice ({DEFAULT}); nothing is installed")
        if before:
            say(f"settings of {before.made} in {place.folder} stay; prove them again with --check")
        return NOTHING_BETTER
    _say_all(request, _of_installed(request, decision, before))
    return 0


@dataclass(frozen=True)
class Decision:
    """What is used of a race.

    :param chosen: what was better in it: collective to the algorithm of each
        size; ``kept``: of these what the proof showed.
    :param rules: what is installed of that; ``compiled``: what the library itself made of them.
    """

    chosen: Mapping[str, Mapping[int, str]]
    proof: SettingsProof | None = None
    kept: Mapping[str, Mapping[int, str]] = field(default_factory=dict)
    rules: Sequence[AlgorithmRule] = ()
    compiled: Compiled | None = None


def _decide(request: TuneRequest, race: racing.Race) -> Decision:
    """Choose, prove the choice, and install what is proven to be better."""
    tuning = request.tuning
    chosen = choose(compare({name: race.table(name) for name in race.times}))
    if not chosen:
        return Decision(chosen)
    weights = {name: race.weights(name) for name in chosen if tuning.find(name).as_a_whole}
    settings.install(
        *settings.make(request.place, request.stack, tuning, _rules(chosen, race)),
        request.candidate,
    )
    request.say(f"proof: default against tuned, {REPEATS} repeats of {', '.join(chosen)}")
    rest = max(request.left_s, request.budget_s * PROOF_SHARE)
    proof = prove(request, chosen, "proof", rest, race.messages, weights)
    kept = keep_proven(recommended(proof), chosen, judge_whole(tuning, proof))
    rules = _rules(kept, race)
    return Decision(chosen, proof, kept, rules, _install(request, rules, proof) if rules else None)


def _of_race(request: TuneRequest, race: racing.Race) -> Iterator[str]:
    """What was measured, and what was not."""
    state = race.state
    whole = racing.exhaustive_s(race)
    share = (
        f", {100 * state.measured_s / whole:.0f} % of the {whole:.0f} s of an exhaustive sweep"
        if whole
        else ""
    )
    decisions = sum(len(sizes) for sizes in race.survivors.values())
    measured = (
        f"measured {state.measured_s:.0f} s in {len(state.rounds)} rounds for {decisions} decisions"
    )
    yield f"{request.place.text}: {measured}{share}"
    for collective, refused in state.refused.items():
        for word, why in refused.items():
            yield f"  {collective} {word} is left out: {why}"
    for collective, why in race.unusable.items():
        yield f"  {collective}: not measured: {why}"
    if usage := request.usage:
        for name, times in race.times.items():
            if not request.tuning.find(name).by_size:
                covered = (
                    f"{100 * usage.covered(name, times.sizes):.0f} % of its calls with known size "
                    "have a measured size"
                )
                yield (
                    f"{name}: weighted by {usage.source}, "
                    f"{covered}{'' if race.weights(name) else ': not weighted'}"
                )


def _of_decision(tuning: Tuning, decision: Decision) -> Iterator[str]:
    """What the proof says of each choice; nothing if nothing was chosen."""
    if decision.proof is None:
        return
    yield from of_proof(decision.proof)
    better = {(row.collective, row.message_bytes) for row in recommended(decision.proof)}
    choices = [(name, size) for name, sizes in decision.chosen.items() for size in sizes]
    yield (
        f"{sum(choice in better for choice in choices)} of {len(choices)} choices held in the proof"
    )
    for name in decision.chosen:
        if name not in decision.kept and any(
            collective == name and size != ALL_SIZES for collective, size in better
        ):
            worse = [
                _size_of(row)
                for row in find_harmed(tuning, decision.proof.rows)
                if row.collective == name
            ]
            where = (
                ", ".join(worse)
                if tuning.find(name).spills
                else "all together, where they are not better"
            )
            yield f"  not used: {name}, whose settings also change other sizes: {where}"


def _of_installed(
    request: TuneRequest, decision: Decision, before: TunedSettings | None
) -> Iterator[str]:
    """What is installed, and instead of what."""
    for rule in decision.rules:
        sizes = f"{rule.first} to {rule.last} bytes" if rule.last else "all sizes"
        yield f"  {rule.collective}, {sizes}, {request.place.ranks} ranks: {rule.word}"
    yield f"installed: {request.place.folder}"
    yield from of_compiled(decision.compiled, request.tuning)
    old, new = (
        {rule.collective for rule in rules}
        for rules in (before.rules if before else (), decision.rules)
    )
    if gone := old - new:
        yield (
            f"replaced: settings of {', '.join(sorted(gone))} existed, but were not tuned or no "
            "better this time"
        )
    if request.tuning.note:
        yield f"note: {request.tuning.note}"


def _say_all(request: TuneRequest, lines: Iterable[str]) -> None:
    for line in lines:
        request.say(line)


def _rules(chosen: Mapping[str, Mapping[int, str]], race: racing.Race) -> list[AlgorithmRule]:
    return [
        rule
        for name, words in chosen.items()
        for rule in ranges(name, race.times[name].sizes, words)
    ]


def write_jobs(request: TuneRequest) -> None:
    """Write the job scripts of a first round, as a dry run of
    ReFrame. Nothing is measured or kept.
    """
    listed = measuring.list_algorithms(
        request.stack, request.tuning, [*request.algorithms], spread=request.place.spread
    )
    words = {}
    for name, wanted in request.algorithms.items():
        picked = listed[name].pick(wanted)
        words[name] = "+".join([DEFAULT, *picked])
        request.say(
            f"{name}: {len(picked)} algorithms, as {listed[name].source} lists them: "
            f"{' '.join(picked)}"
        )
    log, scripts = measuring.dry_run(request, Order(words, racing.REPEATS, racing.LAUNCH_S[0]))
    expected = racing.predict(
        racing.Race(request.tuning, TuneState(request.place, "", {})), words, 0
    )
    request.say(
        f"about {expected:.0f} s on {request.place.nodes} nodes for the first round; log: {log}"
    )
    for path in scripts:
        request.say(f"job: {path}")


def check(request: TuneRequest) -> int:
    """Prove installed settings again, also under another release of the library; they are renewed
    where all of them hold. Exit status.
    """
    place = request.place
    stack = request.stack
    tuning = request.tuning
    say = request.say
    old = tuned_settings.read_of(place)
    if old.mpi != stack.mpi:
        raise BadInput(
            "not-comparable",
            f"the tuned settings of {place.text} are for {old.mpi}, and the stack is {stack.mpi}.",
        )
    chosen: dict[str, dict[int, str]] = {}
    wanted: set[tuple[str, int]] = set()
    for row in old.proof.get("rows", ()):
        name = row["collective"]
        size = row["message_bytes"]
        words = [
            rule.word
            for rule in old.rules
            if rule.collective == name and (not size or rule.first <= size <= rule.last)
        ]
        if words and (size == ALL_SIZES) != tuning.find(name).by_size:
            chosen.setdefault(name, {})[size] = words[0]
            wanted |= {(name, size)} if row["outcome"] == BETTER else set()
    if not wanted:
        raise BadInput(
            "changed-since", f"the record of {place.text} does not say what was proven; tune again."
        )
    known = measuring.list_algorithms(stack, tuning, [*chosen], spread=place.spread)
    for name, by_size in chosen.items():
        known[name].pick(tuple(dict.fromkeys(by_size.values())))
    shutil.rmtree(request.candidate, ignore_errors=True)
    settings.install(*settings.make(place, stack, tuning, old.rules), request.candidate)
    stored = old.proof.get("weights", {})
    weights = {
        name: {int(size): float(calls) for size, calls in by_size.items()}
        for name, by_size in stored.items()
    }
    proof = prove(request, chosen, "check", request.budget_s, {}, weights)
    better = {(row.collective, row.message_bytes) for row in recommended(proof)}
    lost = [row for row in proof.rows if (row.collective, row.message_bytes) in wanted - better]
    unusable = [name for name, usable in judge_whole(tuning, proof).items() if not usable]
    harmed = [row for row in find_harmed(tuning, proof.rows) if row.collective in unusable]
    renewed = not (lost or harmed)
    compiled = _install(request, old.rules, proof) if renewed else None
    there = sum((row.collective, row.message_bytes) in wanted for row in proof.rows)
    say(f"{place.text}: {there - len(lost)} of {there} choices hold")
    _say_all(request, (f"  no longer: {of_row(row)}" for row in lost))
    _say_all(request, (f"  changed as well: {of_row(row)}" for row in harmed))
    _say_all(request, of_proof(proof))
    say(f"renewed: {place.folder}" if renewed else "the settings are unchanged: tune again")
    _say_all(request, of_compiled(compiled, tuning))
    return 0 if renewed else LOST


# Whether settings are better, and what shows that they were taken.


def prove(
    request: TuneRequest,
    chosen: Mapping[str, Mapping[int, str]],
    name: str,
    limit_s: float,
    forced: Mapping[str, Mapping[str, Mapping[str, Sequence[object]]]],
    weights: Mapping[str, Mapping[int, float]],
) -> SettingsProof:
    """Measure the candidate against the library's own choice.

    :param chosen: collective to message size to algorithm.
    :param forced: what one call of each algorithm sent when it was forced,
        where counted (:attr:`race.Race.messages`).
    :param weights: collective to message size to calls of an application,
        where one algorithm is chosen for all sizes.
    """
    tuning = request.tuning
    order = Order(
        dict.fromkeys(chosen, f"{DEFAULT}+{TUNED}"),
        REPEATS,
        launch_s(len(chosen), limit_s),
        str(request.candidate),
    )
    try:
        ran = measuring.run(request, order, name, limit_s)
    except supervision.OutOfTime:
        raise BadInput("changed-since", f"the settings could not be proven: {LATE}.") from None
    cases = measuring.cases_of(ran.session, tuple(chosen))
    unusable = {
        name: LATE if ran.late else why
        for name in chosen
        if (why := measuring.why_unusable(cases.get(name)))
    }
    if len(unusable) == len(chosen):
        first, why = next(iter(unusable.items()))
        raise BadInput(
            "changed-since", f"the settings could not be proven: {first}: {why.rstrip('.')}."
        )
    tables = {}
    for name in chosen:
        if name not in unusable:
            tables[name] = Times(name)
            tables[name].add(ran.session.uuid, cases[name].samples)
    sums = {
        name: tables[name].as_one(weights.get(name) or None)
        for name in tables
        if tuning.find(name).as_a_whole
    }
    rows = []
    for row in [*compare({**tables, **sums}), *compare({name: tables[name] for name in sums})]:
        words = chosen[row.collective]
        rows.append(replace(row, word=words.get(row.message_bytes, words.get(ALL_SIZES, DEFAULT))))
    evidence = {}
    files = tuned_settings.read(request.candidate).files
    for name in tables:
        algorithms = cases[name].condition.get("algorithms", {})
        labels = {**forced.get(name, {}), DEFAULT: algorithms.get(DEFAULT, {}).get("messages", {})}
        evidence[name] = show(
            tuning, algorithms.get(TUNED, {}), labels, chosen[name], rows, name, files
        )
    shared = str(next((cases[name].condition.get("oversubscribed") for name in tables), None) or "")
    return SettingsProof(ran.session.uuid, tuple(rows), evidence, unusable, shared, weights)


def launch_s(collectives: int, limit_s: float) -> float:
    """Seconds that a launch may time its calls for, so that the proof of so
    many collectives fits into a limit if it can.
    """
    seconds = (limit_s - racing.SESSION_S) / (2 * REPEATS * collectives) - racing.OVERHEAD_S
    return round(min(LAUNCH_S, max(LEAST_LAUNCH_S, seconds)), 2)


def show(
    tuning: Tuning,
    tuned: Mapping[str, object],
    counted: Mapping[str, Mapping[str, Sequence[object]]],
    chosen: Mapping[int, str],
    rows: Sequence[Compared],
    collective: str,
    files: Mapping[str, str],
) -> str:
    """How it is shown that a collective's algorithms were taken, the strongest first.

    :param tuned: what the condition keeps of the settings.
    :param counted: algorithm to message size to what one call of it
        sent, of the library's own choice as well.
    """
    # The library named each algorithm of two levels that was chosen, and none where another was.
    named = tuned.get("named")
    of_levels = {
        size for size, word in chosen.items() if tuning.find(collective).is_of_levels(word)
    }
    named_as_chosen = (
        of_levels
        and isinstance(named, Mapping)
        and (
            all(
                named.get(str(size)) == (word if size in of_levels else None)
                for size, word in chosen.items()
            )
        )
    )
    if named_as_chosen:
        return NAMED
    # Its messages are those of the forced algorithms and, at one size at least, others than without
    # settings: what a library sends that ignores them.
    messages = tuned.get("messages")
    if isinstance(messages, Mapping):
        triples = [
            (
                list(messages[str(size)]),
                list(counted[word][str(size)]),
                list(counted.get(DEFAULT, {}).get(str(size), ())),
            )
            for size, word in chosen.items()
            if str(size) in messages and str(size) in counted.get(word, {})
        ]
        if all(own == forced for own, forced, _ in triples) and any(
            default and own != default for own, _, default in triples
        ):
            return COUNTED
    # A file's choices are called without a look whether they apply;
    # what a variable forces is looked at.
    if tuned.get(STRICT) or (tuning.strict and not files):
        return STRICT
    return (
        TIMED
        if any(row.collective == collective and row.outcome != INCONCLUSIVE for row in rows)
        else NOT_PROVEN
    )


def recommended(proof: SettingsProof) -> list[Compared]:
    """What is better and was shown to be taken."""
    return [
        row
        for row in proof.rows
        if row.outcome == BETTER and proof.evidence.get(row.collective, NOT_PROVEN) != NOT_PROVEN
    ]


def judge_whole(tuning: Tuning, proof: SettingsProof) -> dict[str, bool]:
    """Collectives whose settings change more than the sizes they
    name, and whether they may be used.

    Where a variable beside them holds at every size, they are to be better for all sizes together,
    as single choices are judged; where a choice for some sizes changes others as well, at no
    measured size worse.
    """
    judged = {}
    for name in proof.evidence:
        control = tuning.find(name)
        rows = [row for row in proof.rows if row.collective == name]
        if control.by_size and control.env:
            judged[name] = any(
                row.message_bytes == ALL_SIZES and row.outcome == BETTER for row in rows
            )
        elif control.by_size and control.spills:
            judged[name] = not find_harmed(tuning, rows)
    return judged


def find_harmed(tuning: Tuning, rows: Iterable[Compared]) -> list[Compared]:
    """Rows that are why settings which change more than the sizes they name are not used."""
    found = []
    for row in rows:
        control = tuning.find(row.collective)
        in_all = row.message_bytes == ALL_SIZES
        if in_all if control.env else control.spills and control.by_size and not in_all:
            found += [row] if row.outcome == WORSE or (in_all and row.outcome != BETTER) else []
    return found


# The tuning file that a library itself makes of proven settings, for
# those who load one file rather than set variables.


@dataclass(frozen=True)
class Compiled:
    """The outcome of a tuning file.

    :param content: empty if there is none; ``why``: there is none.
    """

    name: str
    content: bytes = b""
    why: str = ""

    @property
    def files(self) -> Mapping[str, bytes]:
        return {self.name: self.content} if self.content else {}


def _install(
    request: TuneRequest, rules: Sequence[AlgorithmRule], proof: SettingsProof
) -> Compiled | None:
    """Install rules with their proof, and beside them what the library
    itself makes of them, if it does; the outcome of it.
    """
    final, texts = settings.make(
        request.place, request.stack, request.tuning, rules, settings.as_proof(proof)
    )
    how = request.tuning.compilation
    if how is None:
        settings.install(final, texts, request.place.folder, proof.rows)
        return None
    least = f", which may take {LEAST_COMPILING_S:.0f} s beyond the budget"
    more = "" if request.left_s > LEAST_COMPILING_S else least
    request.say(
        f"{how.name}: {request.stack.name} writes these settings into its own tuning file{more}"
    )
    settings.install(final, texts, request.candidate)
    compiled = Compiled(how.name, why="interrupted")
    try:
        compiled = compile_settings(request, how, final)
    finally:
        # What was proven is installed, whatever becomes of the file.
        whole = replace(
            final,
            compiled={
                name: tuned_settings.checksum(content) for name, content in compiled.files.items()
            },
        )
        settings.install(whole, texts, request.place.folder, proof.rows, compiled.files)
    return compiled


def compile_settings(request: TuneRequest, how: Compilation, found: TunedSettings) -> Compiled:
    """Have the library make its file of the candidate, in a job under its condition.

    The library starts three times: with the variables it writes the file; with the file alone,
    which it must say that it has read, it must write the same bytes again; and without either,
    others (``sweep.outcomes``).
    """
    collective = next(rule.collective for rule in found.rules)
    words = {collective: f"{DEFAULT}+{TUNED}"}
    order = Order(words, 1, LEAST_LAUNCH_S, str(request.candidate), show=False, compiles=True)

    def without(why: str) -> Compiled:
        return Compiled(how.name, why=clause(why))

    try:
        session = measuring.run(
            request, order, "compiled", max(request.left_s, LEAST_COMPILING_S)
        ).session
    except supervision.OutOfTime:
        return without("its job did not finish in time")
    except BadInput as error:
        return without(str(error))
    case = measuring.cases_of(session, (collective,)).get(collective)
    if (why := measuring.why_unusable(case)) or case is None:
        return without(why)
    row = case.condition.get("algorithms", {}).get(TUNED, {})
    made = row.get("compiled")
    if not isinstance(made, Mapping):
        return without(str(row.get("not_compiled") or "the library was not asked for anything"))
    path = Path(str(session.info.get("workdir") or ".")) / case.directory / made["file"]
    try:
        content = path.read_bytes()
    except OSError as error:
        return without(f"{path} cannot be read ({error.strerror})")
    if tuned_settings.checksum(content) != made["sha256"]:
        return without(f"{path} is no longer what the job wrote")
    return Compiled(how.name, content)


# Sentences.


def _size_of(row: Compared) -> str:
    return "all sizes" if row.message_bytes == ALL_SIZES else size_text(row.message_bytes)


def of_row(row: Compared) -> str:
    """One comparison: ``Allreduce, 1 KiB: ring takes 0.71 [0.66,
    0.76] of the default's 5.1 us: better``.

    Where the settings leave a size to the library, or differ from
    size to size, no algorithm is named.
    """
    # The sum of what is normalised is in no unit that says something.
    whole = "time" if row.message_bytes == ALL_SIZES else f"{row.default_us:.1f} us"
    taken = "the settings take" if row.word == DEFAULT else f"{row.word} takes"
    return (
        f"{row.collective}, {_size_of(row)}: {taken} {row.ratio:.2f} [{row.low:.2f}, "
        f"{row.high:.2f}] of the default's {whole}: {row.outcome}"
    )


def of_proof(proof: SettingsProof) -> Iterator[str]:
    """What the proof says of each collective."""
    if proof.oversubscribed:
        yield (f"{proof.oversubscribed}: the order may differ where each rank has its own core")
    for collective, evidence in proof.evidence.items():
        rows = [row for row in proof.rows if row.collective == collective]
        best = min((row.ratio for row in rows if row.outcome == BETTER), default=1.0)
        sizes = [row.outcome for row in rows if row.message_bytes != ALL_SIZES]
        counted = ", ".join(f"{sizes.count(outcome)} {outcome}" for outcome in (BETTER, WORSE))
        yield (
            f"{collective}: {counted} of {len(sizes)} sizes; best {1 / best:.2f} times as fast; "
            f"shown by {evidence}"
        )
        yield from (f"  {of_row(row)}" for row in rows)
        if evidence == NOT_PROVEN:
            yield (
                "  not recommended: nothing shows that the library applied the setting for "
                f"{collective}"
            )
    yield from (f"{collective}: not used: {why}" for collective, why in proof.unusable.items())


def of_compiled(compiled: Compiled | None, tuning: Tuning) -> Iterator[str]:
    """What a library made of the settings itself."""
    if compiled is None or tuning.compilation is None:
        return
    if compiled.why:
        yield f"no {compiled.name} for {tuning.compilation.read}: {compiled.why}"
        return
    yield (
        f"{compiled.name}: {len(compiled.content)} bytes, the same settings in one file, for "
        f"{tuning.compilation.read} instead of the variables; given only this file, the library "
        "writes the same bytes again"
    )

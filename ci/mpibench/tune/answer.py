"""What a tuning answers, as lines for a terminal."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from reframe_tests.harness.mpis.tuning.model import DEFAULT, NOT_PROVEN, Tuning
from reframe_tests.harness.sites.tuned_settings import Place, TunedSettings

from ..store.quantity_text import size_text
from .compiling import Compiled
from .proof import Proof, recommended
from .race import ALL_SIZES, BETTER, WORSE, Compared, exhaustive_s
from .tuning import Checked, Tuned, find_harmed
from .workload import Workload


def size_of(row: Compared) -> str:
    """Message size in words."""
    return "all sizes" if row.message_bytes == ALL_SIZES else size_text(row.message_bytes)


def of_row(row: Compared) -> str:
    """One comparison: ``Allreduce, 1 KiB: ring takes 0.71 [0.66, 0.76] of the default's 5.1 us: better``.

    Where the settings leave a size to the library, or differ from size to size, no algorithm is named.
    """
    # The sum of what is normalised is in no unit that says something.
    whole = "time" if row.message_bytes == ALL_SIZES else f"{row.default_us:.1f} us"
    taken = "the settings take" if row.word == DEFAULT else f"{row.word} takes"
    return (
        f"{row.collective}, {size_of(row)}: {taken} {row.ratio:.2f} [{row.low:.2f}, {row.high:.2f}] of the default's "
        f"{whole}: {row.outcome}"
    )


def of_proof(found: Proof) -> Iterator[str]:
    """What the proof says of each collective."""
    if found.oversubscribed:
        yield f"{found.oversubscribed}: what is faster here need not be where each rank has a core of its own"
    for collective, evidence in found.evidence.items():
        rows = [row for row in found.rows if row.collective == collective]
        best = min((row.ratio for row in rows if row.outcome == BETTER), default=1.0)
        sizes = [row for row in rows if row.message_bytes != ALL_SIZES]
        counted = ", ".join(f"{sum(row.outcome == each for row in sizes)} {each}" for each in (BETTER, WORSE))
        yield f"{collective}: {counted} of {len(sizes)} sizes; best {1 / best:.2f} times as fast; shown by {evidence}"
        yield from (f"  {of_row(row)}" for row in rows)
        if evidence == NOT_PROVEN:
            yield f"  not recommended: nothing shows that the library took what was set for {collective}"
    yield from (f"{collective}: not used: {why}" for collective, why in found.unusable.items())


def of_cost(result: Tuned) -> str:
    """What the race cost against an exhaustive sweep."""
    race = result.race
    decisions = sum(len(each) for each in race.survivors.values())
    whole = exhaustive_s(race)
    spent = race.state.measured_s
    share = f", {100 * spent / whole:.0f} % of the {whole:.0f} s of an exhaustive sweep" if whole else ""
    return f"measured {spent:.0f} s in {len(race.state.rounds)} rounds for {decisions} decisions{share}"


def of_tuning(result: Tuned, place: Place, tuning: Tuning) -> Iterator[str]:
    """Lines on a whole tuning."""
    yield f"{place.text}: {of_cost(result)}"
    for collective, refused in result.race.state.refused.items():
        for word, why in refused.items():
            yield f"  {collective} {word} is left out: {why}"
    for collective, why in result.race.unusable.items():
        yield f"  {collective}: not measured: {why}"
    if usage := result.race.usage:
        for name, times in result.race.times.items():
            if not result.race.tuning.find(name).by_size:
                share = f"{100 * usage.covered(name, times.sizes):.0f} % of its calls of known size are of sizes measured"
                yield f"{name}: weighted by {usage.source}, {share}{'' if result.race.weights(name) else ': not weighted'}"
    left = [name for name in result.race.times if name not in result.chosen]
    if left:
        yield f"the library's own choice stays, nothing was better by more than noise: {', '.join(left)}"
    if result.found:
        yield from of_proof(result.found)
        better = {(row.collective, row.message_bytes) for row in recommended(result.found)}
        choices = [(name, size) for name, each in result.chosen.items() for size in each]
        yield f"{sum(each in better for each in choices)} of {len(choices)} choices held in the proof"
        for name in result.chosen:
            if name not in result.kept and any(each == name for each, size in better if size != ALL_SIZES):
                worse = [size_of(row) for row in find_harmed(tuning, result.found.rows) if row.collective == name]
                where = ", ".join(worse) if tuning.find(name).spills else "all of them together, where they are not better"
                yield f"  not used: {name}, whose settings change sizes that they do not name: {where}"
    if result.rules:
        for rule in result.rules:
            sizes = f"{rule.first} to {rule.last} bytes" if rule.last else "all sizes"
            yield f"  {rule.collective}, {sizes}, {place.ranks} ranks: {rule.word}"
        yield f"installed: {place.folder}"
        yield from of_compiled(result.compiled, tuning)
        if gone := _collectives(result.before) - {rule.collective for rule in result.rules}:
            yield f"replaced: settings of {', '.join(sorted(gone))} were there, and are not tuned or no better this time"
        if tuning.note:
            yield f"note: {tuning.note}"
    else:
        yield f"nothing is better than the library's own choice ({DEFAULT}); nothing is installed"
        if result.before:
            yield f"left as they are: settings of {result.before.made} in {place.folder}; --check proves them again"


def _collectives(settings: TunedSettings | None) -> set[str]:
    return {rule.collective for rule in settings.rules} if settings else set()


def of_workload(jobs: Workload) -> Iterator[str]:
    """What the jobs of a system use."""
    count = len(jobs.conditions)
    yield f"{jobs.source}: {jobs.node_hours:.4g} node-hours of {count} conditions of nodes and processes per node"
    for part, what in (
        (jobs.assumed, "were started by an MPI's own daemons, and are taken to have a rank on each CPU allocated"),
        (jobs.uneven, "have different numbers of ranks on their nodes, or are of heterogeneous jobs, and are not tuned"),
    ):
        if part:
            yield f"  {100 * part / jobs.node_hours:.0f} % {what}"
    if jobs.without:
        hours = f"{jobs.without:.4g} node-hours of jobs without such a step"
        yield f"  beside them {hours}, of which nothing says that they use MPI"


def of_compiled(compiled: Compiled | None, tuning: Tuning) -> Iterator[str]:
    """What a library made of the settings itself."""
    if compiled is None or tuning.compilation is None:
        return
    if compiled.why:
        yield f"no {compiled.name} for {tuning.compilation.read}: {compiled.why}"
        return
    yield (
        f"{compiled.name}: {len(compiled.content)} bytes, the same settings in one file, for {tuning.compilation.read} in "
        "place of the variables; given it alone, the library writes the same bytes again"
    )


def of_check(checked: Checked, place: Place, tuning: Tuning) -> Iterable[str]:
    """Lines on settings that were proven again."""
    yield f"{place.text}: {len(checked.held)} of {len(checked.held) + len(checked.lost)} choices hold"
    yield from (f"  no longer: {of_row(row)}" for row in checked.lost)
    yield from (f"  changed as well: {of_row(row)}" for row in checked.harmed)
    yield from of_proof(checked.found)
    yield f"renewed: {place.folder}" if checked.renewed else "the settings are left as they were: tune again"
    yield from of_compiled(checked.compiled, tuning)

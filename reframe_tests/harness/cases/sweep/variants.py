"""One algorithm of a collective as a condition: that of the job, and the variables that choose the
algorithm.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from ...mpis.tuning.model import DEFAULT, Compilation, Tuning, check_words
from ...printable import clause
from ...suites import algorithms
from ...suites.catalogue import Launch
from ...vocabulary import BadInput, NotMeasured
from ..job import interleaved, script
from ..job.condition import Condition

#: Label of what an installed or proposed file chooses.
TUNED = "tuned"
#: Options of the instrument: it counts the messages of a call; it calls, and times nothing.
COUNT = "--count"
CALL = "--call"
_ENTRY = re.compile(r"(?P<word>[\w.-]+)(?:@(?P<sizes>[0-9]+(?:/[0-9]+)*))?")


@dataclass(frozen=True)
class Wish:
    """An algorithm to be measured."""

    word: str
    sizes: tuple[int, ...] = ()

    @classmethod
    def parse(cls, text: str) -> list[Wish]:
        """``default+3+5@8/512``: algorithms joined by ``+``, each with
        all sizes or with those behind its ``@``.

        :raises BadInput: it is not of this form, or has an algorithm twice.
        """
        wishes = []
        for entry in text.split("+"):
            match = _ENTRY.fullmatch(entry)
            if not match:
                raise BadInput(
                    "bad-option", f"algorithms: {entry!r} is not ALGORITHM or ALGORITHM@SIZE/SIZE."
                )
            wishes.append(
                cls(
                    match["word"],
                    tuple(int(size) for size in (match["sizes"] or "").split("/") if size),
                )
            )
        words = [wish.word for wish in wishes]
        if len(set(words)) < len(words):
            raise BadInput("bad-option", f"algorithms: {text!r} has one twice.")
        return wishes

    def __str__(self) -> str:
        return self.word + (f"@{'/'.join(map(str, self.sizes))}" if self.sizes else "")


@dataclass(frozen=True)
class Variant:
    """An algorithm as the job measures it.

    :param env: variables that choose it, beside those of the condition.
    :param apart: it may fail without harm to the others; then it is started no more.
    :param shown: the launch that shows that it is taken, by messages counted or by a library that
        would end otherwise, and under which condition; ``None``: there is none.
    :param compiled: the launches that make the library's own file of what is set, each with its
        condition: with the variables it is written (1), with the file alone it is written again
        (2), and with neither (3). Empty: it is not requested.
    """

    word: str
    env: Mapping[str, str]
    condition: Condition
    launch: Launch
    apart: bool = False
    shown: tuple[Condition, Launch] | None = None
    compiled: tuple[tuple[Condition, Launch], ...] = ()

    def commands(
        self, own: Condition, command: Sequence[str], options: Sequence[str]
    ) -> list[script.Command]:
        """Its launches for a job that has entered the condition ``own``:
        what is timed, then what shows it, once.
        """
        extra = [*([self.shown] if self.shown else []), *self.compiled]
        timed = self.launch.name if self.apart else ""
        rows = []
        for where, launch, once in [
            (self.condition, self.launch, False),
            *((*step, True) for step in extra),
        ]:
            [row] = interleaved.list_commands(
                where, [launch], where.launcher_words(command, options)
            )
            more = {
                name: value
                for name, value in where.job_env.items()
                if own.job_env.get(name) != value
            }
            enter = (
                shlex.join(["env", *(f"{name}={value}" for name, value in more.items())])
                if more
                else ""
            )
            # What a library ends rather than take is not timed; that it cannot
            # count a call says nothing of its time.
            group = timed if not once or CALL in launch.args else launch.name
            rows.append(replace(row, enter=enter, once=once, group=group))
        return rows


def list_wishes(tuning: Tuning, collective: str, asked: str) -> list[Wish]:
    """The algorithms to be measured, the library's own choice first.

    :param asked: as :meth:`Wish.parse` reads it; empty: all that are
        known without asking the library.
    :raises NotMeasured: the MPI has no control of the collective's algorithm.
    :raises BadInput: one is unknown.
    """
    try:
        control = tuning.find(collective)
    except BadInput as none:
        raise NotMeasured(clause(none)) from None
    if not asked:
        return [Wish(DEFAULT), *(Wish(algorithm.word) for algorithm in control.algorithms)]
    wishes = Wish.parse(asked)
    # Of numbers the record may know fewer than the library, whose list `mpibench tune` asks for.
    words = [wish.word for wish in wishes if wish.word != TUNED and not wish.word.isdecimal()]
    check_words(control, words, control.known, tuning.source)
    return wishes if any(wish.word == DEFAULT for wish in wishes) else [Wish(DEFAULT), *wishes]


def make(
    own: Condition,
    launch: Launch,
    tuning: Tuning,
    wish: Wish,
    env: Mapping[str, str],
    *,
    seconds: float,
    show: bool,
    compiles: bool = False,
) -> Variant:
    """An algorithm under a condition.

    :param seconds: of a launch of all sizes; 0: as the level says.
    :param show: whether a further launch shows that it is taken, where the library can.
    :param compiles: whether the library makes its own file of it, where it can.
    """
    name = f"{launch.name}_{re.sub(r'[^A-Za-z0-9]', '_', wish.word)}"
    [expected] = launch.expected
    sizes = tuple(size for size in expected.sizes if not wish.sizes or size in wish.sizes)
    if not sizes:
        raise NotMeasured(
            f"none of the sizes {wish.sizes} requested for {wish.word} is measured at this level"
        )
    # Each size has the same time, however many of them there are.
    budget = seconds * len(sizes) / len(expected.sizes)
    args = {
        "--sizes": ",".join(map(str, sizes)),
        **({"--budget-s": f"{budget:.3g}"} if seconds else {}),
    }
    words = list(launch.args)
    for option, value in args.items():
        words[words.index(option) + 1] = value
    condition = replace(own, chosen={**own.chosen, **env})
    timed = replace(
        launch,
        name=name,
        args=("--algorithm", wish.word, *words),
        expected=(expected._replace(sizes=sizes, variants=(f"{algorithms.VARIANT}{wish.word}",)),),
    )
    shown = None
    more, option = (tuning.counting, COUNT) if tuning.counting else (tuning.proving, CALL)
    # What is the library's own choice may fall back as it likes.
    if show and more and not (option == CALL and wish.word == DEFAULT):
        extra = {
            key: _fill(value, condition.job_env) for key, value in more.items() if key not in env
        }
        where = replace(condition, chosen={**condition.chosen, **extra})
        shown = (
            where,
            replace(timed, name=f"{name}_shown", args=(option, *timed.args), expected=()),
        )
    compiled = (
        _compile(own, condition, timed, tuning.compilation)
        if compiles and tuning.compilation
        else ()
    )
    return Variant(
        wish.word, env, condition, timed, wish.word not in (DEFAULT, TUNED), shown, compiled
    )


def _compile(
    own: Condition, tuned: Condition, timed: Launch, how: Compilation
) -> tuple[tuple[Condition, Launch], tuple[Condition, Launch], tuple[Condition, Launch]]:
    first, again, plain = (f"{name}_{how.name}" for name in ("written", "again", "plain"))

    def write(where: Condition, result: str, env: Mapping[str, str]) -> tuple[Condition, Launch]:
        name = re.sub(r"[^A-Za-z0-9]", "_", result.removesuffix(Path(result).suffix))
        more = {how.written: f"./{result}", **env}
        launch = replace(
            timed, name=f"{timed.name}_{name}", args=(CALL, *timed.args), expected=(), result=result
        )
        return replace(where, chosen={**where.chosen, **more}), launch

    # A file is not read where the variables it was made of are set beside it.
    return (
        write(tuned, first, {}),
        write(own, again, {how.read: f"./{first}"}),
        write(own, plain, {}),
    )


def _fill(value: str, env: Mapping[str, str]) -> str:
    """A value with ``{NAME}`` replaced by what the variable was; the
    comma before or behind nothing goes, too.
    """
    return re.sub(r"\{(\w+)\}", lambda match: env.get(match[1], ""), value).strip(",")

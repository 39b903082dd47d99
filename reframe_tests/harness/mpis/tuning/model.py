"""What can be tuned in an MPI's collectives: one record each, the rules that choose, and the files
that the library reads.

A rule sets the algorithm of a collective for a range of message sizes in communicators of exactly
so many ranks; smaller ones keep the library's own choice, because they were not measured (Cambridge
paper, appendix C.2). Sizes are those that the tests print: bytes of one rank's block; for
reductions and Bcast, of the whole vector.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import pairwise

from ...vocabulary import BadInput

#: The library's own choice.
DEFAULT = "default"
#: Stands in a variable's value for the folder the files are in.
FOLDER = "{folder}"
#: How it is shown that a control took effect: the library ends the program rather than take another
#: algorithm; it names the one it takes; it sent other messages than by default; its times differ by
#: more than noise, in launches that differ by nothing else.
STRICT = "strict"
NAMED = "named"
COUNTED = "messages"
TIMED = "timing"
NOT_PROVEN = "not proven"


@dataclass(frozen=True)
class Algorithm:
    """One algorithm.

    :param word: as the control is given it: ``3``, ``ring``.
    :param title: what the library or its manual calls it, where that is another word.
    """

    word: str
    title: str = ""


@dataclass(frozen=True)
class AlgorithmListing:
    """A program of the library that lists algorithms.

    :param program: it and its arguments; the first word is a path below the prefix.
    :param pattern: regular expression for one control, ``{variable}`` standing for it. With the
        group ``last`` algorithms are the numbers from 1 to it; with ``word`` (and ``title``) each
        match is one.
    :param ignored: words that are none.
    :param part: regular expression whose first group is the control's part;
        empty: the pattern itself names the control.
    :param prefix: beginning of the control's variable that the program leaves out.
    """

    program: tuple[str, ...]
    pattern: str
    ignored: tuple[str, ...] = ()
    part: str = ""
    prefix: str = ""


@dataclass(frozen=True)
class AlgorithmLevels:
    """Algorithms of two levels, within nodes and between them: of a
    further component, under a variable of its own.

    :param prefix: beginning of their words; what follows is the variable's value.
    :param listing: how the library lists them; what it does not list is not there.
    """

    prefix: str
    variable: str
    algorithms: tuple[Algorithm, ...]
    listing: AlgorithmListing


@dataclass(frozen=True)
class Control:
    """What sets the algorithm of one collective.

    :param collective: as the tests name it (``Allreduce``).
    :param variable: environment variable that takes one algorithm for all sizes and communicators.
    :param algorithms: those known without asking the library; the library's own list comes first.
    :param by_size: its files can choose by message size; else one
        algorithm is chosen for all sizes.
    :param whole: its files count the bytes of all ranks' blocks together.
    :param env: variables it needs beside.
    :param spills: a choice for some sizes also changes what is taken
        at others, and in other communicators.
    :param number: of the collective in the library's files.
    :param levels: further algorithms, for several nodes with several ranks on each.
    """

    collective: str
    variable: str
    algorithms: tuple[Algorithm, ...]
    by_size: bool = True
    whole: bool = False
    env: Mapping[str, str] = field(default_factory=dict)
    number: int = -1
    levels: AlgorithmLevels | None = None
    spills: bool = False

    @property
    def known(self) -> tuple[Algorithm, ...]:
        """All algorithms that are known without asking the library."""
        more = self.levels.algorithms if self.levels else ()
        return (
            *self.algorithms,
            *(
                Algorithm(f"{self.levels.prefix}{algorithm.word}")
                for algorithm in more
                if self.levels
            ),
        )

    @property
    def as_a_whole(self) -> bool:
        """Whether settings are for all sizes together: one algorithm, or a
        variable beside it that holds at every size.
        """
        return not self.by_size or bool(self.env)

    def is_of_levels(self, word: str) -> bool:
        """Whether an algorithm is one of two levels."""
        return self.levels is not None and word.startswith(self.levels.prefix)


@dataclass(frozen=True)
class AlgorithmRule:
    """One algorithm for messages of some sizes.

    :param first: smallest size in bytes; ``last``: the largest, inclusive.
    """

    collective: str
    first: int
    last: int
    word: str


@dataclass(frozen=True)
class TunedFiles:
    """What makes a library follow rules.

    :param env: variables; :data:`FOLDER` in a value stands for the folder of the files.
    :param files: name to content.
    :param further: files nothing refers to, for other ways to load the same.
    """

    env: Mapping[str, str]
    files: Mapping[str, str] = field(default_factory=dict)
    further: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class Wanted:
    """Rules to be written for a library.

    :param ranks: of the communicators they are for; ``nodes``: that these are on.
    :param library: path of libmpi, of which some formats need the library's own tree.
    :param name: beginning of a file's name that says the condition (``shm_nn_1_np_4_ppn_4``).
    """

    rules: tuple[AlgorithmRule, ...]
    ranks: int
    version: tuple[int, ...] = ()
    library: str = ""
    name: str = "mpi"
    nodes: int = 1


@dataclass(frozen=True)
class Compilation:
    """A file that the library itself writes of everything that is
    set, and reads instead of the variables.

    :param written: variable that names the file it writes; ``read``: the one it reads.
    :param name: of the file among tuned settings.
    :param loaded: regular expression of what it prints, with the variables of
        any launch, of a ``{file}`` that it has read.
    """

    written: str
    read: str
    name: str
    loaded: str


@dataclass(frozen=True)
class Tuning:
    """What can be tuned in an MPI.

    :param source: where the controls are described.
    :param listing: how the library lists algorithms; ``None``: the manual's lists count.
    :param env: variables every control needs.
    :param strict: variables with which the library ends rather than
        take another algorithm than the one set.
    :param proving: variables with which it ends rather than take another algorithm, but which
        change other calls as well, so that nothing is timed with them: each algorithm is called
        once. ``fallback``: regular expression of what it then says, ``{collective}`` standing for
        the name in capitals.
    :param ignored: regular expression of what it prints of a value that
        it does not take and goes on without.
    :param counting: variables with which it counts the messages it sends; ``{NAME}`` in a value
        stands for what a variable was.
    :param naming: regular expression of what it then prints of the algorithm that a call takes, of
        those of :attr:`Control.levels`, ``{collective}`` standing for the name in small letters;
        its groups are ``size`` and ``word``.
    :param write: rules to what the library reads.
    :param compilation: how it writes a file of its own of what is set; ``None``: it does not.
    :param note: what a reader of tuned settings should know.
    """

    source: str
    controls: tuple[Control, ...]
    write: Callable[[Tuning, Wanted], TunedFiles]
    listing: AlgorithmListing | None = None
    env: Mapping[str, str] = field(default_factory=dict)
    strict: Mapping[str, str] = field(default_factory=dict)
    proving: Mapping[str, str] = field(default_factory=dict)
    fallback: str = ""
    ignored: str = ""
    counting: Mapping[str, str] = field(default_factory=dict)
    naming: str = ""
    compilation: Compilation | None = None
    note: str = ""

    def find(self, collective: str) -> Control:
        """The control of a collective."""
        for control in self.controls:
            if control.collective == collective:
                return control
        there = ", ".join(control.collective for control in self.controls)
        raise BadInput(
            "unknown-name",
            f"{collective}'s algorithm cannot be set; those of {there} can.",
        )

    def force(self, collective: str, word: str, *, strict: bool = True) -> dict[str, str]:
        """Variables that force one algorithm for all sizes; none for :data:`DEFAULT`."""
        control = self.find(collective)
        if word == DEFAULT:
            return {}
        if control.levels and control.is_of_levels(word):
            return {control.levels.variable: word.removeprefix(control.levels.prefix)}
        return {
            **self.env,
            **(self.strict if strict else {}),
            **control.env,
            control.variable: word,
        }


def check_words(
    control: Control, words: Sequence[str], known: Sequence[Algorithm], source: str
) -> None:
    """Make sure that algorithms exist.

    :param source: where ``known`` is from.
    """
    there = [algorithm.word for algorithm in known]
    for word in words:
        if word != DEFAULT and word not in there:
            raise BadInput(
                "unknown-name",
                f"{control.collective} has no algorithm {word!r}: {source} lists "
                f"{', '.join(there)}.",
            )


def write(tuning: Tuning, wanted: Wanted) -> TunedFiles:
    """What makes the library follow rules.

    :raises BadInput: rules that overlap or that the library cannot follow.
    """
    ordered = sorted(wanted.rules, key=lambda rule: (rule.collective, rule.first))
    for rule in ordered:
        control = tuning.find(rule.collective)
        if not 0 <= rule.first <= rule.last:
            raise BadInput(
                "configuration-unusable",
                f"a rule of {rule.collective} goes from {rule.first} to {rule.last} bytes, which "
                "is not a range.",
            )
        if (
            not control.by_size
            and sum(other.collective == rule.collective for other in ordered) > 1
        ):
            raise BadInput(
                "configuration-unusable",
                f"{rule.collective} allows one algorithm for all sizes, but the rules have "
                "several.",
            )
    for first, second in pairwise(ordered):
        if first.collective == second.collective and second.first <= first.last:
            raise BadInput(
                "configuration-unusable",
                f"two rules of {first.collective} cover {second.first} bytes.",
            )
    return tuning.write(tuning, replace(wanted, rules=tuple(ordered)))

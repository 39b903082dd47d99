"""MPICH's JSON selection file (``MPIR_CVAR_COLL_SELECTION_TUNING_JSON_FILE``;
src/mpi/coll/src/csel.c).

A file replaces the whole tree, so the library's own tree is read from the library itself, where it
is compiled in as text, and rules are put in front of it: nested tests with one answer each,
``comm_size<p`` to the own tree, ``comm_size<=p`` to ranges of sizes, ``comm_size=any`` to the own
tree again. There is no ``comm_size=24``.

The library uses what a leaf names without checking that it applies, so each leaf is placed behind
the tests of the library's own tree: not for MPI_IN_PLACE, for operations of users, or for fewer
elements than ranks.

The layer above (ch4) may handle a collective before the tree is consulted:
``MPIR_CVAR_<OP>_DEVICE_COLLECTIVE=0`` prevents that, in communicators of every size.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from functools import lru_cache
from pathlib import Path
from typing import Any

from ...vocabulary import BadInput
from .model import FOLDER, AlgorithmRule, TunedFiles, Tuning, Wanted

NAME = "mpich_selection.json"
VARIABLE = "MPIR_CVAR_COLL_SELECTION_TUNING_JSON_FILE"
Tree = dict[str, Any]
#: The compiled-in tree of MPIR, and not those of ch4, which compose or use the node's memory.
_TREE = re.compile(rb'\{"collective=[\x09\x0a\x0d\x20-\x7e]+')
#: Of these the program ends when the average size is requested (get_avg_msgsize), and the sizes of
#: the tests here are those of all ranks together.
_TOGETHER = ("Reduce_scatter", "Reduce_scatter_block")
#: Collective to the test behind which its choices stand, and its answer for what was measured.
_GUARDS: Mapping[str, tuple[str, str]] = {
    **dict.fromkeys(("Alltoall", "Alltoallv"), ("is_sendbuf_inplace=yes", "is_sendbuf_inplace=no")),
    **dict.fromkeys(("Allreduce", "Reduce"), ("is_op_built_in=no", "is_op_built_in=yes")),
    **dict.fromkeys(_TOGETHER, ("is_commutative=no", "is_commutative=yes")),
}
#: Algorithms that need an element for each rank (rounded down to a power of two).
_SCATTERING = ("reduce_scatter_allgather", "reduce_scatter_gather")
_ENOUGH = ("count<pow2", "count=any")


def own_tree(library: str) -> Tree:
    """The tree that is compiled into a library."""
    return json.loads(_own_tree(library))  # type: ignore[no-any-return]


@lru_cache(maxsize=4)
def _own_tree(library: str) -> str:
    try:
        content = Path(library).read_bytes()
    except OSError as error:
        raise BadInput(
            "file-unreadable",
            f"{library} cannot be read ({error.strerror}), so MPICH's own choices are unknown.",
        ) from None
    for match in _TREE.finditer(content):
        if b"algorithm=MPIR_" in match[0]:
            try:
                json.loads(match[0])
            except ValueError:
                continue
            return match[0].decode()
    raise BadInput(
        "session-missing",
        f"{library} has no MPICH selection tree, so a file would replace unknown choices.",
    )


def leaf(collective: str, word: str) -> str:
    """The algorithm as a tree names it."""
    scope = "allcomm" if word in ("nb", "linear") else "intra"
    return f"algorithm=MPIR_{collective}_{scope}_{word}"


def write(tuning: Tuning, wanted: Wanted) -> TunedFiles:
    """The library's own tree with the rules in front."""
    if not wanted.rules:
        return TunedFiles({})
    tree = own_tree(wanted.library)
    env: dict[str, str] = {VARIABLE: f"{FOLDER}/{NAME}"}
    for collective in dict.fromkeys(rule.collective for rule in wanted.rules):
        control = tuning.find(collective)
        rules = [rule for rule in wanted.rules if rule.collective == collective]
        key = f"collective={collective.lower()}"
        own = tree.get(key)
        if own is None:
            raise BadInput("session-missing", f"the tree of {wanted.library} has no {key}.")
        inner = own.get("comm_type=intra", own)
        mine = {
            f"comm_size<{wanted.ranks}": inner,
            f"comm_size<={wanted.ranks}": _by_size(
                collective, rules, inner, wanted.ranks, control.whole, control.by_size
            ),
            "comm_size=any": inner,
        }
        outer = (
            {name: value for name, value in own.items() if name != "comm_type=intra"}
            if "comm_type=intra" in own
            else {}
        )
        tree[key] = {
            "comm_type=intra": mine,
            **(outer or ({"comm_type=inter": own} if inner is own else {})),
        }
        env |= control.env
    return TunedFiles(env, {NAME: json.dumps(tree, indent=1) + "\n"})


def _choose(collective: str, word: str, own: Tree) -> Tree:
    """An algorithm behind the tests that it needs, the library's own choice where they fail."""
    tree: Tree = {leaf(collective, word): {}}
    if word in _SCATTERING:
        tree = {_ENOUGH[0]: own, _ENOUGH[1]: tree}
    if guard := _GUARDS.get(collective):
        tree = {guard[0]: own, guard[1]: tree}
    return tree


def _unit(collective: str, ranks: int, whole: bool) -> tuple[str, int]:
    """The kind of size that is tested, and how many of the tests' bytes make one of it."""
    return ("total", ranks) if whole else ("total", 1) if collective in _TOGETHER else ("avg", 1)


def _by_size(
    collective: str, rules: list[AlgorithmRule], own: Tree, ranks: int, whole: bool, by_size: bool
) -> Tree:
    if not by_size:
        return _choose(collective, rules[0].word, own)
    kind, times = _unit(collective, ranks, whole)
    tree: Tree = {}
    next_free = 0
    for rule in rules:
        if rule.first > next_free:
            tree[f"{kind}_msg_size<={(rule.first) * times - 1}"] = own
        tree[f"{kind}_msg_size<={(rule.last + 1) * times - 1}"] = _choose(
            collective, rule.word, own
        )
        next_free = rule.last + 1
    return {**tree, f"{kind}_msg_size=any": own}

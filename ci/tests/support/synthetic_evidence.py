"""Rank records, conditions and outputs made by hand, and what can be changed in them."""

from __future__ import annotations

import copy
import json
import re
import zlib
from collections.abc import Iterable, Mapping, Sequence
from types import SimpleNamespace
from typing import Any

from folders import DATA
from reframe_tests.harness.cases.job import condition
from reframe_tests.harness.evidence import rank_records
from reframe_tests.harness.evidence.rank_records import RankEvidence
from reframe_tests.harness.machine import topology
from reframe_tests.harness.sites import site
from reframe_tests.harness.stacks.stack import Stack
from replacing import replaced
from studies.output_damage import golden
from synthetic_stack import made_stack

# ---- Rank records made by hand: one rank's file as the recorder writes it, and what can be
# changed in it.

#: One rank's file as the recorder writes it.
DOCUMENT: dict[str, Any] = json.loads((DATA / "rank_record.json").read_text())
INTERFACE: dict[str, Any] = {"dev_port": 0, "slot": None, "lower": [], "addresses": []}
STACK = made_stack(
    "openmpi",
    "5.0.11",
    **{"launcher_family": "prrte", "prefix": "/opt/ompi", "library": "/opt/ompi/lib/libmpi.so.40"},
    library_version_pattern=r"^Open MPI v5\.0\.11\b",
)


def make_rank(number: int = 0, host: str = "c1", **changes: Any) -> RankEvidence:
    """A rank, with parts of its document replaced:
    ``init__cpus="0-3"`` sets ``document["init"]["cpus"]``.
    """
    document = copy.deepcopy(DOCUMENT)
    document |= {"host": host, "pid": 100 + number, "world": {"rank": number, "size": 2}}
    for snapshot in ("init", "finalize"):
        document[snapshot]["cpus"] = str(number)
    for path, value in changes.items():
        document = replaced(document, path.split("__"), value)
    document["node"] = {"gpus": None, "adapters": None, **document["node"]}
    return rank_records.parse_rank(json.dumps(document), "c1.100.json")


def pair(**changes: Any) -> list[RankEvidence]:
    """Ranks 0 and 1 on one node, each on its own core."""
    return [make_rank(0, **changes), make_rank(1, **changes)]


def counted(count: float) -> dict[str, int]:
    """Counters of an interface or a port that received and sent so many bytes."""
    return dict.fromkeys(("rx_bytes", "tx_bytes"), int(count))


def exchange(
    sent: dict[str, float], own: Sequence[tuple[str, str, float]] | None = None, **changes: Any
) -> list[RankEvidence]:
    """Two ranks of one node around whose run the node's interfaces and ports sent so many bytes.

    :param own: what the first rank's sockets sent, as (address, peer's
        address, bytes); ``None``: that is not known.
    """

    def carried(times: int, slash: bool) -> dict[str, dict[str, int]]:
        return {
            name: counted(times * count) for name, count in sent.items() if ("/" in name) is slash
        }

    pairs = [
        {
            "local": local,
            "peer": peer,
            "count": 1,
            "sent_bytes": int(count),
            "received_bytes": int(count),
        }
        for local, peer, count in own or ()
    ]
    return [
        make_rank(
            number,
            init__interfaces=carried(0, slash=False),
            init__ports=carried(0, slash=True),
            finalize__interfaces=carried(1, slash=False),
            finalize__ports=carried(1, slash=True),
            finalize__tcp={
                "pairs": [] if number else pairs,
                "uncounted": int(own is None),
                "complete": True,
            },
            **changes,
        )
        for number in (0, 1)
    ]


# ---- Conditions resolved from a made-up site and stack, with values that no shell may touch.

ODD = "1:0-4096;2:4097-  $(touch made)`touch made`$HOME ${HOME} \"x\" 'y' \\ & | * #"


def resolved(stack: Stack = STACK, nodes: int = 1, **more: Any) -> condition.Condition:
    """A condition on ``eth0``; site and user set a variable each to
    ``ODD``; ``more`` goes to ``condition.resolve``.
    """
    row = {
        "transport": "tcp",
        "scope": "cluster" if nodes > 1 else "node",
        "rails": [{"device": "eth0"}],
    }
    recommended = [
        {
            "section": "manual",
            "stacks": ["*"],
            "env_vars": {"SITES_OWN": ODD, "OMPI_MCA_coll_tuned_x": ODD},
        }
    ]
    asked = condition.Asked(site.fabrics_of({"fabrics": {"eth": row}})["eth"], nodes, "1", "none")
    partition = condition.Partition(
        topology.describe(1, 2),
        {"recommended": recommended, "fabrics": {"eth": row}},
        launcher="local",
        **more,
    )
    return condition.resolve(stack, asked, partition, {"USERS_OWN": ODD, "OMPI_MCA_pml": "cm"})


def simple_condition(
    env: dict[str, str], paths: dict[str, tuple[str, ...]], debug: dict[str, str], **more: Any
) -> SimpleNamespace:
    """What a job of two stacks reads of a condition; ``more`` replaces attributes."""
    empty = SimpleNamespace(files={}, scripts={})
    stack = SimpleNamespace(
        name="theirs", env_vars=env, prepend_path=paths, variables=env, search_paths=paths
    )
    return SimpleNamespace(
        **{
            "stack": stack,
            "job_env": {},
            "assignments": {},
            "debug_env": debug,
            "binding": empty,
            "bootstrap": empty,
            "core_list": None,
            **more,
        }
    )


# ---- Records of a server and a client as ``cascade/end.py`` leaves them, with any command,
# output and counters.

ADDRESSES = {"server": "10.61.1.1", "client": "10.61.1.2"}
HOSTS = {"server": "c1", "client": "c2"}
PORT = 47011
LINK = {"operstate": "up", "mtu": "1500", "speed": "1000", "carrier_changes": "2"}
QUIET = {"lo": 0, "mgmt": 20_000, "eth10g": 500}


def filled(words: Sequence[str], which: str) -> list[str]:
    """Words of a program with the addresses in them, variables left out."""
    places = {"{address}": ADDRESSES["server"], "{port}": str(PORT), "{own}": ADDRESSES[which]}
    return [places.get(word, word) for word in words if "=" not in word or not word[0].isupper()]


def end(
    which: str,
    words: Sequence[str],
    output: str,
    *,
    rx: int,
    tx: int,
    others: Mapping[str, int] = QUIET,
    **changes: Any,
) -> str:
    """The record of one end.

    :param rx: bytes that its interface received meanwhile; ``tx``: those it sent.
    :param others: bytes that other interfaces received meanwhile.
    """
    filled_words = filled(words, which)

    def counters(times: int) -> dict[str, Any]:
        return {
            "link": LINK,
            "counters": {"rx_bytes": 1000 + times * rx, "tx_bytes": 1000 + times * tx},
            "others": {
                name: {"rx_bytes": 7 + times * count, "tx_bytes": 7}
                for name, count in others.items()
            },
        }

    row = {
        "end": which,
        "host": HOSTS[which],
        "interface": "eth1g",
        "meeting": "0123456789abcdef",
        "failed": "",
        "address": ADDRESSES[which],
        "port": PORT,
        "words": filled_words,
        "variables": {},
        "cores": "0",
        "status": 0,
        "ended": "by itself",
        "seconds": 1.0,
        "output": output,
        "errors": "",
        "before": counters(0),
        "after": counters(1),
        **changes,
    }
    content = f"# {which} of {filled_words[0]}, format 1\n{json.dumps(row, sort_keys=True)}\n"
    return f"{content}# end: CRC-32 {zlib.crc32(content.encode()):08x}\n"


# ---- Outputs of the instruments, made or changed: JSON Lines with the number of rows and the
# checksum they should have.

#: Between rows: what is above can be used.
SO_FAR = {"so_far": True}


def sealed(head: dict[str, Any], lines: Iterable[dict[str, Any]], rows: int | None = None) -> str:
    """An output.

    :param lines: rows, :data:`SO_FAR`, and lines that are no rows, which
        are those with ``silent`` or ``seconds``.
    """
    text = ""
    count = 0
    for line in (head, *lines, {"end": True}):
        if kind := next((kind for kind in ("so_far", "end") if kind in line), ""):
            line = {
                kind: head["instrument"],
                "rows": count if rows is None else rows,
                "crc32": zlib.crc32(text.encode()),
            }
        else:
            count += not (line is head or {"silent", "seconds"} & set(line))
        text += json.dumps(line) + "\n"
    return text


def lines_of(text: str) -> tuple[dict[str, Any], list[dict[str, Any]]]:
    """First line and all others but the last."""
    head, *rest = map(json.loads, text.splitlines())
    return head, [SO_FAR if "so_far" in line else line for line in rest[:-1]]


# ---- Outputs of HPCC with other numbers than the recorded one, in its sections and in its
# summary.

#: On a grid of 1 x 2 ranks.
TEXT = golden("hpcc-1.5.0-n2.txt")


def on_grid(rows: int, columns: int) -> str:
    """The recorded output on another grid; the transform takes a power of two."""
    ranks = rows * columns
    counts = {
        "CommWorldProcs": ranks,
        **dict.fromkeys(("HPL_nprow", "PTRANS_nprow"), rows),
        **dict.fromkeys(("HPL_npcol", "PTRANS_npcol"), columns),
        "MPIFFT_Procs": 1 << (ranks.bit_length() - 1),
    }
    text = TEXT.replace("Number of nodes: 2\n", f"Number of nodes: {counts['MPIFFT_Procs']}\n")
    text = text.replace("Running on 2 processors", f"Running on {ranks} processors")
    text = re.sub(
        r"(?m)^((?:W\w+ +640|(?:WALL|CPU ) +320 +320  80)  +80 +)1 +2 ",
        rf"\g<1>{rows} {columns} ",
        text,
    )
    return re.sub(
        rf"(?m)^({'|'.join(counts)})=\d+$", lambda match: f"{match[1]}={counts[match[1]]}", text
    )

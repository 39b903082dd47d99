"""One node's own facts against what was learned of its partition: links, rates, new errors, GPUs,
cores, memory, clock.

``mpibench vet --local`` calls it; Slurm's HealthCheckProgram, prolog and epilog start it as a
program by itself, ``python3 -I local.py --learned FILE``, under the node's own ``python3`` (3.6 or
newer, no package). It reads ``/proc`` and ``/sys`` with the preflight's instrument, starts nothing
and asks no network. Exit status: 0 nothing is wrong, 1 something is, 3 it cannot be decided.
"""

import argparse
import enum
import importlib.util
import json
import os
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from typing import Any

    Facts = dict[str, dict[str, Any]]

#: The instrument that reads a node, a file of its own.
INSTRUMENT = Path("reframe_tests/harness/cases/preflight/node_facts.py")
#: Facts that must be what they were learned to be; of the others only those below are looked at.
EQUAL = (
    "cpus_online",
    "numa_nodes_online",
    "clock_source",
    "clock_synchronised",
    "mtu_bytes",
    "lanes",
    "pcie_width",
    "pcie_speed",
    "duplex",
    "gpu",
)
#: Facts that may be more.
LEAST = ("memory_gib", "rate_gbit_per_s")
STATE = "state"
LEARNED = (STATE, *EQUAL, *LEAST)
#: Of memory so much may be missing: kernels reserve a little more or less (share).
MEMORY_ROOM = 0.01
#: States of a link that carries data (Linux, networking/operstates.rst; InfiniBand ports).
UP = ("up", "unknown", "active")
#: Folders of counters by interface and by port, and those that show a bad link: they grow on no
#: healthy one but for single events (Linux, sysfs-class-net-statistics, sysfs-class-infiniband).
COUNTERS = (
    ("sys/class/net/{}/statistics", ("rx_crc_errors", "rx_frame_errors", "tx_carrier_errors")),
    ("sys/class/net/{}", ("carrier_down_count",)),
    (
        "sys/class/infiniband/{}/counters",
        ("symbol_error", "link_error_recovery", "link_downed", "port_rcv_errors",
         "local_link_integrity_errors", "excessive_buffer_overrun_errors"),
    ),
)  # fmt: skip
#: New ones an hour from which on a node is not right; of a link that was gone for a moment one.
MOST_AN_HOUR = 100
BREAKS = ("link_downed", "carrier_down_count")
RIGHT = 0
WRONG = 1
UNDECIDED = 3


class LocalWhy(str, enum.Enum):
    """Reasons, by their codes, each with its sentence."""

    LINK_DOWN = "link-down"
    MISSING = "missing"
    LESS = "less"
    UNLIKE = "unlike"
    ERRORS = "errors"
    BROKE = "broke"
    NOT_LEARNED = "not-learned"


SENTENCES = {
    LocalWhy.LINK_DOWN: "{at} is {value}",
    LocalWhy.MISSING: "{at} is not there",
    LocalWhy.LESS: "{fact}{of} is {value}, learned were {learned}",
    LocalWhy.UNLIKE: "{fact}{of} is {value}, learned was {learned}",
    LocalWhy.ERRORS: "{at} counted {value} more {fact} in {minutes:.0f} min",
    LocalWhy.BROKE: "the link of {at} was down {value} times in {minutes:.0f} min",
    LocalWhy.NOT_LEARNED: "{value}; write it on a good node: mpibench vet --local --learn",
}


def sentence(why: LocalWhy, **numbers: "Any") -> str:
    at = numbers.get("at", "")
    return SENTENCES[why].format(**dict(numbers, of=" of " + at if at else ""))


def instrument() -> "Any":
    """The module of :data:`INSTRUMENT`, without the packages around it."""
    file = Path(__file__).resolve().parents[2] / INSTRUMENT
    spec = importlib.util.spec_from_file_location("node_facts", str(file))
    assert spec and spec.loader, file
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def collect(root: Path = Path("/"), described: "tuple[str, ...]" = ()) -> "Facts":
    """The node's facts that are learned.

    :param described: interfaces that count although no card is below them.
    """
    reader = instrument()
    node = reader.Node(root)
    facts = {fact: {"": value} for fact, value in reader.system(node).items()}  # type: Facts
    if root == Path("/"):
        facts.update({fact: {"": value} for fact, value in reader.clock().items()})
    for more in (reader.interfaces(node, described), reader.ports(node), reader.gpus(node)):
        for fact, instances in more.items():
            facts.setdefault(fact, {}).update(instances)
    return {fact: facts[fact] for fact in LEARNED if fact in facts}


def judge(facts: "Facts", learned: "Facts") -> "list[tuple[LocalWhy, dict[str, Any]]]":
    """What is less or other than learned; a card that is not there once."""
    found = []
    gone = set()
    there = {at for rows in facts.values() for at in rows}
    for fact in LEARNED:
        for at, was in sorted(learned.get(fact, {}).items()):
            value = facts.get(fact, {}).get(at)
            row = {"fact": fact, "at": at, "value": value, "learned": was}
            if at and at not in there:
                if at not in gone:
                    found.append((LocalWhy.MISSING, row))
                gone.add(at)
            elif fact == STATE:
                if was in UP and value not in UP:
                    found.append((LocalWhy.LINK_DOWN, row))
            elif fact in LEAST:
                room = MEMORY_ROOM if fact == "memory_gib" else 0
                if value is None or value < (1 - room) * was:
                    found.append((LocalWhy.LESS, row))
            elif value != was:
                found.append((LocalWhy.UNLIKE, row))
    return found


def counters(root: Path, names: "list[str]") -> "dict[str, int]":
    """Counters of errors, ``NAME COUNTER``, of interfaces and ports (``mlx5_0:1``)."""
    found = {}
    for name in names:
        for folder, kinds in COUNTERS:
            for kind in kinds:
                path = root / folder.format(name.replace(":", "/ports/")) / kind
                try:
                    found[name + " " + kind] = int(path.read_text())
                except (OSError, ValueError):
                    continue
    return found


def grown(
    now: "dict[str, int]", before: "dict[str, int]", seconds: float
) -> "list[tuple[LocalWhy, dict[str, Any]]]":
    """Counters that grew by more than they may."""
    found = []
    for key, count in sorted(now.items()):
        new = count - before.get(key, count)
        at, _, fact = key.partition(" ")
        row = {"fact": fact, "at": at, "value": new, "minutes": seconds / 60}
        if fact in BREAKS and new > 0:
            found.append((LocalWhy.BROKE, row))
        elif fact not in BREAKS and new > MOST_AN_HOUR * max(seconds, 3600) / 3600:
            found.append((LocalWhy.ERRORS, row))
    return found


def _read(path: Path) -> "Any":
    try:
        return json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return None


def _write(path: Path, content: "Any") -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    partial = path.with_name("." + path.name + "." + str(os.getpid()) + ".partial")
    try:
        partial.write_text(json.dumps(content, indent=1, sort_keys=True), encoding="utf-8")
        partial.replace(path)
    finally:
        if partial.exists():
            partial.unlink()


def look(
    learned: "Path | None", state: "Path | None", root: Path = Path("/")
) -> "tuple[int, list[str]]":
    """Exit status, and a sentence for each thing that is wrong or not known.

    :param state: where the counters of the last time are, and of this one are left.
    """
    content = _read(learned) if learned else None
    lines = []
    status = RIGHT
    try:
        facts = collect(root, tuple(content["facts"].get(STATE, ())) if content else ())
        wrong = judge(facts, content["facts"]) if content else []
    except (AttributeError, KeyError, TypeError):
        facts = collect(root)
        content = None
        wrong = []
    if state:
        try:
            boot = (root / "proc/sys/kernel/random/boot_id").read_text().strip()
        except OSError:
            boot = ""
        counted = counters(root, sorted(facts.get(STATE, {})))
        now = time.time()
        last = _read(state)
        try:
            if last and last["boot"] == boot:
                wrong += grown(counted, last["counters"], now - last["unix_s"])
        except (AttributeError, KeyError, TypeError):
            pass  # written anew below
        try:
            _write(state, {"boot": boot, "unix_s": now, "counters": counted})
        except OSError as error:
            lines.append("cannot write " + str(state) + " (" + str(error.strerror) + ")")
            status = UNDECIDED
    if not content:
        value = str(learned) + " cannot be read" if learned else "--learned is not given"
        lines.append(sentence(LocalWhy.NOT_LEARNED, value=value))
        status = UNDECIDED
    if wrong:
        status = WRONG
    return status, [sentence(why, **row) for why, row in wrong] + lines


def run(
    learned: "Path | None", state: "Path | None", learn: bool = False, root: Path = Path("/")
) -> int:
    """Print what is wrong, in one line, for Slurm's reason; exit status."""
    if learn:
        if not learned:
            print("--learn needs a file to write: give --learned FILE.", file=sys.stderr)
            return 2
        _write(learned, {"facts": collect(root), "nodes": [os.uname().nodename]})
        return RIGHT
    status, lines = look(learned, state, root)
    if lines:
        print("; ".join(lines))
    return status


def main() -> int:
    """Command line of the program by itself."""
    parser = argparse.ArgumentParser(
        description="Compares this node's own facts with learned ones."
    )
    parser.add_argument("--learned", type=Path)
    parser.add_argument("--state", type=Path)
    parser.add_argument("--learn", action="store_true")
    parser.add_argument("--root", type=Path, default=Path("/"), help=argparse.SUPPRESS)
    given = parser.parse_args()
    try:
        return run(given.learned, given.state, given.learn, given.root)
    except Exception as error:  # Python's own status would be that of a bad node
        print("nothing could be checked: " + repr(error), file=sys.stderr)
        return UNDECIDED


if __name__ == "__main__":
    sys.exit(main())

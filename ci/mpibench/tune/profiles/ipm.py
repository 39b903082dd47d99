"""IPM's XML (IPM 2, ``src/report_xml.c`` and ``doc/ipm_xml.dtd``): a hash entry per call, size and partner of every task.

An entry is ``<hent call= bytes= orank= region= count= ...>total shortest longest</hent>``, seconds. Bytes are those of
``include/mod_mpi.h``: for MPI_Alltoallv what a rank sends to itself, taken for each pair; for MPI_Reduce_scatter a rank's
share, from which the whole vector is made. IPM records no communicator sizes.

What makes lost entries visible: the number of tasks (``ntasks`` of ``job``) and, in ``hash``, of entries (``nkey``) and of
calls (``nlog``).
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from xml.etree import ElementTree

from reframe_tests.harness.vocabulary import BadInput

from .record import Calls, Given, Profile, agree, call_of, gathered, number

FORM = "IPM XML"
#: Calls of which IPM records the bytes of one rank's share, where benchmarks have the whole vector.
SHARES = frozenset({"Reduce_scatter"})


def recognise(text: str) -> bool:
    """Whether the document is IPM's."""
    return re.search(r"<ipm(?:_job_profile)?\b", text[:4000]) is not None


def read(text: str, source: str, given: Given) -> Profile:
    """:raises BadInput: no well-formed document, or tasks or entries that are missing."""
    if "<!ENTITY" in text:
        raise BadInput(f"{source} defines entities, which IPM never does: it is not read.")
    # IPM never closes these (xml_env): what they hold is of no use here.
    text = re.sub(r"<env>.*?</env>", "", text, flags=re.DOTALL)
    try:
        top = ElementTree.fromstring(re.sub(r"<\?xml[^>]*\?>", "", text, count=1).strip())
    except ElementTree.ParseError as error:
        raise BadInput(f"{source} is damaged or cut off ({error}): get the profile again.") from None
    tasks = top.findall("task")
    if not tasks:
        raise BadInput(f"{source} holds no task: IPM writes its XML with IPM_REPORT or IPM_LOG=full.")
    sizes = {task.get("mpi_size", "") for task in tasks} | {job.get("ntasks", "") for job in top.iter("job")}
    known = sorted(size for size in sizes if size)
    if len(known) != 1:
        raise BadInput(f"{source} mixes ranks: its tasks say {', '.join(known) or 'no'} ranks; profile one run at a time.")
    ranks = int(number(known[0], "mpi_size", source, whole=True))
    agree({"tasks": len({task.get("mpi_rank") for task in tasks}), "ranks of the job": ranks}, source)
    agree({"tasks": len(tasks), "ranks of the job": ranks}, source)
    calls = [one for task in tasks for one in _calls(task, ranks, source)]
    walls = [_wall(task, source) for task in tasks]
    per_rank = tuple(sum(one.seconds or 0.0 for one in _calls(task, ranks, source)) for task in tasks)
    notes = ["IPM records no communicator sizes"]
    if any(one.call == "Alltoallv" for one in calls):
        notes.append("IPM's size of MPI_Alltoallv is what a rank sends to itself, taken for each pair")
    if any(one.call in SHARES for one in calls):
        notes.append("IPM's size of MPI_Reduce_scatter is a rank's share; the vector is that times all ranks")
    wall = None if None in walls else sum(one for one in walls if one is not None)
    return Profile(FORM, ranks, gathered(calls), wall, sum(per_rank), per_rank, tuple(notes))


def _wall(task: ElementTree.Element, source: str) -> float | None:
    """Run time of a task in seconds, as its ``perf`` has it."""
    perf = task.find("perf")
    return None if perf is None or perf.get("wtime") is None else number(str(perf.get("wtime")), "wtime", source)


def _calls(task: ElementTree.Element, ranks: int, source: str) -> Iterator[Calls]:
    where = f"{source}, task {task.get('mpi_rank')}"
    table = task.find("hash")
    if table is None:
        raise BadInput(f"{where} has no sizes (no 'hash'): run with IPM_LOG=full.")
    entries = table.findall("hent")
    counts = [int(number(entry.get("count", ""), "count", where, whole=True)) for entry in entries]
    of_mpi = [entry.get("call", "").startswith("MPI_") for entry in entries]
    keys, calls = (number(table.get(name, ""), name, where, whole=True) for name in ("nkey", "nlog"))
    agree({"entries": len(entries), "nkey": keys}, where)
    agree({"calls": sum(counts), "nlog": calls}, where)
    for entry, count, mpi in zip(entries, counts, of_mpi, strict=True):
        call = call_of(entry.get("call", ""))
        if not mpi:
            continue
        fields = (entry.text or "").split()
        if len(fields) != 3:
            raise BadInput(
                f"{where}: an entry of {entry.get('call')} has {len(fields)} times, expected 3: get the profile again."
            )
        size = number(entry.get("bytes", ""), f"bytes of {entry.get('call')}", where)
        yield Calls(call, size * ranks if call in SHARES else size, count, number(fields[0], "time", where))

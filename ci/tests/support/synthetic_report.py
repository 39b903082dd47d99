"""Sessions made without running ReFrame, for what a real one
would be slow or hard to bring about.
"""

from __future__ import annotations

import copy
import json
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import strategies as st

import synthetic_session as synthetic
from mpibench.store import sessions
from reframe_tests.harness.vocabulary import BadInput

#: Text that tries to end its element, its script and its table cell.
HOSTILE = (
    "</script><script>hacked=1</script><img src=x "
    "onerror=hacked=1>&lt;'\"`[a](javascript:hacked=1)|*x*"
)

#: A report as ReFrame writes it, cut down to one case with one sample, for mutation.
SMALL_REPORT: dict[str, Any] = {
    "session_info": {
        "data_version": "4.2",
        "uuid": "s",
        "time_start_unix": 1.0,
        "time_elapsed": 1.0,
        "run": "x",
        "hostname": "h",
        "workdir": "/",
    },
    "runs": [
        {
            "run_index": 0,
            "testcases": [
                {
                    "uuid": "s:0:0",
                    "name": "T",
                    "system": "a",
                    "partition": "p",
                    "environ": "e",
                    "result": "pass",
                    "jobid": "1",
                    "job_nodelist": ["n1"],
                    "outputdir": "/o",
                    "stagedir": "/s",
                    "fixture": False,
                    "fabric": "shm",
                    "ppn": "2",
                    "nodes": 1,
                    "pinning": "bunch",
                    "group": "p2p",
                    "condition": {"stack": "e", "mpi": "mpich", "ppn": 2, "nodes": 1},
                    "samples": [synthetic.case()["samples"][0]],
                    "proof": synthetic.case()["proof"],
                    "gates": [synthetic.gate("m", 1.0, 1.0)],
                }
            ],
        }
    ],
    "restored_cases": [],
}


def session_of(*plans: dict[str, Any], **info: Any) -> sessions.Session:
    """A session like ReFrame's, without running it."""
    document = copy.deepcopy(SMALL_REPORT)
    entry = document["runs"][0]["testcases"].pop()
    for number, plan in enumerate(plans):
        own = {
            key: plan[key]
            for key in (
                "condition",
                "samples",
                "proof",
                "gates",
                "group",
                "fabric",
                "nodes",
                "pinning",
            )
        }
        changes = {
            "uuid": f"s:0:{number}",
            "name": plan["name"],
            "environ": plan["stack"],
            "ppn": plan["ppn_symbol"],
        }
        document["runs"][0]["testcases"].append({**entry, **own, **changes})
    document["session_info"].update(info)
    return sessions.decode(json.dumps(document), "here")


def changed(case: sessions.Case, **changes: Any) -> sessions.Case:
    """The case with other entries in ReFrame's record."""
    values = {
        name: getattr(case, name)
        for name in ("uuid", "run", "condition", "samples", "proof", "gates")
    }
    for name in tuple(changes):
        if name in values:
            values[name] = changes.pop(name)
    return sessions.Case(entry={**case.entry, **changes}, **values)


def only(session: sessions.Session, *outcomes: str) -> sessions.Session:
    """The session with only the cases of these outcomes."""
    kept = tuple(case for case in session.cases if session.outcome(case) in outcomes)
    return sessions.Session(session.info, kept)


def hostile_session() -> sessions.Session:
    """A session whose every text tries to leave its place."""
    stack = "intelmpi-wheels"
    plan = synthetic.case(stack, end="pass")
    plan["gates"] = [synthetic.gate(HOSTILE, 1.0, 9.0, "us")]
    plan["proof"].update(
        verdict="contradicted",
        sentences=[HOSTILE],
        library=HOSTILE,
        library_version=HOSTILE,
        transport=HOSTILE,
        notes=[HOSTILE],
    )
    plan["proof"]["ranks"][0].update(host=HOSTILE, cpus_allowed=HOSTILE)
    plan["proof"]["devices"] = [
        {
            "launch": HOSTILE,
            "repeat": 1,
            "node": HOSTILE,
            "device": HOSTILE,
            "tx_bytes": 1,
            "rx_bytes": 1,
        }
    ]
    plan["condition"].update(
        launcher=HOSTILE, mpi_version=HOSTILE, lock_hash=HOSTILE, job_env={HOSTILE: HOSTILE}
    )
    for row in plan["samples"]:
        row["benchmark"] += HOSTILE
    second = {**synthetic.case("mpich-wheels"), "name": HOSTILE}
    return session_of(
        plan, second, cmdline=HOSTILE, hostname=HOSTILE, why=HOSTILE, user=HOSTILE, version=HOSTILE
    )


ANY_JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(st.characters(), max_size=5),
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3)
    ),
    max_leaves=8,
)


def spots(node: Any, path: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    inner = (
        node.items()
        if isinstance(node, dict)
        else enumerate(node)
        if isinstance(node, list)
        else ()
    )
    return [path, *(spot for key, value in inner for spot in spots(value, (*path, key)))]


def refused(action: Callable[[], object], *words: str) -> str:
    """The one sentence of a refusal; it must name all ``words``."""
    with pytest.raises(BadInput) as caught:
        action()
    sentence = str(caught.value)
    assert "\n" not in sentence
    assert sentence.endswith(".")
    for word in words:
        assert word in sentence
    return sentence


@st.composite
def damaged_reports(draw: st.DrawFn) -> dict[str, Any]:
    """A report with anything anywhere."""
    report = copy.deepcopy(SMALL_REPORT)
    *path, last = draw(st.sampled_from([spot for spot in spots(report) if spot]))
    node: Any = report
    for key in path:
        node = node[key]
    node[last] = draw(ANY_JSON)
    return report

"""The report of a night shows what its nodes were set to before: which were
odd, what was expected, and how to put it right.
"""

from __future__ import annotations

from datetime import datetime
from pathlib import Path
from typing import Any

import msgspec
import pytest

from mpibench.pages import session as preflight
from mpibench.pages import session as report
from mpibench.store.sessions import Session
from page_reader import Reader
from reframe_tests.harness.cases.preflight import node_judgement
from reframe_tests.harness.cases.preflight.rules import Rule
from reframe_tests.harness.vocabulary import BadInput
from synthetic_session import case, changed, session_of

NIGHT = session_of(case(), uuid="night", time_start_unix=1_795_000_000.0)
RULES = (
    Rule("firmware", "firmware decides", "update it", same=True),
    Rule("turbo", "slower", "switch it on", allowed=("on",)),
)
NODES = {
    f"n{number}": {
        "firmware": dict.fromkeys(("mlx5_0:1", "mlx5_1:1"), "1" if number == 3 else "2"),
        "turbo": {"": "on"},
    }
    for number in range(1, 5)
}


def looked(
    minutes: float = 2, label: str = "preflight", *, well: bool = False, **entry: Any
) -> Session:
    """A session of preflight some minutes before the night."""
    odd = [] if well else node_judgement.judge(NODES, RULES, "node", ())
    said = [] if well else ["3 of 5 nodes answered; silent: n5", *node_judgement.texts(odd)]
    proof = {
        "verdict": "proven" if well else "contradicted",
        "sentences": said,
        "kernel": [{"node": name} for name in NODES],
        "notes": ["no node shows lanes: nothing is known of that"],
    }
    started = NIGHT.info["time_start_unix"] - 60 * minutes
    plan = {**case(samples=[], proof=proof), "group": "preflight"}
    whole = session_of(plan, uuid="before", time_start_unix=started, run=label)
    record = {"result": "pass" if well else "fail", "odd_nodes": msgspec.to_builtins(odd), **entry}
    return Session(whole.info, tuple(changed(one, **record) for one in whole.cases))


class Sessions(list[Session | str]):
    """Sessions before the night, oldest first, as a store has them; a text:
    one that cannot be read, a minute before it.
    """

    @property
    def starts(self) -> dict[str, datetime]:
        rows = {one.uuid: one.started for one in self if isinstance(one, Session)}
        lost = {one: NIGHT.started - preflight.WITHIN / 20 for one in self if isinstance(one, str)}
        return {**rows, **lost, NIGHT.uuid: NIGHT.started}

    def session(self, uuid: str) -> Session:
        for one in self:
            if isinstance(one, Session) and one.uuid == uuid:
                return one
        raise BadInput("file-damaged", f"session {uuid} is cut off.")


@pytest.fixture
def stored() -> Any:
    return Sessions()


def section(found: Session | str | None, folder: Path) -> str:
    page = report.render(report.View(NIGHT, folder, preflight=found))
    return " ".join(Reader(page).text.get("preflight", "").split())


def test_odd_nodes_stand_in_a_table(stored: Any, tmp_path: Path) -> None:
    stored.append(looked())
    text = section(preflight.find_preflight(NIGHT, stored), tmp_path)
    assert "in session before" in text and "4 nodes answered." in text
    row = "✕ oddfirmware of mlx5_0:1, mlx5_1:11 on n33 of 4 nodes have 2firmware decidesupdate it"
    assert row in text and "3 of 5 nodes answered; silent: n5" in text
    assert "no node shows lanes: nothing is known of that" in text
    assert text.count("firmware decides") == 1, "once, and not as a sentence, too"
    stored[:] = [looked(well=True)]
    text = section(preflight.find_preflight(NIGHT, stored), tmp_path)
    assert "4 nodes answered, and none is odd." in text


def test_one_that_cannot_be_read_is_not_passed_over(stored: Any, tmp_path: Path) -> None:
    stored.append("lost")
    found = preflight.find_preflight(NIGHT, stored)
    assert "cannot be read: session lost is cut off" in section(found, tmp_path)
    page = report.render(report.View(NIGHT, tmp_path, preflight=found))
    assert '<p class="verdict bad">session lost' in page

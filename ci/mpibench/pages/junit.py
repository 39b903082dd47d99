"""The JUnit file of a night, completed with what ReFrame's own leaves out: why a case is no success.

ReFrame 4.10 (``frontend/reporting/__init__.py``, ``generate_xml_report``) marks failures only: a case that was skipped,
interrupted, or passed without proof looks like one that passed.
"""

from __future__ import annotations

import argparse
import os
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

from reframe_tests.harness.printable import one_line
from reframe_tests.harness.vocabulary import BadInput

from .. import whole_file
from ..night.confirmed_night import ReferenceAnswer
from ..store.sessions import PAIRED, Case, Session
from .outcomes import sentences

#: Outcome of a case to its element, as the JUnit readers of GitLab and Jenkins know them; both of the latter are red.
_ELEMENTS = {"skipped": "skipped", "dry": "skipped", "interrupted": "error", "failed": "failure"}
#: Element to the attribute of its test suite that counts it.
_COUNTS = {"skipped": "skipped", "error": "errors", "failure": "failures"}


def file_of(options: Sequence[str], environ: Mapping[str, str] = os.environ) -> Path | None:
    """The file that ReFrame's options, or its variable, name; ``None`` without either."""
    parser = argparse.ArgumentParser(allow_abbrev=False, add_help=False)
    parser.add_argument("--report-junit", default=environ.get("RFM_REPORT_JUNIT"))
    known, _ = parser.parse_known_args(list(options))
    return Path(os.path.expandvars(known.report_junit)) if known.report_junit else None


def complete(path: Path, session: Session) -> None:
    """Mark each case of ReFrame's file that is no success and has no mark yet, and count it.

    :param session: the one the file is of.
    :raises BadInput: the file is not there, damaged, of other cases, or cannot be written.
    """
    tree, pairs = _read(path, session)
    for element, case in pairs:
        outcome = session.outcome(case)
        name = _ELEMENTS.get(outcome)
        if name and element.find(name) is None:
            why = one_line(" ".join(sentences(case)) or case.reason) or outcome
            ElementTree.SubElement(element, name, {"type": outcome, "message": why}).text = why
    _write(tree, path)


def confirm(path: Path, session: Session, answers: Sequence[ReferenceAnswer]) -> None:
    """Say of each case that missed a reference what measuring it again gave; one that did not miss it again is no failure.

    What was said before of a failure stays. Jenkins shows a failure's message and text, and the output of a case that passed;
    GitLab the text of a failure only (``lib/gitlab/ci/parsers/test/junit.rb``).

    :param session: the one the file is of.
    :raises BadInput: as :func:`complete`.
    """
    tree, pairs = _read(path, session)
    said = {answer.uuid: (one_line(answer.sentence), answer.excused) for answer in answers}
    for element, case in pairs:
        if case.uuid not in said:
            continue
        sentence, excused = said[case.uuid]
        failure = element.find("failure")
        if failure is not None and excused:
            element.remove(failure)
        elif failure is not None:
            failure.set("message", f"{sentence}; {failure.get('message', '')}".rstrip("; "))
            failure.text = f"{sentence}\n{failure.text or ''}".rstrip()
        ElementTree.SubElement(element, "system-out").text = sentence
    _write(tree, path)


def _read(path: Path, session: Session) -> tuple[ElementTree.ElementTree[Any], list[tuple[ElementTree.Element, Case]]]:
    """The file, and its elements with their cases; ReFrame goes on where it cannot write it, and an old one stays there."""
    try:
        tree = ElementTree.parse(path)
    except (OSError, ElementTree.ParseError) as error:
        raise BadInput(
            "junit-unreadable", f"the JUnit file {path} cannot be read ({error}): correct its folder, and measure again."
        ) from None
    # As ReFrame writes it: local time, whole seconds.
    started = time.strftime("%FT%T", time.localtime(float(session.info["time_start_unix"])))
    stamps = {suite.get("timestamp", "at no time") for suite in tree.iter("testsuite")} - {started}
    if stamps:
        when = f"of a session that started {min(stamps)}, not {started}"
        raise BadInput("junit-damaged", f"the JUnit file {path} is {when}: remove it, correct its rights, and measure again.")
    cases = [case for case in session.cases if not case.uuid.endswith(PAIRED)]
    elements = list(tree.iter("testcase"))
    if len(elements) != len(cases):
        raise BadInput(
            "junit-other-session",
            f"the JUnit file {path} has {len(elements)} cases and the session {len(cases)}: measure again.",
        )
    return tree, list(zip(elements, cases, strict=True))


def _write(tree: ElementTree.ElementTree[Any], path: Path) -> None:
    for suite in tree.iter("testsuite"):
        for name, attribute in _COUNTS.items():
            suite.set(attribute, str(len(suite.findall(f"testcase/{name}"))))
    try:
        with whole_file.replacing(path) as partial:
            tree.write(partial, encoding="utf-8", xml_declaration=True)
    except OSError as error:
        raise BadInput(
            "cannot-write", f"cannot write the JUnit file {path} ({error.strerror}): correct its folder's rights."
        ) from None

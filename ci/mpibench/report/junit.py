"""The JUnit file of a night, completed with what ReFrame's own leaves out: why a case is no success.

ReFrame 4.10 (``frontend/reporting/__init__.py``, ``generate_xml_report``) marks failures only: a case that was skipped,
interrupted, or passed without proof looks like one that passed.
"""

from __future__ import annotations

import argparse
import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from xml.etree import ElementTree

from reframe_tests.harness.printable import one_line
from reframe_tests.harness.vocabulary import BadInput

from .. import whole_file
from ..results.sessions import PAIRED, Session
from .summary import outcome_of, sentences

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
    try:
        tree = ElementTree.parse(path)
    except (OSError, ElementTree.ParseError) as error:
        raise BadInput(f"the JUnit file {path} cannot be read ({error}): correct its folder, and measure again.") from None
    cases = [case for case in session.cases if not case.uuid.endswith(PAIRED)]
    elements = list(tree.iter("testcase"))
    if len(elements) != len(cases):
        raise BadInput(f"the JUnit file {path} has {len(elements)} cases and the session {len(cases)}: measure again.")
    for element, case in zip(elements, cases, strict=True):
        outcome = outcome_of(session, case)
        name = _ELEMENTS.get(outcome)
        if name and element.find(name) is None:
            why = one_line(" ".join(sentences(case)) or case.reason) or outcome
            ElementTree.SubElement(element, name, {"type": outcome, "message": why}).text = why
    for suite in tree.iter("testsuite"):
        for name, attribute in _COUNTS.items():
            suite.set(attribute, str(len(suite.findall(f"testcase/{name}"))))
    try:
        with whole_file.replacing(path) as partial:
            tree.write(partial, encoding="utf-8", xml_declaration=True)
    except OSError as error:
        raise BadInput(f"cannot write the JUnit file {path} ({error.strerror}): correct its folder's rights.") from None

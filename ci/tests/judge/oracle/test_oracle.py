"""The oracle: what the commands answer to recorded sessions. A change
of the code changes an answer on purpose only.

``ci/tests/data/oracle/README.md`` says what the sessions were. ``answers/NAME.json`` is a command
of ``commands.yaml`` with its exit status, what it printed and the files it wrote.
``MPIBENCH_FREEZE=yes pytest ci/tests/judge/oracle`` writes the answers anew: read their diff, and
say in the commit which changed and why.
"""

import gzip
import json
import os
import re
import shutil
from pathlib import Path

import msgspec
import pytest
import yaml

from mpibench import answers, cli
from reframe_tests.harness.stacks import metadata

DATA = Path(__file__).parents[2] / "data" / "oracle"
COMMANDS = yaml.safe_load((DATA / "commands.yaml").read_text())
FREEZE = os.environ.get("MPIBENCH_FREEZE") == "yes"
#: Files that commands write and programs read; pages are compared by eye.
READ_BY_PROGRAMS = (".json", ".xml", ".diff", ".lua", ".yaml")
#: What of an answer is of the moment or the version it is given by, and not of the sessions.
OF_THE_MOMENT = (
    (re.compile(r"\b[\d.]+ (?:h|days?) old\b"), "N old"),
    (re.compile(r'("(?:hours|age_days)": )[\d.]+'), r"\1N"),
    (re.compile(r'("(?:made|written|decided|judged_at)": )"\d{4}-[^"]+"'), r'\1"NOW"'),
    (re.compile(r'("(?:decided_on|mpibench)": )"[^"]+"'), r'\1"HERE"'),
    (re.compile(r'(timestamp|hostname)="[^"]+"'), r'\1="NOW"'),
)


#: Key of a record that stands for several: which of its fields has the values of all.
MERGED = "of each"


@pytest.fixture(scope="module")
def place(tmp_path_factory):
    folder = tmp_path_factory.mktemp("oracle")
    shutil.copytree(DATA / "dataset", folder / "dataset")
    (folder / "maps.db").write_bytes(gzip.decompress((DATA / "maps.db.gz").read_bytes()))
    return folder


def _merged(rows):
    """Records that differ in one field only from those before them,
    as one with all values of that field.
    """
    merged = []
    for row in rows:
        *_, last = merged or [None]
        unlike = (
            [key for key in row if row[key] != last.get(key)]
            if isinstance(row, dict) and isinstance(last, dict)
            else []
        )
        if (
            len(unlike) == 1
            and row.keys() == last.keys() - {MERGED}
            and last.get(MERGED, unlike) == unlike
        ):
            last[MERGED], values = unlike, last[unlike[0]] if MERGED in last else [last[unlike[0]]]
            last[unlike[0]] = [*values, row[unlike[0]]]
        else:
            merged.append(row)
    return merged


def _lines(text, place):
    """An answer as it is compared: of JSON a line for each key and for each row of a list, of
    JUnit's XML one for each case; rows and cases that differ in one field, or in their name, are
    one line with all of these.
    """
    if text.lstrip()[:1] in ("{", "["):
        # as any processor adds them up
        whole = json.loads(text, parse_float=lambda digits: float(f"{float(digits):.6g}"))
        rows = []
        for key, value in whole.items() if isinstance(whole, dict) else enumerate(whole):
            rows += (
                [{key: row} for row in _merged(value)]
                if isinstance(value, list)
                else [{key: value}]
            )
        text = "\n".join(json.dumps(row, ensure_ascii=False) for row in rows)
    text = re.sub(r"(?<=>)\n *(?=<(?:skipped|failure|/testcase))", "", text)
    alike = re.compile(
        r"^( *<testcase classname=\"[^\"]*\" name=\")([^\"]*)(\".*)\n\1([^\"]*)\3$", re.M
    )
    while alike.search(text):
        text = alike.sub(r"\1\2 | \4\3", text)
    text = text.replace(str(place), "PLACE")
    for pattern, word in OF_THE_MOMENT:
        text = pattern.sub(word, text)
    return text.splitlines()


@pytest.mark.parametrize("name", COMMANDS)
def test_an_answer_is_as_it_was(place, name, monkeypatch, capsys):
    # Which stacks a developer has, and where he is, is no part of an answer.
    monkeypatch.setattr(metadata, "files", lambda *_: [])
    for variable in ("RFM_SYSTEM", "RFM_CONFIG_FILES", "MPIBENCH_SITES"):
        monkeypatch.delenv(variable, raising=False)
    monkeypatch.setenv("COLUMNS", "200")
    values = {"dataset": place / "dataset", "maps": place / "maps.db", "out": place / name}
    status = cli.main([word.format(**values) for word in COMMANDS[name].split()])
    printed = capsys.readouterr()
    for command, kind in answers.ANSWERS.items():
        if {*command.split()} <= {*COMMANDS[name].split()} and "--only" not in COMMANDS[name]:
            msgspec.json.decode(
                printed.out if "--json" in command else (place / name / "accept.json").read_bytes(),
                type=kind,
            )
    files = sorted(path for path in place.glob(f"{name}*/**/*") if path.suffix in READ_BY_PROGRAMS)
    files += sorted(path for path in place.glob(f"{name}.*") if path.suffix in READ_BY_PROGRAMS)
    found = {
        "command": COMMANDS[name],
        "status": status,
        "printed": _lines(printed.out, place),
        "said": _lines(printed.err, place),
        **{str(path.relative_to(place)): _lines(path.read_text(), place) for path in files},
    }
    kept = DATA / "answers" / f"{name}.json"
    if FREEZE:
        kept.parent.mkdir(exist_ok=True)
        kept.write_text(json.dumps(found, indent=1, ensure_ascii=False) + "\n")
    assert found == json.loads(kept.read_text())

"""Published data: every digit is the paper's and every row complete; printed bandwidths against
the links of their machines; and curves beside measured ones, none taken for a measurement.
"""

import itertools
import json
import re
from pathlib import Path

import pytest

from mpibench import cli
from mpibench.commands.listings import doctor
from mpibench.store import sessions
from mpibench_tune import published
from reframe_tests.harness.vocabulary import BadInput
from refusals import refused_as
from synthetic_session import changed
from synthetic_tuning import SOURCE, chosen, published_session

SYSTEMS = ("cambridge-westmere", "openhpc-mini", "opa-dual-rail", "ibm-p5-575", "ibm-js21")
#: Files of tables; in the others a value stands in a sentence.
TABLES = re.compile(r"table\d.*|imb-.*|osu-.*|ib-.*|cpuinfo")
HEAD = ",".join(published.COLUMNS) + "\n"


@pytest.mark.parametrize("system", SYSTEMS)
def test_every_digit_is_that_of_the_printed_line(system):
    """``source`` is the line or the sentence of the paper; of a table it
    has the values of its row in their order.
    """
    by_line = lambda value: (Path(value.file).stem, value["source"])  # noqa: E731
    for (file, line), values in itertools.groupby(published.read(system), by_line):
        printed = list(values)
        words = iter(line.replace("*", "").split())
        in_order = lambda text, words=words: text in words  # noqa: E731
        holds = in_order if TABLES.fullmatch(file) else line.__contains__
        assert all(holds(value["value"]) for value in printed), (file, line)
        if file.startswith(("imb-", "osu-")):
            assert {value["message_bytes"] for value in printed} == {line.split()[0]}


@pytest.mark.parametrize(
    "text",
    ["a,b\n1,2\n", HEAD + "Table 1,PingPong\n", HEAD + "," * (len(published.COLUMNS) - 1) + "\n"],
)
def test_a_bad_file_is_refused_by_name(tmp_path, text):
    file = tmp_path / "site_configs" / "mysystem" / "published" / "table.csv"
    file.parent.mkdir(parents=True)
    file.write_text(text)
    with pytest.raises(BadInput, match=re.escape(str(file))):
        published.read("mysystem", tmp_path)
    with refused_as("unknown-name"):
        published.read("generic")


def test_the_site_says_what_a_fabric_stands_beside():
    session = published_session()
    assert published.choose(session) == [], "its system is not described here"
    cases = tuple(changed(case, system="minicluster") for case in session.cases)
    there = sessions.Session(session.info, cases)
    assert published.choose(there) == chosen(session), (
        "each data set once, whatever the number of partitions"
    )
    [other, *_] = published.choose(there, ["eth1g=openhpc-mini/opa100"])
    assert other.source == "openhpc-mini/opa100", "the command line wins"


@pytest.mark.parametrize("given", ["eth1g=openhpc-mini/eth10g", "eth1g=no/eth1g", f"eth2={SOURCE}"])
def test_a_choice_of_nothing_is_refused(given):
    with pytest.raises(BadInput):
        published.choose(published_session(), [given])


def test_the_terminal_says_the_range():
    session = published_session()
    [first, *_] = published.beside_lines(session, chosen(session))
    assert "PingPong latency is 2.00 to 2.00 times that of openhpc-mini/eth1g (24 sizes)" in first


def curve_of(fabric, benchmark="PingPong"):
    [curve] = [
        row
        for row in published.bandwidths("openhpc-mini")
        if (row.fabric.name, row.benchmark) == (fabric, benchmark)
    ]
    return curve


def test_what_holds_and_what_does_not(monkeypatch, capsys):
    assert curve_of("eth1g").problem == curve_of("eth1g", "osu_put_bw").problem == ""
    # "While 39.89Gbs is near the theoretical peak of 40Gb/s, this is still a high number."
    assert "shows 4986.1 MB/s, 1.06 times" in curve_of("eth40g").problem
    # "78.91Gb/s is much less than the theoretical peak rate of
    # 100Gb/s for the Omni-Path connection."
    assert "shows 5567.7 MB/s, 0.445 of the line rate" in curve_of("opa100").problem
    monkeypatch.setattr(doctor, "examine", lambda system: ())
    cli.main(["doctor", "--system=openhpc-mini", "--json"])
    said = json.loads(capsys.readouterr().out)["published"]
    assert [row["holds"] for row in said].count(True) == 3

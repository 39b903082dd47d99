"""Published data: every digit is the paper's, every row is
complete, and the papers' own cross-sums hold.
"""

import itertools
import re
from pathlib import Path

import pytest

from mpibench_tune import published
from reframe_tests.harness.vocabulary import BadInput
from refusals import refused_as

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

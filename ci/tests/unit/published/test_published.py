"""Published data: every digit is the paper's, every row is
complete, and the papers' own cross-sums hold.
"""

from __future__ import annotations

import itertools
import json
import re
from collections import Counter
from pathlib import Path

import jsonschema
import pytest

from mpibench_tune import published
from published_session import selected
from reframe_tests.harness import vocabulary
from reframe_tests.harness.machine.topology import Topology
from reframe_tests.harness.sites import site
from reframe_tests.harness.suites import hpcc
from reframe_tests.harness.vocabulary import BadInput
from refusals import refused_as

SYSTEMS = ("cambridge-westmere", "openhpc-mini", "opa-dual-rail", "ibm-p5-575", "ibm-js21")
#: Files of tables; in the others a value stands in a sentence.
TABLES = re.compile(r"table\d.*|imb-.*|osu-.*|ib-.*|cpuinfo")
HEAD = ",".join(published.COLUMNS) + "\n"


@pytest.mark.parametrize("system", SYSTEMS)
def test_every_digit_is_that_of_the_printed_line(system: str) -> None:
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
    ("system", "files"),
    [
        ("openhpc-mini", {"osu-put-bw-eth1g": 23, "imb-p2p-pingpong-eth40g": 24 * 4}),
        (
            "ibm-p5-575",
            {"table4-exchange-bandwidth": 12 * 3, "table7-nas": 9 * 8, "table9-hpcc": 2 * 12},
        ),
        ("ibm-js21", {"table7-nas": 4 * 8}),
        ("cambridge-westmere", {"cpuinfo": 12 * 2}),
    ],
)
def test_no_value_of_a_table_is_left_out(system: str, files: dict[str, int]) -> None:
    found = Counter(Path(value.file).stem for value in published.read(system))
    assert found.items() >= files.items()


@pytest.mark.parametrize("system", SYSTEMS)
def test_rows_keep_to_the_schema_and_the_vocabulary(system: str) -> None:
    validator = jsonschema.Draft202012Validator(json.loads(published.SCHEMA.read_text()))
    for value in published.read(system):
        validator.validate(value.data)
        known = vocabulary.QUANTITIES.get(value["quantity"])
        assert known is None or known.unit == value["unit"], value
        if value["unit"] != "text" and re.fullmatch(r"[0-9.,]+", value["value"]):
            assert value.number >= 0
    assert {
        path.parent.parent.name for path in site.ROOT.glob("site_configs/*/published/*.csv")
    } == set(SYSTEMS)


@pytest.mark.parametrize("fabric", ["eth1g", "eth40g", "opa100"])
def test_columns_of_a_row_agree(fabric: str) -> None:
    """MB/s is bytes / us and msg/s is 1e6 / us, within rounding and 5e-4
    of IMB-P2P's own: no cell is in a wrong row.
    """
    values = selected(published.read("openhpc-mini"), benchmark="PingPong", fabric=fabric)
    rows: dict[int, dict[str, float]] = {}
    for value in values:
        if value.message_bytes is not None and value["quantity"] != "bandwidth_gbit_per_s":
            rows.setdefault(value.message_bytes, {})[value["quantity"]] = value.number
    assert len(rows) == 24
    for size, row in rows.items():
        low = row["latency_us"] * 0.9995 - 0.006
        high = row["latency_us"] * 1.0005 + 0.006
        assert size / high - 0.006 <= row["bandwidth_mb_per_s"] <= size / low + 0.006, size
        assert 1e6 / high - 1 <= row["message_rate_per_s"] <= 1e6 / low + 1, size


def test_the_core_numbers_of_the_westmere_node_are_the_papers() -> None:
    system = site.read_system(site.ROOT / "site_configs" / "cambridge-westmere" / "system.py")
    packages = selected(published.read("cambridge-westmere"), quantity="package_id")
    printed = {int(value["conditions"].split()[1]): int(value["value"]) for value in packages}
    for partition in system["partitions"]:
        topology = Topology.from_processor(partition["processor"])
        assert {unit.cpu: unit.socket for unit in topology.units} == printed


def test_published_rows_have_the_catalogues_names() -> None:
    named = [result.name for result in hpcc.RESULTS if result.abbreviation]
    for system, tables in (("ibm-p5-575", ("Table 8", "Table 9")), ("ibm-js21", ("Table 10",))):
        for table in tables:
            printed = selected(published.read(system), table=table)
            assert list(dict.fromkeys(value["benchmark"] for value in printed)) == named


@pytest.mark.parametrize(
    "text",
    ["a,b\n1,2\n", HEAD + "Table 1,PingPong\n", HEAD + "," * (len(published.COLUMNS) - 1) + "\n"],
)
def test_a_bad_file_is_refused_by_name(tmp_path: Path, text: str) -> None:
    file = tmp_path / "site_configs" / "mysystem" / "published" / "table.csv"
    file.parent.mkdir(parents=True)
    file.write_text(text)
    with pytest.raises(BadInput, match=re.escape(str(file))):
        published.read("mysystem", tmp_path)
    with refused_as("unknown-name"):
        published.read("generic")

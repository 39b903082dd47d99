"""Records of a server and a client: read whole or refused, and
never with another number than was printed.
"""

import json
import zlib
from pathlib import Path
from random import Random

import pytest

from reframe_tests.harness.suites import reader
from reframe_tests.harness.suites.benchmark import OutputError
from refusals import refused_as

GOLDEN = Path(__file__).parents[2] / "data" / "golden"
REFUSED = {
    "iperf3-3.12-no-algorithm.txt": "unable to set TCP_CONGESTION: Supplied congestion control",
    "ucx_perftest-1.13.1-no-device.txt": "ucx_perftest's client ended with exit status 255",
    "fi_pingpong-1.17-two-nodes-other-network.txt": "eth1g of c2 sent 902 bytes, .* 52430800: ",
}
GOOD = sorted(
    path.name
    for program in ("iperf3", "ucx_perftest", "fi_pingpong")
    for path in GOLDEN.glob(f"{program}-*.txt")
    if path.name not in REFUSED
)
TEXTS = {name: (GOLDEN / name).read_text() for name in (*GOOD, *REFUSED)}
IPERF3 = "iperf3-3.12-tcp.txt"
LATENCY = "ucx_perftest-1.13.1-tag_lat-8.txt"
BANDWIDTH = "ucx_perftest-1.13.1-tag_bw-65536.txt"
PINGPONG = "fi_pingpong-1.17-rdm-65536.txt"


def changed(name, which, change):
    """A recording in which something of one end is different, as
    if it had been so from the beginning.
    """
    lines = TEXTS[name].splitlines()
    whole = ""
    for title, line in zip(lines[::3], lines[1::3], strict=True):
        content = json.loads(line)
        if title.startswith(f"# {which} "):
            change(content)
        said = f"{title}\n{json.dumps(content, sort_keys=True)}\n"
        whole += f"{said}# end: CRC-32 {zlib.crc32(said.encode()):08x}\n"
    return whole


def put(**fields):
    return lambda content: content.update(fields)


@pytest.mark.parametrize("name", [IPERF3, LATENCY, PINGPONG])
def test_no_byte_can_be_changed(name):
    """Of each program one output: all have the same checksum."""
    text = TEXTS[name]
    chance = Random(5)
    for _ in range(100):
        at = chance.randrange(len(text))
        other = chance.choice([char for char in "0 1\n{x,:" if char != text[at]])
        with pytest.raises(OutputError):
            reader.parse(text[:at] + other + text[at + 1 :])
    for end in range(0, len(text) - 1, 1 + len(text) // 30):
        with pytest.raises(OutputError):
            reader.parse(text[:end])


def test_each_end_of_iperf3_makes_the_rate_itself_and_they_may_differ_in_the_last_digit():
    """As 3.12 did once in 112 runs: 94051713.69461074 and
    94051713.6946107 for the same bytes and seconds.
    """

    def times(factor):
        def change(content):
            row = json.loads(content["output"])
            for each in (row["end"]["sum_received"], row["end"]["streams"][0]["receiver"]):
                each["bits_per_second"] *= factor
            content["output"] = json.dumps(row)

        return changed(IPERF3, "server", change)

    [wanted] = reader.parse(TEXTS[IPERF3])
    [record] = reader.parse(times(1 + 4e-16))
    assert record.values == wanted.values
    with refused_as("output-trouble", match="disagree on what was received"):
        reader.parse(times(1.001))


def test_the_recordings_are_read_or_refused():
    for name, said in REFUSED.items():
        with pytest.raises(OutputError, match=said):
            reader.parse(TEXTS[name])
    read = {name: reader.parse(TEXTS[name], source=name) for name in GOOD}
    assert all(len(records) == 1 and records[0].ranks == 2 for records in read.values())
    output = json.loads(json.loads(TEXTS[IPERF3].splitlines()[4])["output"])
    received = output["end"]["sum_received"]["bits_per_second"] / 8e6
    for name, title, size, values in (
        (IPERF3, ("TCP", "streams=1"), 131072, {"bandwidth_mb_per_s": received}),
        (LATENCY, ("tag_lat", ""), 8, {"latency_us": 185.331, "latency_p50_us": 3.399}),
        (
            BANDWIDTH,
            ("tag_bw", ""),
            65536,
            {"bandwidth_mb_per_s": pytest.approx(235.64 * 1.048576), "message_rate_per_s": 3770.0},
        ),
        (PINGPONG, ("pingpong", "endpoint=rdm"), 65536, {"latency_us": 2779.41}),
    ):
        [record] = read[name]
        assert (record.benchmark, record.variant) == title
        assert (record.message_bytes, record.values) == (size, values)
    assert [read[name][0].repetitions for name in (LATENCY, PINGPONG)] == [2000, 200]


def replace(old, new):
    def change(content):
        assert old in content["output"]
        content["output"] = content["output"].replace(old, new, 1)

    return change


def word(old, new):
    return lambda content: content.update(
        words=[new if each == old else each for each in content["words"]]
    )


def grown(by):
    def change(content):
        before = content["before"]["counters"]
        content["after"]["counters"] = {name: count + by for name, count in before.items()}

    return change


def no_counters(content):
    """Adapters without port_xmit_data and port_rcv_data, such as rdma_rxe's."""
    for look in ("before", "after"):
        content[look]["counters"] = {}


OTHER_NETWORK = "it used another network"


@pytest.mark.parametrize(
    ("name", "which", "change", "wanted"),
    [
        (IPERF3, "client", put(meeting="0" * 16), "other than the recorded one"),
        (IPERF3, "client", replace('"cookie":\t"', '"cookie":\t"x'), "different cookies"),
        (IPERF3, "client", word("2", "3"), "-t 3 was requested, but duration was 2"),
        (IPERF3, "server", put(ended="at the time limit"), "ended at the time limit"),
        (IPERF3, "client", put(failed="there is no iperf3"), "could not measure: there is no"),
        (IPERF3, "client", put(output="x" * ((1 << 20) + 1)), "more than 1048576 characters"),
        (IPERF3, "client", put(output="[]"), "run it again"),
        (IPERF3, "server", put(address="127.0.0.2"), "another address or port"),
        (LATENCY, "client", word("2000", "1000"), "made 2000 iterations instead of 1000"),
        (LATENCY, "client", word("-f", "-v"), "must run with -f"),
        (BANDWIDTH, "client", put(output=""), "truncated or mixed up"),
        (BANDWIDTH, "server", grown(0), "received 0 bytes"),
        # What a node says to others meanwhile is more than the payload of
        # small messages (16 kB); no packet without head.
        (LATENCY, "client", grown(94_000), OTHER_NETWORK),
        (IPERF3, "server", grown(0), OTHER_NETWORK),
        (
            PINGPONG,
            "client",
            lambda end: end["after"]["link"].update(carrier_changes="2"),
            "the link of lo of c1 changed",
        ),
        (PINGPONG, "server", word("rdm", "msg"), "started with different options"),
        (PINGPONG, "client", replace("64k ", "32k "), "65536 bytes, 200 times, were requested"),
        (LATENCY, "client", no_counters, "lo of c1 does not count what"),
    ],
)
def test_what_cannot_be_is_refused(name, which, change, wanted):
    with pytest.raises(OutputError, match=wanted):
        reader.parse(changed(name, which, change))

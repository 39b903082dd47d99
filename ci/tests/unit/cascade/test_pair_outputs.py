"""Records of a server and a client: read whole or refused, and never with another number than was printed."""

from __future__ import annotations

import json
import zlib
from collections.abc import Callable
from pathlib import Path
from random import Random
from typing import Any

import pytest

from reframe_tests.harness.suites import iperf3, pair, reader
from reframe_tests.harness.suites.benchmark import OutputError
from refusals import refused_as

GOLDEN = Path(__file__).parents[2] / "data" / "golden"
REFUSED = {
    "iperf3-3.12-no-algorithm.txt": "unable to set TCP_CONGESTION: Supplied congestion control algorithm not supported",
    "ucx_perftest-1.13.1-no-device.txt": "ucx_perftest's client ended with exit status 255",
    "fi_pingpong-1.17-two-nodes-other-network.txt": "interface eth1g of c2 sent 902 bytes, and fi_pingpong exchanged 52430800",
}
GOOD = sorted(
    path.name
    for program in ("iperf3", "ucx_perftest", "fi_pingpong")
    for path in GOLDEN.glob(f"{program}-*.txt")
    if path.name not in REFUSED
)
TEXTS = {name: (GOLDEN / name).read_text() for name in (*GOOD, *REFUSED)}
IPERF3, LATENCY, BANDWIDTH, PINGPONG = (
    "iperf3-3.12-tcp.txt",
    "ucx_perftest-1.13.1-tag_lat-8.txt",
    "ucx_perftest-1.13.1-tag_bw-65536.txt",
    "fi_pingpong-1.17-rdm-65536.txt",
)


def signed(title: str, content: dict[str, Any]) -> str:
    """The record of one end with the checksum that belongs to it."""
    said = f"{title}\n{json.dumps(content, sort_keys=True)}\n"
    return f"{said}# end: CRC-32 {zlib.crc32(said.encode()):08x}\n"


def changed(name: str, which: str, change: Callable[[dict[str, Any]], None]) -> str:
    """A recording in which something of one end is different, as if it had been so from the beginning."""
    lines, parts = TEXTS[name].splitlines(), []
    for title, line in zip(lines[::3], lines[1::3], strict=True):
        content = json.loads(line)
        if title.startswith(f"# {which} "):
            change(content)
        parts.append(signed(title, content))
    return "".join(parts)


def test_each_end_of_iperf3_makes_the_rate_itself_and_they_may_differ_in_the_last_digit() -> None:
    """As 3.12 did once in 112 runs: 94051713.69461074 and 94051713.6946107 for the same bytes and seconds."""

    def times(factor: float) -> Callable[[dict[str, Any]], None]:
        def change(content: dict[str, Any]) -> None:
            row = json.loads(content["output"])
            for each in (row["end"]["sum_received"], row["end"]["streams"][0]["receiver"]):
                each["bits_per_second"] *= factor
            content["output"] = json.dumps(row)

        return change

    [wanted] = reader.parse(TEXTS[IPERF3])
    [record] = reader.parse(changed(IPERF3, "server", times(1 + 4e-16)))
    assert record.values == wanted.values
    with refused_as("output-trouble", match="do not say the same of what was received"):
        reader.parse(changed(IPERF3, "server", times(1.001)))


def test_segments_sent_again_are_as_large_as_the_interface_lets_them_be() -> None:
    def again(mtu: str) -> int:
        def change(content: dict[str, Any]) -> None:
            content["before"]["link"]["mtu"] = content["after"]["link"]["mtu"] = mtu
            row = json.loads(content["output"])
            row["end"]["sum_sent"]["retransmits"] = 10
            content["output"] = json.dumps(row)

        ends = pair.read(changed(IPERF3, "client", change), "iperf3", "x")
        return iperf3.PAIRS[0].exchanged(ends).sent

    assert again("9000") - again("1500") == 10 * 7500 and again("") == again("9000")


LOOKS = ("before", "after")


def put(**fields: Any) -> Callable[[dict[str, Any]], None]:
    return lambda content: content.update(fields)


def replace(old: str, new: str, field: str = "output") -> Callable[[dict[str, Any]], None]:
    def change(content: dict[str, Any]) -> None:
        assert old in content[field]
        content[field] = content[field].replace(old, new, 1)

    return change


def word(old: str, new: str) -> Callable[[dict[str, Any]], None]:
    return lambda content: content.update(words=[new if each == old else each for each in content["words"]])


def counted(**counters: int) -> Callable[[dict[str, Any]], None]:
    return lambda content: content["after"].update(counters={**content["before"]["counters"], **counters})


def grown(content: dict[str, Any], by: int) -> None:
    content["after"]["counters"] = {name: count + by for name, count in content["before"]["counters"].items()}


def test_the_recordings_are_read() -> None:
    assert len(GOOD) == 17
    read = {name: reader.parse(TEXTS[name], source=name) for name in GOOD}
    assert all(len(records) == 1 and records[0].ranks == 2 for records in read.values())
    [record] = read[IPERF3]
    assert (record.suite, record.benchmark, record.variant, record.message_bytes) == ("iperf3", "TCP", "streams=1", 131072)
    output = json.loads(json.loads(TEXTS[IPERF3].splitlines()[4])["output"])
    assert record.values == {"bandwidth_mb_per_s": output["end"]["sum_received"]["bits_per_second"] / 8e6}
    [record] = read[LATENCY]
    assert (record.benchmark, record.message_bytes, record.repetitions) == ("tag_lat", 8, 2000)
    assert record.values == {"latency_us": 185.331, "latency_p50_us": 3.399}
    [record] = read[BANDWIDTH]
    assert record.values == {"bandwidth_mb_per_s": pytest.approx(235.64 * 1.048576), "message_rate_per_s": 3770.0}
    [record] = read[PINGPONG]
    assert (record.variant, record.message_bytes, record.repetitions) == ("endpoint=rdm", 65536, 200)
    assert record.values == {"latency_us": 2779.41}


@pytest.mark.parametrize("name", sorted(REFUSED))
def test_what_failed_is_refused_with_its_own_words(name: str) -> None:
    with pytest.raises(OutputError, match=REFUSED[name]):
        reader.parse(TEXTS[name], source=name)


@pytest.mark.parametrize("name", GOOD)
def test_no_byte_can_be_changed(name: str) -> None:
    text, chance = TEXTS[name], Random(5)
    for _ in range(150):
        at = chance.randrange(len(text))
        other = chance.choice([char for char in "0 1\n{x,:" if char != text[at]])
        with pytest.raises(OutputError):
            reader.parse(text[:at] + other + text[at + 1 :])
    for end in range(0, len(text) - 1, 397):
        with pytest.raises(OutputError):
            reader.parse(text[:end])


@pytest.mark.parametrize(
    ("name", "which", "change", "wanted"),
    [
        (IPERF3, "client", put(meeting="0" * 16), "client met another server than the one recorded with it"),
        (IPERF3, "client", put(port=1), "client met another server"),
        (IPERF3, "client", replace('"cookie":\t"', '"cookie":\t"x'), "do not have the same cookie"),
        (IPERF3, "client", word("2", "3"), "-t 3 was asked for, and duration was 2"),
        (IPERF3, "server", put(ended="at the time limit"), "server was ended at the time limit"),
        (IPERF3, "client", put(failed="there is no program iperf3 on PATH"), "could not measure: there is no program iperf3"),
        (IPERF3, "client", put(output="x" * ((1 << 20) + 1)), "printed more than 1048576 characters"),
        (IPERF3, "client", put(output="[]"), "run it again"),
        (IPERF3, "server", put(address="127.0.0.2"), "was started with another address or port"),
        (LATENCY, "client", word("2000", "1000"), "made 2000 iterations, asked for were 1000"),
        (LATENCY, "client", word("-f", "-v"), "is read with -f"),
        (BANDWIDTH, "client", put(output=""), "cut off or mixed up"),
        (BANDWIDTH, "client", counted(tx_bytes=0), "it went over another network"),
        (BANDWIDTH, "server", counted(), "lo of c1 received 0 bytes, and ucx_perftest exchanged 131072000"),
        # What a node says to others meanwhile is more than the payload of small messages (16 kB); no packet without head.
        (LATENCY, "client", lambda end: grown(end, 94_000), "sent 94000 bytes, and ucx_perftest exchanged 96000: it went over"),
        (IPERF3, "server", counted(), "it went over another network"),
        (PINGPONG, "client", counted(), "it went over another network"),
        (PINGPONG, "client", lambda end: end["after"]["link"].update(carrier_changes="2"), "the link of lo of c1 changed"),
        (PINGPONG, "server", word("rdm", "msg"), "two ends were started with different options"),
        (PINGPONG, "client", replace("64k ", "32k "), "printed '32k .* where 65536 bytes, 200 times, were asked for"),
        (PINGPONG, "client", replace("64k     200 ", "64k     100 "), "printed '64k +100 .* where 65536 bytes, 200 times"),
        # Adapters without port_xmit_data and port_rcv_data, such as rdma_rxe's.
        (LATENCY, "client", lambda end: [end[look].update(counters={}) for look in LOOKS], "lo of c1 does not count what"),
    ],
)
def test_what_cannot_be_is_one_sentence(name: str, which: str, change: Callable[[dict[str, Any]], None], wanted: str) -> None:
    with pytest.raises(OutputError, match=wanted) as caught:
        reader.parse(changed(name, which, change), source="pair.out")
    assert str(caught.value).startswith("pair.out") and str(caught.value).endswith(".") and "\n" not in str(caught.value)


def test_ends_of_two_launches_are_no_pair() -> None:
    servers, clients = ([TEXTS[name].splitlines(keepends=True)[part] for name in GOOD] for part in (slice(0, 3), slice(3, 6)))
    for at, server in enumerate(servers):
        for other, client in enumerate(clients):
            if at != other:
                with pytest.raises(OutputError):
                    reader.parse("".join([*server, *client]))

"""The commands of a server and a client on two nodes, and the files they left (``cascade/end.py``),
read completely or not at all.

The text is the server's file followed by the client's, each a line of JSON between a title and a
CRC-32. It shows that both met, on which port, and with which command, because some programs print
neither test nor size.
"""

from __future__ import annotations

import re
import zlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

import msgspec

from ..machine.gpu import DEVICE, OF_HOST, Memory
from ..printable import one_line
from ..vocabulary import Refusal
from .benchmark import Level, Limits, OutputError, Record

#: Most characters of a stream that are kept (``MOST`` of
#: ``end.py``); one more says that there was more.
MOST = 1 << 20
#: How the two programs may have ended; the server is ended where it would wait for another client.
ENDS = {"server": ("by itself", "after the client"), "client": ("by itself",)}
#: Bytes received and sent since an interface exists, ``rx_bytes`` and ``tx_bytes``.
Counters = Mapping[str, int]


@dataclass(frozen=True)
class Look:
    """An interface at one moment.

    :param link: ``operstate``, ``mtu``, ``speed`` and ``carrier_changes`` as the
        kernel has them; empty if it says nothing.
    :param counters: its own.
    :param others: those of the node's other interfaces and RDMA ports
        (``mlx5_0/1``); empty in older records.
    """

    link: Mapping[str, str]
    counters: Counters
    others: Mapping[str, Counters] = field(default_factory=dict)


@dataclass(frozen=True)
class End:
    """One of the two.

    :param meeting: a word that the server's end made up and the client's end got from it.
    :param address: IPv4 address of its own interface.
    :param words: program and arguments.
    :param variables: those set for it.
    :param cores: cores the kernel lets it run on, in the kernel's list format.
    :param status: exit status; negative: the signal that ended it.
    :param ended: how it ended.
    :param seconds: wall time.
    """

    end: str
    host: str
    interface: str
    meeting: str
    address: str
    port: int
    words: tuple[str, ...]
    variables: Mapping[str, str]
    cores: str
    status: int
    ended: str
    seconds: float
    output: str
    errors: str
    before: Look
    after: Look

    def bytes_of(self, counter: str) -> int:
        """Bytes its interface counted meanwhile, of ``rx_bytes`` or ``tx_bytes``."""
        return self.after.counters[counter] - self.before.counters[counter]

    def others_carried(self) -> dict[str, int]:
        """Bytes that each other interface and port received and sent meanwhile."""
        start: Mapping[str, int] = {}
        return {
            name: sum(row.values()) - sum(self.before.others.get(name, start).values())
            for name, row in self.after.others.items()
        }

    def option(self, name: str) -> str:
        """Value of an option of its command line, ``-s 8``; empty if it has none."""
        return dict(zip(self.words, self.words[1:], strict=False)).get(name, "")


@dataclass(frozen=True)
class Pair:
    """Both ends of one launch."""

    server: End
    client: End


@dataclass(frozen=True)
class Exchanged:
    """Payload that the two exchanged, warm-up included.

    :param sent: bytes from client to server; ``returned``: those the other way.
    :param messages: messages that went each way that has bytes.
    """

    sent: int
    returned: int
    messages: int = 0


@dataclass(frozen=True)
class Start:
    """One launch as it is to be started.

    :param transport: of the fabric.
    :param device: interface (``eth1g``) or RDMA device (``mlx5_0``), with its ``port``.
    :param interface: whether it is a network interface.
    :param size: bytes of a message.
    :param repetitions: messages that are timed.
    :param seconds: duration, of a program that measures for a time.
    :param memory: where messages are; on a GPU: that with the number
        ``gpu``, in the order of their PCI addresses.
    """

    transport: str
    device: str
    port: int
    interface: bool
    size: int
    repetitions: int
    seconds: int
    memory: Memory = OF_HOST
    gpu: int = 0


class OtherNetwork(OutputError):
    """A complete output, but the interface did not carry what the two exchanged."""


#: Words of the server and of the client; ``{address}``, ``{port}``
#: and ``{own}`` are filled in by ``end.py``.
Words = tuple[tuple[str, ...], tuple[str, ...]]
#: Fewest repetitions of any size; perftest makes no fewer than 5.
LEAST = 20


@dataclass(frozen=True)
class PairPlan:
    """One benchmark, started once for each size.

    :param benchmark: name of its row, whose binary is started.
    :param variant: as the row has it.
    :param words: how it is started.
    :param sizes: level to message sizes in bytes.
    :param most: most repetitions of any size.
    """

    benchmark: str
    words: Callable[[Start], Words]
    sizes: Mapping[str, tuple[int, ...]]
    most: int
    variant: str = ""

    def repetitions(self, size: int, level: Level, limits: Limits) -> int:
        """As many as a link carries in the level's time, within the limits.

        :param size: bytes of a message.
        """
        bounds = [self.most]
        if limits.most_repetitions is not None:
            bounds.append(limits.most_repetitions)
        if limits.line_rate_gbit_per_s is not None:
            bounds.append(int(limits.line_rate_gbit_per_s * 1e9 / 8 * level.link_s / size))
        return max(LEAST, min(bounds))


@dataclass(frozen=True)
class MapPlan:
    """How a group measures a map of all pairs.

    :param size: bytes of a message, at which a link is full.
    """

    plan: PairPlan
    size: int


@dataclass(frozen=True)
class PairGroup:
    """What a server and a client on two nodes measure below MPI, in one job.

    :param name: of the group.
    :param description: what it measures, in one line.
    :param layer: :data:`WIRE` or :data:`TRANSPORT`.
    :param debian: Debian's package that has its programs; ``spack``: Spack's.
    :param transports: transports of the fabrics that it can be measured on.
    :param exchanged: what the two of a launch exchanged.
    :param mapped: what a map of all pairs is measured with; ``None``: there is none.
    :param on_gpu: benchmarks that can send GPU memory, both ways the
        GPU's own, to the platforms they know.
    """

    name: str
    description: str
    layer: str
    debian: str
    spack: str
    transports: tuple[str, ...]
    plans: tuple[PairPlan, ...]
    exchanged: Callable[[Pair], Exchanged]
    mapped: MapPlan | None = None
    on_gpu: Mapping[str, tuple[str, ...]] = field(default_factory=dict)

    def measures(self, plan: PairPlan, memory: Memory) -> bool:
        return not memory.on_gpu or (
            memory.word == DEVICE and memory.kind in self.on_gpu.get(plan.benchmark, ())
        )


#: The layers that such groups are of.
WIRE = "wire"
TRANSPORT = "transport"
#: Sizes in bytes of the programs that measure one size at a time:
#: small and large, those between, and a curve.
SIZES: Mapping[str, tuple[int, ...]] = {
    "smoke": (8, 1 << 20),
    "nightly": (8, 1 << 10, 1 << 16, 1 << 20, 1 << 22),
    "acceptance": tuple(1 << log2 for log2 in (3, 6, 8, 10, 12, 14, 16, 18, 20, 22)),
}


def title(program: str) -> re.Pattern[str]:
    """The line that the record of a program's server begins with."""
    return re.compile(rf"^# server of {re.escape(program)}, format 1\r?$", re.MULTILINE)


def read(text: str, program: str, source: str) -> Pair:
    """Both ends of a launch of a program. What an end wrote is trusted where its checksum is right.

    :raises OutputError: it is cut off, changed or mixed, an end could not measure, the two did not
        meet each other, or the client's program failed.
    """

    def wrong(code: Refusal, sentence: str) -> OutputError:
        return OutputError(code, f"{source}: {sentence}.")

    rest = text.replace("\r\n", "\n").lstrip("\n")
    ends = []
    for which in ENDS:
        form = (
            rf"(# {which} of {re.escape(program)}, format 1\n([^\n]+)\n)# end: CRC-32 "
            r"([0-9a-f]{8})\n"
        )
        match = re.match(form, rest)
        if not match or f"{zlib.crc32(match[1].encode(errors='replace')):08x}" != match[3]:
            raise wrong(
                "output-cut",
                f"the record of {program}'s {which} is missing, truncated or changed; run it again",
            )
        try:
            content = msgspec.json.decode(match[2], type=dict)
            if failed := content.get("failed"):
                raise wrong(
                    "output-trouble",
                    f"{program}'s {which} could not measure: {one_line(str(failed))[:200]}",
                )
            ends.append(msgspec.convert(content, End))
        except msgspec.DecodeError as error:
            fault = one_line(str(error))[:100]
            raise wrong(
                "output-damaged",
                f"the record of {program}'s {which} has another format: {fault}",
            ) from None
        rest = rest[match.end() :]
    server, client = ends
    if rest.strip():
        raise wrong(
            "output-mixed",
            f"something follows the record of {program}'s client; outputs are mixed up",
        )
    if (server.meeting, server.port) != (client.meeting, client.port):
        raise wrong(
            "output-mixed",
            f"{program}'s client reached a server other than the recorded one; run it again",
        )
    if (
        str(client.port) not in client.words
        or server.address not in client.words
        or str(server.port) not in server.words
    ):
        raise wrong(
            "output-mixed",
            f"{program} was started with another address or port; outputs are mixed up, run it "
            "again",
        )
    for end in (client, server):
        message = one_line(end.errors.strip() or "it said nothing")[-200:]
        if end.ended not in ENDS[end.end]:
            raise wrong("output-trouble", f"{program}'s {end.end} was ended {end.ended}; {message}")
        if end.status and end.ended == "by itself":
            raise wrong(
                "output-trouble",
                f"{program}'s {end.end} ended with exit status {end.status}: {message}",
            )
        if any(
            counter not in look.counters
            for look in (end.before, end.after)
            for counter in ("rx_bytes", "tx_bytes")
        ):
            uncounted = f"{end.interface} of {end.host} does not count what it receives and sends"
            raise wrong(
                "output-trouble",
                f"{uncounted}, so nothing shows that {program} used it; use another interface",
            )
        if max(len(end.output), len(end.errors)) > MOST:
            raise wrong(
                "output-damaged",
                f"{program}'s {end.end} printed more than {MOST} characters; run it again",
            )
    return Pair(server, client)


def parser(
    program: str, measured: Callable[[Pair], tuple[Record, Exchanged]]
) -> Callable[[str, str], list[Record]]:
    """The reader of a suite whose program is started on two nodes.

    :param measured: the one record of both ends and what they exchanged while it was timed; raises
        :class:`ValueError` with what is wrong, or whatever a JSON document gives that lacks
        something.
    """

    def parse(text: str, source: str) -> list[Record]:
        ends = read(text, program, source)
        try:
            record, moved = measured(ends)
        except (
            AttributeError,
            IndexError,
            KeyError,
            TypeError,
            ValueError,
            RecursionError,
            OverflowError,
        ) as error:
            message = f"{error.args[0]!r} is missing" if isinstance(error, KeyError) else str(error)
            raise OutputError(
                "output-trouble", f"{source}: {program}: {one_line(message)[:200]}; run it again."
            ) from None
        expect_carried(ends, moved, program, source)
        return [record]

    return parse


#: Bytes that a packet has at least beside its payload as an interface counts it: headers of IPv4
#: and TCP without options (RFC 791, 3.1; RFC 9293, 3.1). A port of an RDMA device may count none.
PACKET_BYTES = 40


def expect_carried(pair: Pair, moved: Exchanged, program: str, source: str) -> None:
    """That both interfaces carried what the two exchanged, and
    that their links stayed as they were.

    A program need not obey: fi_pingpong 1.17 takes a domain that
    does not exist, and measures elsewhere.

    :param moved: of it the messages that wait for one another, so that each is a packet of its own:
        the payload of small ones alone is less than what a node says to others meanwhile.
    :raises OtherNetwork: otherwise.
    """
    sent = moved.sent
    returned = moved.returned
    for end, out, back in ((pair.client, sent, returned), (pair.server, returned, sent)):
        headers = 0 if "/" in end.interface else moved.messages * PACKET_BYTES
        for counter, least, verb in (("tx_bytes", out, "sent"), ("rx_bytes", back, "received")):
            if end.bytes_of(counter) < least + headers:
                raise OtherNetwork(
                    "not-comparable",
                    f"{source}: interface {end.interface} of {end.host} {verb} "
                    f"{end.bytes_of(counter)} bytes, but {program} exchanged {least + headers}: it "
                    "used another network; check its options.",
                )
        if end.before.link != end.after.link:
            raise OtherNetwork(
                "changed-since",
                f"{source}: the link of {end.interface} of {end.host} changed during the run; "
                "check its cable and run it again.",
            )

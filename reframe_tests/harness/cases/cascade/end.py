"""One end of a program that measures with a server and a client, run and recorded on its own node.

Runs under the node's own ``python3`` (3.6 or newer, no package), once as server, once as client, in
a directory both see: ``end.py server|client NAME INTERFACE LIMIT_S WORD...``. The words are the
program's, with ``VARIABLE=value`` in front of it for its environment; in them ``{address}`` and
``{port}`` stand for where the server listens, ``{own}`` for the end's own address. ``end.py task
NAME INTERFACE LIMIT_S WORD... + WORD...`` is the server where Slurm's ``SLURM_PROCID`` is 0, else
the client. ``end.py pairs NAME INTERFACE LIMIT_S 0-3,2-1 WORD... + WORD...``: of several pairs at
once, each the numbers of a server and a client, that which the task is part of, as ``NAME0-3``; a
task that is in none does nothing. ``INTERFACE`` is a network interface, or
``DEVICE/PORT@INTERFACE``: a port of an RDMA device, and where the two meet (:data:`HOST_NAME`:
where the host's name leads).

The server's end looks for a port that nobody uses, starts its program, waits until that very
process listens there, and only then says where in ``NAME.meeting``: two jobs on one node do not
collide, and nobody else's server is ever announced. When the client's end is over, its file ends
the server, which would wait for ever behind a client that failed. Each end leaves ``NAME.server``
or ``NAME.client``: a line of JSON between a title and a checksum, with what its program printed,
its cores, the state of its interface, and the byte counters of that and all others before and
after.
"""

import fcntl
import json
import os
import re
import shutil
import signal
import socket
import struct
import subprocess
import sys
import time
import zlib
from pathlib import Path

try:
    import ctypes

    #: The C library of this process.
    LIBRARY: "ctypes.CDLL | None" = ctypes.CDLL(None)
except ImportError:  # Debian's python3-minimal has no ctypes
    LIBRARY = None

#: This program, for who starts it.
PROGRAM = Path(__file__).resolve()
#: Drivers of adapters that virtual machines are shown: their speed is nobody's
#: (evidence/link_state.py has the same list).
VIRTUAL_DRIVERS = (
    "virtio_net",
    "vmxnet3",
    "hv_netvsc",
    "ena",
    "gve",
    "xen-netfront",
    "vif",
    "veth",
    "ibmveth",
)
#: Seconds between two looks; those the server's program may take to end by itself after the
#: client's, and when asked to.
LOOK_S = 0.05
GRACE_S = 3.0
#: ``SIOCGIFADDR`` (linux/sockios.h), and where ``struct ifreq`` has the IPv4 address.
SIOCGIFADDR = 0x8915
ADDRESS = slice(20, 24)
#: State of a listening socket (``/proc/net/tcp``, include/net/tcp_states.h).
LISTENING = "0A"
#: Files of an interface's state below ``/sys/class/net/<name>`` (sysfs-class-net).
LINK = ("operstate", "mtu", "speed", "carrier_changes")
#: An adapter that copies its counters to the host on a timer does it about once a second
#: (ethtool(8), ``stats-block-usecs``).
COUNTER_LAG_S = 1.1
#: Where server and client of an RDMA port meet if no interface is given.
HOST_NAME = "host name"
#: Folders of the kernel's interfaces and RDMA devices (sysfs-class-net, sysfs-class-infiniband).
INTERFACES = Path("/sys/class/net")
DEVICES = Path("/sys/class/infiniband")
#: Files of a port to the same names; its data counters count words of 4 bytes
#: (sysfs-class-infiniband, ``port_xmit_data``).
PORT_LINK = {"operstate": "state", "speed": "rate", "carrier_changes": "counters/link_downed"}
PORT_COUNTERS = {"rx_bytes": "counters/port_rcv_data", "tx_bytes": "counters/port_xmit_data"}
WORD = 4
#: Bytes of each stream that are kept.
MOST = 1 << 20
#: Between the server's words and the client's; a ``:`` would part the step for srun(1).
BETWEEN = "+"


#: ``PR_SET_PDEATHSIG`` (linux/prctl.h).
PR_SET_PDEATHSIG = 1


class Failed(Exception):
    """What kept this end from measuring, as a clause."""


def text(path: "Path") -> "str":
    """A file without the white space around it; empty if there is
    none, or a link that is down says nothing.
    """
    try:
        return path.read_text(encoding="utf-8", errors="replace").strip()
    except OSError:
        return ""


def counters_of(name: "str") -> "dict[str, int]":
    """Bytes that an interface or a port (``mlx5_0/1``) received and
    sent; without those it does not count.
    """
    device, slash, port = name.partition("/")
    folder = DEVICES / device / "ports" / port if slash else INTERFACES / name / "statistics"
    counts = {key: text(folder / (PORT_COUNTERS[key] if slash else key)) for key in PORT_COUNTERS}
    return {
        key: int(value) * (WORD if slash else 1) for key, value in counts.items() if value.isdigit()
    }


def relatives_of(name: "str") -> "set[str]":
    """Interfaces that count the same bytes again: what lies below or
    above it (a bond's members, a VLAN's card).
    """
    relatives = set()
    new = {name}
    while new:
        relatives |= new
        links = [path.name for interface in new for path in (INTERFACES / interface).glob("*er_*")]
        new = {
            link.partition("_")[2] for link in links if link.startswith(("lower_", "upper_"))
        } - relatives
    return relatives


def look_at(name: "str") -> "dict[str, object]":
    """State and byte counters of an interface or port, and the byte
    counters of all others that do not count its bytes.
    """
    device, slash, port = name.partition("/")
    if slash:
        folder = DEVICES / device / "ports" / port
        files = PORT_LINK
    else:
        folder = INTERFACES / name
        files = {key: key for key in LINK}
    link = {key: text(folder / files[key]) if key in files else "" for key in LINK}
    driver = Path(os.path.realpath(str(folder / "device" / "driver"))).name
    # The speed of software, and of a virtual machine's adapter, means nothing.
    if not slash and (not (folder / "device").exists() or driver in VIRTUAL_DRIVERS):
        link["speed"] = ""
    there = [path.name for path in INTERFACES.glob("*")]
    there += [path.parent.parent.name + "/" + path.name for path in DEVICES.glob("*/ports/*")]
    same = {name} if slash else relatives_of(name)
    others = {other: counters_of(other) for other in sorted(there) if other not in same}
    return {
        "link": link,
        "counters": counters_of(name),
        "others": {other: row for other, row in others.items() if len(row) == 2},
    }


def address_of(interface: "str") -> "str":
    """IPv4 address of an interface, of :data:`HOST_NAME` that by which others know this host."""
    if interface == HOST_NAME:
        name = socket.gethostname()
        try:
            addresses = [
                str(row[4][0])
                for row in socket.getaddrinfo(name, None, socket.AF_INET, socket.SOCK_STREAM)
            ]
        except OSError as error:
            raise Failed(
                "host name " + name + " has no IPv4 address (" + str(error) + ")"
            ) from None
        # Debian's installer gives a host's own name 127.0.1.1.
        others = [address for address in addresses if not address.startswith("127.")]
        if not others:
            raise Failed(
                "host name "
                + name
                + " is "
                + addresses[0]
                + " here: give the fabric tcp_interfaces"
            )
        return others[0]
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as asked:
        try:
            row = fcntl.ioctl(
                asked.fileno(), SIOCGIFADDR, struct.pack("256s", interface.encode()[:15])
            )
        except OSError as error:
            raise Failed(
                "interface " + interface + " has no IPv4 address (" + str(error.strerror) + ")"
            ) from None
    return socket.inet_ntoa(row[ADDRESS])


def listens(process: "int", port: "int") -> "bool":
    """Whether a process, and no other, has the listening socket of a port."""
    inodes = set()
    for name in ("tcp", "tcp6"):
        for line in text(Path("/proc/net") / name).splitlines()[1:]:
            words = line.split()
            if words[3] == LISTENING and int(words[1].rpartition(":")[2], 16) == port:
                inodes.add("socket:[" + words[9] + "]")
    own = set()
    try:
        for entry in Path(f"/proc/{process}/fd").iterdir():
            own.add(os.readlink(str(entry)))  # noqa: PTH115 (Path.readlink is of Python 3.9)
    except OSError:
        pass
    return bool(inodes) and inodes <= own


def part(words: "list[str]") -> "tuple[dict[str, str], list[str]]":
    count = next(
        (at for at, word in enumerate(words) if not re.match(r"[A-Z_][A-Z0-9_]*=", word)),
        len(words),
    )
    pairs = [word.partition("=") for word in words[:count]]
    return {key: value for key, _, value in pairs}, words[count:]


def end_with(parent: "int") -> "None":
    """In the child: the kernel ends it when the program that started it is
    killed, which then can end nothing (prctl(2)).
    """
    if LIBRARY is not None:
        LIBRARY.prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
    if os.getppid() != parent:  # killed before
        os._exit(1)


class RunningProgram:
    """A program that runs, with its output in files so that no pipe fills up."""

    def __init__(self, name: "str", words: "list[str]") -> None:
        self.variables, self.words = part(words)
        self.files = [Path(name + ".out"), Path(name + ".err")]
        self.began = time.monotonic()
        parent = os.getpid()
        with self.files[0].open("wb") as out, self.files[1].open("wb") as err:
            self.child = subprocess.Popen(
                self.words,
                stdin=subprocess.DEVNULL,
                stdout=out,
                stderr=err,
                env=dict(os.environ, **self.variables),
                preexec_fn=lambda: end_with(parent),
            )
        match = re.search(
            r"(?m)^Cpus_allowed_list:\s*(\S+)", text(Path(f"/proc/{self.child.pid}/status"))
        )
        self.cores = match.group(1) if match else ""
        self.ended = "by itself"

    def wait(self, until: "float", why: "str") -> None:
        """Wait for its end; after ``until`` it is ended."""
        while self.child.poll() is None and time.monotonic() < until:
            time.sleep(LOOK_S)
        self.end(why)

    def end(self, why: "str") -> None:
        if self.child.poll() is not None:
            return
        self.ended = why
        self.child.terminate()
        try:
            self.child.wait(GRACE_S)
        except subprocess.TimeoutExpired:
            self.child.kill()
            self.child.wait()

    def as_dict(self) -> "dict[str, object]":
        texts = [path.read_bytes()[: MOST + 1].decode("utf-8", "replace") for path in self.files]
        return {
            "words": self.words,
            "variables": self.variables,
            "cores": self.cores,
            "status": self.child.returncode,
            "ended": self.ended,
            "seconds": round(time.monotonic() - self.began, 3),
            "output": texts[0],
            "errors": texts[1],
        }


def fill(words: "list[str]", address: "str", port: "int", own: "str") -> "list[str]":
    pairs = {"{address}": address, "{port}": str(port), "{own}": own}
    return [
        re.sub("{(address|port|own)}", lambda match: pairs[match.group()], word) for word in words
    ]


def leave(path: "Path", content: "str") -> None:
    """A file that is there whole or not at all."""
    scratch = path.with_name(path.name + ".part")
    scratch.write_text(content, encoding="utf-8")
    scratch.rename(path)


def serve(
    name: "str", interface: "str", limit_s: "float", words: "list[str]"
) -> "dict[str, object]":
    address = address_of(interface)
    until = time.monotonic() + limit_s
    with socket.socket(socket.AF_INET, socket.SOCK_STREAM) as asked:
        asked.bind((address, 0))  # the kernel gives each caller another port for a while
        port = int(asked.getsockname()[1])
        meeting = os.urandom(8).hex()
    process = RunningProgram(name + ".server", fill(words, address, port, address))
    try:
        while not listens(process.child.pid, port):
            if process.child.poll() is not None or time.monotonic() > until:
                raise Failed(
                    "the server did not listen: "
                    + (process.files[1].read_text(errors="replace").strip() or "no word")
                )
            time.sleep(LOOK_S)
        leave(
            Path(name + ".meeting"),
            json.dumps({"meeting": meeting, "address": address, "port": port}),
        )
        while not Path(name + ".client").exists() and time.monotonic() < until:
            time.sleep(LOOK_S)
        over = Path(name + ".client").exists()
        process.wait(
            min(until, time.monotonic() + GRACE_S),
            "after the client" if over else "at the time limit",
        )
    finally:
        process.end("after a failure")
    return dict(process.as_dict(), meeting=meeting, address=address, port=port)


def ask(name: "str", interface: "str", limit_s: "float", words: "list[str]") -> "dict[str, object]":
    own = address_of(interface)
    until = time.monotonic() + limit_s
    while not Path(name + ".meeting").exists():
        if time.monotonic() > until or Path(name + ".server").exists():
            raise Failed("no server was announced")
        os.listdir(str(Path(name).parent))  # noqa: PTH208 (a network file system looks again)
        time.sleep(LOOK_S)
    met = json.loads(Path(name + ".meeting").read_text())
    process = RunningProgram(name + ".client", fill(words, met["address"], met["port"], own))
    try:
        process.wait(until, "at the time limit")
    finally:
        process.end("after a failure")
    return dict(process.as_dict(), meeting=met["meeting"], address=own, port=met["port"])


def main(arguments: "list[str]") -> "int":
    """Run one end and leave its file; 0 unless it could not measure at all."""
    which, name, place, limit_s, *words = arguments
    if which in ("task", "pairs"):
        task = os.environ.get("SLURM_PROCID", "")
        at = words.index(BETWEEN)
        pairs = "0-1" if which == "task" else words[0]
        pair = next((pair for pair in pairs.split(",") if task in pair.split("-")), "")
        if not pair:
            return 0
        if which == "pairs":
            name += pair
        first = 1 if which == "pairs" else 0
        which, words = (
            ("server", words[first:at])
            if task == pair.split("-")[0]
            else ("client", words[at + 1 :])
        )
    interface, _, meeting = place.partition("@")
    before = look_at(interface)
    program = part(words)[1][0]
    try:
        # Before the other end is waited for, so that each record says whether its own node has it.
        if not shutil.which(program):
            raise Failed("there is no program " + program + " on PATH")
        result = {"server": serve, "client": ask}[which](
            name, meeting or interface, float(limit_s), words
        )
        failed = ""
    except Failed as error:
        result = {}
        failed = str(error)
    if "/" in interface or (INTERFACES / interface / "device").exists():
        time.sleep(COUNTER_LAG_S)  # a virtual interface counts a packet when it sees it
    after = look_at(interface)
    row = dict(
        result,
        end=which,
        host=socket.gethostname(),
        interface=interface,
        failed=failed,
        before=before,
        after=after,
    )  # type: dict[str, object]
    content = f"# {which} of {Path(program).name}, format 1\n{json.dumps(row, sort_keys=True)}\n"
    leave(Path(name + "." + which), content + f"# end: CRC-32 {zlib.crc32(content.encode()):08x}\n")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

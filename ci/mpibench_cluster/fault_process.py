"""What a fault needs for as long as it lasts, as a process in the cluster:
``fault_process.py NAME relay|throttle|toggle ...``.

A program of its own, without imports of the project: it goes by
the name it is given, and is killed by it.
"""

from __future__ import annotations

import contextlib
import ctypes
import heapq
import os
import random
import select
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path

#: ``linux/if_packet.h``, ``linux/if_ether.h``, ``linux/prctl.h``.
SOL_PACKET = 263
PACKET_VNET_HDR = 15
PACKET_IGNORE_OUTGOING = 23
ETH_P_ALL = 0x0003
PR_SET_NAME = 15
#: Bytes of ``struct virtio_net_hdr``; of the largest frame that the
#: kernel hands over uncut; of a frame on the wire.
HEADER = 10
LARGEST = 1 << 17
WIRE = 1514
#: Seconds of a throttle's period, and between two looks for new processes.
PERIOD_S = 0.004
LOOK_S = 0.2
#: Bytes that a relay holds for each direction; what comes beyond is lost, as in a switch.
HELD = 4 << 20


def interface(name: str) -> socket.socket:
    """Everything that comes in at an interface."""
    # Without a protocol nothing comes in until it is bound.
    opened = socket.socket(socket.AF_PACKET, socket.SOCK_RAW, 0)
    opened.setsockopt(SOL_PACKET, PACKET_VNET_HDR, 1)
    opened.setsockopt(SOL_PACKET, PACKET_IGNORE_OUTGOING, 1)
    opened.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 8 << 20)
    opened.bind((name, ETH_P_ALL))
    opened.setblocking(False)
    return opened


def relay(port: str, switch: str, *settings: str) -> None:
    """``relay PORT SWITCH DELAY:LOSS DELAY:LOSS``: hand each frame that comes in at one interface
    out of the other, as a cable does, after a delay in us and unless it is one of those that get
    lost; first of what the node behind ``PORT`` sends, then of what it receives. Frames keep the
    header that says how the kernel is to cut them up and add their checksum (``packet(7)``,
    ``PACKET_VNET_HDR``); lost are wire frames.
    """
    ends = (interface(port), interface(switch))
    rules = [
        (float(delay) / 1e6, float(loss))
        for delay, loss in (setting.split(":") for setting in settings)
    ]
    waiting: list[tuple[float, int, int, bytes]] = []
    held = [0, 0]
    serial = 0
    draw = random.Random()
    while True:
        timeout = max(waiting[0][0] - time.monotonic(), 0) if waiting else None
        ready = select.select(ends, [], [], timeout)[0]
        now = time.monotonic()
        for way, end in enumerate(ends):
            delay, loss = rules[way]
            while end in ready:
                try:
                    frame = end.recv(HEADER + LARGEST)
                except BlockingIOError:
                    break
                wires = max(1, (len(frame) - HEADER + WIRE - 1) // WIRE)
                lost = loss and draw.random() > (1 - loss) ** wires
                if not lost and held[way] + len(frame) <= HELD:
                    serial = serial + 1
                    held[way] = held[way] + len(frame)
                    heapq.heappush(waiting, (now + delay, serial, way, frame))
        while waiting and waiting[0][0] <= time.monotonic():
            _, _, way, frame = heapq.heappop(waiting)
            held[way] -= len(frame)
            # A full queue loses a frame, and a link that is down all.
            with contextlib.suppress(OSError):
                ends[1 - way].send(frame)


def ranks(libraries: Sequence[str], processes: Iterable[int]) -> list[int]:
    """Those of these processes that have loaded one of the libraries."""
    found = []
    for process in processes:
        with contextlib.suppress(OSError):
            maps = Path(f"/proc/{process}/maps").read_text()
            found += [process] if any(f"/{library}.so" in maps for library in libraries) else []
    return found


def others() -> list[int]:
    return [
        int(entry.name)
        for entry in Path("/proc").iterdir()
        if entry.name.isdigit() and int(entry.name) != os.getpid()
    ]


def notify(processes: list[int], number: signal.Signals) -> None:
    for process in processes:
        with contextlib.suppress(OSError):
            os.kill(process, number)


def throttle(fraction: str, *libraries: str) -> None:
    """``throttle FRACTION LIBRARY...``: let processes that have loaded one of these libraries run
    for a fraction of each period only, as a quota of a control group does (``cpu.cfs_quota_us``),
    without one of the host; with ``1`` let them run.
    """
    share = float(fraction)
    if share >= 1:
        notify(ranks(libraries, others()), signal.SIGCONT)
        return
    looked = 0.0
    found = list[int]()
    while True:
        if time.monotonic() - looked > LOOK_S:
            looked = time.monotonic()
            found = ranks(libraries, others())
        if not found:
            time.sleep(LOOK_S)
            continue
        notify(found, signal.SIGSTOP)
        time.sleep(PERIOD_S * (1 - share))
        notify(found, signal.SIGCONT)
        time.sleep(PERIOD_S * share)


def toggle(bad_s: str, good_s: str, *lines: str) -> None:
    """``toggle BAD GOOD LINES LINES``: run ``tc`` lines (apart by
    ``;``) in turn, each for so many seconds.
    """
    while True:
        for seconds, listed in zip((bad_s, good_s), lines, strict=True):
            text = "\n".join(listed.split("; ")) + "\n"
            subprocess.run(
                ["tc", "-force", "-batch", "-"],
                input=text,
                text=True,
                check=False,
                stderr=subprocess.DEVNULL,
            )
            time.sleep(float(seconds))


if __name__ == "__main__":
    ctypes.CDLL(None).prctl(PR_SET_NAME, sys.argv[1].encode()[:15], 0, 0, 0)
    kinds: dict[str, Callable[..., None]] = {"relay": relay, "throttle": throttle, "toggle": toggle}
    kinds[sys.argv[2]](*sys.argv[3:])

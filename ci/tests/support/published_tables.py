"""The tables of the published papers, read from their text: what ``site_configs/*/published/*.csv`` must hold, digit by digit.

``data/golden/published/<paper>.txt`` holds the table lines of each paper as the text of the paper has them, in blocks headed by
``## name``. The text of a PDF has lost columns and joined lines, so each reader says what it relies on.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from folders import DATA
from mpibench.pages.published import Value

GOLDEN = DATA / "golden" / "published"

CAMBRIDGE, OPENHPC = "cambridge-westmere-qdr-2011", "openhpc-minicluster-2021"
OPA, IBM = "intel-opa-dual-rail-2020", "ibm-aix-infiniband-2007"
PAPERS = (CAMBRIDGE, OPENHPC, OPA, IBM)

Row = dict[str, str]
KIB = 1024


def selected(values: list[Value], **wanted: str | int) -> list[Value]:
    """Values whose columns have exactly these texts."""
    return [value for value in values if all(value[column] == str(text) for column, text in wanted.items())]


def blocks(paper: str) -> dict[str, list[str]]:
    """Lines of each block of a paper's excerpt, by name."""
    found: dict[str, list[str]] = {}
    for line in (GOLDEN / f"{paper}.txt").read_text().splitlines():
        if line.startswith("## "):
            current = found.setdefault(line[3:], [])
        else:
            current.append(line)
    return found


def tables() -> dict[tuple[str, str], list[Row]]:
    """Rows of every table: (system, name of the CSV file) to the rows, in printed order."""
    return {**_cambridge(), **_openhpc(), **_ibm()}


def _row(table: str, benchmark: str, quantity: str, unit: str, value: str, source: str, **more: object) -> Row:
    return {
        **{"table": table, "benchmark": benchmark, "quantity": quantity, "unit": unit, "value": value, "source": source},
        **{name: str(text) for name, text in more.items()},
    }


# ---- Cambridge Westmere cluster, 2011 ----


def _cambridge() -> dict[tuple[str, str], list[Row]]:
    lines = blocks(CAMBRIDGE)["cpuinfo"]
    node = "2 x Westmere, 6 cores each"
    rows = []
    for line in lines:
        if re.fullmatch(r"\d+( +\d+){3}", line):
            processor, _thread, core, package = line.split()
            for quantity, value in (("core_id", core), ("package_id", package)):
                more = {"node_type": node, "conditions": f"processor {processor}"}
                rows.append(_row("3.3", "cpuinfo", quantity, "1", value, " ".join(line.split()), **more))
    return {("cambridge-westmere", "cpuinfo"): rows}


# ---- OpenHPC mini-cluster, 2021 ----


def _openhpc() -> dict[tuple[str, str], list[Row]]:
    text = blocks(OPENHPC)
    found = {}
    where = {"nodes": 2, "ppn": 1}
    # The text has a cell per line, a row's two cells in either order: only bandwidths have decimals.
    osu = re.findall(r"[0-9.]+", " ".join(line for line in text["osu_put_bw eth1g"] if not re.search("[#A-Z]", line)))
    osu_rows = zip([cell for cell in osu if "." not in cell], [cell for cell in osu if "." in cell], strict=True)
    found["osu-put-bw-eth1g"] = [
        _row(
            *("Ethernet, OpenMPI: osu_put_bw", "osu_put_bw", "bandwidth_mb_per_s", "MB/s", value, f"{size} {value}"),
            **{"message_bytes": size, "fabric": "eth1g", "node_type": "mini-cluster", **where},
            conditions="osu-micro-benchmarks 5.8; Open MPI; -mca btl self,tcp; MPI_Win_allocate; MPI_Win_flush",
        )
        for size, value in osu_rows
    ]
    imb = {
        "eth1g": ("Ethernet, Intel MPI: IMB-P2P PingPong", "Intel oneAPI MPI"),
        "eth40g": ("High-Speed Ethernet, Validation: IMB-P2P PingPong", "Intel oneAPI MPI; XL710 1x40; 1GbE also present"),
        "opa100": (
            "Omni-path, Validation: IMB-P2P PingPong",
            "Intel oneAPI MPI; I_MPI_FABRICS=shm:tmi; I_MPI_TMI_PROVIDER=psm2; 100HFA016 back to back",
        ),
    }
    for fabric, (table, conditions) in imb.items():
        found[f"imb-p2p-pingpong-{fabric}"] = [
            _row(
                *(table, "PingPong", quantity, unit, value, " ".join(printed)),
                **{"message_bytes": printed[0], "fabric": fabric, "node_type": "mini-cluster", **where},
                conditions=conditions,
            )
            for printed in _imb_p2p(text[f"IMB-P2P PingPong {fabric}"])
            for (quantity, unit), value in zip(_IMB_P2P, printed[1:], strict=True)
        ]
    found["ib-send-bw-edr100"] = list(_send_bw(text["ib_send_bw edr100"]))
    return {("openhpc-mini", name): rows for name, rows in found.items()}


_IMB_P2P = (
    ("repetitions", "1"),
    ("latency_us", "us"),
    ("bandwidth_mb_per_s", "MB/s"),
    ("message_rate_per_s", "msg/s"),
)


def _imb_p2p(lines: list[str]) -> Iterator[tuple[str, ...]]:
    """Size, repetitions, t[usec], Mbytes/sec, Msg/sec of each row.

    The text may have a cell per line and cells of neighbouring columns swapped; the columns keep what they look like: two
    decimals for time and bandwidth, in this order. Among the three integers the size is the next of the doubling series
    (with the first 0 lost in one table), and repetitions come before the rate.
    """
    cells = [word for line in lines if not re.search(r"[#A-Za-z]", line) for word in re.findall(r"\d[\d.]*", line)]
    assert sum("." in cell for cell in cells) % 2 == 0
    size, at = 0, 0
    while at < len(cells):
        row: list[str] = []
        while sum("." in cell for cell in row) < 2 or len(row) < 5:
            if len(row) == 4 and not size and str(size) not in row:
                row.append("0")  # the text lost the first cell of the table
                break
            row.append(cells[at])
            at += 1
        if at < len(cells) and len(row) == 5 and size == 0 and row.count("100000") == 2:
            row, at = ["0", *row[:-1]], at - 1
        whole, decimal = [cell for cell in row if "." not in cell], [cell for cell in row if "." in cell]
        whole.remove(str(size))
        yield (str(size), whole[0], *decimal, whole[1])
        size = size * 2 or 1


def _send_bw(lines: list[str]) -> Iterator[Row]:
    """Average and message rate; the text lost message size, iterations and peak of the line.

    perftest prints MiB/s under "MB/sec" by default, and its rate says the same: 0.184196e6 messages/s of 65536
    bytes, the default of ib_send_bw, are 11512.25 MiB/s.
    """
    last = next(line for line in lines if "BW average" in line)
    average, rate = last.split()[-2:]
    more = {
        "message_bytes": "65536",
        "fabric": "edr100",
        "node_type": "mini-cluster",
        **{"nodes": 2, "ppn": 1, "conditions": "perftest; -D 30; ConnectX-4 CX455A back to back; MTU 4096; RC"},
        "note": "message size is perftest's default, the text lost it; perftest's MB/sec are MiB/s",
    }
    table, name = "InfiniBand, Validation: ib_send_bw", "ib_send_bw"
    yield _row(table, name, "bandwidth_mib_per_s", "MiB/s", average, f"{average} {rate}", **more)
    yield _row(table, name, "message_rate_mega_per_s", "1e6 msg/s", rate, f"{average} {rate}", **more)


# ---- IBM p5-575 and JS21, 2007 ----

_BANDWIDTHS = {
    "Table 2": ("PingPong", "table2-pingpong-bandwidth"),
    "Table 3a": ("Uniband", "table3a-unidirectional-bandwidth"),
    "Table 3b": ("Uniband", "table3b-unidirectional-bandwidth"),
    "Table 4": ("Biband", "table4-exchange-bandwidth"),
}
_HPCC = (
    *(("HPL", "hpl_tflops", "TFLOPS"), ("PTRANS", "ptrans_gb_per_s", "GB/s"), ("StarDGEMM", "star_dgemm_gflops", "GFLOPS")),
    *(("StarRandomAccess", "star_gups", "GUPS"), ("MPIRandomAccess", "gups", "GUPS")),
    *(("StarSTREAM_Triad", "star_stream_gb_per_s", "GB/s"), ("StarFFT", "star_fft_gflops", "GFLOPS")),
    *(("MPIFFT", "fft_gflops", "GFLOPS"), ("NaturallyOrderedRingLatency", "natural_ring_latency_us", "us")),
    *(("NaturallyOrderedRingBandwidth", "natural_ring_bandwidth_gb_per_s", "GB/s"),),
    *(("RandomlyOrderedRingLatency", "random_ring_latency_us", "us"),),
    *(("RandomlyOrderedRingBandwidth", "random_ring_bandwidth_gb_per_s", "GB/s"),),
)
_SPARK = "Spark; 64 bit; 16 MB pages; PE 4.3; AIX 5.3"


def _ibm() -> dict[tuple[str, str], list[Row]]:
    text = blocks(IBM)
    found: dict[tuple[str, str], list[Row]] = {}

    def add(node: str, name: str, row: Row) -> None:
        found.setdefault(("ibm-p5-575" if "p5-575" in node else "ibm-js21", name), []).append(row)

    for cells, line in _carried(text["Table 1"][1:], 4):
        node, cores, links, ppn, value = cells
        shape = _shape(node, cores, links, ppn)
        row = _row("Table 1", "PingPong", "latency_us", "us", value, line, **shape, conditions=_SPARK)
        add(node, "table1-latency", row)
    for table, (benchmark, name) in _BANDWIDTHS.items():
        for cells, line in _carried(text[table][2:], 4):
            node, cores, links, ppn, *values = cells
            for size, value in zip((8 * KIB, 128 * KIB, 2048 * KIB), values, strict=True):
                more = {**_shape(node, cores, links, ppn), "message_bytes": size, "conditions": _SPARK}
                if table == "Table 4" and cores == "8":
                    more["note"] = "printed with 8 cores; the other tables and the text have 2"
                add(node, name, _row(table, benchmark, "bandwidth_mb_per_s", "MB/s", value, line, **more))
    for line in text["Table A1"][1:]:
        variable, setting = line.split("\t")
        for node in ("p5-575", "JS21"):
            row = _row("Table A1", variable, "setting", "text", setting, f"{variable} {setting}", node_type=node)
            add(node, "tableA1-environment", row)
    for cells, line in _carried(text["Table 7"][2:], 1):
        node, links, tasks, nodes, *times = cells
        for kernel, value in zip(text["Table 7"][1].split(), times, strict=True):
            fields = {"node_type": node, "links": links, "nodes": nodes, "ppn": int(tasks) // int(nodes)}
            ran = {("BT", "32"): 36, ("SP", "32"): 36, ("BT", "128"): 121, ("SP", "128"): 121}.get((kernel, tasks), tasks)
            more = {**fields, "conditions": f"NAS class C; {ran} tasks; 16 MB pages"}
            add(node, "table7-nas", _row("Table 7", kernel, "time_s", "s", value, line, **more))
    adapters = {"Table 8": ("p5-575 1.9 GHz", 2, 16), "Table 9": ("p5-575 1.9 GHz", 4, 16), "Table 10": ("JS21 2.5 GHz", 1, 4)}
    for table, (node, links, ppn) in adapters.items():
        for line in text[table][1:]:
            nodes, pages, *values = line.split("\t")
            for (benchmark, quantity, unit), value in zip(_HPCC, values, strict=True):
                more = {"node_type": node, "nodes": nodes, "links": links, "ppn": ppn, "conditions": f"HPCC; {pages} pages"}
                if value == "719":
                    more["note"] = "a misprint in all likelihood: 7.19, as in Table 8"
                row = _row(table, benchmark, quantity, unit, value, " ".join(line.split()), **more)
                add(node, f"{table.lower().replace(' ', '')}-hpcc", row)
    return found


def _shape(node: str, cores: str, links: str, ppn: str) -> Row:
    clock = re.search(r"\d\.\d ?GHz", node)
    assert clock
    model = "p5-575" if "p5-575" in node else "JS21"
    return {
        **{"node_type": f"{model} {clock[0].replace(' ', '').replace('GHz', ' GHz')}", "fabric": "ib4x", "nodes": "2"},
        **{"cores": cores, "links": links, "ppn": ppn},
    }


def _carried(lines: list[str], keys: int) -> Iterator[tuple[list[str], str]]:
    """Cells of tab-separated lines, empty ones among the first ``keys`` taken from above, and the line as printed."""
    above: list[str] = []
    for line in lines:
        cells = line.split("\t")
        cells[:keys] = [cell or above[index] for index, cell in enumerate(cells[:keys])]
        above = cells
        yield cells, " ".join(line.split())

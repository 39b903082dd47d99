"""Logs of jobs as machines write them (``golden/logs``): whole tables
among others' lines, failed runs with their reason.
"""

import pytest
import yaml

from mpibench import cli
from reframe_tests.harness.suites import pair, preamble, reader
from reframe_tests.harness.suites.benchmark import OutputError
from refusals import refused_as
from studies.output_damage import GOLDEN, golden

LOGS = GOLDEN / "logs"
#: Log to its outputs, or to why it is refused.
WANTED = yaml.safe_load((LOGS / "read.yaml").read_text())
OSU = golden("osu/osu-7.2-mpich-n2-latency.txt")
IMB = golden("imb-mpi1-2021.11-n2-mpich.txt")
TEXTS = pytest.mark.parametrize("text", [OSU, IMB], ids=["osu", "imb"])
ROWS = OSU.splitlines(keepends=True)
#: Its last row lost.
CUT = "".join(ROWS[:-1])
#: What may stand around a whole table.
NOISE = (
    "Currently Loaded Modules:\n  1) gcc/12.3.0   2) openmpi/4.1.6   3) osu-micro-benchmarks/7.2\n",
    "[1675729687.002730] [node-1:32621:0] ucp_context.c:2110 UCX  INFO  Version 1.15.0 (loaded "
    "from /usr/lib/libucp.so.0)\n",
    "[1738722441.247410] [node-1:8    :0]            sock.c:515  UCX  WARN  unable to read "
    "somaxconn value from /proc\n",
    "[node-1:35751] MCW rank 0 bound to socket 0[core 0[hwt 0-1]]: [BB/../..][../../..]\n",
    "\nreal\t0m11.290s\nuser\t0m0.030s\nsys\t0m0.012s\n",
    "0.03user 0.01system 0:11.29elapsed 12%CPU (0avgtext+0avgdata "
    "12345maxresident)k\n0inputs+0outputs 0swaps\n",
    "\n------------------------------\nSender: LSF System <a@b>\nSubject: Job 1: <osu> in "
    "cluster <c> Done\n",
    '{"timestamp":1724369598.5,"name":"complete","context":{"status":0}}\n',
    "1234             osu_job  compute  COMPLETED      0:0\n",
    "available: 1 nodes (0)\nnode distances:\nnode   0   1\n  0:  10  21\n  1:  21  10\n",
)
#: What may stand below a table that was cut, as far as no line proves it: who cannot say that a
#: table is whole cannot take it.
COMPLAINTS = (
    "double free or corruption (!prev)\n",
    "*** stack smashing detected ***: terminated\n",
    "[n:1] PMIX ERROR: PMIX_ERR_UNREACH in file ptl_tcp_component.c at line 1849\n",
    "PRTE has lost communication with a remote daemon.\n",
    "[n][[1,1],0][btl_tcp_frag.c:242:mca_btl_tcp_frag_recv] readv failed: Connection reset by "
    "peer (104)\n",
    "[1.0] [n:1:0]  ib_device.c:1 UCX  DIAG  connect(fd=20) failed: Connection refused\n",
    "timeout: sending signal TERM to command 'mpirun'\n",
    "Hangup\n",
    "srun: Force Terminated job 17\n",
    "srun: StepId=1.0 tasks 1: exited abnormally\n",
    "12.0         osu   TIMEOUT      0:0\n",
    "12.0         osu   OUT_OF_MEMORY    0:125\n",
    "12.0         osu   CANCELLED by 1000    0:15\n",
    "Exit_status = 271\n",
    "exit_status  137\n",
    "rc=139\n",
    "1724369598.5 job.exception type=timeout severity=0 resource allocation expired\n",
    "flux-job: task(s) Killed\n",
    '{"timestamp": 1.5, "name": "finish", "context": {"status": 35072}}\n',
    "Traceback (most recent call last):\n",
    "MPICH ERROR [Rank 0] [job id 1.0] [nid1] - OFI poll failed (UNDELIVERABLE)\n",
    "n1.1osu: Unhandled error in TID Update: Bad address\n",
    "[n:mpispawn_0][readline] Unexpected End-Of-File on file descriptor 5. MPI process died?\n",
)


def label(prefix, lines=ROWS):
    return "".join(prefix + line for line in lines)


def refuse(*texts, code="output-damaged", words=None):
    for text in texts:
        with refused_as(code, match=words):
            reader.read_log(text)


@pytest.mark.parametrize("name", sorted(path.stem for path in LOGS.glob("*.txt")))
def test_a_log_is_read_or_says_why_not(name):
    text = (LOGS / f"{name}.txt").read_bytes().decode()
    wanted = WANTED[name]
    if isinstance(wanted, str):
        with pytest.raises(OutputError, match=wanted):
            reader.read_log(text)
        return
    read = [reading.records for reading in reader.read_log(text, source=name)]
    assert wanted == [
        [
            records[0].benchmark,
            len(records),
            last.variant,
            next(reversed(last.values.values()), None),
        ]
        for records in read
        for last in records[-1:]
    ]


@pytest.mark.parametrize("name", ["iperf3-3.12-tcp", "ucx_perftest-1.13.1-tag_lat-8"])
def test_what_one_end_prints_is_known_and_says_what_is_read(name):
    program = name.partition("-")[0]
    ends = pair.read(golden(f"{name}.txt"), program, name)
    for text in (ends.client.output, ends.server.output, f"$ ./run.sh\n{ends.client.output}"):
        refuse(text, code="output-empty", words=f"this is the output of one end of {program}")


def test_what_a_program_says_of_its_type_on_standard_error_stands_anywhere_once():
    text = (LOGS / "osu71-both-streams.txt").read_text()
    title, *rows = text.splitlines(keepends=True)
    (note,) = (line for line in rows if line.startswith("Benchmark"))
    rows.remove(note)
    whole = reader.parse("".join([title, *rows]))
    for place in range(len(rows)):
        among = [*rows[:place], note, *rows[place:]]
        assert reader.parse("".join([title, *among])) == whole
        refuse("".join([title.replace("Get_accumulate", "Accumulate"), *among]))
    refuse("".join([title, note, note, *rows]))
    refuse("".join([title, *rows[:-1], note[:40] + rows[-1], note[40:]]))


@TEXTS
@pytest.mark.parametrize("noise", NOISE, ids=lambda noise: noise.strip()[:30])
def test_others_lines_around_a_table_are_set_aside_and_counted(text, noise):
    whole = reader.parse(text)
    lines = sum(bool(line.strip()) for line in noise.splitlines())
    for around, times in ((noise + text, 1), (text + noise, 1), (noise + text + noise, 2)):
        reading = reader.read(around)
        assert (reading.records, sum(reading.set_aside.values())) == (whole, times * lines)
    first, second = reader.read_log(text + noise + OSU)
    assert (first.records, second.records) == (whole, reader.parse(OSU))
    with refused_as("output-mixed"):
        reader.read(text + noise + OSU)


@pytest.mark.parametrize("noise", NOISE, ids=lambda noise: noise.strip()[:30])
def test_others_lines_inside_a_table_are_an_error(noise):
    refuse(*("".join([*ROWS[:at], noise, *ROWS[at:]]) for at in range(1, len(ROWS))))
    refuse(IMB.replace("       #bytes", noise + "       #bytes", 1))


@TEXTS
@pytest.mark.parametrize(
    "prefix",
    [
        "0: ",
        "node-1 0: ",
        "[1,0]<stdout>:",
        "[prterun-node-1-7@1,0]<stdout>: ",
        "[Thu Nov  6 02:19:58 2026][1,0][vm:6248]<stdout>: ",
    ],
)
def test_prefixes_are_taken_off_where_all_lines_have_them(text, prefix):
    lines = text.splitlines(keepends=True)
    labelled = label(prefix, lines)
    assert reader.parse(labelled) == reader.parse(f"\ufeff{text}") == reader.parse(text)
    assert reader.read("module list\n" + labelled + "all done\n").set_aside == {preamble.OTHERS: 2}
    with refused_as("output-unknown"):
        reader.parse(label(prefix, lines[:4]) + lines[4] + label(prefix, lines[5:]))


@pytest.mark.parametrize("line", COMPLAINTS, ids=lambda line: line[:40])
def test_a_complaint_below_a_table_without_a_last_line_means_that_it_may_be_cut(line):
    refuse(CUT + "done\n" + line, CUT + line + IMB, IMB + CUT + line)
    assert reader.parse(line + OSU) == reader.parse(OSU)
    assert reader.parse(IMB + line) == reader.parse(IMB)


def test_lines_of_several_ranks_are_no_table():
    one = label("0: ")
    assert reader.read(one + "1: bye\n").set_aside == {preamble.OTHERS: 1}
    refuse(one + label("1: "), label("0: ", ROWS[:-2]) + f"1: {ROWS[-2]}0: {ROWS[-1]}")


@pytest.mark.parametrize(
    ("left_there", "apart"),
    [
        (f"{CUT}slurmstepd: error: *** STEP 12.3 ON node-1 CANCELLED AT 2026 ***\n", 5),
        (f"{CUT}1\n", 5),
        (f"{CUT}16                      1.2\n", 4),
        (ROWS[0], 4),
        ("UCX  ERROR  no such device\nsrun: error: node-1: task 0: Exited with exit code 1\n", 4),
    ],
)
def test_one_failed_step_leaves_the_others_of_its_log(left_there, apart, tmp_path, capsys):
    """Of six outputs around it: where commands are shown it is left out
    alone; where nothing tells steps apart, with what stands beside it.
    """
    whole = reader.parse(OSU)
    path = tmp_path / "job.out"
    for command, left in (("+ mpirun -np 2 ./osu_latency -m 1:16\n", 6), ("next\n", apart)):
        path.write_text(label(command, [*[OSU] * 3, left_there, *[OSU] * 3]))
        outputs, faults = reader.read_steps(path.read_text())
        assert [output.records for output in outputs] == [whole] * left and faults
        assert cli.main(["catalogue", "--parse", str(path), "--format", "csv"]) == 1
        printed = capsys.readouterr()
        assert len(printed.out.splitlines()) == 1 + left * len(whole)
        assert f"{path}, line " in printed.err
        with pytest.raises(OutputError):
            reader.read_log(path.read_text())
    for alone in (left_there, left_there + OSU):
        with pytest.raises(OutputError):
            reader.read_steps(alone)

"""Logs of jobs as machines write them (``golden/logs``): whole tables among others' lines, failed runs with their reason."""

from __future__ import annotations

from pathlib import Path

import pytest

from mpibench.commands.listings.parse import parse_files
from reframe_tests.harness.machine.gpu import UNSAID
from reframe_tests.harness.suites import preamble, reader
from reframe_tests.harness.suites.benchmark import OutputError
from refusals import refused_as
from studies.output_damage import GOLDEN, golden

LOGS = GOLDEN / "logs"
#: Log to the benchmarks in it, each with its number of rows.
READ = {
    "osu58-cuda-build-host-to-host": {"osu_latency": 4},
    "osu58-latency-flux-eventlog-after": {"osu_latency": 4},
    "osu58-latency-then-bw-pairs": {"osu_latency": 4, "osu_bw": 4},
    "osu58-module-load-and-time": {"osu_latency": 4},
    "osu58-tag-output": {"osu_get_acc_latency": 10},
    "osu58-srun-label": {"osu_get_acc_latency": 10},
    "osu57-bw-ucx-info-before": {"osu_bibw": 4},
    "osu562-three-outputs": {"osu_init": 1, "osu_bibw": 4},
    "osu58-v100-latency-then-bw": {"osu_latency": 24, "osu_bw": 20},
    "osu58-v100-no-local-rank": {"osu_allreduce": 19},
    "osu75-a100-ucx-devices": {"osu_latency": 1},
    "osu75-mi2xx-pair-banner": {"osu_bw": 28},
    "osu71-both-streams": {"osu_get_acc_latency": 3},
    "osu75-latency-report-bindings": {"osu_latency": 1},
    "osu75-batch-log-two-steps": {"osu_latency": 1, "osu_init": 1},
    "imb2021.7-pingpong-srun-label": {"PingPong": 2},
    "imb2021.7-pingpong-tag-and-timestamp": {"PingPong": 2},
    "imb2021.11-impi2021.18-every-other-cpu": {"PingPong": 3},
    "imb-openfabrics-warning-before": {"PingPong": 2},
    "imb-help-aggregate-after": {"PingPong": 2},
    "osu-help-aggregate-after": {"osu_bw": 13},
    "osu-lsf-mail-after": {"osu_bw": 13},
    "osu-utf8-bom": {"osu_bw": 13},
}
REFUSED = {
    "mpich-singletons-exactly-two": "world of its own",
    "osu-hello-four-singletons": "world of its own",
    "osu-init-singletons-silent": "world of its own",
    "imb4.0-two-singletons-interleaved": "refused to run a benchmark on this number of processes",
    "imb-nbc-2018-check-error": "wrong data",
    "osu58-v100-cancelled": "crashed or was ended by a signal",
    "osu70-a100-edited-by-hand": "line 6: this line does not belong here",
    "osu75-host-build-d-cuda": "says that it failed",
    "osu59-a100-warning-between-rows": "line 9: a warning stands in the output",
    "osu59-put-segfault": "crashed or was ended by a signal",
    "osu532-iallgather": "OSU 5.3.2 is not known; read are 5.6 to 7.5",
    "imb-ucx-warn-inside-table": "line 36: .* does not belong there",
    "imb-openfabrics-warning-inside": "line 31: ",
}
#: Log to its one benchmark, what it says of its memory, rows of each output, and its last value. OSU 7.5 prints the same of
#: ``D D``, ``H D`` and ``D H``.
SEVERAL: dict[str, tuple[str, str, int, tuple[float, ...]]] = {
    "osu58-v100-allreduce-twice": ("osu_allreduce", "memory=device", 19, (1295.30, 1317.93)),
    "osu75-a100-three-places": ("osu_bw", UNSAID, 1, (279577.81, 23744.00, 23229.60)),
    "osu75-a100-three-places-latency": ("osu_latency", UNSAID, 1, (2.48, 1.30, 1.32)),
}
OSU, IMB = golden("osu/osu-7.2-mpich-n2-latency.txt"), golden("imb-mpi1-2021.11-n2-mpich.txt")
#: What may stand around a whole table.
NOISE = (
    "Currently Loaded Modules:\n  1) gcc/12.3.0   2) openmpi/4.1.6   3) osu-micro-benchmarks/7.2\n",
    "[1675729687.002730] [node-1:32621:0] ucp_context.c:2110 UCX  INFO  Version 1.15.0 (loaded from /usr/lib/libucp.so.0)\n",
    "[1738722441.247410] [node-1:8    :0]            sock.c:515  UCX  WARN  unable to read somaxconn value from /proc\n",
    "[node-1:35751] MCW rank 0 bound to socket 0[core 0[hwt 0-1]]: [BB/../..][../../..]\n",
    "\nreal\t0m11.290s\nuser\t0m0.030s\nsys\t0m0.012s\n",
    "0.03user 0.01system 0:11.29elapsed 12%CPU (0avgtext+0avgdata 12345maxresident)k\n0inputs+0outputs 0swaps\n",
    "Started at 2026-11-20 02:00:00 on node-1\n# done\n=====\n",
    "\n------------------------------\nSender: LSF System <a@b>\nSubject: Job 1: <osu> in cluster <c> Done\n",
    '{"timestamp":1724369598.5,"name":"complete","context":{"status":0}}\n',
    "JobID           Elapsed      State ExitCode\n12.0           00:00:11  COMPLETED      0:0\n",
    "1234             osu_job  compute  COMPLETED      0:0\n",
    "available: 1 nodes (0)\nnode distances:\nnode   0   1\n  0:  10  21\n  1:  21  10\n",
)
#: What makes a whole table no result, and why.
TROUBLE = {
    "[1700000000.000001] [node-1:1:0] ib_md.c:5 UCX  ERROR ibv_reg_mr failed\n": "UCX says that it failed",
    "[1.0] [n:1:0] ucp_context.c:1 UCX  WARN  network device 'mlx5_ib0:1' is not available, please use: 'eth0'\n": (
        "was asked for is not there"
    ),
    "[n:1] *** Process received signal ***\n[n:1] Signal: Segmentation fault (11)\n": "ended by a signal",
    "srun: error: node-1: task 1: Exited with exit code 1\n": "says that it failed",
    "slurmstepd: error: *** STEP 7.0 ON c1 CANCELLED AT 2026-11-20T02:00:00 DUE TO TIME LIMIT ***\n": "aborted",
    "MPI_ABORT was invoked on rank 0 in communicator MPI_COMM_WORLD\n": "aborted",
    "Abort(15) on node 0 (rank 0 in comm 0): Fatal error in PMPI_Init: Other MPI error\n": "aborted",
    "=   BAD TERMINATION OF ONE OF YOUR APPLICATION PROCESSES\n": "aborted",
    "Command exited with non-zero status 1\n": "says that it failed",
    "Subject: Job 1: <osu> in cluster <c> Exited\n": "says that it failed",
    "/var/spool/job: line 9:  4711 Killed                  ./osu_latency\n": "ended by a signal",
    "bash: line 3:  4711 Aborted                 (core dumped) ./osu_latency\n": "ended by a signal",
    "osu_latency: coll.c:12: reduce: Assertion `a == b' failed.\n": "aborted",
    '{"timestamp":1.5,"name":"shell.task-exit","context":{"wait_status":9,"signaled":9,"exitcode":137}}\n': "signal",
    "[0] MPI startup(): PMI server not found. Please set I_MPI_PMI_LIBRARY variable.\n": "world of its own",
    "DATA VALIDATION ERROR: osu_latency exited with status 1 on message size 4.\n": "validation failed",
    "1: Error Ireduce_scatter_pure,size = 4,sample #0\n": "wrong data",
}
#: What may stand below a table that was cut, as far as no line proves it: who cannot say that a table is whole cannot take it.
COMPLAINTS = (
    "double free or corruption (!prev)\n",
    "*** stack smashing detected ***: terminated\n",
    "[n:1] PMIX ERROR: PMIX_ERR_UNREACH in file ptl_tcp_component.c at line 1849\n",
    "PRTE has lost communication with a remote daemon.\n",
    "[n][[1,1],0][btl_tcp_frag.c:242:mca_btl_tcp_frag_recv] readv failed: Connection reset by peer (104)\n",
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


#: Whole outputs of suites that say how long they are, below which a launcher complains.
ENDED = ("npb-3.4-cg-n2", "hpcc-1.5.0-n2")


@pytest.mark.parametrize("trouble", list(TROUBLE)[:6])
@pytest.mark.parametrize("name", ENDED)
def test_a_run_that_failed_behind_its_last_line_is_no_result(name: str, trouble: str) -> None:
    text = (LOGS.parent / f"{name}.txt").read_text()
    assert reader.read(text, source=name).records
    with refused_as("output-trouble", match=TROUBLE[trouble]):
        reader.read(text + trouble, source=name)


def log(name: str) -> str:
    return (LOGS / f"{name}.txt").read_bytes().decode()


def test_every_log_is_tried() -> None:
    assert sorted(path.stem for path in LOGS.glob("*.txt")) == sorted([*READ, *REFUSED, *SEVERAL])


@pytest.mark.parametrize("name", SEVERAL)
def test_several_outputs_of_one_benchmark_are_read_each(name: str) -> None:
    benchmark, variant, rows, last = SEVERAL[name]
    readings = reader.read_log(log(name), source=name)
    assert [(len(reading.records), *reading.records[-1].values.values()) for reading in readings] == [(rows, x) for x in last]
    assert {(record.benchmark, record.variant) for reading in readings for record in reading.records} == {(benchmark, variant)}


@pytest.mark.parametrize("name", READ)
def test_whole_tables_of_a_log_are_read(name: str) -> None:
    readings = reader.read_log(log(name), source=name)
    assert [(reading.records[0].benchmark, len(reading.records)) for reading in readings] == list(READ[name].items())
    for reading in readings:
        for record in reading.records:
            if record.message_bytes is not None:
                printed = [f"{value:.2f}" for value in record.values.values()]
                assert any(line.split()[-len(printed) :] == printed for line in log(name).splitlines())


def test_what_a_program_says_of_its_type_on_standard_error_stands_anywhere_once() -> None:
    title, *rows = log("osu71-both-streams").splitlines(keepends=True)
    (note,) = (line for line in rows if line.startswith("Benchmark"))
    rows.remove(note)
    whole = reader.parse("".join([title, *rows]))
    for place in range(len(rows) + 1):
        among = [title, *rows[:place], note, *rows[place:]]
        assert reader.parse("".join(among)) == whole
        for other in (title.replace("Get_accumulate", "Accumulate"), title.replace("v7.1", "v7.0")):
            if place < len(rows):
                with refused_as("output-damaged", match="Benchmark supports"):
                    reader.parse("".join([other, *among[1:]]))
    for text in ([title, note, note, *rows], [title, *rows[:-1], note[:40] + rows[-1], note[40:]]):
        with refused_as("output-damaged"):
            reader.parse("".join(text))


@pytest.mark.parametrize("name", REFUSED)
def test_a_run_that_failed_says_why(name: str) -> None:
    with pytest.raises(OutputError, match=REFUSED[name]) as error:
        reader.read_log(log(name), source=name)
    assert "mpi4py" not in str(error.value)  # nobody needs the list of suites


@pytest.mark.parametrize("text", [OSU, IMB], ids=["osu", "imb"])
@pytest.mark.parametrize("noise", NOISE, ids=lambda noise: noise.strip()[:30])
def test_others_lines_around_a_table_are_set_aside_and_counted(text: str, noise: str) -> None:
    whole, lines = reader.parse(text), sum(bool(line.strip()) for line in noise.splitlines())
    for around, times in ((noise + text, 1), (text + noise, 1), (noise + text + noise, 2)):
        reading = reader.read(around)
        assert (reading.records, sum(reading.set_aside.values())) == (whole, times * lines)
    first, second = reader.read_log(text + noise + OSU)
    assert (first.records, second.records) == (whole, reader.parse(OSU))
    with refused_as("output-second-table"):
        reader.read(text + noise + OSU)


@pytest.mark.parametrize("noise", NOISE, ids=lambda noise: noise.strip()[:30])
def test_others_lines_inside_a_table_are_an_error(noise: str) -> None:
    rows = OSU.splitlines(keepends=True)
    for place in range(1, len(rows)):
        with refused_as("output-damaged"):
            reader.read_log("".join([*rows[:place], noise, *rows[place:]]))
    with refused_as("output-damaged"):
        reader.read_log(IMB.replace("       #bytes", noise + "       #bytes", 1))


@pytest.mark.parametrize("text", [OSU, IMB], ids=["osu", "imb"])
@pytest.mark.parametrize("line", TROUBLE, ids=lambda line: line[:40])
def test_a_log_that_says_that_the_run_failed_is_refused_with_that_as_the_reason(text: str, line: str) -> None:
    for failed in (line + text, text + line, text[: len(text) // 2].rpartition("\n")[0] + "\n" + line):
        with refused_as("output-trouble", match=TROUBLE[line]):
            reader.read_log(failed)


@pytest.mark.parametrize("text", [OSU, IMB], ids=["osu", "imb"])
@pytest.mark.parametrize(
    "prefix",
    [
        "0: ",
        " 0: ",
        "node-1 0: ",
        "[1,0]<stdout>:",
        "[prterun-node-1-7@1,0]<stdout>: ",
        "[0] ",
        "[Thu Nov 26 02:19:58 2026]<stdout>: ",
        "[Thu Nov  6 02:19:58 2026][1,0][vm:6248]<stdout>: ",
    ],
)
def test_prefixes_are_taken_off_where_all_lines_have_them(text: str, prefix: str) -> None:
    labelled = "".join(prefix + line for line in text.splitlines(keepends=True))
    assert reader.parse(labelled) == reader.parse(text)
    assert reader.read("module list\n" + labelled + "all done\n").set_aside == {preamble.OTHERS: 2}
    with refused_as("output-unknown"):
        lines = labelled.splitlines(keepends=True)
        reader.parse("".join([*lines[:4], lines[4].removeprefix(prefix), *lines[5:]]))


def test_a_last_row_behind_other_characters_is_not_set_aside() -> None:
    """Nothing ends a table of OSU, so that row would be missing and the rest look whole."""
    *rows, last = OSU.splitlines(keepends=True)
    for other in ("module load mpi", "rank 1 of ", "task 1"):
        with refused_as("output-damaged", match="next row of the table above it behind other characters"):
            reader.read_log("".join([*rows, other + last, "done\n"]))
    assert reader.parse("".join(rows) + "node 0 distances:  10  21\nsize 1234  5678.25\n") == reader.parse("".join(rows))


@pytest.mark.parametrize("line", COMPLAINTS, ids=lambda line: line[:40])
def test_a_complaint_below_a_table_without_a_last_line_means_that_it_may_be_cut(line: str) -> None:
    cut = OSU[:-1].rpartition("\n")[0] + "\n"
    for text in (cut + "done\n" + line, cut + line + IMB, IMB + cut + line):
        with refused_as("output-damaged"):
            reader.read_log(text)
    assert reader.parse(line + OSU) == reader.parse(OSU)
    assert reader.parse(IMB + line) == reader.parse(IMB)


def test_lines_of_several_ranks_are_no_table() -> None:
    by_rank = ["".join(f"{rank}: {line}" for line in OSU.splitlines(keepends=True)) for rank in (0, 1)]
    assert reader.read(by_rank[0] + "1: bye\n").set_aside == {preamble.OTHERS: 1}
    rows = by_rank[0].splitlines(keepends=True)
    for text in ("".join(by_rank), "".join([*rows[:-2], "1" + rows[-2][1:], rows[-1]])):
        with refused_as("output-damaged"):
            reader.read_log(text)


@pytest.mark.parametrize("prefix", ["> ", "[1,0]<stdout>:", "[12:00:01] "])
def test_a_table_that_is_not_read_is_not_set_aside(prefix: str) -> None:
    for text in (OSU, IMB):
        labelled = "".join(f"0: {line}" for line in OSU.splitlines(keepends=True))
        with refused_as("output-damaged", match="a title behind other characters"):
            reader.read_log(labelled + "".join(prefix + line for line in text.splitlines(keepends=True)))


def test_a_job_script_in_a_report_of_success_says_nothing() -> None:
    report = (
        "Sender: LSF System <a@b>\nSubject: Job 1: <osu> in cluster <c> Done\n\n# LSBATCH: User input\n"
        'trap "echo Killed by SIGTERM" TERM\n------------------------------\n\nSuccessfully completed.\n\n'
        "The output (if any) follows:\n\n"
    )
    assert reader.parse(report + OSU) == reader.parse(OSU)


def test_parse_says_which_table_a_row_is_of_and_what_was_set_aside(tmp_path: Path) -> None:
    path, said = tmp_path / "job.out", list[str]()
    other = golden("osu/osu-6.2-mpich-n8-igather-full.txt")
    path.write_bytes(b"\xef\xbb\xbf" + f"start\n{OSU}between\n{other}".encode())
    rows = parse_files([path], "csv", said.append).splitlines()[1:]
    places = {row.split(",")[0]: row.split(",")[2] for row in rows}
    assert places == {f"{path}:2": "osu_latency", f"{path}:10": "osu_igather"}
    assert said[0].startswith(f"{path}:10: left out: minimum and maximum of OSU 6.2")
    assert said[1] == f"{path}: set aside around 2 outputs: 2 lines of other programs"

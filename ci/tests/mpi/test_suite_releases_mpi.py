"""OSU and IMB for real, in every release whose tarball is here: each leaf
passes, or is skipped because the release lacks it.

Two ranks run each leaf once. ``ci/test mpi --all`` also runs every program with options and on
three ranks, on the last release of each layout; ``MPIBENCH_RELEASES=full`` IMB in all releases and
four ranks, too, an hour on two cores.
"""

import os
import re
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

import synthetic_stack
from mpibench.stacks import probe
from mpibench.store.sessions import read_session
from reframe_tests.harness.stacks import metadata
from reframe_tests.harness.suites import catalogue
from reframe_tests.harness.suites.benchmark import Limits
from reframe_tests.harness.vocabulary import NotMeasured
from synthetic_stack import Release
from test_catalogue_mpi import expect_metrics

FULL = os.environ.get("MPIBENCH_RELEASES") == "full"
#: Releases that every program is run in on more ranks than two, and
#: with options that change what is printed.
NARROW = ("5.7.1", "6.2", "7.2", "7.5")
#: Releases of IMB whose leaves are run; those of OSU in all.
FEW = ("2018.1", "2019.6")
#: Leaves of programs of either suite; files are left to their own test.
LEAVES = {"osu": "^Osu", "imb": "^Imb(?!.*File)"}
SMALL = "-P pinning=none -S level=smoke -S repeats=1 -S limit_s=120"
#: What is no failure: why a release has nothing of a leaf.
LACKS = (
    r"has no |needs .* or later|is too old|lacks|is not built|MPI-4|at least|no benchmark of group"
)


@pytest.fixture(scope="module")
def built(tmp_path_factory, require_stack):
    """Registers the releases of a suite that are here, two at a time; once."""
    place = tmp_path_factory.mktemp("releases")
    mpi = require_stack("mpich-wheels")
    known = {}
    tried = set()

    def get(suite):
        if suite not in known:
            there = synthetic_stack.here(suite)
            if not there:
                pytest.skip(
                    f"[sources] no release of {suite} in "
                    f"{synthetic_stack.path_of(suite, '').parent} (MPIBENCH_SOURCES)"
                )
            assert suite not in tried, (
                f"a release of {suite} cannot be registered: see the first test that failed"
            )
            tried.add(suite)
            with ThreadPoolExecutor(2) as pool:
                stacks = list(
                    pool.map(
                        lambda release: synthetic_stack.register_release(release, mpi, place), there
                    )
                )
            known[suite] = dict(zip(there, stacks, strict=True))
        return known[suite]

    return get


@pytest.mark.parametrize("suite", synthetic_stack.RELEASES)
def test_every_program_of_a_tarball_is_built_and_starts(suite, built):
    for release, stack in built(suite).items():
        programs = {name for name in stack.binaries if probe.suite_of(name) == suite}
        # Sources of OpenSHMEM, UPC and UPC++ need compilers of their own,
        # and those of NCCL and RCCL accelerators.
        assert programs == synthetic_stack.offered(release), release
        if release.version == synthetic_stack.RELEASES[suite][-1]:
            assert {row.binary for row in catalogue.SUITES[suite].rows} <= programs
        assert stack.suites[suite]["version"], release


@pytest.mark.parametrize("suite", synthetic_stack.RELEASES)
def test_every_leaf_passes_on_every_release(suite, built, sandbox, run_reframe):
    stacks = {
        release: stack
        for release, stack in built(suite).items()
        if FULL or suite == "osu" or release.version in FEW
    }
    there = {
        metadata.EXTRA_STACKS: ":".join(str(Path(stack.source).parent) for stack in stacks.values())
    }
    words = f"-r --system=generic -p ^{suite}_ -n {LEAVES[suite]}.*%fabric=shm {SMALL} -P ppn=2"
    done = run_reframe(words=words, top=sandbox, environ=there)
    cases = read_session(sandbox / "results" / "results.db").cases
    failed = [case for case in cases if case.result == "fail"]
    assert not failed, synthetic_stack.table(failed)
    assert done.returncode == 0, done.stdout[-3000:]
    unsaid = [case for case in cases if case.result == "skip" and not re.search(LACKS, case.reason)]
    assert not unsaid, synthetic_stack.table(unsaid)
    assert {case.stack for case in cases if case.result == "pass"} == {
        stack.name for stack in stacks.values()
    }


#: Two GPUs that the stand-in's driver has, and the fabric of their node; it forces nothing, as no
#: MPI here was built for GPUs.
FIRST_GPU = "0000:03:00.0"
SECOND_GPU = "0000:41:00.0"
STAND_IN = {
    "STAND_IN_DEVICES": f"{FIRST_GPU}/stand-in/a,{SECOND_GPU}/stand-in/b",
    "STAND_IN_CURRENT": "0",
    "STAND_IN_ACTIVE": "0",
}
PLAIN = {"plain": {"transport": "as_shipped", "scope": "node", "memory": ["host", "device"]}}


def gpu_partition(name, *bus_ids):
    return {
        **synthetic_stack.SYSTEM["partitions"][0],
        "name": name,
        "env_vars": [*map(list, STAND_IN.items())],
        "devices": [{"type": "gpu", "arch": "sm_80", "num_devices": 2}],
        "extras": {
            "gpus": {"kind": "cuda", "of_node": [{"bus_id": bus_id} for bus_id in bus_ids]},
            "fabrics": PLAIN,
        },
    }


def test_a_whole_run_on_gpus_is_proven_or_says_what_is_wrong(
    require_stack, sandbox, run_reframe, tmp_path
):
    """From ReFrame's command line to the stored case, with OMB 7.5
    built for CUDA and the stand-in behind it.
    """
    release = Release("osu", "7.5", synthetic_stack.path_of("osu", "7.5"))
    if not release.tarball.is_file():
        pytest.skip(f"[sources] {release.tarball} is not there (MPIBENCH_SOURCES)")
    toolkit = str(synthetic_stack.make(tmp_path / "toolkit", "cuda"))
    stack = synthetic_stack.register_release(
        release, require_stack("mpich-wheels"), tmp_path, "cuda", toolkit
    )
    partitions = [
        gpu_partition("right", FIRST_GPU, SECOND_GPU),
        gpu_partition("another", FIRST_GPU, "0000:81:00.0"),
    ]
    system = {**synthetic_stack.SYSTEM, "name": "gpunode", "partitions": partitions}
    config = synthetic_stack.write_site(sandbox, system)
    there = {metadata.EXTRA_STACKS: str(Path(stack.source).parent)}
    words = f"-r --system=gpunode -p {stack.name} {SMALL} -P ppn=gpu"
    words += " -n ^Osu(PointToPoint|Collectives).*%fabric=plain_device"
    done = run_reframe(words=words, top=sandbox, config=config, environ=there)
    assert done.returncode == 1, done.stdout[-3000:]
    cases = {"right": [], "another": []}
    for case in read_session(sandbox / "results" / "results.db").cases:
        cases[case.partition].append(case)
    assert [case.result for case in cases["right"]] == ["pass", "pass"], synthetic_stack.table(
        cases["right"]
    )
    assert [case.result for case in cases["another"]] == ["fail", "fail"]
    for case in cases["right"]:
        assert case.proof is not None and [rank["gpu"] for rank in case.proof.ranks] == [
            FIRST_GPU,
            SECOND_GPU,
        ]
        assert case.condition["memory"] == "device"
        assert any(
            note.endswith("; CUDA memory (device) was not compared while it was timed")
            for note in case.proof.notes
        )
        assert {sample.variant for sample in case.samples if sample.message_bytes} == {
            "memory=device"
        }
    for case in cases["another"]:
        assert SECOND_GPU in case.reason and "0000:81:00.0" in case.reason, case.reason


LIMITS = Limits(most_repetitions=synthetic_stack.REPETITIONS)
#: Groups of OSU that have them, and options under which their programs print something else.
GROUPS = {
    name: options
    for name in catalogue.SUITES["osu"].groups
    if (
        options := [
            {option.name: "on"}
            for option in catalogue.SUITES["osu"].options
            if option.name in ("full", "validation") and name in option.groups
        ]
    )
}


@pytest.mark.whole
@pytest.mark.parametrize("group", GROUPS)
def test_every_launch_is_complete_on_more_ranks_and_with_options(group, built, run_on, tmp_path):
    """As the leaves start them, but below the proof, which refuses ranks that share a core."""
    ran = []
    errors = tmp_path / "errors"
    for release, stack in built("osu").items():
        if not FULL and release.version not in NARROW:
            continue
        collective = catalogue.GROUPS[group].collective
        for ranks in (2, 4) if FULL else (3 if collective else 2,):
            for chosen in ({}, *GROUPS[group]):
                try:
                    planned = catalogue.launches(
                        group, stack, ranks, "smoke", limits=LIMITS, chosen=chosen
                    )
                except NotMeasured:
                    continue
                for launch in planned:
                    where = f"{release.version} {ranks} {chosen} {launch.name}"
                    # as ReFrame keeps them
                    apart = ["sh", "-c", 'exec "$@" 2>>"$0"', str(errors), *launch.words(stack)]
                    status, output = run_on(
                        stack, *apart, ranks=launch.expected[0].ranks, limit_s=300
                    )
                    assert status == 0, f"{where}: {output}{errors.read_text()}"
                    expect_metrics(launch, output, where)
                    ran.append(where)
    assert ran

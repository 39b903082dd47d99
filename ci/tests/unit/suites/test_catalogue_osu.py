"""The rows of OSU as launches: one benchmark is one binary, and each
run makes the same repetitions at every size.
"""

import pytest

from reframe_tests.harness.machine.gpu import (
    DEVICE,
    MANAGED,
    Memory,
)
from reframe_tests.harness.suites import catalogue
from reframe_tests.harness.vocabulary import NotMeasured
from synthetic_stack import launches, stack_of


def made(group, binary="", **more):
    """Launches of a group, or those of one of its programs."""
    return [each for each in launches(group, **more) if not binary or each.binary == binary]


def test_arguments_of_osu():
    bands = made("p2p_osu", "osu_bw")
    words = "/opt/mpi/bin/osu_bw -m 1:8192 -i 100 -x 31 -W 64"
    assert bands[0].words(stack_of()) == words.split()
    assert [band.expected[0].repetitions for band in bands] == [100, 16, 4]
    assert [size for band in bands for size in band.expected[0].sizes] == [
        1 << log for log in range(21)
    ]
    (put, *_) = made("one_sided_osu", "osu_put_bw")
    assert put.args[-4:] == ("-w", "create", "-s", "flush")
    assert put.expected[0].variants == ("create,flush",)
    (barrier,) = made("collectives_osu", "osu_barrier")
    assert barrier.args == ("-i", "500", "-x", "50", "-f")
    for version, kind in (("7.0", ()), ("7.1", ("-T", "mpi_float")), ("7.5", ("-T", "mpi_float"))):
        (reduced, *_) = made("collectives_osu", "osu_allreduce", stack=stack_of(osu=version))
        assert reduced.args[-2:] == kind or (not kind and "-T" not in reduced.args)
    slow = made("p2p_osu", "osu_bw", limits=catalogue.Limits(line_rate_gbit_per_s=1.0))
    assert [band.expected[0].repetitions for band in slow] == [100, 8, 1]


# Memory of GPUs.

CHECKED = {"validation": "on"}


@pytest.mark.parametrize(
    ("word", "version", "buffers"), [(DEVICE, "7.5", ("D", "D")), (MANAGED, "7.4", ("MD", "MD"))]
)
def test_data_on_a_gpu_are_compared_too(word, version, buffers):
    more = {"stack": stack_of(osu=version, gpu="cuda"), "chosen": CHECKED}
    of_host, *_ = launches("p2p_osu", **more)
    launch, *_ = launches("p2p_osu", memory=Memory(word, "cuda"), **more)
    assert launch.args == (*of_host.args, *buffers)
    [expected] = launch.expected
    assert expected.validated
    assert expected.variants == (f"memory={word}",)


@pytest.mark.parametrize(
    ("word", "kind", "version"), [(MANAGED, "cuda", "7.2"), (DEVICE, "rocm", "7.0")]
)
def test_data_that_a_version_compares_wrongly_are_not(word, kind, version):
    stack = stack_of(osu=version, gpu=kind)
    with pytest.raises(NotMeasured, match=r"gets validation=on in .* wrong"):
        launches("p2p_osu", stack=stack, memory=Memory(word, kind), chosen=CHECKED)

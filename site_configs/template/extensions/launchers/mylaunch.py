"""A launcher of your own, to copy: one record, called LAUNCHER. All fields:
reframe_tests/harness/launchers/model.py.

Replace each made-up word (mylaunch and its options) with what the launcher's manual says. A
partition of system.py selects it with "launcher": "mylaunch" (``site``). For the mpirun of an MPI
leave out ``site`` and ``program``, and set ``introduction``, by which 'mpibench stacks add'
recognises it.
"""

from reframe_tests.harness.launchers.model import Binding, Launcher, RankNames


def count(request):
    """Policy default: the processes per node and nothing else."""
    over = ("--overcommit",) if request.oversubscribe else ()
    return Binding(options=(f"--per-node={request.ppn}", *over))


def unbound(request):
    """Policy none: neither the launcher nor the library binds."""
    return count(request).adding("--bind=none", env=request.unbinding)


def explicit(request):
    """All other policies: request.ranks has the CPUs of each rank of a
    node, ((0,), (2,)) for two ranks on cores 0 and 2.

    For a placement without words raise
    reframe_tests.harness.vocabulary.NotMeasured with the reason.
    """
    places = "/".join(",".join(map(str, cpus)) for cpus in request.ranks)
    return count(request).adding(f"--bind=cpus:{places}", env=request.unbinding)


LAUNCHER = Launcher(
    # Required: these six.
    name="mylaunch",
    title="mylaunch",
    manual="mylaunch(1)",
    count=count,
    unbound=unbound,
    explicit=explicit,
    # Words for the whole job; its processes speak the MPI's own ``pmi``.
    total=("--ranks={ranks}", "--nodes={nodes}", "--pmi={pmi}"),
    # A launcher of the site: its name in system.py, and how it is started.
    site=("mylaunch",),
    program=("mylaunch",),
    # Variables of the job, where it does not hand all of them on.
    exports=lambda exports: tuple(f"--export={name}" for name in exports.names),
    oversubscribe=("--overcommit",),
    # Variables with these first letters are for the launcher and not for the ranks.
    private=("MYLAUNCH_",),
    # Variables in which a rank finds its rank, the number of ranks, and its rank on the node.
    identity=RankNames(
        rank=("MYLAUNCH_RANK",), size=("MYLAUNCH_SIZE",), local_rank=("MYLAUNCH_LOCAL_RANK",)
    ),
)

"""Links and GPUs of a node as the evidence library reads them: kernels' folders of adapters this
machine does not have, and a library of the test's own that stands for CUDA's driver.
"""

import dataclasses

import pytest
import yaml

from folders import DATA, write
from programs import compile_c, finished, inside_namespace
from reframe_tests.harness.evidence import gpu_use, link_state, rank_records, recorder
from reframe_tests.harness.evidence.gpu_use import (
    HOST_BRIDGE,
    NOTHING,
    NUMA_NODE,
    ROOT_PORT,
    SWITCH,
)
from reframe_tests.harness.evidence.rank_records import UsedGpu
from reframe_tests.harness.launchers import registry
from reframe_tests.harness.machine.fabric import Fabric, Rail
from synthetic_evidence import STACK
from synthetic_stack import DRIVER

TREES = DATA / "golden" / "sysfs"
LIBRARY = (
    "int PMPI_Init(int *c, char ***v) { (void)c; (void)v; return 0; } int PMPI_Finalize(void) { "
    "return 0; }"
)
#: Loads a driver where it is told one, as CUDA's runtime does, and
#: uses it after MPI_Init where it is told so.
PROGRAM = r"""
#include <dlfcn.h>
#include <stdlib.h>
int PMPI_Init(int *, char ***), PMPI_Finalize(void);
int main(void)
{
    void *driver = getenv("DRIVER") ? dlopen(getenv("DRIVER"), RTLD_NOW) : 0;
    int (*begin)(unsigned) = driver ? (int (*)(unsigned))dlsym(driver, "cuInit") : 0;
    if (getenv("DRIVER") && !driver) return 2;
    if (PMPI_Init(0, 0)) return 1;
    if (begin && getenv("STAND_IN_DEVICES")) begin(0);
    return PMPI_Finalize();
}
"""
#: HIP's runtime, as far as the recorder asks it.
HIP = r"""
#include <string.h>
int hipGetDevice(int *device) { *device = 0; return 0; }
int hipDeviceGetPCIBusId(char *to, int size, int device) { strncpy(to, "0000:C1:00.0", (size_t)size); return device; }
int hipDeviceGetName(char *to, int size, int device) { strncpy(to, "AMD Instinct MI250X", (size_t)size); return device; }
"""


def plant(tree, folder):
    """Write the files and links of a tree (``path = content``,
    ``path -> target``) below a folder.
    """
    for line in (TREES / f"{tree}.txt").read_text().splitlines():
        if line.startswith("#"):
            continue
        name, arrow, target = line.partition(" -> ")
        path, _, content = line.partition(" = ")
        if arrow:
            link = folder / name
            link.parent.mkdir(parents=True, exist_ok=True)
            link.symlink_to(target)
        else:
            write(folder / path, f"{content}\n")


@pytest.fixture(scope="session")
def made(tmp_path_factory):
    """A program on something that stands for an MPI, and drivers that it may load."""
    folder = tmp_path_factory.mktemp("made")
    shared = ("-shared", "-fPIC")
    compile_c(folder / "libmpi.so", LIBRARY, *shared)
    compile_c(folder / "program", PROGRAM, f"-L{folder}", "-lmpi", f"-Wl,-rpath,{folder}")
    (folder / "damaged").mkdir()
    for name, text in (
        ("libcuda.so.1", DRIVER),
        ("damaged/libcuda.so.1", "int cuInit(unsigned flags) { return 0 * (int)flags; }"),
        ("libamdhip64.so.6", HIP),
    ):
        compile_c(folder / name, text, *shared)
    return folder


@pytest.fixture
def variables(made, tmp_path):
    """What a launcher gives a rank whose record is to be in the test's folder."""
    known = recorder.variables(STACK, registry.known()["srun"])
    own = {"LD_PRELOAD": str(recorder.build(made)), "MPIBENCH_EVIDENCE": str(tmp_path)}
    return {**known, **own, "SLURM_LOCALID": "0"}


@pytest.fixture
def seen_on(made, variables, tmp_path):
    """What a rank says on a machine with a tree below /sys/class, or elsewhere."""

    def seen_on_(tree, place="/sys/class"):
        plant(tree, tmp_path / "tree")
        words = " ".join(f"{name}={value}" for name, value in variables.items())
        mount = f"mount --rbind {tmp_path}/tree {place}"
        inside_namespace(tmp_path, mount, f"env {words} {made / 'program'}")
        (rank,) = rank_records.read(tmp_path)
        return rank

    return seen_on_


def later(rank, link, **values):
    """The same rank, with other values of a link at its end."""
    links = {**rank.finalize.links, link: {**rank.finalize.links[link], **values}}
    return dataclasses.replace(rank, finalize=dataclasses.replace(rank.finalize, links=links))


def fabric(device, rate, transport="ucx"):
    return Fabric("net", transport, "cluster", (Rail(device, rate),))


#: What is expected of each tree that has an adapter.
ADAPTERS = yaml.safe_load((TREES / "expected.yaml").read_text())


@pytest.mark.parametrize("tree", ADAPTERS)
def test_ports_are_read_and_their_counters_told_apart(seen_on, tree):
    known = ADAPTERS[tree]
    net = fabric(*known["rail"])
    [rail] = net.rails
    link = f"{rail.device}/1"
    rank = seen_on(tree)
    assert rank.init.links == rank.finalize.links
    assert set(rank.init.tcp_node) == {"InErrs", "OutSegs", "RetransSegs"}
    port = rank.init.links[link]
    assert not {"lifespan", "duplicate_request", "port_xmit_data"} & set(port)
    healthy = link_state.check_links([rank], net)
    assert (healthy.sentences, healthy.notes, healthy.errors) == ([], [], [])
    [stored, *_] = link_state.settings_of(healthy.states)
    count = rank.init.ports[link]
    slots = {name: found.slot for name, found in rank.ports.items()}
    more = {"slot": slots.get(link), "bytes": [count.rx, count.tx]}
    found = {**port, **stored, **rank.kernel, **more}
    assert {name: found[name] for name in known["shown"]} == known["shown"]
    finding = link_state.check_links([later(rank, link, **known["at_end"])], net)
    assert finding.sentences == []
    grown = {row["counter"]: (row["new"], row["reported"]) for row in finding.errors}
    assert grown == {
        name: (known["at_end"][name] - port[name], said) for name, said in known["reported"].items()
    }
    double = fabric(rail.device, 2 * (rail.line_rate_gbit_per_s or 0), net.transport)
    (slow,) = link_state.check_links([rank], double).sentences
    assert f"came up at {rail.line_rate_gbit_per_s} Gbit/s, but the site says" in slow


def test_roce_is_its_port_and_the_interface_on_it(seen_on):
    rank = seen_on("roce")
    net = fabric("mlx5_1", 100)
    states = link_state.check_links([rank], net).states
    assert [state.link for state in states] == ["mlx5_1/1", "lo"]
    assert states[1].settings["mtu_bytes"] == 9000
    lost = later(rank, "mlx5_1/1", link_downed=1, state="1: DOWN")
    gone, changed = link_state.check_links([lost], net).sentences
    assert "it failed to recover from errors (link_downed +1)" in gone
    assert "changed during the run: state 4: ACTIVE to 1: DOWN" in changed
    flapped = later(rank, "lo", carrier_changes=6)
    (sentence,) = link_state.check_links([flapped], net).sentences
    assert "the link of lo" in sentence and "was interrupted during the run" in sentence


def test_a_port_may_count_elsewhere_or_nothing(seen_on):
    rank = seen_on("efa")
    counts = {name: (count.rx, count.tx) for name, count in rank.init.ports.items()}
    assert counts == {"efa_0/1": (78, 77), "dumb_0/1": (None, None)}
    assert rank.kernel["firmware of efa_0"] is None


# ---- GPUs ----

A100 = "NVIDIA A100-SXM4-40GB"
FIRST = "0000:03:00.0"
SECOND = "0000:41:00.0"
THIRD = "0000:81:00.0"


@pytest.fixture
def run(made, variables, tmp_path):
    def run_(driver, **environment):
        environ = {**variables, "DRIVER": str(made / driver), **environment}
        done = finished(made / "program", environ=environ)
        assert (done.returncode, done.stdout, done.stderr) == (0, "", "")
        (rank,) = rank_records.read(tmp_path)
        return rank

    return run_


DEVICES = f"0000:03:00.0/{A100}/a,0000:41:00.0/{A100}/b"


ONE = UsedGpu(FIRST, False, A100, "61" * 16)
TWO = UsedGpu(SECOND, True, A100, "62" * 16)


@pytest.mark.parametrize(
    ("current", "active", "chosen", "gpus"),
    [("0", "0", "1", (TWO,)), ("", "0", "0,1", (ONE,)), ("1", "01", "0,1", (TWO, ONE))],
    ids=["of the thread", "a primary one", "further ones behind"],
)
def test_the_gpu_of_the_threads_context_is_the_ranks(
    run,
    current,
    active,
    chosen,
    gpus,
):
    told = {"STAND_IN_CURRENT": current, "STAND_IN_ACTIVE": active, "CUDA_VISIBLE_DEVICES": chosen}
    rank = run("libcuda.so.1", STAND_IN_DEVICES=DEVICES, **told)
    assert (rank.init.gpus, rank.last.gpus) == ((), gpus), "it began after MPI_Init"
    assert rank.environment["CUDA_VISIBLE_DEVICES"] == chosen


@pytest.mark.parametrize(
    ("driver", "environment"),
    [
        ("libcuda.so.1", {}),  # never begun
        ("libcuda.so.1", {"STAND_IN_DEVICES": ""}),
        ("libcuda.so.1", {"STAND_IN_DEVICES": DEVICES}),  # no context
        ("libcuda.so.1", {"STAND_IN_DEVICES": DEVICES, "STAND_IN_CURRENT": "7"}),  # not there
        ("damaged/libcuda.so.1", {"STAND_IN_DEVICES": DEVICES}),  # without its functions
        ("libamdhip64.so.6", {}),  # without a driver
    ],
)
def test_a_driver_that_names_none_is_no_gpu(run, driver, environment):
    rank = run(driver, **environment)
    assert rank.last.gpus == ()
    assert (rank.last.gpu_library or "").endswith(driver)


def test_the_nodes_gpus_and_what_is_near_them(seen_on):
    node = seen_on("gpus", "/sys")
    gpus, adapters = node.node_gpus, node.adapters
    # No display of another vendor, and no virtual function.
    assert sorted(gpus) == [FIRST, SECOND, THIRD]
    first = gpus[FIRST]
    assert (first.vendor, first.device, first.numa_node) == ("0x10de", "0x20b0", 0)
    assert first.current_link_speed == "16.0 GT/s PCIe"
    assert first.current_link_width == first.max_link_width == 16
    assert gpus[THIRD].numa_node is None, "-1 is the kernel's word for none"
    assert sorted(adapters) == ["mlx5_0", "mlx5_1", "mlx5_2"], "loopback hangs nowhere"

    def level(bus_id, name):
        gpu, adapter = gpus[bus_id], adapters[name]
        return gpu_use.nearness(gpu.path, adapter.path, gpu.numa_node, adapter.numa_node).level

    assert level(FIRST, "mlx5_0") == SWITCH
    assert level(SECOND, "mlx5_1") == ROOT_PORT
    assert level(SECOND, "mlx5_2") == NUMA_NODE
    assert {level(THIRD, name) for name in adapters} == {NOTHING}
    bridged = gpu_use.nearness("pci0000:00/0000:00:01.0/a", "pci0000:00/0000:00:02.0/b", 0)
    assert bridged.level == HOST_BRIDGE
    assert node.kernel["amdgpu driver"] == "6.8.5"

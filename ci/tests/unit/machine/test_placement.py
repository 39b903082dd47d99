"""Pinning policies on real kinds of nodes, and what the Cambridge paper says of them."""

import itertools
from collections import Counter
from dataclasses import replace

from hypothesis import given, reject
from hypothesis import strategies as st

from reframe_tests.harness.machine import placement
from reframe_tests.harness.machine.placement import first_equal
from reframe_tests.harness.machine.topology import NUMBERINGS, Topology, describe
from reframe_tests.harness.vocabulary import PINNING_POLICIES, SYMBOLIC_PPN, NotMeasured

#: Dual hexa-core, even CPUs on socket 0.
WESTMERE = Topology.from_processor(describe(2, 6, numbering="alternating"))
NPS4 = Topology.from_processor(
    describe(2, 64, numa_per_socket=4, caches_per_socket=8, smt=2, numbering="smt_last")
)
LISTED = ("bunch", "scatter", "nic_local", "nic_remote")
#: Those of nodes without GPUs.
POLICIES = [policy for policy in PINNING_POLICIES if policy not in placement.GPU_POLICIES]
COMBINATIONS = list(
    itertools.product([symbol for symbol in SYMBOLIC_PPN if symbol != "gpu"], POLICIES)
)


def cpus(policy, ppn, topology, *nic):
    """The only CPU of each rank."""
    return tuple(cpu for (cpu,) in placement.place(policy, ppn, topology, *nic).ranks)


def test_each_rank_by_its_gpu():
    gpus = replace(NPS4, gpu_numa=(3, 1, 7, 5))
    assert cpus("gpu_local", 4, gpus) == (48, 16, 112, 80), (
        "the GPU's NUMA node, in the order of GPUs"
    )
    assert cpus("gpu_local", 4, replace(NPS4, gpu_numa=(0, 0, 0, 0))) == (0, 1, 2, 3)
    assert cpus("gpu_remote", 2, gpus) == (112, 113), "the other socket's last NUMA node"
    # LUMI user guide, "Distribution and binding": CPU_BIND="map_cpu:49,57,17,25,1,9,33,41".
    complexes = (48, 56, 16, 24, 0, 8, 32, 40)
    lumi = Topology.from_processor(
        describe(1, 64, numa_per_socket=4, caches_per_socket=8, smt=2, numbering="smt_last")
    )
    lumi = lumi.usable(cpu for cpu in range(64) if cpu % 8)
    near = tuple(frozenset(range(first, first + 8)) for first in complexes)
    lumi = replace(lumi, gpu_numa=tuple(first // 16 for first in complexes), gpu_cpus=near)
    assert cpus("gpu_local", 8, lumi) == (49, 57, 17, 25, 1, 9, 33, 41)


def test_what_is_run_on_the_paper_s_server():
    equal = {pair: first_equal(pair, COMBINATIONS, WESTMERE, (0,)) for pair in COMBINATIONS}
    assert equal["1", "scatter"] == ("1", "bunch")
    assert equal["1", "nic_remote"] == ("1", "nic_remote")
    assert equal["2", "scatter"] == ("2", "scatter")
    assert equal["numa", "scatter"] == equal["socket", "scatter"] == ("2", "scatter")
    assert equal["full", "scatter"] == ("full", "scatter")
    assert {first for first in equal.values() if equal[first] != first} == set(), (
        "an earliest one is its own earliest"
    )


@st.composite
def nodes(draw):
    """A node of any numbering, sometimes with some of its CPUs taken away."""
    numbering = draw(st.sampled_from(NUMBERINGS))
    numa = draw(st.integers(1, 3))
    caches = draw(st.integers(1, 2))
    whole = Topology.from_processor(
        describe(
            draw(st.integers(1, 3)),
            numa * caches * draw(st.integers(1, 3)),
            numa_per_socket=numa,
            caches_per_socket=numa * caches,
            smt=1 if numbering == "consecutive" else draw(st.integers(1, 2)),
            numbering=numbering,
        )
    )
    if draw(st.booleans()):
        return whole
    return whole.usable(draw(st.sets(st.sampled_from(whole.cpus), min_size=1)))


@st.composite
def filled(draw):
    """A node, and how many of its cores have a rank."""
    topology = draw(nodes())
    return topology, draw(st.integers(1, len(topology.cores)))


@given(filled(), st.sampled_from(LISTED), st.data())
def test_every_rank_has_a_core_of_its_own(node, policy, data):
    topology, ppn = node
    nic = data.draw(st.lists(st.sampled_from(topology.numa_ids), min_size=1, max_size=3))
    try:
        chosen = cpus(policy, ppn, topology, nic)
    except NotMeasured:
        reject()
    assert len(chosen) == len({topology.core_of(cpu) for cpu in chosen}) == ppn
    assert set(chosen) <= set(topology.cpus)


@given(filled())
def test_bunch_fills_one_domain_before_the_next(node):
    topology, ppn = node
    where = {unit.cpu: (unit.socket, unit.numa) for unit in topology.units}
    room = Counter(where[core[0].cpu] for core in topology.cores)
    domains = [where[cpu] for cpu in cpus("bunch", ppn, topology)]
    assert domains == sorted(domains)
    for domain in list(dict.fromkeys(domains))[:-1]:
        assert domains.count(domain) == room[domain]


@given(filled())
def test_scatter_is_balanced_as_far_as_there_is_room(node):
    topology, ppn = node
    socket = {unit.cpu: unit.socket for unit in topology.units}
    chosen = [socket[cpu] for cpu in cpus("scatter", ppn, topology)]
    room = Counter(core[0].socket for core in topology.cores)
    load = {number: chosen.count(number) for number in topology.sockets}
    for one, other in itertools.permutations(load, 2):
        assert load[one] - load[other] <= 1 or load[other] == room[other]
    assert len(set(chosen[: len(topology.sockets)])) == min(ppn, len(topology.sockets))


@given(filled(), st.data())
def test_near_comes_before_far(node, data):
    topology, ppn = node
    nic = data.draw(st.sampled_from(topology.numa_ids))
    numa = {unit.cpu: unit.numa for unit in topology.units}
    for policy, first in (("nic_local", True), ("nic_remote", False)):
        try:
            at_nic = [numa[cpu] == nic for cpu in cpus(policy, ppn, topology, nic)]
        except NotMeasured:
            reject()
        assert at_nic[0] is first
        assert at_nic == sorted(at_nic, reverse=first)

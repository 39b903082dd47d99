"""Descriptions of switches, each read as its program writes it, and told apart by their content.

The recordings are composed by the formats in the manuals (``topology.conf(5)``,
``topology.yaml(5)``, ``scontrol(1)``, ``ibnetdiscover(8)``, and ``opareport`` of FastFabric).
"""

from contextlib import suppress

import pytest
from hypothesis import given
from hypothesis import strategies as some

from reframe_tests.harness.machine import switch_paths as paths
from reframe_tests.harness.machine import switches
from reframe_tests.harness.machine.switches import (
    IBNETDISCOVER,
    OPA,
    SLURM,
    YAML,
    Switch,
    SwitchTree,
)
from reframe_tests.harness.vocabulary import BadInput
from refusals import refused_as

#: Keys in their order, as programs write YAML.
SORTED = """- cluster_default: true
  topology: net
  tree:
    switches:
    - {children: "leaf[1-2]", switch: spine}
    - {nodes: "c[1-2]", switch: leaf1}
    - {nodes: "c[3-4]", switch: leaf2}
"""
SHOWN = """SwitchName=leaf1 Level=0 LinkSpeed=1 Nodes=c[1-2]
SwitchName=leaf2 Level=0 LinkSpeed=1 Nodes=c[3-4]
SwitchName=spine Level=1 LinkSpeed=1 Nodes=c[1-4] Switches=leaf[1-2]
"""
CONFIGURED = (
    "# ours\nSwitchName=spine Switches=leaf[1-2]\nswitchname=leaf1 nodes=c1,c2 "
    "LinkSpeed=100\nSwitchName=leaf2 Nodes=c[3-4]\n"
)
BLOCKS = (
    "BlockName=b1 BlockIndex=0 Nodes=c[1-2] BlockSize=2\nBlockName=b2 BlockIndex=1 Nodes=c[3-4] "
    "BlockSize=2\n"
)
AGGREGATED = BLOCKS + "AggregatedBlock=b[1-2] BlockIndex=2 Nodes=c[1-4] BlockSize=4\n"
TOPOLOGIES = """---
- topology: spare
  flat: true
- topology: main
  cluster_default: true
  tree:
    switches:
      - switch: spine
        children: leaf[1-2]
      - switch: leaf1
        nodes: c[1-2]
      - switch: leaf2
        nodes: c[3-4]
"""
DESCRIBED = (
    'switches:\n  spine: {switches: "leaf[1-2]"}\n  leaf1: {nodes: "c[1-2]"}\n  leaf2: {nodes: '
    "[c3, c4]}\n"
)


def cable(number):
    """A host of the composed InfiniBand fabric: c1 and c2 on the
    first leaf, c3 and c4 on the second.
    """
    leaf = (number + 1) // 2
    port = (number - 1) % 2 + 1
    return (
        f"vendid=0x2c9\ndevid=0x1017\nsysimgguid=0x{number:016x}\ncaguid=0x{number:016x}\n"
        f'Ca\t1 "H-{number:016x}"\t\t# "c{number} mlx5_0"\n'
        f'[1]({number:x}) \t"S-{0xA0 + leaf:016x}"[{port}]\t\t# lid {number} lmc 0 "leaf {leaf}" '
        "lid 9 4xEDR\n\n"
    )


def switch(number, title, ports):
    lines = "".join(
        f'[{at}]\t"{other}"[1]\t\t# "x" lid 5 4xEDR\n' for at, other in enumerate(ports, 1)
    )
    head = f"vendid=0x2c9\nswitchguid=0x{number:x}({number:x})\n"
    return f'{head}Switch\t36 "S-{number:016x}"\t\t# "{title}" base port 0 lid 3 lmc 0\n{lines}\n'


LEAVES = [[f"H-{1:016x}", f"H-{2:016x}"], [f"H-{3:016x}", f"H-{4:016x}"]]
SPINES = [f"S-{0xB0 + spine:016x}" for spine in (1, 2)]
DISCOVERED = (
    "#\n# Topology file: generated on Mon Nov 23 12:00:00 2026\n#\n"
    + "".join(
        switch(0xA1 + at, f"leaf {at + 1}", [*hosts, *SPINES]) for at, hosts in enumerate(LEAVES)
    )
    + "".join(
        switch(0xB1 + at, f"spine {at + 1}", [f"S-{0xA1:016x}", f"S-{0xA2:016x}"])
        for at in range(2)
    )
    + "".join(map(cable, (1, 2, 3, 4)))
)
REPORTED = (
    "Link Summary\n\n6 Links in Fabric:\nRate NodeGUID          Port Type Name\n"
    + "".join(
        f"100g 0x001175010000000{node}   1 FI c{node} hfi1_0\n<->  0x00117501020000a{leaf}  "
        f"{node} SW leaf{leaf}\n"
        for node, leaf in ((1, 1), (2, 1), (3, 2), (4, 2))
    )
    + "".join(
        f"100g 0x00117501020000a{leaf}  20 SW leaf{leaf}\n<->  0x00117501020000b1  {leaf} SW "
        "spine\n"
        for leaf in (1, 2)
    )
)


#: A second core: each leaf hangs on every one of them, as in any fat tree.
CORE = "core_and_1_more"


@pytest.mark.parametrize(
    ("text", "origin", "top"),
    [
        (SHOWN, SLURM, "spine"),
        (CONFIGURED, SLURM, "spine"),
        (BLOCKS, SLURM, None),
        (AGGREGATED, SLURM, "blocks b[1-2]"),
        (DISCOVERED, IBNETDISCOVER, "spine_1_and_1_more"),
        (REPORTED, OPA, "spine"),
        (TOPOLOGIES, SLURM, "spine"),
        (SHOWN + "SwitchName=core Level=1 Switches=leaf[1-2]\n", SLURM, CORE),
        (SHOWN.replace(" Switches", " \\\r\n Switches"), SLURM, "spine"),
        (SORTED, SLURM, "spine"),
        (DESCRIBED + '  core: {switches: "leaf[1-2]"}\n', YAML, CORE),
    ],
)
def test_the_same_fabric_in_every_kind_of_file(tmp_path, text, origin, top):
    path = tmp_path / "switches"
    path.write_text(text)
    tree = switches.read(path).tree()
    named = {BLOCKS: "b", AGGREGATED: "b", DISCOVERED: "leaf_"}.get(text, "leaf")
    leaves = (f"{named}1", f"{named}2")
    first, second = leaves
    assert tree.origin == origin
    assert tree.leaf_of == {"c1": first, "c2": first, "c3": second, "c4": second}
    assert [tree.switches[leaf].parent for leaf in leaves] == [top, top]
    assert switches.contradiction(tree, ["c1", "c4"]) == ""
    assert " lack n7: " in switches.contradiction(tree, ["c1", "n7"])


def test_what_ranks_are_told_is_a_line_for_each_host_whatever_switches_are_called():
    name = "b[1-2]\nEND_OF_FILE"
    paths_of = {"c2": ("spine", name), "c3\nEND_OF_FILE": ("spine",), "$(x)": ("spine",)}
    rows = paths.rows_of(paths_of)
    assert rows == ["c2 spine.b_1-2__END_OF_FILE"]
    assert paths.read_rows([*rows, "", "three words here"]) == {
        "c2": ("spine", "b_1-2__END_OF_FILE")
    }


@given(some.text(alphabet="c1-2[],a", max_size=12))
def test_any_text_is_a_list_or_refused(text):
    with suppress(BadInput):
        assert all(switches.expand(text)) or not text


# ---- trees of switches: what they say of nodes, and what is no tree ----


@pytest.mark.parametrize(
    "tree",
    [
        {"a": Switch("b")},
        {"a": Switch("b"), "b": Switch("a")},
        {"a": Switch(None, ("c1",)), "b": Switch(None, ("c1",))},
    ],
)
def test_what_is_no_tree_is_refused(tree):
    with refused_as("system-description"):
        SwitchTree(SLURM, tree)

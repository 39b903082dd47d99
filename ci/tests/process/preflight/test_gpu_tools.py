"""What the tools of GPUs' vendors say of a node's GPUs: read whole, or refused."""

from pathlib import Path

import pytest

from folders import write
from reframe_tests.harness.cases.preflight import node_facts
from synthetic_node import gpu, make_node

SMI = Path(__file__).parents[2] / "data" / "golden" / "smi"
AMD = "Arcturus GL-XL [Instinct MI100]"


def ask(node, monkeypatch, script, tool, links):
    """GPUs of a node whose vendor's tool is a script."""
    text = f'#!/bin/sh\n[ "$1" != nvlink ] || exec cat {links}\n{script}\n'
    program = write(node / "bin" / tool, text, executable=True)
    monkeypatch.setenv("PATH", f"{program.parent}:/usr/bin:/bin")
    return node_facts.gpus(node_facts.Node(node), ask=True)


@pytest.mark.parametrize(
    ("name", "addresses", "facts"),
    [
        ("nvidia-590.48.01-h100.csv", "00:09", "NVIDIA H100 80GB HBM3,Disabled,Enabled,Enabled"),
        ("nvidia-590.48.01-h200-mig.csv", "83:00", "NVIDIA H200,Enabled,Enabled,Enabled"),
        ("nvidia-595.80-l40s.csv", "01:00", "NVIDIA L40S,[N/A],Enabled,Disabled"),
        ("rocm-5.7.1-mi100.json", "1e:00 22:00 3f:00 43:00 46:00 49:00", AMD),
        ("rocm-6.0.2-mi100.json", "83:00 a3:00 c3:00 e3:00", AMD),
    ],
)
def test_tools_of_the_vendors_are_read_whole_or_refused(
    name, addresses, facts, tmp_path, monkeypatch
):
    amd = name.startswith("rocm")
    text = (SMI / name).read_text()
    read = node_facts.read_rocm if amd else node_facts.read_nvidia
    cards = [f"0000:{address}.0" for address in addresses.split()]
    node = make_node(tmp_path, *(gpu(card, "amdgpu" if amd else "nvidia") for card in cards))
    links = f"{SMI / name}".replace(".csv", "-nvlink.txt")
    found = ask(node, monkeypatch, f"cat {SMI / name}", name.partition("-")[0] + "-smi", links)
    assert found["gpu_answers"] == {"": "complete"}
    known = ("gpu_model", "mig_mode", "ecc_mode", "persistence_mode")
    for card in cards:
        shown = [str(found[fact][card]) for fact in known if fact in found]
        assert ",".join(shown) == facts
    later = text.replace("Card series", "Card Series") + "\n"
    assert read(later) == read(text), "as later releases of ROCm have it"
    for end in range(len(text) - 1):
        with pytest.raises(ValueError, match="prints '"):
            read(text[:end])

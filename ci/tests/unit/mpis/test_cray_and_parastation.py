"""Cray MPICH and ParaStation MPI: nobody here could run them, so their
evidence is held against lines that others recorded.
"""

import re
from dataclasses import replace

import pytest

from reframe_tests.harness.cases.job.transports import check_proofs
from reframe_tests.harness.machine.fabric import Fabric, Rail
from synthetic_stack import GOLDEN, SHM, make_stack, setting_of

CRAY = make_stack("craympich", "8.1.28", "ch4:ofi")
PARASTATION = make_stack("parastation", "5.10.0-1")
SS200 = Fabric("ss200", "cxi", "cluster", (Rail("cxi0", numa_node=0),))


#: Recorded lines by the word that heads them; of several blocks of one word the last.
PARTS = re.split(
    r"^## (\w+): .*\n", (GOLDEN / "craympich-lines.txt").read_text(), flags=re.MULTILINE
)
LINES = dict(zip(PARTS[1::2], PARTS[2::2], strict=True))
#: A launch on cxi0: what netmod and each of two ranks say, the
#: latter as recorded but for the numbers.
NETMOD = LINES["verbose"]
CARD = LINES["nic_verbose"].replace(
    "index=1, domain_name=cxi1, numa_node=1", "index=0, domain_name=cxi0, numa_node=0"
)


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        (
            NETMOD.replace("cxi provider", "tcp;ofi_rxm provider") + CARD,
            "reports libfabric provider 'tcp;ofi_rxm'",
        ),
        (
            NETMOD + LINES["nic_verbose"],
            "asked for ss200 (cxi0) over cxi, but Cray MPICH reports NIC 'cxi1'",
        ),
        (NETMOD.replace("cxi0", "hsn0"), "reports NIC 'hsn0'"),
        # Settings are not what was done.
        (LINES["env_display"], "printed no line naming its libfabric provider"),
    ],
)
def test_another_way_than_the_one_asked_for_is_seen(text, sentence):
    assert any(sentence in said for said in check_proofs(setting_of(CRAY, SS200), text))


# ---- ParaStation MPI ----


def connected(*plugins):
    """``DPRINT(D_CONTYPE, "CONNECT %s via %s%s", ...)`` of pscom's
    lib/pscom/pscom_con.c, and ACCEPT likewise.
    """
    return "".join(
        f"<PSP:r0000000:CONNECT (0,n1,r0000000) to (1,n2,r0000001) via {plugin}>\n"
        f"<PSP:r0000001:ACCEPT  (1,n2,r0000001) to (0,n1,r0000000) via {plugin}>\n"
        for plugin in plugins
    )


VERBS = Fabric("hdr200", "verbs", "cluster", (Rail("mlx5_0", port=1),))


def test_pscom_names_the_plugin_of_each_connection():
    setting = setting_of(PARASTATION, VERBS)
    asked = {"OPENIB": "1", "OPENIB_HCA": "mlx5_0", "TCP": "0", "UCP": "0", "SHM": "1"}
    assert {f"PSP_{name}": value for name, value in asked.items()}.items() <= setting.env.items()
    assert check_proofs(setting, connected("openib", "shm")) == []
    assert "pscom connection type 'tcp'" in check_proofs(setting, connected("openib", "tcp"))[0]
    assert "printed no line naming its pscom connection type" in check_proofs(setting, "")[0]
    inside = setting_of(PARASTATION, replace(VERBS, scope="node"))
    assert inside.env["PSP_SHM"] == "0"
    assert "pscom connection type 'shm'" in check_proofs(inside, connected("openib", "shm"))[0]
    assert check_proofs(setting_of(PARASTATION, SHM), connected("shm")) == []

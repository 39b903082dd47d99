"""Service levels and traffic classes: whose variables they become, what a run must show of
them, and what is refused. No adapter is here: held against sources and lines of others.
"""

from dataclasses import replace

import pytest

from mpibench.judge import history
from reframe_tests.harness.cases.cascade import below_mpi
from reframe_tests.harness.cases.job.transports import check_proofs
from reframe_tests.harness.machine.fabric import Fabric, Rail
from reframe_tests.harness.machine.gpu import DEVICE, Memory
from reframe_tests.harness.sites import site
from reframe_tests.harness.suites import catalogue, nccl_tests
from reframe_tests.harness.vocabulary import NotMeasured
from refusals import refused_as
from synthetic_evidence import resolved
from synthetic_site import FABRICS, edit, write_system
from synthetic_stack import (
    EDR,
    ETH,
    GOLDEN,
    INTEL,
    MPICH_UCX,
    OPENMPI,
    OPENMPI_4,
    make_stack,
    setting_of,
)

CRAY = make_stack("craympich", "8.1.28", "ch4:ofi")
PARASTATION = make_stack("parastation", "5.10.0-1")
OVER_UCX = (
    INTEL,
    MPICH_UCX,
    OPENMPI,
    PARASTATION,
    make_stack("craympich", "8.1.28", "ch4:ucx"),
    make_stack("mvapich", "4.0", "ch4:ucx"),
)
MPICH_OFI = make_stack("mpich", "4.3.0", "ch4:ofi")
VERBS = Fabric("edr", "verbs", "cluster", (Rail("mlx5_0"),))
OPA = Fabric("opa", "psm2", "cluster", (Rail("hfi1_0"),), service_level="4")
OPX = replace(OPA, transport="opx")
SS200 = Fabric("low", "cxi", "cluster", (Rail("cxi0"),), traffic_class="LOW_LATENCY")
LEVEL = {"service_level": "3"}
ROCE = {"service_level": "3", "traffic_class": "104"}
UCX = {"UCX_IB_SL": "3", "UCX_IB_TRAFFIC_CLASS": "104"}


@pytest.mark.parametrize(
    ("stack", "fabric", "variables"),
    [
        *((stack, replace(EDR, **ROCE), UCX) for stack in OVER_UCX),
        (
            OPENMPI_4,
            replace(VERBS, **LEVEL),
            {"OMPI_MCA_btl_openib_ib_service_level": "3"},
        ),
        (
            make_stack("mvapich2", "2.3.7", "ch3:mrail"),
            replace(VERBS, **LEVEL),
            {"MV2_DEFAULT_SERVICE_LEVEL": "3"},
        ),
        (make_stack("intelmpi", "2018.4"), replace(VERBS, **LEVEL), {"DAPL_IB_SL": "3"}),
        *((stack, OPA, {"HFI_SL": "4"}) for stack in (INTEL, MPICH_OFI, OPENMPI)),
        *((stack, OPX, {"FI_OPX_SL": "4"}) for stack in (INTEL, MPICH_OFI, OPENMPI)),
        (
            CRAY,
            SS200,
            {"MPICH_OFI_DEFAULT_TCLASS": "TC_LOW_LATENCY", "MPICH_OFI_TCLASS_ERRORS": "error"},
        ),
    ],
)
def test_each_mpi_has_its_own_variables(stack, fabric, variables):
    setting = setting_of(stack, fabric)
    plain = setting_of(stack, replace(fabric, service_level="", traffic_class=""))
    more = {name: setting.env[name] for name in set(setting.env) - {*plain.env}}
    assert {name: more[name] for name in variables} == variables
    assert set(more) - {*variables} <= {*setting.debug_env}
    assert plain.env.items() <= setting.env.items()
    assert fabric.quality_of_service and setting.asked.endswith(fabric.quality_of_service)


@pytest.mark.parametrize(
    ("stack", "fabric"),
    [
        *((stack, SS200) for stack in (INTEL, MPICH_OFI, OPENMPI)),
        *((stack, replace(ETH, **LEVEL)) for stack in (INTEL, MPICH_OFI, OPENMPI)),
        (INTEL, replace(VERBS, **LEVEL)),
        (OPENMPI_4, replace(VERBS, **ROCE)),
        (PARASTATION, replace(VERBS, **LEVEL)),
    ],
)
def test_an_mpi_without_a_variable_is_left_out(stack, fabric):
    with pytest.raises(NotMeasured, match=f"has no variable for the .* over {fabric.transport}"):
        setting_of(stack, fabric)


def test_ucx_must_have_read_it():
    setting = setting_of(MPICH_UCX, replace(EDR, **LEVEL))
    lane = "ucp_worker.c:1912 UCX  INFO  ucp_context_0 inter-node cfg#2 tag(rc_mlx5/mlx5_0:1)\n"
    unread = "parser.c:2305 UCX  WARN  unused {} variable{}: UCX_NET_DEVIC{}\n"
    other = unread.format("environment", "s", "; UCX_IB_SLX")
    assert check_proofs(setting, lane + other) == []
    older = " (set UCX_WARN_UNUSED_ENV_VARS=n to suppress this warning)"
    for words in (
        ("environment", "s", "; UCX_IB_SL (maybe: UCX_IB_SLS?)"),
        ("env", "s", f", UCX_IB_SL{older}"),
    ):
        (said,) = check_proofs(setting, lane + unread.format(*words))
        assert "service level 3, but MPICH reports unused variable 'UCX_IB_SL'" in said
    # UCX names some and leaves out the rest.
    (said,) = check_proofs(setting, lane + unread.format("env", "s", f", UCX_A,...{older}"))
    assert "unused variable ',...'" in said
    # A stack or a user may have turned the warning off.
    assert setting.env["UCX_WARN_UNUSED_ENV_VARS"] == "y"


def test_nobody_sets_another_one_unseen():
    fabric = replace(EDR, **LEVEL)
    there = replace(resolved(), fabric=fabric, setting=setting_of(MPICH_UCX, fabric))
    assert replace(there, chosen={"UCX_IB_SL": "3"}).job_env["UCX_IB_SL"] == "3"
    with refused_as("options-exclude", match="UCX_IB_SL=0 is not the service level 3 of fabric"):
        replace(there, chosen={"UCX_IB_SL": "0"})


def test_cray_mpich_shows_the_class_in_effect():
    setting = setting_of(CRAY, SS200)
    lines = (GOLDEN / "craympich-lines.txt").read_text()
    default = next(line for line in lines.splitlines() if "MPICH_OFI_DEFAULT_TCLASS" in line)
    for text, wanted in (
        (default, "reports MPICH_OFI_DEFAULT_TCLASS 'TC_BEST_EFFORT'"),
        ("", "evidence missing"),
        (default.replace("TC_BEST_EFFORT", "TC_LOW_LATENCY"), ""),
    ):
        said = [one for one in check_proofs(setting, text) if "MPICH_OFI_DEFAULT_TCLASS" in one]
        assert [wanted in one for one in said] == [True] * bool(wanted)


def test_nccl_says_what_it_took():
    memory = {"memory": Memory(DEVICE, "cuda")}
    fabric = replace(EDR, **ROCE, **memory)
    setting = setting_of(INTEL, fabric, nccl_tests.LIBRARY)
    assert {"NCCL_IB_SL": "3", "NCCL_IB_TC": "104"}.items() <= setting.env.items()
    line = "n1:7:9 [0] NCCL INFO NCCL_IB_{} set by environment to {}.\n"
    for level, expected in (("3", 0), ("0", 1)):
        said = check_proofs(setting, line.format("SL", level) + line.format("TC", "104"))
        assert sum("NCCL_IB_SL" in sentence and "reports" in sentence for sentence in said) == (
            expected
        )


def test_what_is_stored_says_which():
    there = resolved()
    whole = replace(there, stack=replace(there.stack, build={"lock_hash": "0123"}))
    assert "quality_of_service" not in whole.as_dict()
    fabric = replace(EDR, **ROCE)
    stored = replace(whole, fabric=fabric, setting=setting_of(OPENMPI, fabric)).as_dict()
    assert stored["quality_of_service"] == "service level 3, traffic class 104"
    assert "quality_of_service" in {fact.column for fact in history.ASKED_FACTS}


def test_programs_below_mpi_are_not_told():
    group = catalogue.PAIRS["wire_rdma"]
    assert below_mpi.find_obstacle(EDR, group, "slurm") == ""
    assert "service level 3" in below_mpi.find_obstacle(replace(EDR, **LEVEL), group, "slurm")


@pytest.mark.parametrize(
    ("transport", "classes", "good"),
    [
        ("ucx", {"service_level": 15, "traffic_class": 255}, True),
        ("opx", {"service_level": 31}, True),
        ("cxi", {"traffic_class": "BULK_DATA"}, True),
        ("ucx", {"service_level": 16}, False),
        ("ucx", {"service_level": "3"}, False),
        ("ucx", {"traffic_class": "BULK_DATA"}, False),
        ("opx", {"service_level": 32}, False),
        ("cxi", {"traffic_class": 3}, False),
        ("cxi", {"traffic_class": "SCAVENGER"}, False),
        ("cxi", {"service_level": 3}, False),
        ("as_shipped", {"service_level": 3}, False),
    ],
)
def test_what_a_site_may_say(tmp_path, transport, classes, good):
    row = {"transport": transport, "scope": "cluster", **classes}
    if transport != "as_shipped":
        row["rails"] = [{"device": "hfi1_0", "line_rate_gbit_per_s": 100}]
    path = write_system(tmp_path, edit((*FABRICS, "other"), row))
    if not good:
        with refused_as("system-description"):
            site.read_system(path)
        return
    extras = site.read_system(path)["partitions"][0]["extras"]
    wanted = {word: str(value) for word, value in classes.items()}
    assert site.fabrics_of(extras)["other"].classes == wanted
    assert site.fabrics_of(extras)["hdr200"].classes == {}

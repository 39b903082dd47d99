"""The tuning file that a library makes of settings is taken as its
job wrote it, or not at all, and why is said.
"""

from pathlib import Path
from types import SimpleNamespace

import pytest

from mpibench_tune import measuring, settings
from mpibench_tune.measuring import TuneRequest
from mpibench_tune.tuning import compile_settings, of_compiled
from reframe_tests.harness.mpis import registry
from reframe_tests.harness.mpis.tuning.model import AlgorithmRule
from reframe_tests.harness.samples import CONTRADICTED, PROVEN
from reframe_tests.harness.sites.tuned_settings import TunedPlace, checksum
from synthetic_tuning import INTEL

CONTENT = bytes(range(256))
PLACE = TunedPlace("generic", INTEL.name, "shm", 1, 4, "none")
WRITTEN = {"file": "a.1.result.out", "bytes": len(CONTENT), "sha256": checksum(CONTENT)}


@pytest.mark.parametrize(
    ("row", "case", "why"),
    [
        ({"compiled": WRITTEN}, {}, ""),
        ({"not_compiled": "the same file without any settings"}, {}, "the same file without any"),
        ({}, {}, "the library was not asked for anything"),
        ({"compiled": WRITTEN}, {"evidence": CONTRADICTED, "reason": "another."}, "another"),
        ({"compiled": {**WRITTEN, "file": "gone.out"}}, {}, "gone.out cannot be read"),
        ({"compiled": {**WRITTEN, "sha256": "0"}}, {}, "is no longer what the job wrote"),
    ],
)
def test_only_what_the_job_wrote_is_taken_and_else_the_reason_is_said(
    row,
    case,
    why,
    tmp_path,
    monkeypatch,
):
    (tmp_path / "a.1.result.out").write_bytes(CONTENT)
    facts = {"evidence": PROVEN, "reason": "", "partition": "generic:default", **case}
    found = SimpleNamespace(
        entry={"collective": "Allreduce"},
        condition={"algorithms": {"tuned": row}},
        directory=str(tmp_path),
        **facts,
    )
    session = SimpleNamespace(cases=(found,), info={"workdir": "/nonesuch"})
    orders = []

    def run(request, order, *words):
        orders.append(order)
        return measuring.Ran(session, 9.0)

    monkeypatch.setattr(measuring, "run", run)
    tuning = registry.find("intelmpi").tuning
    assert tuning is not None and tuning.compilation is not None
    asked = TuneRequest(PLACE, "", INTEL, tuning, {"Allreduce": ()}, 60.0)
    made, _ = settings.make(PLACE, INTEL, tuning, [AlgorithmRule("Allreduce", 8, 1023, "3")])
    compiled = compile_settings(asked, tuning.compilation, made)
    [order] = orders
    assert order.compiles and order.algorithms == {"Allreduce": "default+tuned"}
    assert order.tuned_files == str(asked.candidate)
    assert "CollectiveAlgorithms.compiles=yes" in asked.words(order, Path("/x.json"))
    [said] = of_compiled(compiled, tuning)
    assert why in compiled.why and compiled.why in said and bool(compiled.why) is bool(why)
    assert compiled.files == ({} if why else {"tuned.dat": CONTENT})

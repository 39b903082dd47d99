"""The tuning file that a library makes of settings is taken as its job wrote it, or not at all, and why is said."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from mpibench.night import supervision
from mpibench.tune import measuring, settings
from mpibench.tune.measuring import Order, TuneRequest
from mpibench.tune.tuning import Compiled, compile_settings, of_compiled
from reframe_tests.harness.mpis import registry
from reframe_tests.harness.mpis.tuning.model import AlgorithmRule, Tuning
from reframe_tests.harness.samples import CONTRADICTED, PROVEN
from reframe_tests.harness.sites.tuned_settings import Place, checksum
from reframe_tests.harness.vocabulary import BadInput
from synthetic_settings import INTEL

CONTENT = bytes(range(256))
PLACE = Place("generic", INTEL.name, "shm", 1, 4, "none")
WRITTEN = {"file": "a.1.result.out", "bytes": len(CONTENT), "sha256": checksum(CONTENT)}


@pytest.fixture
def tuning() -> Tuning:
    found = registry.find("intelmpi").tuning
    assert found is not None and found.compilation is not None
    return found


def compile_in(folder: Path, tuning: Tuning, monkeypatch: pytest.MonkeyPatch, row: dict[str, Any], **case: Any) -> Compiled:
    """What is made of a job that left a file in a folder.

    :param row: what its condition says of the settings; ``case``: what is different of the case.
    """
    made, _ = settings.make(PLACE, INTEL, tuning, [AlgorithmRule("Allreduce", 8, 1023, "3")])
    facts = {"evidence": PROVEN, "reason": "", "partition": "generic:default", "directory": str(folder), **case}
    found = SimpleNamespace(entry={"collective": "Allreduce"}, condition={"algorithms": {"tuned": row}}, **facts)
    asked: list[Order] = []

    def run(request: TuneRequest, order: Order, *words: object) -> measuring.Ran:
        asked.append(order)
        return measuring.Ran(SimpleNamespace(cases=(found,), info={"workdir": "/nonesuch"}), 9.0)  # type: ignore[arg-type]

    monkeypatch.setattr(measuring, "run", run)
    assert tuning.compilation is not None
    request = TuneRequest(PLACE, "", INTEL, tuning, {"Allreduce": ()}, 60.0)
    compiled = compile_settings(request, tuning.compilation, made)
    [order] = asked
    assert (order.algorithms, order.tuned_files) == ({"Allreduce": "default+tuned"}, str(request.candidate)) and order.compiles
    assert "CollectiveAlgorithms.compiles=yes" in request.words(order, Path("/x.json"))
    return compiled


def test_what_the_job_wrote_is_taken(tmp_path: Path, tuning: Tuning, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "a.1.result.out").write_bytes(CONTENT)
    found = compile_in(tmp_path, tuning, monkeypatch, {"compiled": WRITTEN})
    assert found == Compiled("tuned.dat", CONTENT) and found.files == {"tuned.dat": CONTENT}
    [said] = of_compiled(found, tuning)
    assert said.startswith(
        "tuned.dat: 256 bytes, the same settings in one file, for I_MPI_TUNING_BIN in place of the variables"
    )
    assert list(of_compiled(None, tuning)) == []


@pytest.mark.parametrize(
    ("row", "case", "why"),
    [
        ({"not_compiled": "the library writes the same file without settings"}, {}, "writes the same file without settings"),
        ({}, {}, "nothing was asked of the library"),
        ({"compiled": WRITTEN}, {"evidence": CONTRADICTED, "reason": "another library."}, "another library"),
        ({"compiled": {**WRITTEN, "file": "gone.out"}}, {}, "gone.out cannot be read (No such file or directory)"),
        ({"compiled": {**WRITTEN, "sha256": "0"}}, {}, "is no longer what the job wrote"),
    ],
)
def test_without_a_file_the_reason_is_said(
    row: dict[str, Any], case: dict[str, Any], why: str, tmp_path: Path, tuning: Tuning, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "a.1.result.out").write_bytes(CONTENT)
    found = compile_in(tmp_path, tuning, monkeypatch, row, **case)
    assert why in found.why and not found.files
    [said] = of_compiled(found, tuning)
    assert said == f"no tuned.dat for I_MPI_TUNING_BIN: {found.why}" and not said.endswith(".")


@pytest.mark.parametrize(
    ("error", "why"),
    [(BadInput("nothing-measured", "nothing."), "nothing"), (supervision.OutOfTime(), "not done in time")],
)
def test_a_job_that_did_not_come_to_its_end_is_a_reason(
    error: Exception, why: str, tuning: Tuning, monkeypatch: pytest.MonkeyPatch
) -> None:
    def run(*words: object) -> None:
        raise error

    monkeypatch.setattr(measuring, "run", run)
    made, _ = settings.make(PLACE, INTEL, tuning, [AlgorithmRule("Allreduce", 8, 1023, "3")])
    assert tuning.compilation is not None
    request = TuneRequest(PLACE, "", INTEL, tuning, {"Allreduce": ()}, 60.0)
    assert why in compile_settings(request, tuning.compilation, made).why

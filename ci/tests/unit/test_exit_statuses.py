"""Exit statuses of the command: no accident ends as an answer does."""

from __future__ import annotations

import pytest

from mpibench import cli
from mpibench.commands import catalogue as catalogue_command
from reframe_tests.harness.vocabulary import BadInput


@pytest.mark.parametrize(
    ("accident", "status", "said"),
    [
        (BadInput("no such thing."), 2, "mpibench: no such thing.\n"),
        (ValueError("Out of range float values are not JSON compliant"), 70, "this is a defect of mpibench and no answer"),
        (MemoryError(), 70, "this is a defect of mpibench and no answer (MemoryError)"),
        (KeyboardInterrupt(), 130, ""),
        (BrokenPipeError(32, "Broken pipe"), 141, ""),
    ],
)
def test_no_accident_ends_as_an_answer_does(
    accident: BaseException, status: int, said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """Statuses 0, 1 and 3 are accepted, refused and inconclusive; a pipeline must not take an accident for one of them."""

    def run(**_: object) -> None:
        raise accident

    assert cli.main([], run) == status
    assert said in capsys.readouterr().err


def test_an_accident_inside_a_command_has_its_own_status(monkeypatch: pytest.MonkeyPatch) -> None:
    """Through typer, which has answers of its own to some exceptions."""
    for accident, status in ((ValueError("x"), 70), (KeyboardInterrupt(), 130), (BrokenPipeError(32, "Broken pipe"), 141)):

        def fail(group: str | None, accident: BaseException = accident) -> None:
            raise accident

        monkeypatch.setattr(catalogue_command, "show", fail)
        assert cli.main(["catalogue"]) == status

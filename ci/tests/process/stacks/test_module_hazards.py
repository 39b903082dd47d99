"""Modules that would hold up or mislead whoever registers them: one sentence each, and nothing waits."""

from __future__ import annotations

from pathlib import Path

import pytest

import module_systems
from module_systems import ModuleSystem
from mpibench.stacks import modules
from reframe_tests.harness.stacks.modules import Module
from reframe_tests.harness.vocabulary import BadInput


@pytest.fixture
def there(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> ModuleSystem:
    found = module_systems.set_up("envmod", tmp_path / "site")
    module_systems.enter(found, monkeypatch)
    return found


@pytest.mark.parametrize("line", ["after 60000", "exec sleep 60 &"], ids=["waits", "leaves a process"])
def test_a_module_that_holds_a_shell_up_is_refused(there: ModuleSystem, monkeypatch: pytest.MonkeyPatch, line: str) -> None:
    """Python is not shown what is done for shells only, and the shell is the second that loads it."""
    monkeypatch.setattr(modules, "LIMIT_S", 15.0)
    there.write("slow/1", f"if {{[module-info shell bash]}} {{ {line} }}", "setenv SLOW yes")
    with pytest.raises(BadInput, match=r"^module slow/1: envmod does not load within 15 s; try it in a shell\.$"):
        modules.load([Module("slow/1")], there.kind)


def test_a_module_that_asks_gets_no_answer(there: ModuleSystem) -> None:
    there.write("asks/1", "setenv ANSWER [gets stdin]")
    assert modules.load([Module("asks/1")], there.kind).record.sets["ANSWER"] == ""


@pytest.mark.parametrize("name", ["", "a b", "a\nb", 'a"b', "a;b", "$(touch x)", "--version"])
def test_what_is_no_name_of_a_module_is_not_tried(monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    monkeypatch.setattr(modules, "_shell", None)
    with pytest.raises(BadInput) as refusal:
        modules.load([Module(name)], "lmod")
    assert str(refusal.value) == f"{name!r} is no name of a module: give one as 'module avail' lists it."


def test_nor_is_a_folder_that_a_script_cannot_name(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(modules, "_shell", None)
    with pytest.raises(BadInput, match=r"^the folder of modulefiles '/opt/my modules' has characters "):
        modules.load([Module("a/1", path="/opt/my modules")], "lmod")

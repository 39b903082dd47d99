"""The modulefiles that are written, loaded by real Lmod and Environment Modules."""

import pytest

import module_systems
from mpibench_tune import documents

#: Values that no module system may touch.
VARIABLES = {
    "MPIBENCH_PLAIN": "shm:ofi",
    "MPIBENCH_ODD": "1:0-4096;2:4097-  $(touch made)`id`$HOME ${HOME} \"x\" 'y' \\ [exit] {b} } "
    "& | * # %n",
    "MPIBENCH_LIST": "[0x1,0x2]",
}
TITLE = "stack on system: fabric $x, as [measured]"
LINES = ["proven by 3 jobs {", "back\\slash", 'it "brings" 1.30 times']


@pytest.fixture(
    params=[
        (kind, form)
        for kind in module_systems.KINDS
        for form in ("tcl", "lua")
        if (kind, form) != ("envmod", "lua")
    ]
)
def there(request, tmp_path, monkeypatch):
    """A module system with the file ``settings/1`` in one of the forms it reads."""
    kind, form = request.param
    found = module_systems.set_up(kind, tmp_path / "site")
    module_systems.enter(found, monkeypatch)
    path = found.tree / "settings" / ("1.lua" if form == "lua" else "1")
    path.parent.mkdir()
    path.write_text(getattr(documents, form)(TITLE, LINES, VARIABLES))
    return found


def test_every_value_arrives_as_it_is_and_goes_again(there, tmp_path):
    shown = " ".join(f'"${{{name}-unset}}"' for name in VARIABLES)
    script = (
        f"cd {tmp_path}; module load settings/1; printf '%s\\0' {shown}; module unload "
        f"settings/1; printf '%s\\0' {shown}"
    )
    done = there.shell(script)
    assert done.returncode == 0, done.stderr
    assert done.stdout.split("\0")[:-1] == [*VARIABLES.values(), *["unset"] * len(VARIABLES)], (
        done.stderr
    )
    assert not (tmp_path / "made").exists()

"""``mpibench manual`` as its user meets it: a manual page that groff takes without a warning."""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
from importlib import metadata
from pathlib import Path

#: Macros of man(7) that the page uses; a line of text never begins like one.
MACROS = re.compile(r"\.(TH|SH|SS|PP|TP|B) ?.*")


def test_it_is_good_roff() -> None:
    command = Path(sys.executable).parent / "mpibench"
    page = subprocess.run([command, "manual"], capture_output=True, text=True, check=True).stdout
    lines = page.splitlines()
    assert len(lines) > 400
    assert [line for line in lines if line.startswith((".", "'")) and not MACROS.fullmatch(line)] == []
    assert set(re.findall(r"\\[^-]", page)) <= {r"\f", r"\e", r"\(", r"\&"}
    if shutil.which("groff"):  # not part of a minimal Debian
        done = subprocess.run(["groff", "-man", "-ww", "-Tascii", "-P-cbou"], input=page, capture_output=True, text=True)
        assert (done.returncode, done.stderr) == (0, "")
        assert f"mpibench {metadata.version('mpibench')}" in done.stdout
        assert "mpibench gate [OPTIONS]" in done.stdout and "--max-age <float range>" in done.stdout


def test_completion_names_the_commands(tmp_path: Path) -> None:
    """As bash asks for it: the words of the line, and which of them is completed."""
    command = Path(sys.executable).parent / "mpibench"
    environ = {"PATH": "/usr/bin:/bin", "HOME": str(tmp_path), "_MPIBENCH_COMPLETE": "complete_bash"}
    asked = {"mpibench ga": ("1", {"gate"}), "mpibench gate --max": ("2", {"--max-age"})}
    for line, (word, wanted) in asked.items():
        done = subprocess.run(
            [command], env={**environ, "COMP_WORDS": line, "COMP_CWORD": word}, capture_output=True, text=True
        )
        assert wanted <= set(done.stdout.split()), (line, done.stdout, done.stderr)

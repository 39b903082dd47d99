"""Two stacks interleaved in one job: what the job's shell makes of it."""

from __future__ import annotations

import subprocess
from pathlib import Path

from reframe_tests.harness.cases.job import interleaved, script
from synthetic_conditions import simple_condition


def test_the_paired_stack_leaves_the_jobs_stack_and_enters_its_own(tmp_path: Path) -> None:
    own = simple_condition({"OWN": "1", "BOTH": "own"}, {"LIBS": ("/own/a", "/own/b"), "ONLY": ("/own",)}, {"OWN_DEBUG": "x"})
    theirs = simple_condition(
        {"BOTH": "it's $theirs"}, {"LIBS": ("/their libs",), "MORE": ("/more",)}, {"LOG": f"a={script.DEBUG_FILE}"}
    )
    command = script.Command(
        "rival_p",
        ["env"],
        ["sh", "-c", 'env | grep -E "^(OWN|BOTH|LIBS|ONLY|MORE|OWN_DEBUG|LOG)="'],
        interleaved._enter("rival_p", own, theirs),
    )
    body = script.write_body([command], repeats=2, limit_s=60, recorder="", debug_env={"OWN_DEBUG": "y"})
    head = ["export OWN=1 BOTH=own LIBS=/own/a:/own/b:/site ONLY=/own", "unset MORE"]
    done = subprocess.run(
        ["bash", "-c", "\n".join([*head, *body, "measure"])], cwd=tmp_path, capture_output=True, text=True, timeout=60
    )
    assert (done.returncode, done.stderr) == (0, "")
    said = dict(line.split("=", 1) for line in (tmp_path / "rival_p.2.out").read_text().splitlines())
    log = f"a={tmp_path}/rival_p.2.debug"
    assert said == {"BOTH": "it's $theirs", "LIBS": "/their libs:/site", "ONLY": "", "MORE": "/more", "LOG": log}

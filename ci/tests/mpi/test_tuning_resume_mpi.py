"""A tuning that is killed goes on: what was measured is kept
as it is, and nothing of it runs on.
"""

import fcntl
import json
import re

from mpibench_tune.tuning import NOTHING_BETTER
from programs import wait_for
from synthetic_tuning import TuningProject

STACK = "mpich-wheels"
WORDS = f"tune --system=generic --stack {STACK} --fabric shm --ppn 2 --level smoke --budget 2m"
LIMIT_S = 400


def is_free(lock):
    """Whether nothing that the killed command started is left: each inherited its lock."""
    with lock.open() as opened:
        try:
            fcntl.flock(opened, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return False
    return True


def test_a_killed_tuning_goes_on_after_its_last_whole_round(tmp_path, require_stack):
    require_stack(STACK)
    project = TuningProject(tmp_path / "project")
    words = (*WORDS.split(), "--collective", "Alltoall=pairwise,brucks")
    folder = project.folder("generic", STACK) / "shm_nn_1_np_2_ppn_2_bunch"
    first = project.begin(*words)
    assert wait_for(lambda: (folder / "state.json").exists() or first.poll() is not None, LIMIT_S)
    first.kill()
    said, _ = first.communicate(timeout=60)
    assert (folder / "state.json").exists(), said
    lock = folder.parent / f".{folder.name}.lock"
    assert wait_for(lambda: is_free(lock), LIMIT_S), "something of it is still at work"
    kept = json.loads((folder / "state.json").read_text())["rounds"]
    reports = {each["report"]: (folder / each["report"]).read_bytes() for each in kept}

    status, said = project.run(*words)
    # On a busy machine the budget ends before the proof.
    assert status in (0, NOTHING_BETTER) or "not finished within the budget" in said, said
    seconds = sum(each["seconds"] for each in kept)
    assert (
        said.splitlines()[0] == f"continuing after {len(kept)} rounds, which took {seconds:.0f} s"
    ), said
    assert not re.search(r"^round 1:", said, re.M), "it is not measured again"
    after = json.loads((folder / "state.json").read_text())["rounds"]
    assert after[: len(kept)] == kept
    assert {name: (folder / name).read_bytes() for name in reports} == reports

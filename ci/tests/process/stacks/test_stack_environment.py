"""A stack's environment in a shell and in a job script of ReFrame."""

import json
import os
import sys
from pathlib import Path

from hypothesis import given, settings
from hypothesis import strategies as st

from programs import finished
from reframe_tests.harness.stacks import metadata
from synthetic_stack import change, configuration_of, write_stack


def variables(printed):
    """What ``env -0`` printed, by name."""
    return dict(row.split("=", 1) for row in printed.split("\0")[:-1])


def exported(environment, before):
    """The variables of a bash after ``export NAME=VALUE`` lines as
    ReFrame writes them into a job script.
    """
    lines = [f"export {name}={value}" for name, value in environment["env_vars"]]
    script = "\n".join([*lines, "exec /usr/bin/env -0"])
    return variables(finished("/bin/bash", "-c", script, env=before).stdout)


TEXT = st.text(
    st.characters(codec="utf-8", exclude_categories=("C", "Zl", "Zp"), exclude_characters="`"),
    max_size=30,
).filter(lambda text: "$(" not in text)


FOLDER = TEXT.map(lambda text: "/" + text.replace(":", "_"))


@settings(max_examples=40)
@given(
    value=TEXT,
    folders=st.lists(FOLDER, min_size=1, max_size=3),
    before=st.sampled_from(["", "/old", "/o d:/$HOME"]),
)
def test_what_the_shell_sets_is_what_entering_a_stack_sets(value, folders, before):
    document = change("env_vars", {"VALUE": value}) | {
        "prepend_path": {"PATH": folders, "SOME_PATH": folders}
    }
    stack = metadata.parse(document, "/x")
    start = {"PATH": "/usr/bin:/with space", "LC_ALL": "C.UTF-8"}
    if before:
        start["SOME_PATH"] = before
    inside = exported(metadata.environment_of(stack), start)
    entered = metadata.enter(stack, start)
    assert {name: inside[name] for name in entered} == entered
    assert inside["SOME_PATH"] == ":".join([*folders, *filter(None, [before])])


PROBE = """
import reframe as rfm
from reframe.core.builtins import sanity_function


@rfm.simple_test
class Probe(rfm.RunOnlyRegressionTest):
    valid_systems = ['*']
    valid_prog_environs = ['+imb +abi_mpich %mpi=mpich']
    executable = '/usr/bin/env -0'

    @sanity_function
    def check(self):
        return True
"""


def test_environment_survives_in_a_job_script_of_reframe(tmp_path):
    """The whole way: configuration, ReFrame, generated script,
    shell; in a folder that needs quoting.
    """
    source = write_stack(
        tmp_path / 'it\'s a $HOME "stack"', env_vars={"LITERAL": "a b $HOME ' \" \\ ; # *"}
    )
    stack = metadata.read(source)
    configuration = configuration_of(stack, prefix=str(tmp_path))
    (tmp_path / "settings.json").write_text(json.dumps(configuration))
    (tmp_path / "probe.py").write_text(PROBE)
    before = {"PATH": os.environ["PATH"], "HOME": str(tmp_path), "LD_LIBRARY_PATH": "/old"}
    words = "-C settings.json -c probe.py -r --keep-stage-files"
    reframe = Path(sys.executable).with_name("reframe")
    done = finished(reframe, *words.split(), cwd=tmp_path, env=before)
    assert done.returncode == 0, done.stdout + done.stderr
    (output,) = (tmp_path / "stage").rglob("rfm_job.out")
    inside = variables(output.read_text())
    entered = metadata.enter(stack, before)
    assert {name: inside[name] for name in entered} == entered

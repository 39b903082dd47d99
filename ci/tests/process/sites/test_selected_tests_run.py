"""ReFrame ends with one sentence and status 1 where a typo, or
options that exclude each other, select nothing.
"""

import pytest


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        ("-l -n PointToPoit", "-n PointToPoit fits no test: there are ImbMessageSources, "),
        ("-r -S levl=smoke", "-S levl=smoke has no effect: no test has a variable 'levl'"),
        ("-r -S repeats=0", "-S repeats=0 would measure nothing; give 1 or more."),
        ("-l -n ImbMessageSources --mode=smoke", "-t smoke of --mode=smoke fits no test that the"),
        ("-l -E nosuch==1", "-E nosuch==1 fits no test: parameters are "),
        ("-l -p nosuch-stack", "-p nosuch-stack matches no usable stack"),
    ],
)
def test_what_selects_nothing_is_one_red_sentence(run_reframe, options, sentence):
    result = run_reframe(words=options, only="point_to_point.py", ended=1)
    output = result.stdout + result.stderr
    marks = ("ERROR", "error while evaluating", sentence)
    errors = [line for line in output.splitlines() if any(mark in line for mark in marks)]
    assert len(errors) == 1 and sentence in errors[0], output
    assert "PASSED" not in output and "Found 0" not in output and "Traceback" not in output

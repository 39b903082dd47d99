"""Published curves beside measured ones: which are chosen, how they are
divided, and that none is taken for a measurement.
"""

import pytest

from mpibench.store import sessions
from mpibench_tune import published
from reframe_tests.harness.vocabulary import BadInput
from synthetic_session import changed
from synthetic_tuning import SOURCE, chosen, published_session


def test_the_site_says_what_a_fabric_stands_beside():
    session = published_session()
    assert published.choose(session) == [], "its system is not described here"
    cases = tuple(changed(case, system="minicluster") for case in session.cases)
    there = sessions.Session(session.info, cases)
    assert published.choose(there) == chosen(session), (
        "each data set once, whatever the number of partitions"
    )
    [other, *_] = published.choose(there, ["eth1g=openhpc-mini/opa100"])
    assert other.source == "openhpc-mini/opa100", "the command line wins"


@pytest.mark.parametrize("given", ["eth1g=openhpc-mini/eth10g", "eth1g=no/eth1g", f"eth2={SOURCE}"])
def test_a_choice_of_nothing_is_refused(given):
    with pytest.raises(BadInput):
        published.choose(published_session(), [given])


def test_the_terminal_says_the_range():
    session = published_session()
    [first, *_] = published.beside_lines(session, chosen(session))
    assert "PingPong latency is 2.00 to 2.00 times that of openhpc-mini/eth1g (24 sizes)" in first

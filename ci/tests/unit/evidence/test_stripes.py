"""Whether every rail of a striped fabric carried its share."""

from dataclasses import replace

import pytest

from reframe_tests.harness.evidence import traffic
from reframe_tests.harness.machine.fabric import Fabric, Rail
from synthetic_evidence import counted, exchange, make_rank

GB = 10**9
TWO = Fabric("two", "tcp", "cluster", (Rail("eth1", 1.0), Rail("eth2", 1.0)), striped=True)
UNLIKE = replace(TWO, rails=(Rail("eth1", 1.0), Rail("eth2", 3.0)))


@pytest.mark.parametrize(
    ("fabric", "sent", "idle"),
    [
        (TWO, {"eth1": 1.4 * GB, "eth2": 0.6 * GB}, []),
        (TWO, {"eth1": 1.6 * GB, "eth2": 0.4 * GB}, ["eth2"]),
        (UNLIKE, {"eth1": 0.4 * GB, "eth2": 1.6 * GB}, []),
        (UNLIKE, {"eth1": 1.5 * GB, "eth2": 0.5 * GB}, ["eth2"]),
        (
            replace(UNLIKE, rails=(Rail("eth1"), Rail("eth2", 3.0))),
            {"eth1": 0.4 * GB, "eth2": 1.6 * GB},
            ["eth1"],
        ),
        (replace(TWO, striped=False), {"eth1": 0.0, "eth2": 2.0 * GB}, []),
    ],
)
def test_a_rail_below_half_of_its_share_is_named(fabric, sent, idle):
    """A share is that of the rail's rate; without rates all are alike."""
    said = traffic.check_stripes(exchange(sent), fabric, 2 * GB).sentences
    assert [text.split("rails, but ")[1].split()[0] for text in said] == idle


TURNS = (
    "all rails of two carried their share, but counters do not show whether each message was split "
    "or whole messages alternated: no message sent alone was faster than one rail"
)


BOTH = {"eth1": 1.0 * GB, "eth2": 1.0 * GB}


@pytest.mark.parametrize("alone", [None, 124.9])
def test_whole_messages_that_took_the_rails_in_turn_leave_the_same_counters(
    alone,
):
    """1 Gbit/s is 125 MB/s: what stays below may have been whole."""
    found = traffic.check_stripes(exchange(BOTH), TWO, 2 * GB, alone)
    assert (found.sentences, found.notes) == ([], [TURNS])


def test_a_message_alone_that_is_faster_than_one_rail_was_split():
    assert traffic.check_stripes(exchange(BOTH), TWO, 2 * GB, 220.0).notes == [
        "each message was split over the rails of two: single messages reached 1.76 Gbit/s, but "
        "its fastest rail has 1"
    ]
    unrated = replace(TWO, rails=(Rail("eth1"), Rail("eth2")))
    # One of 3 Gbit/s takes 375 MB/s alone.
    for fabric, alone in ((UNLIKE, 370.0), (unrated, 1e6)):
        assert "counters do not show" in traffic.describe_splitting(fabric, alone)


@pytest.mark.parametrize(
    ("striped_bytes", "note"),
    [
        (2 * GB, ""),  # of an idle rail's splitting there is nothing to say
        (1e6, "striping of two is not shown: no pairs of ranks exchanged enough messages of 1"),
    ],
)
def test_small_messages_say_nothing_about_striping(striped_bytes, note):
    idle = exchange({"eth1": 2.0 * GB, "eth2": 0.0})
    found = traffic.check_stripes(idle, TWO, striped_bytes, 220.0)
    assert bool(found.sentences) != bool(note)
    assert [text.startswith(note) for text in found.notes] == [True] * bool(note)


def node(number, host, **sent):
    """The only rank of a node whose interfaces sent so many bytes."""
    return make_rank(
        number,
        host,
        init__interfaces=dict.fromkeys(sent, counted(0)),
        finalize__interfaces={name: counted(count) for name, count in sent.items()},
    )


def test_nodes_that_each_use_another_rail_do_not_stripe():
    """Their sums are alike."""
    crossed = [node(0, "c1", eth1=GB, eth2=0), node(1, "c2", eth1=0, eth2=GB)]
    said = traffic.check_stripes(crossed, TWO, 2 * GB).sentences
    assert [text.split("on ")[1].split()[0] for text in said] == ["c1", "c2"]


def test_a_node_that_only_acknowledges_is_not_judged():
    ranks = [node(0, "c1", eth1=GB, eth2=GB), node(1, "c2", eth1=2e7, eth2=0)]
    assert traffic.check_stripes(ranks, TWO, 2 * GB).sentences == []

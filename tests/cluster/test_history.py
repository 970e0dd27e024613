"""The checker of histories itself: it must see what it is there for."""

from harness import History, Promise
from harness.client import Limit
from harness.load import Answer


class Told:
    """A load that ran in somebody's imagination: 10 items a batch, limit 25 for each key."""

    def __init__(self, *answers, unanswered=(), refusals=()):
        self.keys = ["a", "b"]
        self.limit = Limit(25)
        self.answers = [Answer(at, key, allowed, 10, undecided, node, at - 0.5, tries, degraded, 0)
                        for at, key, allowed, undecided, node, tries, degraded in answers]
        self.unanswered = list(unanswered)
        self.refusals = list(refusals)
        self.turned_away = [0]

    def all(self):
        return self.answers


GOOD = [(1.0, "a", 10, 0, "n1", 1, 0), (2.0, "a", 10, 0, "n1", 1, 0), (3.0, "a", 5, 0, "n2", 1, 10)]


# What keeps every promise gets no complaint, and its figures are right.
def test_a_history_that_keeps_its_promises_is_accepted():
    history = History(Told(*GOOD))
    assert history.complaints(Promise(pause_ms=1000, undecided=0), {"a": 25, "b": 0}) == []
    key = history.keys["a"]
    assert (key.admitted, key.denied, key.degraded, key.excess) == (25, 5, 10, 0)
    assert history.pause_ms() == 1000 and history.pause_ms(0.0, 9.0) == 6000
    assert history.latencies_ms() == [500, 500, 500]
    assert "admitted 25" in history.summary()


# One item too many is seen, and only as many as were promised are forgiven.
def test_an_excess_is_seen():
    history = History(Told(*GOOD, (4.0, "a", 1, 0, "n2", 1, 0)))
    assert any("excess 1" in complaint for complaint in history.complaints(Promise()))
    assert history.complaints(Promise(excess=1)) == []
    assert history.complaints(Promise(excess=lambda key: 1 if key == "a" else 0)) == []
    assert history.complaints(Promise(excess=None)) == []


# A count that went away is seen, also when the key is beyond its limit anyway.
def test_a_lost_count_is_seen():
    history = History(Told(*GOOD))
    assert any("lost 1" in complaint for complaint in history.complaints(Promise(), {"a": 24, "b": 0}))
    assert history.complaints(Promise(lost=1), {"a": 24, "b": 0}) == []


# More may be counted than was admitted only by what was asked again or never answered.
def test_a_double_charge_needs_a_repetition():
    counted = {"a": 25, "b": 10}
    assert any("10 counted" in complaint
               for complaint in History(Told(*GOOD)).complaints(Promise(), counted))
    asked_again = (4.0, "b", 0, 0, "n2", 2, 0)
    assert History(Told(*GOOD, asked_again)).complaints(Promise(), counted) == []
    silent = [(4.0, "b", 10, 1)]
    assert History(Told(*GOOD, unanswered=silent)).complaints(Promise(), counted) == []
    assert History(Told(*GOOD)).complaints(Promise(twice=10), counted) == []


# Silence, refusals and undecided items are complaints of their own.
def test_silence_and_errors_are_seen():
    history = History(Told(*GOOD, (9.0, "b", 0, 3, "n1", 1, 0), refusals=[(-8, "busy")]))
    found = history.complaints(Promise(pause_ms=1000, undecided=2))
    assert len(found) == 3, found
    assert history.complaints(Promise(pause_ms=6000, refusals=1, undecided=3)) == []


# What a dying node answered in its last moments is what may be admitted again.
def test_last_moments_are_counted_by_node_and_time():
    history = History(Told(*GOOD))
    assert history.last_moments([("n1", 2.01, 2.02)])["a"] == 10
    assert history.last_moments([("n2", 2.01, 2.02)])["a"] == 0
    assert history.last_moments([("n1", 1.5, 1.6)])["a"] == 0
    assert history.last_moments([("n1", 0.5, 2.1)])["a"] == 20

"""Histories of single checks, judged one by one: does a key behave as one counter?"""

from harness import History, Load, wait_for
from harness.client import long_limit
from harness.load import Answer
from test_history import Told

LIMIT = 120


class Single(Told):
    """Imagined answers about single checks."""

    def __init__(self, *checks):
        super().__init__()
        self.answers = [self.one(*check) for check in checks]

    @staticmethod
    def one(sent, at, allowed, used):
        return Answer(at, "a", allowed, 1, 0, "n1", sent, 1, 0, used)


# The way from answers to the judge and back works, and tells right from wrong.
def test_the_judge_sees_an_answer_that_no_order_explains():
    right = History(Single((1.0, 5.0, 1, 1), (2.0, 6.0, 1, 2), (7.0, 8.0, 1, 3)))
    assert right.linearizable()[0] == {"a": "ok"}
    stale = History(Single((1.0, 2.0, 1, 1), (3.0, 4.0, 1, 2), (5.0, 6.0, 1, 2)))
    assert stale.linearizable()[0]["a"].startswith("broken")


# With all nodes up, consistency one is one counter a key as well, through whichever node it is asked.
def test_checks_of_a_healthy_cluster_are_linearizable(trio, measured):
    keys = [f"single-{number}" for number in range(6)]
    with Load(trio.endpoints, keys, long_limit(LIMIT, "fixed_window"), threads=3, batch=1,
              window=2) as load:
        wait_for(lambda: load.count() > 2 * LIMIT * len(keys), 20, "more than all was asked for")
    history = History(load)
    verdicts, text = history.linearizable()
    measured("single checks judged", f"{history.summary()}; {sorted(set(verdicts.values()))}")
    assert set(verdicts.values()) == {"ok"}, text[:4000]

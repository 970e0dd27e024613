"""Histories of single checks, judged one by one: does a key behave as one counter?"""

import subprocess
import time

import pytest

from harness import History, Load, wait_for
from harness.client import long_limit
from harness.history import judge_program
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
    right = History(Single((1.000, 1.005, 1, 1), (1.002, 1.006, 1, 2), (1.007, 1.008, 1, 3)))
    assert right.linearizable()[0] == {"a": "ok"}
    stale = History(Single((1.000, 1.001, 1, 1), (1.003, 1.004, 1, 2), (1.005, 1.006, 1, 2)))
    assert stale.linearizable()[0]["a"].startswith("broken")


# An answer that took so long that a node may have asked again tells the count of a later moment.
def test_the_judge_takes_no_count_from_an_answer_that_may_be_a_repetition():
    slow = History(Single((1.0, 1.001, 1, 1), (2.0, 2.06, 1, 3), (2.001, 2.06, 1, 3), (3.0, 3.001, 1, 4)))
    assert slow.linearizable()[0] == {"a": "ok"}


# Of three histories of a limit of 2 that no counter can have, each is rejected at the operation that
# cannot be explained, and accepted when that one is put right. The keys behind it are judged by
# themselves.
@pytest.mark.parametrize("wrong, right", [
    # the third of two is admitted
    (["0 10 1 1 - 0", "20 30 1 1 - 0", "40 50 1 1 - 0"], "40 50 1 0 - 0"),
    # one is left, and is denied
    (["0 10 1 1 - 0", "20 30 1 0 - 0"], "20 30 1 1 - 0"),
    # what was told before is not counted any more
    (["0 10 1 1 1 0", "20 30 1 1 1 0"], "20 30 1 1 2 0"),
])
def test_the_judge_rejects_what_no_counter_can_have_said(wrong, right):
    for last, verdict, status in ((wrong[-1], f"a broken at {len(wrong) + 1}", 1), (right, "a ok", 0)):
        checks = "".join(f"op {check}\n" for check in wrong[:-1] + [last])
        others = "key b 2\nop 0 10 1 1 1 0\nkey c 2\nop 0 10 1 1 1 0\n"
        done = subprocess.run([judge_program()], input=f"key a 2\n{checks}{others}",
                              capture_output=True, text=True, timeout=120, check=False)
        assert done.stdout.splitlines() == [verdict, "b ok", "c ok"]
        assert done.returncode == status


# A check without an answer may have been counted, or not: either explains what others were told.
def test_the_judge_forgives_what_was_never_answered():
    for told in (1, 2):
        text = f"key a 2\nop 0 - 1 0 - 0\nop 20 30 1 1 {told} 0\n"
        done = subprocess.run([judge_program()], input=text, capture_output=True, text=True, timeout=120,
                              check=False)
        assert (done.stdout, done.returncode) == ("a ok\n", 0)


# A line that is no check is bad input, not a history that is all right.
def test_the_judge_refuses_what_it_cannot_read():
    for line in ("op 0 10 1 2 - 0", "op 0 x 1 1 - 0", "op 0 10 1 1", "check 0 10 1 1 - 0"):
        done = subprocess.run([judge_program()], input=f"key a 2\n{line}\n", capture_output=True,
                              text=True, timeout=120, check=False)
        assert done.returncode == 3 and "line 2" in done.stderr


# With all nodes up, consistency one is one counter a key as well, through whichever node it is asked.
@pytest.mark.undisturbed
def test_checks_of_a_healthy_cluster_are_linearizable(trio, measured):
    keys = [f"single-{number}-{time.time_ns()}" for number in range(6)]
    with Load(trio.endpoints, keys, long_limit(LIMIT, "fixed_window"), threads=3, batch=1,
              window=2) as load:
        wait_for(lambda: load.count() > 2 * LIMIT * len(keys), 60, "more than all was asked for")
    history = History(load)
    verdicts, text = history.linearizable()
    measured("single checks judged", f"{history.summary()}; {sorted(set(verdicts.values()))}")
    assert set(verdicts.values()) == {"ok"}, text[:4000]

"""Nodes that lose sight of each other: cuts between network namespaces, both ways, one way, on and off.

Clients reach every node all the time, so each side of a split is asked for more than it may allow.
60 of 100 are used, and a majority of the replicas holds that, before the network is cut. What is
promised then for consistency `one`: each side admits at most one limit, and a side with a majority
at most what was left of it; an answer behind which no majority stands says `degraded`; after the
heal nothing more is admitted.
"""

import collections
import threading
import time

import pytest

from harness import Cluster, History, Load, Stopwatch, scaled, wait_for
from harness.client import ALGORITHMS, long_limit
from harness.cluster import Until
from harness.network import Network, why_not
from harness.waiting import halts

LIMIT = 100
USED = 60
KEYS = 12
VNODES = 4096
NOTICED_S = 0.3  # until a node knows that others are gone: from then on answers are degraded


@pytest.fixture(scope="module")
def cut_off(tmp_path_factory):
    """Three nodes, each in a namespace of its own."""
    missing = why_not()
    if missing:
        pytest.skip(missing)
    with Network(3) as network, \
            Cluster(tmp_path_factory.mktemp("split"), 3, network=network) as cluster:
        yield cluster.start()


@pytest.fixture
def apart(cut_off):
    """The same, whole again after each test."""
    for node in cut_off:
        if not node.is_running:  # left by a test that failed
            node.start()
    cut_off.wait_healthy(30)
    yield cut_off
    cut_off.network.heal()


class Side:
    """A client that asks its nodes for all keys until they deny, and on."""

    def __init__(self, cluster, numbers, keys, limit):
        self.name = "+".join(cluster[number].name for number in numbers)
        self.load = Load([cluster[number].endpoint for number in numbers], keys, limit, threads=1,
                         batch=2, window=4, pace_s=0.005)

    def exhausted(self):
        """Whether each key's last answer here was a denial."""
        last = {answer.key: answer for answer in self.load.all()}
        return len(last) == len(self.load.keys) and \
            all(answer.allowed == 0 and answer.undecided == 0 for answer in last.values())


def use_up_to(cluster, share, prefix):
    """Keys of which `share` is used and replicated."""
    limit = long_limit(LIMIT)
    keys = [f"{prefix}-{number}-{time.time_ns()}" for number in range(KEYS)]
    with cluster.client() as client:
        assert all(answer.allowed for answer in client.ask(keys, limit, cost=share))
    cluster.wait_replicated()
    return keys, limit


def ask_all_sides(cluster, sides, keys, limit, measured, what, after_s=0.0):
    """Loads at every side until all keys are denied everywhere; what each side admitted."""
    asked = [Side(cluster, numbers, keys, limit) for numbers in sides]
    watch = Stopwatch()
    for side in asked:
        side.load.__enter__()
    try:
        wait_for(lambda: watch.ms > after_s * 1000 and all(side.exhausted() for side in asked), 60,
                 f"{what}: every key is denied on every side", 0.05)
    finally:
        for side in asked:
            side.load.stop()
    histories = [History(side.load) for side in asked]
    for side, history in zip(asked, histories):
        first = (history.answers[0].at - watch.start) * 1000 if history.answers else None
        measured(f"{what}: side {side.name}", f"first answer after {first:.0f} ms; {history.summary()}")
    return histories


def judge_sides(histories, sides):
    """No side admits more than one limit, and none with a majority more than was left."""
    for history, side in zip(histories, sides):
        most = LIMIT - USED if len(side) > 1 else LIMIT
        for key in history.keys.values():
            assert key.admitted <= most, f"{key.key}: side {side} admitted {key.admitted} of {most}"


def judge_total(histories, most, measured, what):
    """All sides together: where frames still pass in one direction, a client's side is not always
    the side that decided."""
    total = {key: sum(history.keys[key].admitted for history in histories)
             for key in histories[0].keys}
    measured(f"{what}: admitted of each key", f"{sorted(total.values())}, at most {most}")
    assert max(total.values()) <= most, total


def heal_and_judge(cluster, keys, limit, measured, what):
    """Whole again, and what all sides used up stays used up."""
    cluster.network.heal()
    watch = Stopwatch()
    cluster.wait_healthy(60)
    measured(f"{what}: healthy again after", f"{watch.ms:.0f} ms")
    for at in range(3):
        with cluster.client(at) as client:
            assert not any(answer.allowed for answer in client.ask(keys, limit))


# Two nodes and one: each side decides, none above what was left, and the lone one says degraded.
def test_a_split_of_two_and_one_admits_at_most_one_limit_a_side(apart, measured):
    keys, limit = use_up_to(apart, USED, "two-one")
    sides = [[0, 1], [2]]
    cut = apart.network.split(*sides)
    histories = ask_all_sides(apart, sides, keys, limit, measured, "2|1", 1.0)
    judge_sides(histories, sides)
    alone = [answer for answer in histories[1].answers if answer.node == "n3"]
    noticed = cut + scaled(NOTICED_S)
    noticed += 2 * sum(halts.between(cut, noticed))
    lone = [answer for answer in alone if answer.at > noticed]
    assert lone and all(answer.degraded == answer.items for answer in lone), lone
    heal_and_judge(apart, keys, limit, measured, "2|1")


# Three nodes alone.
def test_a_split_into_three_admits_at_most_one_limit_a_side(apart, measured):
    keys, limit = use_up_to(apart, USED, "ones")
    sides = [[0], [1], [2]]
    apart.network.split(*sides)
    histories = ask_all_sides(apart, sides, keys, limit, measured, "1|1|1", 1.0)
    judge_sides(histories, sides)
    heal_and_judge(apart, keys, limit, measured, "1|1|1")


# What a node says is heard by nobody, or it hears nobody: two sides at most.
@pytest.mark.parametrize("mute", [pytest.param(True, id="mute"),
                                  pytest.param(False, id="deaf", marks=pytest.mark.slow)])
def test_a_node_cut_off_in_one_direction_makes_at_most_two_sides(apart, measured, mute):
    what = "mute" if mute else "deaf"
    keys, limit = use_up_to(apart, USED, what)
    for other in (0, 1):
        apart.network.cut(*((2, other) if mute else (other, 2)))
    histories = ask_all_sides(apart, [[0, 1], [2]], keys, limit, measured, what, 1.0)
    judge_total(histories, 2 * (LIMIT - USED), measured, what)
    heal_and_judge(apart, keys, limit, measured, what)


# A link that comes and goes: whatever happens, each key admits at most one limit a side.
@pytest.mark.slow
def test_a_link_that_flaps_admits_at_most_one_limit_a_side(apart, measured):
    keys, limit = use_up_to(apart, USED, "flap")
    stop = threading.Event()

    def flap():
        while not stop.is_set():
            apart.network.split([0, 1], [2])
            stop.wait(0.3)
            apart.network.heal()
            stop.wait(0.3)
    thread = threading.Thread(target=flap, daemon=True)
    thread.start()
    try:
        histories = ask_all_sides(apart, [[0, 1], [2]], keys, limit, measured, "flapping", 8.0)
    finally:
        stop.set()
        thread.join()
    judge_total(histories, 2 * (LIMIT - USED), measured, "flapping")
    heal_and_judge(apart, keys, limit, measured, "flapping")


def use(cluster, at, limits, cost):
    """Charges each key through one node, which must answer in the end."""
    for key, limit in limits.items():
        with cluster[at].client(attempt_s=5, deadline_s=10) as client:
            assert client.check(key, limit, cost=cost).allowed


TOTAL, MOST = 30 + 10 + 15, 30 + 2 * 10 + 2 * 15
LARGER = 30 + 15  # what the one side counts that used more


def use_both_sides(apart):
    """30 of each key, then 10 on one side of a split and 15 on the other."""
    limits = {f"{name}-{number}-{time.time_ns()}": long_limit(LIMIT, name)
              for name in ALGORITHMS for number in range(6)}
    use(apart, 0, limits, 30)
    apart.wait_replicated()
    apart.network.split([0, 1], [2])
    use(apart, 0, limits, 10)
    use(apart, 2, limits, 15)
    return limits


def judge_merge(apart, limits, measured, what, least=TOTAL):
    """All nodes count what both sides used, or `least` of it. A check that was on its way over the link when it was
    cut may arrive after the heal, and be charged a second time."""
    def used(at):
        with apart.client(at) as client:
            return {key: client.used(key, limit) for key, limit in limits.items()}
    wait_for(lambda: Until(sorted((key, count) for key, count in used(0).items()
                                  if not least <= count <= MOST)), 30, "both sides count", 0.1)
    counted = wait_for(lambda: (lambda one, two, three: one if one == two == three else None)(used(0), used(1), used(2)),
                       30, "all nodes tell the same")
    measured(f"{what}: used of each key", sorted(collections.Counter(counted.values()).items()))
    assert sum(count <= TOTAL for count in counted.values()) > len(limits) / 2
    with apart.client() as client:
        for key, count in counted.items():
            assert client.check(key, limits[key], cost=LIMIT, at_most=True).granted == LIMIT - count


# What both sides admitted counts after the heal: the sum of it, for every algorithm.
def test_what_both_sides_used_counts_after_the_heal(apart, measured):
    limits = use_both_sides(apart)
    apart.network.heal()
    watch = Stopwatch()
    apart.wait_healthy(60)
    measured("healthy again after", f"{watch.ms:.0f} ms")
    judge_merge(apart, limits, measured, "a split is merged")


# A node dies in the middle of the merge, on either side: what is merged by then may be forgotten with
# it, but nothing falls below what any side counts.
@pytest.mark.slow
@pytest.mark.parametrize("at,name", [
    (2, "diverged-before-send"), (2, "diverged-after-send"), (2, "merged-after-receive"),
    (0, "merged-before-send"), (1, "merged-before-send")])
def test_a_node_killed_in_the_middle_of_a_merge(apart, measured, at, name):
    victim = apart[at]
    victim.stop()
    victim.environment = {"TIDEGATE_FAILPOINT": f"{name}:1"}
    victim.start()
    victim.environment = {}
    apart.wait_healthy(30)
    # Until its vnodes are passed back, the restarted node has nothing to be deposed from.
    wait_for(lambda: victim.counter("vnodes_deciding") > VNODES / 6, 30, f"{victim} decides its share")
    limits = use_both_sides(apart)
    wait_for(lambda: all(node.status()["storage"]["flush_lag_ms"] == 0 for node in apart), 5,
             "everything is written back")
    apart.network.heal()
    try:
        wait_for(lambda: not victim.is_running, 20, f"{victim} dies at {name}")
    except AssertionError:
        victim.stop()  # else it dies in the middle of another test
        raise
    victim.start()
    apart.wait_healthy(60)
    judge_merge(apart, limits, measured, f"{victim} dies at {name}", LARGER)


# Nothing is asked for while the network is cut: nothing is lost, and nobody is dead for ever.
@pytest.mark.slow
def test_a_split_without_traffic_changes_nothing(apart, measured):
    keys, limit = use_up_to(apart, USED, "idle")
    apart.network.split([0], [1], [2])
    wait_for(lambda: all(node.members()[other.name]["state"] == "dead" for node in apart
                         for other in apart if other is not node), 40, "each is alone", 0.05)
    apart.network.heal()
    watch = Stopwatch()
    apart.wait_healthy(60)
    measured("a split that all noticed: healthy again after", f"{watch.ms:.0f} ms")
    for at in range(3):
        with apart.client(at) as client:
            assert set(client.all_used(keys, limit)) == {USED}
    assert watch.ms < scaled(60) * 1000

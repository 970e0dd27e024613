"""The limit that was written is the limit that is admitted, whichever nodes are asked."""

import collections
import random
import threading

import pytest

from harness import Client, Limit, Stopwatch, scaled
from harness.client import ALGORITHMS, DAY, FLAG_RETRY, long_limit

pytestmark = pytest.mark.undisturbed
CLIENTS = 8
CHECKS = 200
ATTEMPTS = 8


def fresh(prefix):
    """A key that no other test uses."""
    return f"{prefix}-{random.getrandbits(48):x}"


def hammer(cluster, key, limit, clients=CLIENTS, checks=CHECKS):
    """What concurrent clients, spread over the nodes, were answered to checks of one key."""
    answers = []
    failures = []

    def run(number):
        try:
            endpoints = [endpoint for node in cluster for endpoint in node.endpoints]
            first = number % len(endpoints)
            with Client(*(endpoints[first:] + endpoints[:first])) as client:
                answers.extend(client.check(key, limit) for _ in range(checks))
        except Exception as failure:  # told below: a thread must not fail in silence
            failures.append(repr(failure))

    threads = [threading.Thread(target=run, args=(number,)) for number in range(clients)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not failures, failures
    return answers


# Eight clients at three nodes compete for one key: the limit is met exactly by each algorithm.
@pytest.mark.smoke
@pytest.mark.parametrize("algorithm", ALGORITHMS)
def test_concurrent_clients_at_all_nodes_are_admitted_exactly_the_limit(trio, algorithm):
    answers = hammer(trio, fresh("exact"), long_limit(100, algorithm))
    assert len(answers) == CLIENTS * CHECKS
    assert {answer.outcome for answer in answers} == {"allow", "deny"}
    assert sum(answer.allowed for answer in answers) == 100


# The same on a cluster whose nodes have two deciding threads each.
def test_nodes_of_two_shards_admit_exactly_the_limit(new_cluster):
    cluster = new_cluster(3, shards=2).start()
    for algorithm in ALGORITHMS:
        for _ in range(2):
            answers = hammer(cluster, fresh("shards"), long_limit(100, algorithm), checks=60)
            assert sum(answer.allowed for answer in answers) == 100, algorithm
    with cluster[0].client() as client:
        members = client.ring()[6]
    assert [len(member[2]) for member in members] == [2, 2, 2]


# Keys of each node are asked at each node: the counts go on as if there were one.
def test_every_node_answers_for_every_key(trio):
    limit = long_limit(30)
    for decider in trio:
        for key in trio.keys_decided_by(decider.name, 3, fresh("any")):
            for number, asked in enumerate(trio.nodes * 10):
                with asked.client() as client:
                    answer = client.check(key, limit)
                assert answer.allowed and answer.used == number + 1, (asked, answer)
                assert answer.node == decider.name
            with trio[0].client() as client:
                assert not client.check(key, limit).allowed


# A batch of many keys is decided item by item, wherever each belongs; and in order, if no decider halts meanwhile.
def test_a_batch_of_keys_of_all_nodes_is_decided_item_by_item(trio):
    limit = long_limit(3)
    for _ in range(ATTEMPTS):
        keys = [fresh("batch") for _ in range(500)]
        with trio[1].client() as client:
            answers = client.ask(keys * 4, limit)
        assert collections.Counter(key for key, answer in zip(keys * 4, answers) if answer.allowed) == dict.fromkeys(keys, 3)
        assert {answer.node for answer in answers} == {"n1", "n2", "n3"}
        if [answer.allowed for answer in answers] == [True] * 1500 + [False] * 500:
            return
    raise AssertionError(f"in another order, {ATTEMPTS} times in a row")


# peek, hit, refund, reset and at_most mean the same at a node that does not decide.
def test_all_operations_work_through_a_node_that_does_not_decide(trio):
    limit = long_limit(10)
    key = trio.keys_decided_by("n1", 1, fresh("operations"))[0]
    with trio[2].client() as client:
        assert client.check(key, limit, cost=4).remaining == 6
        assert client.peek(key, limit, cost=7).allowed is False
        assert client.peek(key, limit, cost=6).allowed is True
        assert client.used(key, limit) == 4
        assert client.ask([key], limit, "hit", cost=9)[0].used >= 10
        assert client.check(key, limit).allowed is False
        assert client.ask([key], limit, "refund", cost=5)[0].allowed
        assert client.check(key, limit, cost=50, at_most=True).granted == 2
        assert client.ask([key], limit, "reset")[0].allowed
        assert client.used(key, limit) == 0
    assert trio.decider(key).name == "n1"


# A rate over a short window fills up again at its pace.
def test_a_bucket_fills_up_again_at_its_rate(trio):
    key = fresh("refill")
    limit = Limit(5, 1_000_000_000)
    with trio[0].client() as client:
        watch = Stopwatch()
        allowed = 0
        while allowed < 12:
            answer = client.check(key, limit)
            allowed += answer.allowed
            assert answer.allowed or 0 < answer.retry_after_ms <= 200, answer
            assert watch.ms < scaled(60) * 1000
        most = 5 + int(watch.ms * 5 / 1000) + 1
    assert allowed <= most


# The client that lost the answer asks again, and is answered what it was answered.
@pytest.mark.smoke
def test_a_retry_is_answered_as_before_and_charged_once(trio):
    limit = long_limit(10)
    for decider in trio:
        for key in trio.keys_decided_by(decider.name, 2, fresh("retry")):
            with decider.client() as client:
                seq = client.next_seq()
                first = client.ask([key], limit, cost=3, seq=seq)[0]
                again = client.ask([key], limit, cost=3, seq=seq, flags=FLAG_RETRY)[0]
                assert (first.allowed, first.used) == (True, 3)
                assert (again.allowed, again.granted, again.used) == (True, 3, 3)
                assert client.used(key, limit) == 3


# The same when the second attempt goes to another node, as after a lost connection.
def test_a_retry_through_another_node_is_charged_once(trio):
    limit = long_limit(10)
    for first_node in trio:
        for second_node in trio:
            if first_node is second_node:
                continue
            key = fresh("elsewhere")
            with first_node.client() as one, second_node.client(session=one.session) as other:
                seq = one.next_seq() + 1000
                assert one.ask([key], limit, cost=3, seq=seq)[0].used == 3
                again = other.ask([key], limit, cost=3, seq=seq, flags=FLAG_RETRY)[0]
                assert (again.allowed, again.used) == (True, 3)
                assert other.used(key, limit) == 3


# A denial is remembered too: a retry after tokens came back does not turn it round.
def test_a_retry_of_a_denial_is_denied_again(trio):
    limit = long_limit(2)
    for number, node in enumerate(trio):
        key = fresh("denied")
        with node.client() as one, trio[(number + 1) % 3].client(session=one.session) as other:
            assert one.check(key, limit, cost=2).allowed
            seq = one.next_seq() + 1000
            assert not one.ask([key], limit, seq=seq)[0].allowed
            assert one.ask([key], limit, "refund", cost=2)[0].allowed
            assert not other.ask([key], limit, seq=seq, flags=FLAG_RETRY)[0].allowed
            assert one.check(key, limit, cost=2).allowed


# A retry of a whole batch over keys of all nodes charges none of them again.
def test_a_retried_batch_charges_no_item_again(trio):
    keys = [fresh("many") for _ in range(200)]
    limit = Limit(5, DAY)
    with trio[0].client() as one, trio[1].client(session=one.session) as other:
        seq = one.next_seq() + 1000
        first = one.ask(keys, limit, seq=seq)
        again = other.ask(keys, limit, seq=seq, flags=FLAG_RETRY)
        assert [a.allowed for a in first] == [a.allowed for a in again] == [True] * 200
        assert set(one.all_used(keys, limit)) == {1}

"""Requests that meet several rules, whose keys are decided by different nodes."""

import collections
import random
import threading

import pytest

from harness import Client, Cluster, wait_for
from harness.client import FLAG_RETRY, long_window_h
from harness.waiting import is_slowed

pytestmark = pytest.mark.undisturbed
RULES = """\
rules:
  - {name: daily, match: {api: /feed}, key: [user], limits: [{rate: 100/24h}]}
  - {name: partition, match: {api: /feed}, key: [user, partition], limits: [{rate: 3/24h, algorithm: sliding_log}]}
  - {name: failures, match: {api: /login}, key: [user, ip], limits: [{rate: 5/h, algorithm: fixed_window, align: first}]}
  - name: signup
    match: {api: /signup}
    key: [phone]
    limits: [{rate: 5/100ms, algorithm: sliding_log}, {rate: 30/24h, algorithm: sliding_log}]
  - {name: per-user, match: {api: /pay}, key: [user], limits: [{rate: 40/24h}]}
  - {name: per-ip, match: {api: /pay}, key: [ip], limits: [{rate: 60/24h, algorithm: sliding_log}]}
  - name: per-team
    match: {api: /pay}
    key: [team]
    consistency: quorum
    limits: [{rate: 200/DAY, algorithm: sliding_window}]
""".replace("DAY", f"{long_window_h()}h")


@pytest.fixture(scope="module")
def ruled(tmp_path_factory):
    """Three nodes with these rules."""
    folder = tmp_path_factory.mktemp("several")
    (folder / "rules.yaml").write_text(RULES)
    with Cluster(folder, 3, "--rules", str(folder / "rules.yaml")) as cluster:
        yield cluster.start()


def fresh():
    return f"{random.getrandbits(48):x}"


def used(client, **attributes):
    """What is charged to the one rule that these attributes meet."""
    return client.rules(attributes, operation="peek", cost=0).used


def at_all_nodes(cluster, run, count=6):
    """Runs run(number, client) in so many threads, each at another node first."""
    failures = []

    def one(number):
        try:
            with cluster.client(number % 3) as client:
                run(number, client)
        except Exception as failure:  # told below: a thread must not fail in silence
            failures.append(repr(failure))

    threads = [threading.Thread(target=one, args=(number,)) for number in range(count)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not failures, failures


def counted(cluster):
    """What tells how requests of several parts went, for whom their sum is wrong."""
    return {name: [node.counter(name) for node in cluster]
            for name in ("several", "undone", "undo_resent", "undo_lost", "undo_unknown", "resent",
                         "moved", "retries_recalled", "takeovers", "terms_opened", "stalls")}


def undo_lost(cluster):
    return sum(node.counter("undo_lost") for node in cluster)


def settle(cluster, lost_before):
    wait_for(lambda: all(node.counter("parts_waiting") == 0 for node in cluster), 20,
             "nothing waits to be undone")
    assert undo_lost(cluster) == lost_before, counted(cluster)


# 5 in a short while and 30 a day on one phone: never more than 5 of a burst, and the 31st of the
# day is denied by the second limit. What the first denied was not charged to the second, or that
# would be met before.
def test_the_31st_of_the_day_is_denied_by_the_second_limit(ruled):
    phone = fresh()
    allowed = []

    def denied_for_the_day():
        with ruled.client() as client:
            answers = [client.rules({"api": "/signup", "phone": phone}) for _ in range(7)]
        allowed.extend(answer for answer in answers if answer.allowed)
        return answers[-1].window.startswith("30/") and not answers[-1].allowed
    wait_for(denied_for_the_day, 60, "the second limit denies", 0.03)
    assert len(allowed) == 30


# 100 a day for a user, and 3 for each partition of it: whatever is asked for at once at three
# nodes, the user gets 100, a partition 3, and each counter holds what was allowed.
def test_a_user_and_its_partitions_hold_together(ruled):
    user = fresh()
    allowed = collections.Counter()
    rules = collections.Counter()
    lock = threading.Lock()
    names = ["api", "user", "partition"]

    def run(number, client):
        rng = random.Random(number)
        parts = [f"p{part}" for part in range(40)]
        for _ in range(3):
            rng.shuffle(parts)
            answers = client.ask([("/feed", user, part) for part in parts], names)
            with lock:
                allowed.update(part for part, answer in zip(parts, answers) if answer.allowed)
                rules.update(answer.rule for answer in answers if not answer.allowed)

    lost = undo_lost(ruled)
    at_all_nodes(ruled, run)
    settle(ruled, lost)
    assert set(rules) == {"daily", "partition"}
    with ruled.client() as client:
        # A reservation may have denied another request meanwhile: what is left can be had.
        for part in range(40):
            while sum(allowed.values()) < 100 and client.rules(
                    {"api": "/feed", "user": user, "partition": f"p{part}"}).allowed:
                allowed[f"p{part}"] += 1
        assert sum(allowed.values()) == 100 and max(allowed.values()) == 3
        assert used(client, api="/feed", user=user) == 100


# Failed log-ins are counted after the fact: who guesses is locked out, at the address where that
# happens, and the user still logs in from another.
def test_who_guesses_is_locked_out_and_the_user_is_not(ruled):
    user = fresh()

    def log_in(client, ip, right):
        attributes = {"api": "/login", "user": user, "ip": ip}
        if not client.rules(attributes, operation="peek").allowed:
            return "locked"
        if not right:
            client.rules(attributes, operation="hit")
        return "in" if right else "wrong"

    with ruled.client() as client:
        for number in range(12):
            client.at = number
            assert log_in(client, "198.51.100.9", False) == ("wrong" if number < 5 else "locked")
        assert log_in(client, "198.51.100.9", True) == "locked"
        assert log_in(client, "203.0.113.4", True) == "in"
        assert log_in(client, "203.0.113.4", False) == "wrong"
        assert log_in(client, "203.0.113.4", True) == "in"


# Three rules on one request, one of them with consistency quorum, thousands of requests at once:
# each counter holds exactly what was allowed.
@pytest.mark.smoke
def test_three_rules_on_different_nodes_count_what_was_allowed(ruled):
    net = f"10.{random.getrandbits(8)}.{random.getrandbits(8)}"  # another one when this is done again
    keys = {"user": [fresh() for _ in range(12)], "ip": [f"{net}.{n}" for n in range(6)],
            "team": [fresh() for _ in range(2)]}
    limits = {"user": 40, "ip": 60, "team": 200}
    at_once = 25 if is_slowed() else 100  # who needs longer for them than a majority is waited for answers with errors
    allowed = collections.Counter()
    lock = threading.Lock()

    def run(number, client):
        rng = random.Random(number)
        for _ in range(600 // at_once):
            asked = [("/pay", *(rng.choice(keys[name]) for name in keys)) for _ in range(at_once)]
            answers = client.ask(asked, ["api", *keys])
            assert {answer.outcome for answer in answers} <= {"allow", "deny"}
            with lock:
                for values, answer in zip(asked, answers):
                    if answer.allowed:
                        allowed.update(zip(keys, values[1:]))

    before, lost = sum(node.counter("several") for node in ruled), undo_lost(ruled)
    at_all_nodes(ruled, run)
    settle(ruled, lost)
    assert sum(node.counter("several") for node in ruled) - before > 3000
    assert sum(node.counter("undone") for node in ruled) > 100
    with ruled.client() as client:
        for name, values in keys.items():
            for value in values:
                count = allowed[name, value]
                assert count <= limits[name]
                answer = client.rules({"api": "/pay", name: value}, operation="peek", cost=0)
                assert answer.used == count, (name, value, answer, counted(ruled))


# A caller that got no answer asks again through another node, and is charged once by each rule.
def test_a_repetition_through_another_node_is_charged_once(ruled):
    values = {"api": "/pay", "user": fresh(), "ip": "192.0.2.1", "team": fresh()}
    with Client(ruled[0].endpoint) as first:
        answers = [first.rules(values, seq=7)]
        for node in ruled:
            with Client(node.endpoint, session=first.session) as again:
                answers.append(again.rules(values, seq=7, flags=FLAG_RETRY))
        assert all(answer.allowed and answer.granted == 1 for answer in answers)
        assert used(first, api="/pay", user=values["user"]) == 1
        assert used(first, api="/pay", team=values["team"]) == 1

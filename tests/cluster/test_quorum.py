"""Consistency quorum on real processes: exact through kills and pauses, refused without a majority."""

import signal
import statistics
import time

import pytest

from harness import Load, Stopwatch, scaled, wait_for
from harness.client import long_window_h

LIMIT = 3000
RATE = f"{{rate: {LIMIT}/{long_window_h()}h, algorithm: fixed_window}}"  # a bucket would refill while this goes on
RULES = f"""\
rules:
  - name: kept
    match: {{api: /kept}}
    key: [user]
    limits: [{RATE}]
    consistency: quorum
    on_failure: closed
  - name: open
    match: {{api: /open}}
    key: [user]
    limits: [{RATE}]
    consistency: quorum
    on_failure: open
"""
FAST_MS = 400  # without a majority an answer comes within the patience of 300 ms


class ByRules:
    """The template of attributes api and user, as Load takes it."""

    def template(self):
        return [1, "api", "user"]

    def item(self, key):
        return key


@pytest.fixture
def quorum(new_cluster, tmp_path):
    """Three nodes with these rules, every key of quorum decided."""
    (tmp_path / "rules.yaml").write_text(RULES)
    cluster = new_cluster(3, "--rules", str(tmp_path / "rules.yaml")).start()
    wait_in_use(cluster)
    return cluster


def wait_in_use(cluster):
    def look():
        return cluster.is_healthy() and sum(
            node.counter("quorum_vnodes_deciding") for node in cluster.live) >= 4096
    wait_for(look, 40, "every vnode of quorum has a decider")


def load_of(cluster, users, **options):
    return Load(cluster.endpoints, [("/kept", user) for user in users], ByRules(), threads=3,
                batch=16, window=4, **options)


def decider_of(cluster, user):
    """The node that decides for `user` under the rule `kept`, by its own word."""
    with cluster.client() as client:
        name = client.rules({"api": "/kept", "user": user}).node
    return cluster.node(name)


def users_of(cluster, name, count):
    """Users that node `name` decides for."""
    found = []
    with cluster.client() as client:
        for number in range(2000):
            user = f"user-{number}"
            decision = client.ask([("/kept", user)], ["api", "user"], operation="peek", cost=0)[0]
            if decision.node == name:
                found.append(user)
            if len(found) == count:
                return found
    raise AssertionError(f"{name} decides for hardly anybody")


def rest_of(cluster, users, doubtful=None):
    """Asks until every user is denied; how many were allowed, by user. What was answered by an error, or asked
    for again, may have been charged: `doubtful` counts that."""
    allowed = dict.fromkeys(users, 0)
    with cluster.client(attempt_s=2, deadline_s=20) as client:
        for user in users:
            while True:
                attempts = client.attempts
                answers = client.ask([("/kept", user)] * 64, ["api", "user"])
                got = sum(answer.allowed for answer in answers)
                allowed[user] += got
                if doubtful is not None:
                    doubtful[user] += sum(answer.outcome not in ("allow", "deny") for answer in answers) + \
                        64 * (client.attempts - attempts - 1)
                if not got and all(answer.outcome == "deny" for answer in answers):
                    break
    return allowed


def assert_never_above(load, users, rest):
    for user in users:
        total = load.allowed(("/kept", user)) + rest[user]
        assert total <= LIMIT, f"{user}: {total} were allowed of {LIMIT}"
        assert total > LIMIT * 0.5, f"{user}: only {total} were allowed of {LIMIT}"


def test_a_limit_is_exact_and_an_answer_costs_one_round_of_syncs(quorum, measured):
    times = []
    with quorum.client() as client:
        for number in range(300):
            def decided(number=number):
                watch = Stopwatch()
                decision = client.rules({"api": "/kept", "user": f"lone-{number}"})
                times.append(watch.ms)
                return decision.allowed and not decision.degraded
            wait_for(decided, 20, "a majority accepts")  # at once, but on a machine that has halted
    users = ["ada", "grace"]
    doubtful = dict.fromkeys(users, 0)
    allowed = rest_of(quorum, users, doubtful)
    assert all(LIMIT - doubtful[user] <= allowed[user] <= LIMIT for user in users), (allowed, doubtful)
    times.sort()
    measured("ms of a check of consistency quorum, p50", round(statistics.median(times), 2))
    measured("ms of a check of consistency quorum, p99", round(times[len(times) * 99 // 100], 2))


def test_kill_of_the_decider_under_load_admits_nothing_more(quorum, measured):
    victim = quorum[1]
    users = users_of(quorum, victim.name, 4)
    with load_of(quorum, users) as load:
        wait_for(lambda: load.allowed() > LIMIT, 40, "a part of the limits is used")
        victim.kill()
        killed = time.monotonic()
        wait_for(lambda: load.answered_since(killed), 40, "every user is answered again")
        again = time.monotonic()
    measured("ms without an answer after kill -9 of a decider of quorum",
             round(load.longest_pause_ms(killed - 0.05, again)))
    assert_never_above(load, users, rest_of(quorum, users))


@pytest.mark.parametrize("seconds", [1, 3])
def test_a_pause_of_the_decider_under_load_admits_nothing_more(quorum, seconds):
    victim = quorum[2]
    users = users_of(quorum, victim.name, 4)
    with load_of(quorum, users) as load:
        wait_for(lambda: load.allowed() > LIMIT, 40, "a part of the limits is used")
        victim.signal(signal.SIGSTOP)
        time.sleep(seconds)  # the pause that is tested
        victim.signal(signal.SIGCONT)
        resumed = time.monotonic()
        wait_for(lambda: victim.try_admin("status") and load.answered_since(resumed), 40,
                 "the paused one serves, and every user is answered")
    assert_never_above(load, users, rest_of(quorum, users))


def test_without_a_majority_on_failure_answers_at_once(quorum, measured):
    with quorum[0].client(attempt_s=3, deadline_s=9) as client:
        for number in range(20):
            wait_for(lambda number=number: client.rules({"api": "/kept", "user": f"u{number}"}).allowed, 20, "it is allowed")
        quorum[1].kill()
        quorum[2].kill()
        wait_for(lambda: any("majority" in reason for reason in quorum[0].status()["reasons"]), 30,
                 "the last node knows that it is alone")
        times = []
        for number in range(20):
            watch = Stopwatch()
            closed = client.rules({"api": "/kept", "user": f"u{number}"})
            opened = client.rules({"api": "/open", "user": f"u{number}"})
            times.append(watch.ms)
            assert not closed.allowed and closed.outcome == "error", closed
            assert opened.allowed and opened.degraded, opened
    measured("ms of two refusals without a majority, p50 and at most", (round(statistics.median(times)), round(max(times))))
    assert statistics.median(times) < scaled(FAST_MS)  # the slowest tells of the machine
    wait_for(lambda: quorum[0].counter("quorum_unavailable") >= 40, 20, "refusals are counted")
    wait_for(lambda: any("majority" in reason for reason in quorum[0].status()["reasons"]), 20, "status tells")


def test_all_killed_at_once_forget_nothing_that_was_answered(quorum):
    users = ["ada", "grace", "edsger"]
    with load_of(quorum, users) as load:
        wait_for(lambda: load.allowed() > LIMIT, 40, "a part of the limits is used")
        quorum.kill_all()
        quorum.start_all()
    wait_in_use(quorum)
    assert_never_above(load, users, rest_of(quorum, users))

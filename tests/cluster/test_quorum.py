"""Consistency quorum on real processes: exact through kills and pauses, refused without a majority."""

import signal
import statistics
import time

import pytest

from harness import Load, Stopwatch, scaled, wait_for

RULES = """\
rules:
  - name: kept
    match: {api: /kept}
    key: [user]
    limits: [{rate: 3000/24h}]
    consistency: quorum
    on_failure: closed
  - name: open
    match: {api: /open}
    key: [user]
    limits: [{rate: 3000/24h}]
    consistency: quorum
    on_failure: open
"""
LIMIT = 3000
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
    wait_for(look, 15, "every vnode of quorum has a decider")


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


def rest_of(cluster, users):
    """Asks until every user is denied; how many were allowed, by user."""
    allowed = dict.fromkeys(users, 0)
    with cluster.client() as client:
        for user in users:
            while True:
                answers = client.ask([("/kept", user)] * 64, ["api", "user"])
                got = sum(answer.allowed for answer in answers)
                allowed[user] += got
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
            watch = Stopwatch()
            decision = client.rules({"api": "/kept", "user": f"lone-{number}"})
            times.append(watch.ms)
            assert decision.allowed and not decision.degraded
    users = ["ada", "grace"]
    allowed = rest_of(quorum, users)
    assert allowed == dict.fromkeys(users, LIMIT)
    times.sort()
    measured("ms of a check of consistency quorum, p50", round(statistics.median(times), 2))
    measured("ms of a check of consistency quorum, p99", round(times[296], 2))


def test_kill_of_the_decider_under_load_admits_nothing_more(quorum, measured):
    victim = quorum[1]
    users = users_of(quorum, victim.name, 4)
    with load_of(quorum, users) as load:
        wait_for(lambda: load.allowed() > LIMIT, 10, "a part of the limits is used")
        victim.kill()
        killed = time.monotonic()
        wait_for(lambda: load.answered_since(killed), 10, "every user is answered again")
        again = time.monotonic()
    measured("ms without an answer after kill -9 of a decider of quorum",
             round(load.longest_pause_ms(killed - 0.05, again)))
    assert_never_above(load, users, rest_of(quorum, users))


@pytest.mark.parametrize("seconds", [1, 3])
def test_a_pause_of_the_decider_under_load_admits_nothing_more(quorum, seconds):
    victim = quorum[2]
    users = users_of(quorum, victim.name, 4)
    with load_of(quorum, users) as load:
        wait_for(lambda: load.allowed() > LIMIT, 10, "a part of the limits is used")
        victim.signal(signal.SIGSTOP)
        time.sleep(seconds)  # the pause that is tested
        victim.signal(signal.SIGCONT)
        resumed = time.monotonic()
        wait_for(lambda: victim.try_admin("status") and load.answered_since(resumed), 10,
                 "the paused one serves, and every user is answered")
    assert_never_above(load, users, rest_of(quorum, users))


def test_without_a_majority_on_failure_answers_at_once(quorum, measured):
    with quorum[0].client(deadline_s=3) as client:
        for number in range(20):
            assert client.rules({"api": "/kept", "user": f"u{number}"}).allowed
        quorum[1].kill()
        quorum[2].kill()
        wait_for(lambda: any("majority" in reason for reason in quorum[0].status()["reasons"]), 5,
                 "the last node knows that it is alone")
        slowest = 0
        for number in range(20):
            watch = Stopwatch()
            closed = client.rules({"api": "/kept", "user": f"u{number}"})
            opened = client.rules({"api": "/open", "user": f"u{number}"})
            slowest = max(slowest, watch.ms)
            assert not closed.allowed and closed.outcome == "error", closed
            assert opened.allowed and opened.degraded, opened
    measured("ms of two refusals without a majority, at most", round(slowest))
    assert slowest < scaled(FAST_MS)
    wait_for(lambda: quorum[0].counter("quorum_unavailable") >= 40, 3, "refusals are counted")
    assert any("majority" in reason for reason in quorum[0].status()["reasons"])


def test_all_killed_at_once_forget_nothing_that_was_answered(quorum):
    users = ["ada", "grace", "edsger"]
    with load_of(quorum, users) as load:
        wait_for(lambda: load.allowed() > LIMIT, 10, "a part of the limits is used")
        quorum.kill_all()
        quorum.start_all()
    wait_in_use(quorum)
    assert_never_above(load, users, rest_of(quorum, users))

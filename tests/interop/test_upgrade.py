"""The last release and what is checked out in one cluster and on the same disks: exact while both decide,
nothing lost on the way there, and nothing on the way back.

The last release is the one that `deploy/releases` names last, built from this repository's own history
(harness/releases.py). What is asked here is told alike by both, or is a named exception below; what an upgrade costs
once is in deploy/docs/CHANGELOG.md.
"""

import itertools
import os
import time

import pytest

from harness import Cluster, Command, Load, program, releases, wait_for
from harness.client import ALGORITHMS, Limit, S, long_limit, long_window_h

# Two nodes that begin with other programs: which of three nodes run the last release.
MIXES = {"one-old": (True, False, False), "one-new": (False, True, True)}
HELD = ("token_bucket", "fixed_window", "sliding_window", "sliding_log", "sliding_buckets")
HOURS = long_window_h()
RULES = """\
tiers:
  free: {{limits: [{{rate: 7/{hours}h, algorithm: fixed_window}}]}}
rules:
  - name: by-user
    match: {{api: /one}}
    key: [user]
    limits:
      - {{rate: {count}/{hours}h, algorithm: fixed_window}}
      - {{rate: 40/{hours}h, algorithm: sliding_log}}
  - name: by-team
    match: {{api: /one}}
    key: [team]
    limits: [{{rate: 25/{hours}h, algorithm: fixed_window}}]
  - name: kept
    match: {{api: /kept}}
    key: [user]
    limits: [{{rate: {count}/{hours}h, algorithm: fixed_window}}]
    consistency: quorum
    on_failure: closed
  - name: near
    match: {{api: /near}}
    key: [user]
    limits: [{{rate: {count}/{hours}h, algorithm: fixed_window}}]
    consistency: any
  - name: flight
    match: {{api: /flight}}
    key: [user]
    limits: [{{algorithm: concurrency, rate: 2/30min}}]
"""

SECONDS = 240
marks = itertools.count()


def fresh(name):
    return f"{name}-{time.time_ns():x}-{next(marks)}"


@pytest.fixture(scope="session")
def old():
    """The folder with the programs of the last release."""
    return releases.programs_of(releases.last())


def run_as(node, programs):
    """From its next start on; None: the programs under test."""
    node.programs = programs


def tidegate(node, *arguments):
    """The command line of the node's own release."""
    done = Command(*arguments, endpoints=[node.endpoint], programs=node.programs)
    assert done.code in (0, 1), done
    return done


def rows(node, *arguments):
    return tidegate(node, *arguments, "-o", "json").rows


def apply_rules(node, folder, count):
    path = os.path.join(str(folder), f"rules-{count}.yaml")
    with open(path, "w", encoding="utf-8") as file:
        file.write(RULES.format(count=count, hours=HOURS))
    done = tidegate(node, "rules", "apply", path, "--yes")
    assert done.code == 0, done


def wait_rules(cluster, version=None):
    """Waits until all nodes have the newest rules in force, and returns their version."""
    def same():
        found = [node.status()["rules"] for node in cluster.live]
        versions = {rules["version"] for rules in found}
        newest = {rules["newest"] for rules in found}
        return versions if versions == newest and len(versions) == 1 and versions != {version} and \
            all(rules["agree"] and not rules["error"] for rules in found) else None
    return wait_for(same, 30, "every node has the newest rules in force").pop()


def wait_quorum(cluster):
    wait_for(lambda: cluster.is_healthy() and
             sum(node.counter("quorum_vnodes_deciding") for node in cluster.live) >= 4096, 60,
             "every vnode of quorum has a decider")


def through_all(clients, ask, times):
    """What `ask` gives of each client in turn."""
    return [ask(clients[number % len(clients)]) for number in range(times)]


def admitted(answers):
    assert all(answer.outcome in ("allow", "deny") for answer in answers), answers
    return sum(answer.allowed for answer in answers)


def of_rules(**attributes):
    return lambda client: client.rules(attributes)


# --- one cluster ------------------------------------------------------------------------------


@pytest.fixture(scope="module", params=list(MIXES))
def mixed(request, old, tmp_path_factory):
    """Three nodes of two releases; what they were given by one of each."""
    folder = tmp_path_factory.mktemp(request.param)
    with Cluster(folder, 3) as cluster:
        for node, is_old in zip(cluster, MIXES[request.param]):
            run_as(node, old if is_old else None)
        cluster.start()
        for node in cluster:
            assert os.readlink(f"/proc/{node.pid}/exe") == os.path.realpath(program("tidegated", node.programs))
        yield cluster


def one_of(cluster, is_old):
    return next(node for node in cluster if (node.programs is not None) == is_old)


# Keys that each of the nodes decides, asked through all of them: exactly the limit, of every algorithm; what is hit and
# given back through one is counted by the other.
@pytest.mark.undisturbed
def test_keys_of_every_node_admit_exactly_their_limit_through_all(mixed):
    clients = [node.client() for node in mixed]
    for decider in mixed:
        keys = mixed.keys_decided_by(decider.name, len(ALGORITHMS) + 1, fresh("key"))
        for algorithm, key in zip(ALGORITHMS, keys):
            if algorithm == "concurrency":
                continue
            limit = long_limit(10, algorithm)
            answers = through_all(clients, lambda client: client.check(key, limit), 15)
            assert [answer.allowed for answer in answers] == [True] * 10 + [False] * 5, (decider, algorithm)
        limit = long_limit(10, "sliding_log")
        assert through_all(clients, lambda client: client.check(keys[-1], limit, operation="hit"), 12)
        assert through_all(clients, lambda client: client.used(keys[-1], limit), 3) == [12] * 3
        assert through_all(clients, lambda client: client.check(keys[-1], limit, operation="refund"), 5)
        assert admitted(through_all(clients, lambda client: client.check(keys[-1], limit), 6)) == 3
    for client in clients:
        client.close()


EDITED = "rules: [{{name: edited, key: [user], limits: [{}]}}, {{name: {}, match: {{a: b}}, action: allow}}]"


# Which count is whose is kept in a record that the last release does not read: it keeps and hands it on, also from its
# disk, and an edit through one of its nodes leaves the counts of the others where they were. Exception: it goes by
# positions itself, so only nodes of this release are asked.
@pytest.mark.undisturbed
def test_what_an_edit_keeps_outlives_nodes_that_cannot_read_it(mixed, tmp_path):
    new, old_node = one_of(mixed, False), one_of(mixed, True)
    user = fresh("user")

    def put(node, limits, other):
        path = tmp_path / f"{fresh('rules')}.yaml"
        path.write_text(EDITED.format(limits, other))
        before = new.status()["rules"]["version"]
        assert tidegate(node, "rules", "apply", str(path), "--yes").code == 0
        wait_rules(mixed, before)

    def left():
        with new.client() as client:
            return client.rules({"user": user}, operation="peek", cost=0).remaining

    put(new, "{rate: 1000/s}, {rate: 10/d}", "first")
    with new.client() as client:
        assert client.rules({"user": user}, cost=10).allowed
    put(new, "{rate: 10/d}", "first")
    assert left() == 0
    put(old_node, "{rate: 10/d}", "second")
    assert left() == 0
    old_node.stop()
    old_node.start()
    mixed.wait_healthy(60)
    put(old_node, "{rate: 10/d}", "third")
    assert left() == 0
    put(new, "{rate: 10/d}, {rate: 1000/s}", "third")
    assert left() == 0


# Rules applied through a node of either release are in force on all, and what was consumed stays when the other one
# raises a limit. Several limits, several rules of other owners on one request, and a rule of quorum are exact.
@pytest.mark.undisturbed
def test_rules_of_either_release_are_exact_on_all(mixed, tmp_path):
    clients = [node.client(attempt_s=2) for node in mixed]
    user, team, kept, near = fresh("user"), fresh("team"), fresh("kept"), fresh("near")
    taken = 0
    last = mixed[0].status()["rules"]["version"]
    for turn, is_old in enumerate((True, False)):
        apply_rules(one_of(mixed, is_old), tmp_path, 10 + 5 * turn)
        last = wait_rules(mixed, last)
        wait_quorum(mixed)
        more = 10 if turn == 0 else 5
        both = of_rules(api="/one", user=user, team=team)
        assert admitted(through_all(clients, both, 20)) == more
        asks = of_rules(api="/kept", user=kept)
        assert admitted(through_all(clients, asks, 20)) == more
        asks = of_rules(api="/near", user=near)  # decided with tokens that nodes hold: never above the limit
        taken += admitted(through_all(clients, asks, 40))
        assert 0 < taken <= 10 + 5 * turn
    others = [fresh("user") for _ in range(12)]  # of all nodes, with the team's limit on one of them
    each = [admitted(through_all(clients, of_rules(api="/one", user=other, team=team), 3)) for other in others]
    assert sum(each) == 25 - 15, each
    for other, got in zip(others, each):  # what the team's limit denied is not charged to the user
        alone = of_rules(api="/one", user=other, team=fresh("team"))
        assert admitted(through_all(clients, alone, 18)) == 15 - got
    for client in clients:
        client.close()


# A block of tokens, or a place in flight, that a node of one release gave is given back through one of the other.
def test_leases_are_given_and_taken_back_across_releases(mixed):
    old_node, new_node = one_of(mixed, True), one_of(mixed, False)

    def turn(giver, taker):
        key = ["--key", fresh("block"), "--rate", "100/h", "--algorithm", "sliding_log"]
        held = wait_for(lambda: next((row for row in rows(giver, "lease", *key, "--cost", "60") if row["allowed"]),
                                     None), 30, "a lease of tokens")
        back = rows(taker, "release", "--lease", held["lease_id"], "--used", "25", *key)[0]
        return back["granted"] == 35  # else this machine took longer than the lease: it was spent
    for giver, taker in ((old_node, new_node), (new_node, old_node)):
        assert any(turn(giver, taker) for _ in range(10))
        key = ["--key", fresh("place"), "--rate", "1/30min"]
        first = rows(giver, "lease", *key)[0]
        assert first["allowed"] and not rows(taker, "lease", *key)[0]["allowed"]
        assert rows(taker, "release", "--lease", first["lease_id"], *key)[0]["allowed"]
        assert rows(giver, "lease", *key)[0]["allowed"]


# A decider of either release is killed: what replicas had acknowledged is counted by who takes over, of the other
# release as well, and by the node itself when it is back.
@pytest.mark.undisturbed
def test_a_killed_decider_of_either_release_leaves_its_counts_to_the_others(mixed):
    for is_old in (True, False):
        victim = one_of(mixed, is_old)
        keys = {algorithm: mixed.keys_decided_by(victim.name, 1, fresh(algorithm))[0] for algorithm in HELD}
        with mixed.client((mixed.nodes.index(victim) + 1) % 3) as client:
            for algorithm, key in keys.items():
                assert client.check(key, long_limit(10, algorithm), cost=6).allowed
            mixed.wait_replicated()
            victim.kill()
            for algorithm, key in keys.items():
                limit = long_limit(10, algorithm)
                assert not client.check(key, limit, cost=5).allowed, (victim, algorithm)
                assert client.check(key, limit, cost=2).allowed, (victim, algorithm)
            victim.start()
            mixed.wait_healthy()
        with victim.client() as client:
            for algorithm, key in keys.items():
                assert admitted([client.check(key, long_limit(10, algorithm)) for _ in range(4)]) == 2


# --- one disk ---------------------------------------------------------------------------------


class Charged:
    """What was consumed and set by one release, to be found by others."""

    def __init__(self, cluster, folder):
        node = cluster[0]
        self.mark = fresh("disk")
        apply_rules(node, folder, 10)
        wait_rules(cluster, 0)
        wait_quorum(cluster)
        self.keys = {f"{self.mark}-{algorithm}-{number}": long_limit(10, algorithm)
                     for algorithm in HELD for number in range(12)}
        self.lease = None
        with cluster.client(attempt_s=2) as client:
            for key, limit in self.keys.items():
                assert client.check(key, limit, cost=6).allowed
            assert client.rules({"api": "/one", "user": self.mark, "team": self.mark}, cost=6).allowed
            assert client.rules({"api": "/kept", "user": self.mark}, cost=6).allowed
        self.lease = rows(node, "lease", "api=/flight", f"user={self.mark}")[0]["lease_id"]
        tidegate(node, "block", f"user={self.mark}-blocked", "--reason", "tried too often")
        tidegate(node, "block", "203.0.113.0/24")
        tidegate(node, "quota", "set", f"{self.mark}-free", "--tier", "free", "--limit", "4/day")
        made = rows(node, "apikey", "create", "--name", self.mark, "--owner", f"{self.mark}-owner")[0]
        gone = rows(node, "apikey", "create", "--name", f"{self.mark}-gone")[0]
        tidegate(node, "apikey", "revoke", gone["key"])
        self.api_key, self.revoked = made["key"], gone["key"]
        wait_for(lambda: all(self.has_settings(each) for each in cluster), 30, "every node knows what was set")

    def has_settings(self, node):
        with node.client(attempt_s=2) as client:
            try:
                self.hold_settings(client, node)
                return True
            except AssertionError:
                return False

    def hold(self, cluster, where):
        """Everything is as it was left, asked through every node."""
        for node in cluster:
            with node.client(attempt_s=2) as client:
                self.hold_counts(client, (where, node))
                self.hold_settings(client, (where, node))

    def hold_counts(self, client, where):
        for key, limit in self.keys.items():
            seen = client.peek(key, limit, cost=5)
            assert not seen.allowed and client.used(key, limit) == 6, (where, key, seen)
        for attributes in ({"api": "/one", "user": self.mark, "team": self.mark}, {"api": "/kept", "user": self.mark}):
            seen = client.rules(attributes, operation="peek", cost=0)
            assert (seen.limit, seen.used) == (10, 6), (where, seen)
        flying = client.rules({"api": "/flight", "user": self.mark}, operation="peek", cost=0)
        assert (flying.limit, flying.used) == (2, 1), (where, flying)

    def hold_settings(self, client, where):
        blocked = client.rules({"api": "/one", "user": f"{self.mark}-blocked"}, operation="peek")
        assert (blocked.outcome, blocked.message) == ("blocked", "tried too often"), (where, blocked)
        assert client.rules({"ip": "203.0.113.9"}, operation="peek").outcome == "blocked", where
        # How a release names the limits of tiers and of users, and so whether what was consumed of them is kept by
        # another one, is told in CHANGELOG.md: here only that they are in force.
        own = client.rules({"api": "/x", "user": f"{self.mark}-free"}, operation="peek", cost=0)
        assert (own.outcome, own.limit) == ("allow", 4), (where, own)
        known = client.rules({"api": "/x", "api_key": self.api_key}, operation="peek", cost=0)
        gone = client.rules({"api": "/x", "api_key": self.revoked}, operation="peek", cost=0)
        assert known.outcome != "blocked" and (gone.outcome, gone.status) == ("blocked", 401), (where, known, gone)


def restart_all(cluster, programs):
    """Stopped in order, and started on what they left as another release."""
    assert set(cluster.stop_all().values()) == {0}
    for node in cluster:
        run_as(node, programs)
    cluster.start()
    wait_rules(cluster, 0)
    wait_quorum(cluster)


def roll(cluster, programs, load):
    """One node after the other, under load."""
    for node in cluster:
        before = load.count()
        wait_for(lambda before=before: load.count() > before + 200, 30, "the load runs")
        assert node.stop() == 0
        run_as(node, programs)
        node.start()
        cluster.wait_healthy()


# Disks of the last release are read by the programs under test, and the other way round: all at once, and node after
# node under load, up and back, without a count lost.
def test_an_upgrade_and_the_way_back_lose_nothing(old, tmp_path):
    limit = long_limit(10 ** 6, "fixed_window")
    keys = [f"roll-{number}" for number in range(12)]
    with Cluster(tmp_path / "cluster", 3) as cluster:
        for node in cluster:
            run_as(node, old)
        charged = Charged(cluster.start(), tmp_path)
        charged.hold(cluster, "the last release")
        cluster.wait_written()
        restart_all(cluster, None)
        charged.hold(cluster, "its disks, read by what is checked out")
        with Load(cluster.endpoints, keys, limit, threads=2, batch=4, window=1, pace_s=0.005) as load:
            for where, programs in (("node after node, back", old), ("node after node, on", None)):
                roll(cluster, programs, load)
                wait_rules(cluster, 0)
                wait_quorum(cluster)
                charged.hold(cluster, where)
        assert not load.refusals
        with cluster.client() as client:
            for key in keys:
                assert client.used(key, limit) >= load.allowed(key), key
        restart_all(cluster, old)
        charged.hold(cluster, "disks of what is checked out, read by the last release")


# --- the list of releases ---------------------------------------------------------------------


# The list names what it says, and a release that is not in this repository fails with the way out.
def test_a_release_that_cannot_be_built_says_why(tmp_path):
    last = releases.last()
    releases.require_commit(last)
    said = releases.git("the version is not told", "show", f"{last.commit}:Makefile")
    assert f"VERSION   := {last.version}\n" in said
    day = releases.git("the date is not told", "log", "-1", "--date=format:%Y-%m-%d", "--format=%cd", last.commit)
    assert day.strip() == last.date
    clone = tmp_path / "shallow"
    releases.run("a clone", "git", "-c", "advice.detachedHead=false", "clone", "--quiet", "--depth", "1",
                 f"file://{releases.ROOT}", str(clone))
    with pytest.raises(AssertionError, match="shallow clone: run 'git fetch --unshallow'"):
        releases.require_commit(last, str(clone))
    with pytest.raises(AssertionError, match="is not in this repository$"):
        releases.require_commit(last._replace(commit="0" * 40))
    with pytest.raises(AssertionError, match="failed:\n"):
        releases.require_commit(last, str(tmp_path))
    with pytest.raises(AssertionError, match="expected VERSION COMMIT DATE"):
        releases.read("0.1.0 3a7bf01 2026-11-24\n")

"""The bound is visible: what status says could be admitted too much, against what then happens."""

import collections
import os
import signal
import time

from harness import Load, wait_for
from harness.client import long_limit
from harness.waiting import halts, is_slowed

LAG_P99_US = 5000  # promised, unsaturated
BUSY_US = 35000
LOAD_S = 0.5
CHECKS = 1500
ATTEMPTS = 8
NOTHING = {"tokens": 0, "vnodes_cut_off": 0, "vnodes_degraded": 0, "uncounted": 0, "forgotten": 0, "why": ""}


def bound_of(node):
    return node.status()["over_admission"]["one"]


def wait_acknowledged(cluster):
    cluster.wait_statuses(lambda status: status["over_admission"]["one"]["tokens"] == 0,
                          "every grant is acknowledged by a replica")


def signal_all(nodes, number):
    for node in nodes:
        node.signal(number)


def granted_by(load):
    granted = collections.Counter()
    for answers in load.answers:
        for answer in answers:
            granted[answer.key] += answer.allowed
    return granted


def test_what_a_killed_node_forgets_is_within_the_bound_it_reported(new_cluster, measured):
    """kill -9 of a node whose grants under load reach nobody: what its successors do not know, and so
    admit again, is at most what its status said, and not much less."""
    for _ in range(ATTEMPTS):  # a starved node is deposed, and what others grant is not its to tell
        said, forgotten, deposed = kill_a_lone_node(new_cluster(3).start())
        measured("tokens that status said / that were forgotten", f"{said} / {forgotten}, {deposed}")
        if not deposed:
            break
    else:
        raise AssertionError(f"the node was deposed {ATTEMPTS} times")
    assert forgotten <= said
    assert forgotten > 1000  # else nothing was shown


def kill_a_lone_node(cluster):
    """What it said, what was forgotten, and how many vnodes it was deposed from meanwhile."""
    victim, *others = cluster
    stepped_down = victim.counter("stepped_down")
    keys = cluster.keys_decided_by(victim.name, 20)
    limit = long_limit(10_000_000, "fixed_window")  # nothing drains while it is looked at
    with Load([victim.endpoint], keys, limit, silence_s=5) as load:
        wait_for(lambda: sum(granted_by(load).values()) > 1000, 30, "there is load")
        signal_all(others, signal.SIGSTOP)
        wait_for(lambda: bound_of(victim)["vnodes_cut_off"] > 0, 30, "the victim knows it is alone")
        start, before = time.monotonic(), sum(granted_by(load).values())
        wait_for(lambda: time.monotonic() - start > LOAD_S and sum(granted_by(load).values()) > before + 10_000, 60,
                 "the load went on for its time")
    granted = granted_by(load)
    said = victim.fresh_status()["over_admission"]["one"]["tokens"]
    deposed = victim.counter("stepped_down") - stepped_down
    victim.kill()
    signal_all(others, signal.SIGCONT)
    forgotten = 0
    with others[0].client(attempt_s=2, deadline_s=20) as client:
        for key in keys:
            forgotten += max(0, granted[key] - client.peek(key, limit).used)
    victim.start()
    return said, forgotten, deposed


def test_a_lone_node_says_that_it_is(new_cluster):
    """SIGSTOP of both replicas: answers become degraded, status says why, and that ends with it."""
    cluster = new_cluster(3).start()
    node, *others = cluster
    limit = long_limit(1_000_000)
    key = cluster.keys_decided_by(node.name, 1)[0]
    with node.client(attempt_s=2, deadline_s=10) as client:
        wait_for(lambda: not client.check(key, limit).degraded, 20, "answers are confirmed")
        wait_acknowledged(cluster)
        wait_for(lambda: bound_of(node) == NOTHING, 20,
                 "nothing is open")
        signal_all(others, signal.SIGSTOP)
        wait_for(lambda: client.check(key, limit).degraded, 20, "answers are degraded")
        alone = wait_for(lambda: (lambda bound: bound if bound["vnodes_cut_off"] else None)(bound_of(node)), 20,
                         "status counts vnodes that are cut off")
        assert alone["vnodes_degraded"] >= alone["vnodes_cut_off"]
        assert "no other replica of" in alone["why"] and "one limit more" in alone["why"], alone
        assert not node.status()["healthy"]
        signal_all(others, signal.SIGCONT)
        wait_for(cluster.is_healthy, 30, "the cluster is healthy again")
        key = cluster.keys_decided_by(node.name, 1)[0]
        wait_for(lambda: not client.check(key, limit).degraded, 20, "answers are confirmed again")
    wait_acknowledged(cluster)
    wait_for(lambda: bound_of(node)["why"] == "", 20, "nothing is open any more")


def test_replicas_acknowledge_within_milliseconds(new_cluster, measured):
    """Unsaturated, from a grant to its first acknowledgement by a replica: p99 <= 5 ms."""
    for _ in range(ATTEMPTS):  # other work on the machine delays everything
        start = time.monotonic()
        found = acknowledgement_lag(new_cluster(3).start())
        late_us = max(halts.between(start, time.monotonic()), default=0) * 1e6
        measured("acknowledgement lag, unsaturated", found)
        assert found["samples"] >= CHECKS / 4
        if is_slowed() or found["p99_us"] <= LAG_P99_US + late_us + (BUSY_US if is_busy() else 0):
            return
    raise AssertionError(f"p99 of {found['p99_us']} us, {ATTEMPTS} times in a row")


def is_busy():
    """Whether other work wants more cores than there are: then nodes wait for theirs."""
    return os.getloadavg()[0] > os.cpu_count()


def acknowledgement_lag(cluster):
    """The figures of the slowest node after a while of one check after the other."""
    limit = long_limit(1_000_000)
    with cluster.client() as client:
        for number in range(CHECKS):
            client.check(f"k{number % 200}", limit)

    lags = [node.fresh_status()["acknowledgement"] for node in cluster]
    found = {name: max(lag[name] for lag in lags) for name in ("p50_us", "p99_us", "max_us")}
    return {"samples": sum(lag["samples"] for lag in lags), **found}

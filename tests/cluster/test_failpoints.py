"""kill -9 at the moments that matter: around commits, and between the messages of a hand-off.

A node is started with TIDEGATE_FAILPOINT and kills itself at the named place while clients check on.
Then it is restarted without, and every count is looked at: what was quiet must be exact, what was
under load may lack what no replica had acknowledged in the node's last moments, and no more.
"""

import signal
import time

import pytest

from harness import History, Load, Promise, Stopwatch, wait_for
from harness.client import long_limit
from harness.history import LAST_MOMENTS_S
from harness.waiting import scaled

QUIET = 10
THREADS = 2
BATCH = 4
GONE_S = 0.1  # from its own kill until the test process knows that the node is gone

# Place, at which visit, and what brings the node there: its start, load, or SIGTERM.
FAST = [
    ("meta-before-commit", 1, "start"),
    ("meta-after-commit", 1, "start"),
    ("state-before-commit", 2, "load"),
    ("state-after-commit", 2, "load"),
    ("pass-before-send", 2, "stop"),
    ("pass-after-send", 2, "stop"),
    ("held-after-receive", 1, "start"),
    ("opened-after-send", 1, "start"),
]
SLOW = [
    ("meta-before-commit", 2, "start"),
    ("meta-after-commit", 2, "start"),
    ("state-before-commit", 1, "start"),
    ("state-after-commit", 1, "start"),
    ("slot-before-send", 20, "load"),
    ("slot-after-send", 20, "load"),
    ("ack-before-send", 20, "load"),
    ("answer-before-send", 20, "load"),
    ("held-before-send", 1, "start"),
    ("held-before-send", 3, "start"),
    ("held-after-receive", 3, "start"),
    ("pass-before-send", 1, "stop"),
    ("pass-after-send", 1, "stop"),
    ("pass-before-send", 4, "stop"),
    ("pass-after-send", 4, "stop"),
    ("pass-after-receive", 1, "start"),
    ("pass-after-receive", 3, "start"),
    ("opened-before-send", 1, "start"),
    ("opened-before-send", 3, "start"),
    ("opened-after-send", 3, "start"),
]


@pytest.fixture(scope="module")
def victims(tmp_path_factory):
    """Three nodes that die one after the other, and how often that happened."""
    from harness import Cluster
    with Cluster(tmp_path_factory.mktemp("failpoints"), 3) as cluster:
        cluster.start()
        cluster.deaths = 0
        yield cluster


def use_quiet_keys(cluster, victim, name):
    """Keys that nobody touches while the node dies: 6 of 10 used, by whoever decides them."""
    limit = long_limit(QUIET)
    keys = [f"quiet-{name}-{victim}-{number}-{time.time_ns()}" for number in range(40)]
    with cluster.client() as client:
        assert all(answer.allowed for answer in client.ask(keys, limit, cost=6))
    return keys, limit


def die_at(cluster, victim, name, visit, trigger):
    """Runs the victim until it kills itself; when it died, as wait_dead tells it."""
    assert victim.stop() == 0
    victim.environment = {"TIDEGATE_FAILPOINT": f"{name}:{visit}"}
    try:
        victim.spawn()
    finally:
        victim.environment = {}
    spawned = time.monotonic()
    if trigger == "stop":
        # It may get to the place by itself, before it is asked to stop: it hands back what it stood in for.
        wait_for(lambda: not victim.is_running or cluster.is_healthy(), 40, f"{victim} is back, or dies")
        if victim.is_running:
            victim.signal(signal.SIGTERM)
    died = wait_dead(victim, spawned, f"{victim} dies at {name}:{visit}")
    assert victim.process.returncode == -signal.SIGKILL, (victim.process.returncode, victim.log())
    assert "KILL ITSELF" in victim.log()
    return died


def wait_dead(victim, since, what):
    """When it was last known to run (at `since` it did), when it was found dead, and `since`."""
    alive_at = since

    def look():
        nonlocal alive_at
        now = time.monotonic()
        if victim.is_running:
            alive_at = now
        return not victim.is_running
    wait_for(look, 30, what)
    return alive_at, time.monotonic(), since


def die_and_return(cluster, name, visit, trigger, measured):
    victim = cluster[(cluster.deaths + 1) % 3]
    cluster.deaths += 1
    for node in cluster:
        if not node.is_running:  # left by a test that failed
            node.start()
    cluster.wait_healthy()
    quiet, quiet_limit = use_quiet_keys(cluster, victim, name)
    keys = [f"busy-{name}-{number}-{time.time_ns()}" for number in range(12)]
    limit = long_limit(10**9, "fixed_window")
    watch = Stopwatch()
    with Load(cluster.endpoints, keys, limit, threads=THREADS, batch=BATCH, window=2,
              pace_s=0.002) as load:
        wait_for(lambda: load.count() > 200, 30, "the load runs")
        died = die_at(cluster, victim, name, visit, trigger)
        victim.start()
        cluster.wait_healthy()
    measured(f"{name}:{visit} at {victim}", f"died and back in {watch.ms:.0f} ms; "
                                            f"{History(load).summary()}")
    judge(cluster, load, victim, died)
    with cluster.client() as client:
        assert set(client.all_used(quiet, quiet_limit)) == {6}
        assert sum(client.check(quiet[0], quiet_limit).allowed for _ in range(QUIET)) == QUIET - 6


def judge(cluster, load, victim, died):
    history = History(load)
    alive_at, gone_at, since = died
    own = (answer.at for answer in history.answers if answer.node == victim.name and since < answer.at <= gone_at)
    killed = min(alive_at - scaled(GONE_S), max(own, default=alive_at))  # a busy machine needs longer to end a process
    last = history.last_moments([(victim.name, killed, gone_at)], scaled(LAST_MOMENTS_S))
    with cluster.client() as client:
        used = {key: client.used(key, load.limit) for key in load.keys}
    history.check(Promise(lost=lambda key: last[key], twice=2 * THREADS * 2 * BATCH), used)


# The places that every run of the tests visits.
@pytest.mark.parametrize("name,visit,trigger", FAST)
def test_a_node_killed_at(victims, measured, name, visit, trigger):
    die_and_return(victims, name, visit, trigger, measured)


# All the others.
@pytest.mark.slow
@pytest.mark.parametrize("name,visit,trigger", SLOW)
def test_a_node_killed_also_at(victims, measured, name, visit, trigger):
    die_and_return(victims, name, visit, trigger, measured)


# A voter dies between what it keeps of the ring configuration and what it says, while a node joins.
@pytest.mark.parametrize("name,visit", [
    ("register-after-commit", 2),
    *(pytest.param(name, visit, marks=pytest.mark.slow) for name, visit in (
        ("register-before-commit", 1), ("register-before-commit", 2), ("register-after-commit", 1),
        ("register-after-commit", 3), ("config-before-commit", 1), ("config-before-commit", 2),
        ("config-after-commit", 1), ("config-after-commit", 2)))])
def test_a_voter_killed_while_a_node_joins(new_cluster, measured, name, visit):
    cluster = new_cluster(3).start()
    wait_for(lambda: all(len(node.admin("ring")["voters"]) == 3 for node in cluster), 30, "three voters")
    voter = cluster[1]
    assert voter.stop() == 0
    voter.environment = {"TIDEGATE_FAILPOINT": f"{name}:{visit}"}
    voter.start()
    voter.environment = {}
    cluster.wait_healthy()
    quiet, quiet_limit = use_quiet_keys(cluster, voter, name)
    keys = [f"busy-{number}" for number in range(12)]
    with Load(cluster.endpoints, keys, long_limit(10**9, "fixed_window"), threads=THREADS,
              batch=BATCH, window=2, pace_s=0.002) as load:
        wait_for(lambda: load.count() > 200, 30, "the load runs")
        watch = Stopwatch()
        cluster.add().spawn()
        died = wait_dead(voter, watch.start, f"{voter} dies at {name}:{visit}")
        assert voter.process.returncode == -signal.SIGKILL
        voter.start()
        cluster[3].wait_ready()
        cluster.wait_healthy(30)
    measured(f"{name}:{visit} while a node joined", f"joined after {watch.ms:.0f} ms; "
                                                    f"{History(load).summary()}")
    judge(cluster, load, voter, died)
    wait_for(lambda: len({node.admin("ring")["epoch"] for node in cluster}) == 1 and
             cluster[0].admin("ring")["members"] == cluster[3].admin("ring")["members"], 20, "all know one ring")
    with cluster.client() as client:
        assert set(client.all_used(quiet, quiet_limit)) == {6}


# A name that is no place is a mistake, and an ordinary node says nothing of it all.
def test_a_wrong_failpoint_is_refused(new_cluster):
    node = new_cluster(1)[0]
    node.environment = {"TIDEGATE_FAILPOINT": "pass-after-sending:1"}
    node.spawn()
    assert node.wait_exit(30) == 2
    assert "pass-after-send" in node.log()
    node.environment = {}
    node.start()
    assert "FAILPOINT" not in node.log()

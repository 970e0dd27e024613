"""Slow links between nodes: answers come later, and every limit stays what it is.

Each node tells others an address at which a proxy of the test listens, which forwards to the node with
a delay in each direction. Clients reach the nodes without it.
"""

import time

import pytest

from harness import Cluster, History, Load, Promise, Stopwatch, wait_for
from harness.client import long_limit
from harness.proxy import Proxies

LIMIT = 200
KEYS = 12
ATTEMPTS = 4


@pytest.fixture
def slow_links(tmp_path):
    """Three nodes, not started, and the proxies between them."""
    with Cluster(tmp_path, 3) as cluster:
        routes = []
        for number, node in enumerate(cluster):
            host = f"127.0.1.{number + 1}"
            node.arguments += ["--advertise", host]
            routes += [((host, port), ("127.0.0.1", port)) for port in (node.port + 1, node.port + 2)]
        with Proxies(*routes) as proxies:
            yield cluster, proxies
            proxies.delay_s = 0.0


def exhausted(load):
    """Whether the last answer of every key was a denial."""
    last = {answer.key: answer for answer in load.all()}
    return len(last) == KEYS and load.count() > 1.2 * KEYS * LIMIT and \
        all(answer.allowed == 0 and answer.undecided == 0 for answer in last.values())


def judge(cluster, load, what, measured, before, excess=0, lost=False):
    history = History(load)
    late = history.latencies_ms()
    measured(what, f"answers p50 {late[len(late) // 2]:.0f} ms, p99 {late[len(late) * 99 // 100]:.0f} "
                   f"ms; take-overs {cluster.takeovers() - before}; {history.summary()}")
    history.check(Promise(excess=excess))
    assert lost or all(key.admitted + key.repeated + key.uncertain >= LIMIT
                       for key in history.keys.values())


# Delay is no death: with all nodes up a limit admits exactly what it says, and is answered all along.
def test_slow_links_delay_answers_and_admit_no_more(slow_links, measured):
    cluster, proxies = slow_links
    cluster.start()
    proxies.delay_s = 0.02
    for attempt in range(ATTEMPTS):  # the proxies halt with this process, and silence is taken for a death
        load, replaced = exhaust(cluster, [f"far-{attempt}-{number}" for number in range(KEYS)])
        if not replaced:
            break
        judge(cluster, load, "the same on a machine that halted", measured, 0, excess=LIMIT, lost=True)
        cluster.wait_healthy()
    judge(cluster, load, "links slower by 20 ms each way", measured, 0, excess=LIMIT if replaced else 0, lost=replaced)
    cluster.wait_healthy()


def exhaust(cluster, keys):
    """A load that uses the keys up, and whether deciders were replaced meanwhile."""
    before = cluster.takeovers()
    with Load(cluster.endpoints, keys, long_limit(LIMIT), threads=3, batch=2, window=4,
              pace_s=0.005, silence_s=1) as load:
        wait_for(lambda: exhausted(load), 60, "every key is exhausted", 0.05)
    return load, cluster.takeovers() > before


# Links slower than a decider's first lease: patience and leases follow the way, so that checks are
# answered. The jump itself is a silence of all, so it is a split for a moment, with at most one
# limit a side; a check that is repeated across its terms may be charged twice.
@pytest.mark.slow
@pytest.mark.parametrize("delay_ms", [60, 200])
def test_links_slower_than_a_lease_break_no_limit(slow_links, measured, delay_ms):
    cluster, proxies = slow_links
    cluster.start()
    before = cluster.takeovers()
    keys = [f"further-{number}" for number in range(KEYS)]
    with Load(cluster.endpoints, keys, long_limit(LIMIT), threads=3, batch=2, window=4,
              pace_s=0.005, silence_s=1) as load:
        wait_for(lambda: load.count() > KEYS * LIMIT / 4, 20, "the load runs")
        proxies.delay_s = delay_ms / 1000
        start = time.monotonic()
        wait_for(lambda: time.monotonic() - start > 8, 10, "they were slow for a while")
        answered = History(load).admitted_between(start, start + 8)
        proxies.delay_s = 0.0
        wait_for(lambda: exhausted(load), 30, "every key is exhausted", 0.05)
    judge(cluster, load, f"links slower by {delay_ms} ms each way for 8 s, {answered} admitted in it",
          measured, before, excess=2 * LIMIT, lost=True)
    cluster.wait_healthy(60)


# Links that become slow and fast again under load: nothing is admitted twice.
@pytest.mark.slow
def test_links_that_swing_admit_no_more(slow_links, measured):
    cluster, proxies = slow_links
    cluster.start()
    before = cluster.takeovers()
    keys = [f"swing-{number}" for number in range(KEYS)]
    with Load(cluster.endpoints, keys, long_limit(LIMIT), threads=3, batch=2, window=1,
              pace_s=0.02, silence_s=1) as load:
        for delay_ms in (10, 0, 20, 5, 15, 0) * 3:
            proxies.delay_s = delay_ms / 1000
            count = load.count()
            watch = Stopwatch()
            wait_for(lambda count=count, watch=watch: load.count() > count + 20 and watch.ms > 300,
                     20, f"answers come at {delay_ms} ms")
        proxies.delay_s = 0.0
        wait_for(lambda: exhausted(load), 30, "every key is exhausted", 0.05)
    judge(cluster, load, "links that swing", measured, before)
    cluster.wait_healthy()

"""Consistency quorum on real nodes: whatever dies or is cut off, nothing is admitted above the limit,
nothing that was answered is forgotten, and each key behaves as one counter."""

import signal
import time

import pytest

from harness import Cluster, History, Load, Promise, Stopwatch, wait_for
from harness.client import RuleLimit, long_window_h
from harness.network import Network, why_not

COUNT = 150
LIMIT = RuleLimit(COUNT, "strict")
KEYS = 6
WINDOW = f"{long_window_h()}h"
RULES = f"""
rules:
  - name: strict
    match: {{plan: strict}}
    key: [user]
    consistency: quorum
    on_failure: closed
    limits: [{{rate: {COUNT}/{WINDOW}, algorithm: fixed_window}}]
"""


def rules_of(folder):
    path = folder / "rules.yaml"
    path.write_text(RULES)
    return ("--rules", str(path))


def keys_of(prefix):
    return [f"{prefix}-{number}-{time.time_ns()}" for number in range(KEYS)]


def singles(cluster, keys, endpoints=None):
    """Three clients that ask one thing at a time."""
    return Load(endpoints or cluster.endpoints, keys, LIMIT, threads=3, batch=1, window=1,
                pace_s=0.002)


def used_of(cluster, keys):
    with cluster.client(attempt_s=3, deadline_s=10) as client:
        return {key: client.used(key, LIMIT) for key in keys}


def judge(cluster, load, measured, what):
    history = History(load)
    verdicts, text = history.linearizable()
    measured(what, f"{history.summary()}; judged {sorted(set(verdicts.values()))}")
    history.check(Promise(excess=0, lost=0, twice=None), used_of(cluster, load.keys))
    broken = [history.around(key, text, verdict) for key, verdict in verdicts.items()
              if verdict.startswith("broken")]
    assert not broken, "\n".join(broken)
    return history


# Node after node dies while clients ask for more than there is.
def test_quorum_admits_nothing_above_its_limit_when_nodes_die(new_cluster, tmp_path, measured):
    cluster = new_cluster(3, *rules_of(tmp_path)).start()
    with singles(cluster, keys_of("killed")) as load:
        for node in cluster:
            before = load.count()
            wait_for(lambda before=before: load.count() > before + 150, 60, "the load runs")
            node.kill()
            before = load.count()
            wait_for(lambda before=before: load.count() > before + 50, 60, "answers come again")
            node.start()
            cluster.wait_healthy()
    history = judge(cluster, load, measured, "kills of each node, quorum")
    assert sum(key.admitted for key in history.keys.values()) > 300


# All die at once: what was answered is in the journals of a majority.
def test_quorum_forgets_nothing_when_all_nodes_die(new_cluster, tmp_path, measured):
    cluster = new_cluster(3, *rules_of(tmp_path)).start()
    with singles(cluster, keys_of("all")) as load:
        wait_for(lambda: load.count() > 300, 60, "the load runs")
        cluster.kill_all()
        cluster.start_all()
        before = load.count()
        wait_for(lambda: load.count() > before + 100, 60, "answers come again")
    cluster.wait_healthy()
    judge(cluster, load, measured, "all nodes killed at once, quorum")


# A replica or decider kills itself around its journal, and around its promise.
@pytest.mark.parametrize("name,visit", [
    ("journal-after-commit", 100), ("promise-after-commit", 1),
    *(pytest.param(name, visit, marks=pytest.mark.slow) for name, visit in (
        ("journal-before-commit", 100), ("journal-before-commit", 3), ("journal-after-commit", 3),
        ("promise-before-commit", 1), ("promise-before-commit", 2), ("promise-after-commit", 2)))])
def test_quorum_survives_a_kill_around_the_journal(new_cluster, tmp_path, measured, name, visit):
    cluster = new_cluster(3, *rules_of(tmp_path)).start()
    victim = cluster[1]
    keys = keys_of(name)
    with singles(cluster, keys) as load:
        wait_for(lambda: load.count() > 100, 60, "the load runs")
        assert victim.stop() == 0
        victim.environment = {"TIDEGATE_FAILPOINT": f"{name}:{visit}"}
        victim.spawn()
        victim.environment = {}
        wait_for(lambda: not victim.is_running, 60, f"{victim} dies at {name}:{visit}")
        assert victim.process.returncode == -signal.SIGKILL, victim.log()
        victim.start()
        cluster.wait_healthy()
        before = load.count()
        wait_for(lambda: load.count() > before + 100, 60, "answers come again")
    judge(cluster, load, measured, f"{name}:{visit}, quorum")


# A split: the majority decides, the others refuse at once as the rule says, all together one limit.
def test_quorum_admits_nothing_above_its_limit_in_a_split(tmp_path, measured):
    missing = why_not()
    if missing:
        pytest.skip(missing)
    with Network(3) as network, \
            Cluster(tmp_path / "split", 3, *rules_of(tmp_path), network=network) as cluster:
        cluster.start()
        keys = keys_of("split")
        with singles(cluster, keys) as load:
            wait_for(lambda: load.count() > 60, 60, "the load runs")
        history = judge(cluster, load, measured, "before the split, quorum")
        first = {key: history.keys[key].admitted for key in keys}
        network.split([0, 1], [2])
        watch = Stopwatch()
        with singles(cluster, keys, [cluster[0].endpoint, cluster[1].endpoint]) as many, \
                singles(cluster, keys, [cluster[2].endpoint]) as few:
            wait_for(lambda: watch.ms > 2000 and many.count() > 200 and few.count() > 50, 60, "the majority answers")
            healed = time.monotonic()
            network.heal()
            cluster.wait_healthy(60)
            before = few.count()
            wait_for(lambda: few.count() > before + 50, 60, "the minority is one no more")
        sides = History(many, few)
        measured("a split of two and one, quorum", sides.summary())
        lone = [answer for answer in few.all() if answer.at < healed]
        assert sum(answer.allowed for answer in lone) == 0
        total = {key: first[key] + sides.keys[key].admitted for key in keys}
        assert max(total.values()) <= COUNT, total
        used = used_of(cluster, keys)
        assert all(used[key] >= total[key] for key in keys), (used, total)

"""Random kill -9 under load: the store always opens, and every count stays within its bound.

KILLS=n kills n times (50 unless told; `make soak`: 1000), SEED=s draws the same kills again, NODES=n
takes as many nodes. A round is some kills on a running load, then every key is judged:

    quiet keys       used long ago, never touched: exact, whatever dies
    limited keys     asked for beyond their limit: excess at most what dying nodes answered in their
                     last moments (or since the last write-back, when all died at once)
    counted keys     never exhausted: counted at least what was admitted but for the same moments
"""

import os
import random
import time

import pytest

from harness import Cluster, History, Load, Promise, wait_for
from harness.client import long_limit
from harness.history import LAST_MOMENTS_S
from harness.waiting import scaled

KILLS = int(os.environ.get("KILLS") or 50)
NODES = int(os.environ.get("NODES") or 3)
SEED = int(os.environ.get("SEED") or random.getrandbits(32))
KILLS_A_ROUND = 3
ALL_EVERY = 8           # rounds: then all nodes die at once
QUIET_USED = 6
WRITE_BACK_S = 0.5 + 0.35  # a period, and what one write and the loop's round until then may take
FLYING = 2 * 2 * 4      # items that two loads have in flight


class Round:
    """Some kills under load, and what clients saw of them."""

    def __init__(self, cluster, rng, number):
        self.cluster = cluster
        self.rng = rng
        self.deaths = []
        self.all_died = None
        self.unwritten_s = 0.0  # how old a change may be that was on no disk then
        names = [f"{number}-{at}" for at in range(6)]
        self.limited = Load(cluster.endpoints, [f"limited-{name}" for name in names],
                            long_limit(60 * KILLS_A_ROUND), threads=1, batch=4, window=2,
                            pace_s=0.002)
        self.counted = Load(cluster.endpoints, [f"counted-{name}" for name in names],
                            long_limit(10**9, "fixed_window"), threads=1, batch=4, window=2,
                            pace_s=0.002)

    def kill_one(self):
        """One node dies; sometimes again while it starts, sometimes it stays away for a moment."""
        victim = self.rng.choice(self.cluster.nodes)
        time.sleep(self.rng.uniform(0, 0.15))  # the random moment: nothing is waited for
        self.deaths.append((victim.name, *victim.kill()))
        kills = 1
        while self.rng.random() < 0.25:
            victim.spawn()
            time.sleep(self.rng.uniform(0, 0.2))  # the next random moment
            assert victim.is_running, f"{victim} ended with {victim.process.returncode}: {victim.log()}"
            self.deaths.append((victim.name, *victim.kill()))
            kills += 1
        time.sleep(self.rng.choice((0, self.rng.uniform(0, 0.3))))  # how long it stays away
        victim.start()
        return kills

    def kill_all(self):
        told_ms = max(node.fresh_status()["storage"]["flush_lag_ms"] for node in self.cluster)
        self.unwritten_s = max(scaled(WRITE_BACK_S), told_ms / 1000 + scaled(WRITE_BACK_S))
        start = time.monotonic()
        self.cluster.kill_all()
        self.all_died = start, time.monotonic()
        self.cluster.start_all()
        return len(self.cluster.nodes)

    def run(self, everyone):
        kills = 0
        with self.limited, self.counted:
            while kills < KILLS_A_ROUND:
                kills += self.kill_all() if everyone and kills == 0 else self.kill_one()
                self.cluster.wait_healthy()
        return kills

    def bound(self, history):
        """By key: what may be admitted again, or forgotten."""
        last = history.last_moments(self.deaths, scaled(LAST_MOMENTS_S))
        if self.all_died is not None:
            for answer in history.answers:
                if self.all_died[0] - self.unwritten_s < answer.at:
                    last[answer.key] += answer.allowed
        return lambda key: last[key]

    def judge(self):
        limited, counted = History(self.limited), History(self.counted)
        with self.cluster.client() as client:
            used = {key: client.used(key, self.counted.limit) for key in self.counted.keys}
        found = limited.complaints(Promise(excess=self.bound(limited)))
        found += counted.complaints(Promise(lost=self.bound(counted),
                                            twice=(len(self.deaths) + 3) * FLYING), used)
        assert not found, "\n".join([*found, *self.story(limited, counted, found)])
        return limited, counted

    def story(self, limited, counted, complaints):
        """Who decided the keys of the complaints, in ms before and after the first death."""
        first = self.all_died[0] if self.all_died else self.deaths[0][1]
        yield "deaths: " + ", ".join(f"{name} {(start - first) * 1000:.0f}..{(end - first) * 1000:.0f}"
                                     for name, start, end in self.deaths)
        for node in self.cluster.live:
            yield f"{node}: " + ", ".join(f"{name} {node.counter(name)}" for name in (
                "takeovers", "terms_opened", "stepped_down", "stalls", "merges", "merged_slots",
                "stale_writes", "resyncs", "handed_over"))
        for history in (limited, counted):
            for key in history.keys:
                if any(complaint.startswith(f"{key}: ") for complaint in complaints):
                    yield f"{key}: " + " ".join(
                        f"{(answer.at - first) * 1000:.0f}={answer.node}+{answer.allowed}"
                        f"{'d' if answer.degraded else ''}{'r' if answer.tries > 1 else ''}"
                        for answer in history.answers if answer.key == key)


def use_quiet_keys(cluster):
    limit = long_limit(10)
    keys = [f"quiet-{number}" for number in range(100)]
    with cluster.client() as client:
        assert all(answer.allowed for answer in client.ask(keys, limit, cost=QUIET_USED))
    cluster.wait_written()
    return keys, limit


def judge_quiet_keys(cluster, keys, limit):
    with cluster.client() as client:
        assert set(client.all_used(keys, limit)) == {QUIET_USED}


# Fifty of them in the test run, a thousand in the soak.
@pytest.mark.soak
@pytest.mark.patient
def test_random_kills_break_no_store_and_no_limit(tmp_path, measured):
    measured("seed", SEED)
    rng = random.Random(SEED)
    kills = rounds = answers = excess = 0
    start = time.monotonic()
    with Cluster(tmp_path, NODES) as cluster:
        cluster.start()
        quiet = use_quiet_keys(cluster)
        while kills < KILLS:
            rounds += 1
            this = Round(cluster, rng, rounds)
            try:
                kills += this.run(everyone=rounds % ALL_EVERY == 0)
                histories = this.judge()
                judge_quiet_keys(cluster, *quiet)
            except AssertionError as failure:
                raise AssertionError(f"SEED={SEED} NODES={NODES}, round {rounds}, after {kills} "
                                     f"kills: {this.deaths}, all {this.all_died}") from failure
            answers += sum(len(history.answers) for history in histories)
            excess += sum(key.excess for key in histories[0].keys.values())
            if rounds % 50 == 0:
                measured("kills so far", f"{kills} in {time.monotonic() - start:.0f} s")
    measured("kills", f"{kills} of {NODES} nodes in {time.monotonic() - start:.0f} s, {rounds} rounds "
                      f"({rounds // ALL_EVERY} of all at once), {answers} batches answered, "
                      f"{excess} items admitted again, every store opened")

"""Reservations over three nodes whose decider is killed: estimates, commits, early, late and twice, cancels, expiries.

Threads do random things through random nodes, over HTTP, and tell a model what they were told; SEED=s draws the same
again, and RESERVE_KILLS=n kills so often (`make soak`: 100).

    at any moment    what is settled and what is held are the limit at most, but for hits: what a commit said beyond its
                     reservation, or too late, or to a decider that stood alone
    settled again    who commits again is told what was charged first, also when the decider died between the two
    at the end       what is charged is what was settled: no reservation that expired or was cancelled, no commit twice
"""

import contextlib
import http.client
import os
import random
import threading
import time

from harness import Cluster, Http, wait_for
from harness.client import long_window_h
from harness.waiting import scaled

KILLS = int(os.environ.get("RESERVE_KILLS") or 4)
SEED = int(os.environ.get("SEED") or random.getrandbits(32))
LIMIT = 1000
COST = 250
LARGE = 0.03  # of commits; the others charge next to nothing, so that the limit lasts
TTLS = (1.0, 1.5, 3.0)
MARGIN_S = 0.2     # by which a worker may be told later than the decider reckons
THREADS = 3        # of each key
TIMEOUT_S = 2


def rules():
    limits = f"[{{rate: {LIMIT}/{long_window_h()}h, algorithm: fixed_window}}]"
    more = f"[{{rate: {2 * LIMIT}/{long_window_h()}h, algorithm: sliding_log}}]"
    return ("rules:\n"
            f"  - {{name: users, match: {{user: '*'}}, key: [user], limits: {limits}}}\n"
            f"  - {{name: teams, match: {{team: '*'}}, key: [team], limits: {more}}}\n"
            f"  - {{name: safe, match: {{safe: '*'}}, key: [safe], consistency: quorum, limits: {limits}}}\n")


class Key:
    """What is asked for, and the model of it."""

    def __init__(self, asked, looks):
        self.asked, self.looks = asked, looks
        self.lock = threading.Lock()
        self.held = {}      # by id: tokens, until
        self.settled = 0
        self.hits = 0       # of these: beyond what was reserved
        self.doubts = 0     # commits that were asked for more than once: a dead decider's disk may have them, too
        self.most = 0
        self.counts = dict.fromkeys(("reserved", "denied", "committed", "again", "late", "cancelled", "left"), 0)
        self.faults = []

    def check(self):
        """At this moment; with the lock."""
        now = time.monotonic()
        live = sum(tokens for tokens, until in self.held.values() if now < until)
        self.most = max(self.most, self.settled + live)
        if self.settled + live > LIMIT + self.hits:
            self.faults.append(f"{self.settled} settled and {live} held, {self.hits} were hits")


class Worker(threading.Thread):
    """One that reserves and settles, through any node; until it is told to stop."""

    def __init__(self, cluster, key, number, stop):
        super().__init__(daemon=True)
        self.random = random.Random(f"{SEED} {number}")
        self.nodes, self.key, self.stop = cluster.nodes, key, stop
        self.links = {}
        self.failure = None

    def post(self, operation, **more):
        """The decision of some node, which is not asked again; None if there was none."""
        node = self.random.choice(self.nodes)
        link = self.links.setdefault(node.name, Http(node, timeout=scaled(TIMEOUT_S)))
        try:
            said = link.post(f"/v1/{operation}", {**self.key.asked, **more}).said
            return said if said.get("outcome") in ("allow", "deny") else None
        except (OSError, http.client.HTTPException, ValueError):
            link.link.close()
            return None

    def insist(self, operation, **more):
        """The decision, and how often it was asked for: by its id a settlement may be repeated at will."""
        tries = 1
        while True:
            said = self.post(operation, **more)
            if said is not None:
                return said, tries
            tries += 1
            self.stop.wait(0.01)

    def reserve(self):
        key, ttl, cost = self.key, self.random.choice(TTLS), self.random.randint(1, COST)
        sent = time.monotonic()
        said = self.post("reserve", cost=cost, ttl=f"{int(ttl * 1000)}ms")
        if said is None or not said["allowed"]:
            key.counts["denied"] += said is not None
            return None
        with key.lock:
            assert said["granted"] == cost and said["hold_ms"] <= ttl * 1000
            until = sent + ttl - MARGIN_S
            key.held[said["hold_id"]] = (cost, until)
            key.counts["reserved"] += 1
            key.check()
        return said["hold_id"], cost, until

    def settle(self, hold, cost, until):
        key = self.key
        late = time.monotonic() >= until
        cancels = not late and self.random.random() < 0.2
        actual = self.random.randint(0, cost + cost // 8 if self.random.random() < LARGE else 2)
        with key.lock:
            key.held.pop(hold)
        if cancels:
            said, _ = self.insist("cancel", hold_id=hold)
            key.counts["cancelled"] += 1
            self.settle_again(hold, 0)
            return
        said, tries = self.insist("commit", hold_id=hold, actual=actual)
        late = late or time.monotonic() >= until
        with key.lock:
            charged = said["granted"]
            key.settled += charged
            key.hits += charged if late or said["degraded"] else max(0, charged - cost)
            key.doubts += charged if tries > 1 else 0
            key.counts["committed"] += 1
            key.counts["late"] += late
            if not late and tries == 1 and charged != actual and key.settled < LIMIT:
                key.faults.append(f"{actual} committed and {charged} charged")
            key.check()
        self.settle_again(hold, charged)

    def settle_again(self, hold, charged):
        """Somebody says so again, and means something else."""
        for _ in range(self.random.choice((0, 0, 1, 2))):
            if self.random.random() < 0.3:
                said, _ = self.insist("cancel", hold_id=hold)
                told = said["granted"] + charged
            else:
                told = self.insist("commit", hold_id=hold, actual=self.random.randint(0, COST))[0]["granted"]
            with self.key.lock:
                self.key.counts["again"] += 1
                if told != charged:
                    self.key.faults.append(f"{hold}: {charged} charged, and then {told}")

    def run(self):
        held, slow = [], []
        try:
            while not self.stop.is_set() or held or slow:
                over = [hold for hold in slow if time.monotonic() > hold[2] + 2 * MARGIN_S]
                slow = [hold for hold in slow if hold not in over]
                for hold in over:
                    self.settle(*hold)
                if not self.stop.is_set() and self.random.random() < 0.6:
                    found = self.reserve()
                    held += [found] if found else []
                elif held and self.random.random() < 0.1:
                    hold, _, _ = held.pop(self.random.randrange(len(held)))
                    self.key.counts["left"] += 1  # nobody hears of it any more: it is held until its time is over
                elif held and self.random.random() < 0.05:
                    slow.append(held.pop())
                elif held:
                    self.settle(*held.pop(self.random.randrange(len(held))))
                else:
                    self.stop.wait(0.005)
        except BaseException as failure:  # it is told by the test
            self.failure = failure
        finally:
            for link in self.links.values():
                link.link.close()


def kill_and_return(cluster, key):
    """Kills who decides the key, and has it back."""
    with contextlib.suppress(OSError):
        node = cluster.decider(key)
        node.process.kill()
        node.process.wait()
        node.spawn()
        node.wait_ready()
    cluster.wait_healthy()


def make_keys(number):
    inline = {"key": f"r-{number}", "rate": f"{LIMIT}/{long_window_h()}h", "algorithm": "fixed_window"}
    both = {"attributes": {"user": f"u-{number}", "team": f"t-{number}"}}
    safe = {"attributes": {"safe": f"s-{number}"}}
    return [Key(inline, [inline]), Key(both, [{"attributes": {name: both["attributes"][name]}} for name in ("user", "team")]),
            Key(safe, [safe])]


def looked_at(cluster, asked):
    with Http(cluster[0]) as link:
        said = link.post("/v1/peek", {**asked, "cost": 0}).said
        return said["used"] if said["outcome"] in ("allow", "deny") else None


def judge(cluster, key):
    """When all is over what is charged is what was settled."""
    for asked in key.looks:
        least = key.settled - (key.hits if key.doubts else 0)  # a hit is told as it was asked for, up to the debt
        wait_for(lambda asked=asked: least <= (looked_at(cluster, asked) or -1) <= key.settled + key.doubts or
                 (key.settled == 0 and looked_at(cluster, asked) == 0),
                 TTLS[-1] + 5, f"{asked}: {key.settled} settled, {key.doubts} asked for twice, {key.counts}")


def test_settled_and_held_are_the_limit_at_most_while_deciders_die(tmp_path):
    print(f"SEED={SEED}")
    (tmp_path / "rules.yaml").write_text(rules())
    with Cluster(tmp_path, 3, "--rules", str(tmp_path / "rules.yaml")) as cluster:
        cluster.start()
        totals = {}
        for number in range((KILLS + 1) // 2):
            stop, keys = threading.Event(), make_keys(number)
            workers = [Worker(cluster, key, f"{number} {i} {n}", stop) for i, key in enumerate(keys) for n in range(THREADS)]
            for worker in workers:
                worker.start()
            try:
                for _ in range(2):
                    wait_for(lambda keys=keys: all(key.counts["reserved"] + key.counts["denied"] >= 20 for key in keys), 20,
                             "all are at work")
                    kill_and_return(cluster, keys[0].asked["key"])
            finally:
                stop.set()
            for worker in workers:
                worker.join(scaled(120))
                assert worker.failure is None and not worker.is_alive(), worker.failure
            for key in keys:
                assert not key.faults, (key.asked, key.faults, key.counts)
                judge(cluster, key)
                totals = {name: totals.get(name, 0) + count for name, count in key.counts.items()}
        print(totals)
        assert all(count > 0 for count in totals.values()), totals

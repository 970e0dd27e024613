"""New keys faster than they can be written: what was charged stays charged, others are turned away and told."""

import collections
import contextlib
import os
import subprocess
import time

import msgpack
import pytest
import zmq

from harness import Cluster, wait_for
from harness.client import DECISIONS, OUTCOMES, dealer, encode_checks

BATCH = 4096
WINDOW = 8  # messages in flight
USED_UP = 3
PORTION = 2048
CLOSED, OPEN, OTHER = "closed", "open", "other"
RULES = "rules:\n" + "".join(
    f"  - {{name: {name}, match: {{plan: {name}}}, key: [user], limits: [{{rate: {USED_UP}/24h}}], "
    f"on_failure: {failure}}}\n" for name, failure in ((CLOSED, "closed"), (OPEN, "open"), (OTHER, "closed")))
FULL = "no room for this one"


class Flood:
    """Checks of cost 3 on keys of one rule, as fast as the node answers; outcomes by key."""

    def __init__(self, node, plan, numbers, session, window=WINDOW):
        self.outcomes = {}
        self.messages = collections.Counter()
        self.socket = dealer(node.endpoint)
        self.socket.poll(5000, zmq.POLLOUT)
        self.frames = self.make(plan, numbers, session)
        self.window = window
        self.flying = {}

    @staticmethod
    def make(plan, numbers, session):
        for seq, at in enumerate(range(0, len(numbers), BATCH), 1):
            part = numbers[at:at + BATCH]
            yield seq, part, encode_checks(session, seq, 0, 20000, [1, "plan", "user"],
                                           [(plan, b"%d" % number) for number in part], cost=USED_UP)

    def send(self):
        """Fills the window. False if nothing is left to be sent."""
        while len(self.flying) < self.window:
            following = next(self.frames, None)
            if following is None:
                return False
            seq, part, frame = following
            self.flying[seq] = part
            self.socket.send(frame)
        return True

    def read(self, within_ms=30000):
        assert self.socket.poll(within_ms), "the node is silent"
        message = msgpack.unpackb(self.socket.recv())
        part = self.flying.pop(message[3])
        if message[1] != DECISIONS:
            self.outcomes.update(dict.fromkeys(part, "refused"))  # shed unread, as a whole
            return
        self.outcomes.update(zip(part, (OUTCOMES[outcome] for outcome in message[6])))
        self.messages.update(source[3] for source in message[17])

    def run(self):
        while self.send() or self.flying:
            self.read()
        self.socket.close()
        return self

    def having(self, outcome):
        return [number for number, got in self.outcomes.items() if got == outcome]


def ask_again(node, plan, numbers):
    """The outcomes of one check of each key that was used up; who is answered busy asks until he is decided."""
    outcomes = collections.Counter()
    left = list(numbers)
    session = 1 << 40
    deadline = time.monotonic() + 600  # most of five million keys are read back from disk, a thousand at a time
    while left:
        session += 1
        again = Flood(node, plan, left, session, window=1).run()
        left = again.having("busy") + again.having("refused") + again.having("error")
        outcomes.update(outcome for outcome in again.outcomes.values()
                        if outcome not in ("busy", "refused", "error"))
        assert time.monotonic() < deadline, f"{len(left)} keys that exist are never decided"
    return outcomes


def over_admission(node):
    return node.fresh_status()["over_admission"]["one"]


def shard(node):
    return node.fresh_status()["shards"][0]


def start(cluster, tmp_path):
    rules = tmp_path / "rules.yaml"
    rules.write_text(RULES)
    for node in cluster:
        node.arguments = [*node.arguments, "--rules", str(rules)]
    return cluster.start()[0]


def flood_beside_another_rule(node, count):
    """A flood of `count` keys of one rule, and meanwhile a few of another one; both."""
    flood = Flood(node, CLOSED, range(count), 101)
    other = Flood(node, OTHER, range(count // 20), 102, window=1)
    more = True
    while more or flood.flying:
        more = flood.send()
        other.send()
        flood.read()
        if other.socket.poll(0):
            other.read()
    while other.flying:
        other.read()
    other.frames = iter(())
    return flood, other


def check_told(node, flood, measured, name):
    """Of what the flood charged nothing is admitted again, and what was turned away is told."""
    charged = flood.having("allow")
    busy = flood.having("busy")
    assert charged and busy, collections.Counter(flood.outcomes.values())
    assert any(FULL in text for text in flood.messages), flood.messages
    told = shard(node)
    assert 0 < told["turned_away"] <= told["refused"]
    warnings = node.fresh_status()["warnings"]
    assert any("new keys found no room" in warning for warning in warnings), warnings
    outcomes = ask_again(node, CLOSED, charged)
    measured(name, f"{len(charged)} of {len(flood.outcomes)} keys charged, {len(busy)} turned away; asked again: "
                   f"{dict(outcomes)}; slots {told['slots']} of {told['slots_max']}")
    assert set(outcomes) == {"deny"}, outcomes
    assert over_admission(node)["tokens"] == 0 and over_admission(node)["forgotten"] == 0
    wait_for(lambda: "no room for new keys" in node.whole_log(), 30, "the log tells of keys that found no room")


def check_open(node, count, measured):
    """A rule with `on_failure: open` lets all pass, and says how much of that it could not count."""
    before = over_admission(node)["uncounted"]
    first = Flood(node, OPEN, range(count), 201).run()
    again = ask_again_once(node, OPEN, first.having("allow"))
    uncounted = over_admission(node)["uncounted"] - before
    measured("on_failure: open", f"{len(first.having('allow'))} allowed, {len(again)} again, {uncounted} tokens told")
    assert not first.having("busy") and not first.having("deny")
    assert 0 < USED_UP * len(again) <= uncounted
    assert over_admission(node)["why"]


def ask_again_once(node, plan, numbers):
    return Flood(node, plan, numbers, 202, window=2).run().having("allow")


# A memory of 8 MB holds 194,000 keys: 600,000 come at full speed. `make soak` floods 64 MB with five million.
@pytest.mark.parametrize("memory, count", [("8M", 600_000),
                                           pytest.param("64M", 5_000_000, marks=pytest.mark.slow)])
def test_what_a_flood_of_new_keys_charged_is_not_admitted_again(tmp_path, measured, memory, count):
    with Cluster(tmp_path, 1, "--memory", memory) as cluster:
        node = start(cluster, tmp_path)
        flood, other = flood_beside_another_rule(node, count)
        others = len(other.having("allow"))
        measured("of another rule meanwhile", f"{others} of {len(other.outcomes)} new keys let in")
        if shard(node)["turned_away"] > 0:
            assert others >= len(other.outcomes) * 9 // 10
            check_told(node, flood, measured, f"{count} new keys, {memory}")
        else:
            assert set(ask_again(node, CLOSED, flood.having("allow"))) == {"deny"}
        assert set(ask_again(node, OTHER, other.having("allow"))) == {"deny"}


# Keys are decided by three nodes, each of which holds all; the rule that a key is of goes with its forward.
def test_a_flood_through_one_node_of_three_leaves_room_for_another_rule(tmp_path, measured):
    with Cluster(tmp_path, 3, "--memory", "8M") as cluster:
        node = start(cluster, tmp_path)
        flood, other = flood_beside_another_rule(node, 500_000)
        others = len(other.having("allow"))
        charged = flood.having("allow")
        shards = [shard(each) for each in cluster]
        measured("three nodes", f"{len(charged)} of {len(flood.outcomes)} keys charged, {others} of "
                                f"{len(other.outcomes)} of another rule; turned away "
                                f"{[one['turned_away'] for one in shards]}, refused {[one['refused'] for one in shards]}")
        assert others >= len(other.outcomes) // 2
        for again in (ask_again(cluster[1], CLOSED, charged[:20_000]), ask_again(node, OTHER, other.having("allow"))):
            assert set(again) == {"deny"}, again
        assert sum(over_admission(each)["forgotten"] for each in cluster) == 0


@pytest.fixture
def full_disk(tmp_path):
    """A small file system, and how to leave no byte of it."""
    if os.getuid() != 0:
        pytest.skip("mounting a small file system needs root")
    place = tmp_path / "disk"
    place.mkdir()
    done = subprocess.run(["mount", "-t", "tmpfs", "-o", "size=160m", "tmpfs", str(place)], capture_output=True,
                          text=True, check=False)
    if done.returncode != 0:
        pytest.skip(f"a small file system cannot be mounted: {done.stderr.strip()}")

    def fill():
        with open(place / "ballast", "wb", buffering=0) as file, contextlib.suppress(OSError):
            while file.write(bytes(65536)):
                pass

    yield place, fill
    subprocess.run(["umount", "-l", str(place)], check=True)


@pytest.mark.parametrize("memory, count", [("8M", 400_000),
                                           pytest.param("64M", 5_000_000, marks=pytest.mark.slow)])
def test_on_a_full_disk_what_was_charged_is_not_admitted_again(full_disk, tmp_path, measured, memory, count):
    place, fill = full_disk
    with Cluster(tmp_path, 1, "--memory", memory) as cluster:
        cluster[0].data = str(place / "data")
        node = start(cluster, tmp_path)
        fill()
        flood, other = flood_beside_another_rule(node, count)
        measured("of another rule meanwhile", f"{len(other.having('allow'))} of {len(other.outcomes)} let in")
        assert len(other.having("allow")) >= len(other.outcomes) // 2
        check_told(node, flood, measured, f"{count} new keys, {memory}, disk full")
        check_open(node, max(count // 6, 200_000), measured)
        assert set(ask_again(node, OTHER, other.having("allow"))) == {"deny"}
        (place / "ballast").unlink()
        wait_for(lambda: node.status()["storage"]["ok"] and node.status()["storage"]["flush_lag_ms"] < 1000 and
                 shard(node)["slots_room"] > 50_000, 60, "what waited for the disk is written")
        later = Flood(node, CLOSED, range(10_000_000, 10_001_000), 301).run()
        assert len(later.having("allow")) == 1000


def test_a_store_that_reaches_its_bound_is_told_before_and_takes_no_further_keys(tmp_path, measured):
    with Cluster(tmp_path, 1, "--vnodes", "64", "--store-max", "6M", "--flush-interval", "50ms") as cluster:
        node = start(cluster, tmp_path)
        first = Flood(node, CLOSED, range(2000), 1).run().having("allow")
        assert len(first) == 2000 and not node.fresh_status()["warnings"]
        told = set()
        added = 2000
        while not node.status()["storage"]["closed"]:
            assert added < 2_000_000
            Flood(node, CLOSED, range(added, added + PORTION), 1000 + added).run()
            added += PORTION
            time.sleep(0.1)  # the pace of the traffic; the store is looked at twice a second
            wait_for(lambda: node.status()["storage"]["flush_lag_ms"] < 500, 60, "the disk follows", 0.02)
            told.update(part for warning in node.status()["warnings"] for part in ("80%", "95%") if part in warning)
        status = node.fresh_status()
        measured("keys in a store of 6 MiB", f"{added}, {status['storage']['used_bytes'] >> 10} KiB used")
        assert told & {"80%", "95%"}  # which of them is met depends on when the store is looked at
        assert any("--store-max" in reason for reason in status["reasons"])
        later = wait_for(lambda: Flood(node, CLOSED, range(3_000_000, 3_001_000), time.monotonic_ns()).run(), 5,
                         "an answer")
        assert len(later.having("busy")) == 1000 and any(FULL in text for text in later.messages)
        assert set(ask_again(node, CLOSED, first)) == {"deny"}
        log = node.whole_log()
        assert 0 < log.find("% of --store-max") < log.find("the store has reached --store-max")
        node.stop()
        node.start()
        assert set(ask_again(node, CLOSED, first)) == {"deny"}

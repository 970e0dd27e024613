"""Frames that are right in all but their numbers, from anybody who reaches the ports of nodes, in any member's name.

One such frame was enough: an incarnation near the highest made a member one that has left for a day, three
split three nodes; a configuration with the next epoch was adopted though nobody had voted for it; a keep-alive
of a process of the far future silenced the true one. Here each is sent to each of three real nodes, many times,
and nothing of it lasts: the nodes stay one cluster, and together they admit what the limit allows.
"""

import itertools
import struct
import time

import msgpack
import pytest

from harness import Limit, wait_for
from harness.client import dealer

INCARNATION_MAX = (1 << 64) - 1 >> 2
NUMBERS = (INCARNATION_MAX, INCARNATION_MAX - 1, 1 << 43, 5000)
STATES = {"alive": 0, "suspect": 1, "dead": 2, "left": 3}
LIMIT = 1000
marks = itertools.count()


class Forger:
    """Whoever can reach the ports: writes frames in the name of any member."""

    def __init__(self, cluster):
        self.cluster = cluster
        self.cluster_id = bytes.fromhex(cluster[0].status()["cluster_id"])
        self.ids = {node.name: int(cluster[0].members()[node.name]["id"], 16) for node in cluster}

    def record(self, node, incarnation, **other):
        fields = {"id": self.ids[node.name] if node else 1, "incarnation": incarnation, "version": 1,
                  "name": node.name if node else "nobody", "region": "default", "zone": "",
                  "gossip": node.gossip if node else "127.0.0.1:9",
                  "peer": f"{node.host}:{node.port + 1}" if node else "", "client": node.endpoint if node else "",
                  "software": "1", "weight": 100, "vnodes": 0, "flags": 16, "shards": 1, "min": 1, "max": 1,
                  "rules": 0, "ring": 0, "settled": 0, "settings": 0, "digest": 0}
        fields.update(other)
        return list(fields.values())

    def rumour(self, sender, about, state, incarnation):
        accusers = struct.pack("<Q", self.ids[sender.name]) if state == STATES["suspect"] else b""
        item = [about[0], state, incarnation, 0, accusers, about]
        return msgpack.packb([1, self.cluster_id, 5, 0, self.ids[sender.name], 1, sender.gossip,
                              time.time_ns(), 0, [], [item]])

    def joining(self, kind, sender, *rest):
        return b"\xc1" + msgpack.packb([1, kind, self.cluster_id, self.ids[sender.name], sender.gossip, *rest])

    def config(self, sender, epoch, voter):
        """One in which that node alone is left."""
        alone = [[self.ids[voter.name], 100, [0, 1], voter.name, ""]]
        config = msgpack.packb([1, epoch, 4096, 3, [self.ids[voter.name]], alone, None])
        return self.joining(4, sender, bytes(16), bytes(16), 4096, 3, config, "default")

    def ballot(self, kind, sender, epoch, number, value=b""):
        me = self.ids[sender.name]
        return self.joining(4 + kind, sender, epoch, number, me, 1, number, me, 1, value, "default")

    def settings(self, kind, sender, version):
        """NEWS, FETCH, CHANGES or RECORDS; the last is a whole copy in which there is nothing."""
        return self.joining(36 + kind, sender, version, 1, 2, [self.ids[sender.name]], 0, "", 0, "", [])

    def process(self, sender, boot):
        ping = struct.pack("<BqqQIIQB", 1, (1 << 63) - 1, 0, (1 << 64) - 1, 0, (1 << 32) - 1, 0, 0)
        return msgpack.packb([1, self.ids[sender.name], 0, boot, ping])


def send_all(endpoint, frames, malformed):
    """Returns when all of them have been read: behind them come more frames of nonsense than they are themselves, and
    `malformed` tells how many frames the node could not read so far."""
    before = malformed()
    sock = dealer(endpoint)
    try:
        for frame in [*frames, *[b"nonsense"] * (len(frames) + 1)]:
            sock.send(frame)
        wait_for(lambda: malformed() > before + len(frames), 60, "all frames are read")
    finally:
        sock.close()


def gossip_to(node, frames):
    send_all(node.gossip, frames, lambda: node.status()["gossip"]["malformed"])


@pytest.fixture(scope="module")
def three(tmp_path_factory):
    from harness import Cluster
    with Cluster(tmp_path_factory.mktemp("numbers"), 3) as cluster:
        yield cluster.start()


def ring(cluster):
    return {(node.status()["epoch"], node.status()["cluster_id"]) for node in cluster}


def assert_one_cluster(cluster, epochs):
    """Everybody is alive to everybody, the ring is what it was, and the limit is one of all."""
    cluster.wait_healthy(30)
    assert ring(cluster) == epochs
    for node in cluster:
        states = {name: member["state"] for name, member in node.members().items()}
        assert all(states[one.name] == "alive" for one in cluster), states
    key = f"all-{time.time_ns():x}-{next(marks)}"
    admitted = 0
    clients = [node.client(deadline_s=20) for node in cluster]
    try:
        for turn in range(LIMIT + 200):
            admitted += clients[turn % 3].check(key, Limit(LIMIT)).allowed
    finally:
        for client in clients:
            client.close()
    assert admitted == LIMIT


def test_no_rumour_splits_three_nodes(three):
    forger = Forger(three)
    epochs = ring(three)
    for to in three:
        gossip_to(to, [forger.rumour(sender, forger.record(about, number), state, number)
                       for sender in three for about in three for state in STATES.values() for number in NUMBERS])
    assert_one_cluster(three, epochs)
    assert all(node.status()["gossip"]["doubts"] > 0 for node in three)


def test_no_frame_brings_a_configuration_that_nobody_voted_for(three):
    forger = Forger(three)
    epochs = ring(three)
    epoch = next(iter(epochs))[0]
    wild = [epoch + 1, epoch + 1000, 1 << 40 | 1, (1 << 62) + 1, (1 << 64) - 1]
    for to in three:
        frames = [forger.config(sender, number, sender) for sender in three for number in wild]
        frames += [forger.ballot(kind, sender, epoch + 1, number) for sender in three for kind in (1, 5)
                   for number in (1 << 62, 1 << 40)]
        frames += [forger.settings(kind, sender, 1 << 62) for sender in three for kind in range(4)]
        gossip_to(to, frames)
    assert_one_cluster(three, epochs)
    for node in three:
        node.kill()
    for node in three:
        node.start()
    assert_one_cluster(three, epochs)  # nothing of it is on a disk either


def test_no_process_of_the_future_silences_the_true_one(three):
    forger = Forger(three)
    epochs = ring(three)
    before = {node.name: node.counter("takeovers") for node in three}
    for to in three:
        frames = [forger.process(sender, boot) for sender in three if sender is not to
                  for boot in ((1 << 64) - 1, 1 << 60, 5000 << 20)] * 10
        send_all(f"{to.host}:{to.port + 1}", frames, lambda to=to: to.counter("bad_frames"))
    wait_for(lambda: all(node.counter("forged_frames") > 0 for node in three), 20, "they are counted")
    assert_one_cluster(three, epochs)
    assert {node.name: node.counter("takeovers") for node in three} == before


def test_made_up_members_get_no_part_of_the_ring(three):
    forger = Forger(three)
    epochs = ring(three)
    for to in three:
        sender = three[1] if to is three[0] else three[0]
        gossip_to(to, [
            forger.rumour(sender, forger.record(None, 1, id=(1 << 40) + fake, name=f"f{fake}", weight=1000,
                                                gossip=f"127.0.0.1:{1 + fake % 500}"), STATES["alive"], 1)
            for fake in range(3000)])
    assert_one_cluster(three, epochs)
    assert sum(name.startswith("f") for name in three[0].members()) <= 64
    assert all(node.status()["gossip"]["strangers_refused"] > 0 for node in three)


def test_a_victim_starts_again_whatever_was_said_of_it(three):
    forger = Forger(three)
    epochs = ring(three)
    victim = three[1]
    frames = [forger.rumour(three[0], forger.record(victim, number), STATES["left"], number)
              for number in sorted(NUMBERS)]
    for to in three:
        gossip_to(to, frames)
    victim.kill()
    for to in (three[0], three[2]):
        gossip_to(to, frames)
    victim.start()
    assert_one_cluster(three, epochs)
    victim.kill()
    victim.start("--rebuild")
    assert_one_cluster(three, epochs)

"""cluster - several nodes with data of their own in one temporary folder."""

import os
import signal
import time

from .client import Client
from .node import Node
from .ports import take_block
from .waiting import wait_for

# All that are open, so that a failing test can show what their nodes wrote.
running = []


class Until(list):
    """A list of complaints that counts as true when it is empty."""

    def __bool__(self):
        return len(self) == 0


class Cluster:
    """`count` nodes n1, n2 ...; n1 creates the cluster, the others have it as their seed."""

    def __init__(self, folder, count=3, *arguments, shards=1, network=None):
        self.folder = str(folder)
        os.makedirs(self.folder, exist_ok=True)
        self.block = take_block()
        self.arguments = arguments
        self.shards = shards
        self.network = network  # network.Network: a namespace and an address for each node
        self.nodes = []
        running.append(self)
        for _ in range(count):
            self.add()

    def __enter__(self):
        return self

    def __exit__(self, *ignored):
        self.close()

    def __getitem__(self, at):
        return self.nodes[at]

    def __iter__(self):
        return iter(self.nodes)

    def add(self, *arguments):
        """A further node, not started yet."""
        number = len(self.nodes)
        port = self.block.first + number * 10 * self.shards
        seed = ["--seed", self.nodes[0].gossip] if self.nodes else []
        place = self.network.place(number) if self.network else {}
        node = Node(self.folder, f"n{number + 1}", port, *self.arguments, *seed, *arguments,
                    shards=self.shards, **place)
        self.nodes.append(node)
        return node

    def start(self, healthy_s=30):
        """Starts all nodes at once and waits until the cluster is healthy."""
        self.start_all()
        self.wait_healthy(healthy_s)
        return self

    def start_all(self):
        """Starts all nodes at once and waits until each of them serves."""
        for node in self.nodes:
            node.spawn()
        for node in self.nodes:
            node.wait_ready()

    def node(self, name):
        return next(node for node in self.nodes if node.name == name)

    @property
    def live(self):
        return [node for node in self.nodes if node.is_running]

    @property
    def endpoints(self):
        return [node.endpoint for node in self.nodes]

    def client(self, first=0, **options):
        """A session that begins with node `first` and knows all others."""
        return Client(*(self.endpoints[first:] + self.endpoints[:first]), **options)

    def complaints(self, since=-1.0):
        """Why the live nodes do not find all nodes alive and all vnodes where they belong, by figures
        that are newer than `since` of monotonic()."""
        found = []
        epochs = set()
        for node in self.live:
            status = node.status_since(since)
            if status is None:
                found.append(f"{node} does not answer, or tells figures of before")
                continue
            epochs.add(status["epoch"])
            if not status["healthy"]:
                found.append(f"{node}: {', '.join(status['reasons'])}")
            if status["members"]["alive"] != len(self.nodes):
                found.append(f"{node} counts members {status['members']}")
        if len(epochs) > 1:
            found.append(f"epochs {epochs}")
        return found

    def is_healthy(self):
        return not self.complaints()

    def wait_healthy(self, within_s=30):
        start = time.monotonic()
        wait_for(lambda: Until(self.complaints(start)), within_s,
                 "every node says that the cluster is healthy", 0.02)

    def wait_statuses(self, condition, what):
        """Waits until `condition` holds for the status of each live node, as it is after this call."""
        since = time.monotonic() + 0.005  # an age of less than a millisecond is told as 0

        def look():
            statuses = [node.status_since(since) for node in self.live]
            return all(status is not None and condition(status) for status in statuses)
        wait_for(look, 20, what)

    def wait_replicated(self):
        """Waits until what was granted before this call is held by replicas."""
        self.wait_statuses(lambda status: all(shard["unconfirmed"] == 0 for shard in status["shards"]),
                           "replicas hold everything")

    def wait_written(self):
        """Waits until what was changed before this call is on the disk of each node."""
        self.wait_statuses(lambda status: status["storage"]["ok"] and
                           status["storage"]["flush_lag_ms"] == 0, "everything is written back")

    def takeovers(self):
        """How often live nodes replaced a decider on evidence that it was gone."""
        return sum(node.counter("takeovers") for node in self.live)

    def takeovers_told(self):
        """The same, as far as live nodes tell at once."""
        statuses = [node.try_admin("status") for node in self.live]
        return sum(shard["takeovers"] for status in statuses if status for shard in status["shards"])

    def keys_decided_by(self, name, count, prefix="key"):
        """`count` keys whose decider is node `name`."""
        found = []
        at = 0
        asked = self.live[0]
        while len(found) < count:
            key = f"{prefix}-{at}"
            at += 1
            if asked.owner(key)["decider"] == name:
                found.append(key)
            assert at < 1000 * count, f"{name} decides next to nothing"
        return found

    def decider(self, key, asked=None):
        """The node that decides `key`, as another one sees it."""
        return self.node((asked or self.live[0]).owner(key)["decider"])

    def kill_all(self):
        """kill -9 for all at once."""
        live = self.live
        for node in live:
            node.process.kill()
        for node in live:
            node.process.wait()

    def stop_all(self):
        """SIGTERM for all at once; their exit codes by name."""
        live = self.live
        for node in live:
            node.signal(signal.SIGTERM)
        return {node.name: node.wait_exit() for node in live}

    def logs(self):
        return [(f"log of {node.name}", node.whole_log()) for node in self.nodes]

    def close(self):
        """Stops what runs, in order if possible; fails if a node did not stop as it should."""
        try:
            for node in self.live:
                node.signal(signal.SIGCONT)  # a test that failed may have left it halted
            served = {node.name for node in self.live if node.is_ready}
            codes = self.stop_all()
            bad = {name: code for name, code in codes.items() if name in served and code != 0}
            assert not bad, f"nodes did not stop in order: {bad}"
        finally:
            for node in self.nodes:
                node.close()
            self.block.close()
            running.remove(self)



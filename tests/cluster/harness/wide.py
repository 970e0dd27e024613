"""wide - the wide-area network of deploy/multi-region, and clusters of several regions over it.

    with wan.Wan(["eu", "us"], 0.04) as network, Regions(folder, network) as cluster:
        cluster.add("eu"); cluster.add("us") ...       the first one creates the cluster, and is a seed of all

Nodes live in namespaces that this process does not see, so they are asked by the command line, which
enters their region.
"""

import importlib.util
import json
import os
import pathlib

from .cluster import Until, running
from .command import Command
from .node import Node
from .waiting import wait_for

PATH = pathlib.Path(__file__).resolve().parents[3] / "deploy" / "multi-region" / "wan.py"
PORT = 7410

spec = importlib.util.spec_from_file_location("wan", PATH)
wan = importlib.util.module_from_spec(spec)
spec.loader.exec_module(wan)


class Regional(Node):
    """A node of a region."""

    def __init__(self, folder, network, region, number, *arguments):
        super().__init__(folder, f"{region}{number}", PORT, "--region", region, *arguments,
                         host=network.address(region, number), enter=network.enter(region))
        self.region = region

    def tidegate(self, *arguments, within_s=60):
        return Command(*arguments, endpoints=[self.endpoint], enter=self.enter, within_s=within_s)

    def answer(self, *arguments):
        """The answer as JSON, None without one."""
        done = self.tidegate(*arguments, "-o", "json")
        return json.loads(done.output) if done.code == 0 else None

    def status(self):
        return self.answer("status")

    def checks(self, key, rate, count=1):
        """How many of so many checks were allowed."""
        done = self.tidegate("check", "--key", key, "--rate", rate, "--repeat", str(count), "-o", "json")
        return sum(row["outcome"] == "allow" for row in done.rows)

    def close(self):
        if self.is_running:
            self.kill()


class Regions:
    """Nodes eu1, eu2, us1 ... of one cluster."""

    def __init__(self, folder, network, *arguments):
        self.folder = str(folder)
        os.makedirs(self.folder, exist_ok=True)
        self.network = network
        self.arguments = arguments
        self.nodes = []
        running.append(self)

    def __enter__(self):
        return self

    def __exit__(self, *ignored):
        self.close()

    def __getitem__(self, name):
        return next(node for node in self.nodes if node.name == name)

    def add(self, region):
        """A further node of the region, not started yet."""
        seed = ["--seed", self.nodes[0].gossip] if self.nodes else []
        node = Regional(self.folder, self.network, region, len(self.of(region)) + 1, *self.arguments, *seed)
        self.nodes.append(node)
        return node

    def of(self, region):
        return [node for node in self.nodes if node.region == region]

    @property
    def live(self):
        return [node for node in self.nodes if node.is_running]

    def complaints(self, nodes=None):
        """Why a node does not find its region well, or all nodes of the cluster alive."""
        found = []
        for node in nodes or self.live:
            status = node.status()
            if status is None:
                found.append(f"{node} does not answer")
            elif not status["healthy"]:
                found.append(f"{node}: {', '.join(status['reasons'])}")
            elif nodes is None and status["members"]["alive"] != len(self.live):
                found.append(f"{node} counts members {status['members']}")
        return found

    def start(self, nodes=None, within_s=60):
        for node in nodes or self.nodes:
            node.spawn()
        for node in nodes or self.nodes:
            node.wait_ready(within_s)
        wait_for(lambda: Until(self.complaints()), within_s, "all regions are well", 0.1)

    def ring(self, node):
        """The names of the members of the node's ring."""
        return {member["name"] for member in node.answer("ring")["members"]}

    def logs(self):
        return [(f"log of {node.name}", node.whole_log()) for node in self.nodes]

    def close(self):
        for node in self.nodes:
            node.close()
        running.remove(self)

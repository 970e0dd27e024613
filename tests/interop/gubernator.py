"""gubernator - the released Gubernator, one node or several: what Tidegate stands in for, to be asked the same, or measured beside.

It is built from its Go module by `kits`, keeps nothing on disk, and is as it is by default but for where it listens, and
that it tells no collector of traces. Its hash puts keys that differ only at their ends on one node: who wants them spread
takes a digest for a key.
"""

import contextlib
import json
import os
import subprocess
import urllib.error
import urllib.request

import kits
from harness import wait_for

MODULE = "github.com/gubernator-io/gubernator/v2"
VERSION = "v2.16.0"
PORTS = 3  # of a node: gRPC, HTTP, members
ANSWERS_S = 5


def build():
    """Its program; made at the first call."""
    return kits.go_tool("gubernator", f"{MODULE}/cmd/gubernator@{VERSION}")


def source():
    """The folder of its module as it was released."""
    done = subprocess.run(["go", "mod", "download", "-json", f"{MODULE}@{VERSION}"], capture_output=True, text=True, check=True)
    return json.loads(done.stdout)["Dir"]


class Peer:
    """One of its nodes. Its list of members has one an address, so each has one of its own."""

    def __init__(self, number, first_port):
        self.name = f"g{number + 1}"
        self.host = f"127.0.0.{number + 1}"
        self.grpc, self.http, self.members = range(first_port + PORTS * number, first_port + PORTS * (number + 1))
        self.process = None

    def start(self, program, known, log):
        environment = {
            "GUBER_GRPC_ADDRESS": f"{self.host}:{self.grpc}", "GUBER_HTTP_ADDRESS": f"{self.host}:{self.http}",
            "GUBER_ADVERTISE_ADDRESS": f"{self.host}:{self.grpc}", "GUBER_PEER_DISCOVERY_TYPE": "member-list",
            "GUBER_MEMBERLIST_ADDRESS": f"{self.host}:{self.members}",
            "GUBER_MEMBERLIST_BIND_ADDRESS": f"{self.host}:{self.members}",
            "GUBER_MEMBERLIST_KNOWN_NODES": ",".join(f"{one.host}:{one.members}" for one in known),
            "GUBER_MEMBERLIST_NODE_NAME": self.name, "GUBER_INSTANCE_ID": self.name, "GUBER_LOG_LEVEL": "error",
            "OTEL_TRACES_EXPORTER": "none", "NO_PROXY": "*", "TZ": "UTC"}
        self.process = subprocess.Popen(["setpriv", "--pdeathsig", "KILL", program], stdin=subprocess.DEVNULL, stdout=log,
                                        stderr=log, env={**os.environ, **environment})

    def peers(self):
        """How many nodes it counts; 0 where it is not ready, or not well."""
        try:
            with urllib.request.urlopen(f"http://{self.host}:{self.http}/v1/HealthCheck", timeout=ANSWERS_S) as said:
                health = json.load(said)
        except (OSError, urllib.error.URLError):
            return 0
        return health["peer_count"] if health["status"] == "healthy" else 0

    def kill(self):
        """kill -9."""
        self.process.kill()
        self.process.wait()


@contextlib.contextmanager
def running(folder, count, first_port):
    """`count` nodes that know one another: each has a `host`, and ports `grpc` and `http`. Takes PORTS a node from `first_port` on."""
    program = build()
    peers = [Peer(number, first_port) for number in range(count)]
    with open(os.path.join(folder, "gubernator.log"), "wb") as log:
        try:
            for peer in peers:
                peer.start(program, peers, log)
            wait_for(lambda: any(peer.process.poll() is not None for peer in peers) or
                     all(peer.peers() == count for peer in peers), 60, f"{count} nodes of Gubernator know one another")
            assert all(peer.process.poll() is None for peer in peers), f"Gubernator ended: see {log.name}"
            yield peers
        finally:
            for peer in peers:
                if peer.process is not None:
                    peer.kill()

"""gubernator - nodes of Gubernator: what Tidegate stands in for, to be asked the same, or measured beside.

They are built from its Go module by `kits`, and are as by default but for where they listen.
"""

import contextlib
import os
import socket
import subprocess

import kits
from harness import wait_for

MODULE = "github.com/gubernator-io/gubernator/v2"
VERSION = "v2.16.0"
PORTS = 3  # of a node: gRPC, HTTP, gossip


def build():
    """Its program; made at the first call."""
    return kits.go_tool("gubernator", f"{MODULE}/cmd/gubernator@{VERSION}")


def _listens(port):
    with socket.socket() as probe:
        return probe.connect_ex(("127.0.0.1", port)) == 0


@contextlib.contextmanager
def _node(program, folder, number, first_port):
    """One node that dies with this process: gossips at the ports of the first one."""
    grpc, http, gossip = (f"127.0.0.1:{first_port + number * PORTS + i}" for i in range(PORTS))
    environment = {
        "GUBER_GRPC_ADDRESS": grpc, "GUBER_HTTP_ADDRESS": http, "GUBER_ADVERTISE_ADDRESS": grpc,
        "GUBER_PEER_DISCOVERY_TYPE": "member-list", "GUBER_MEMBERLIST_NODE_NAME": f"node-{number}",
        "GUBER_MEMBERLIST_ADDRESS": gossip, "GUBER_MEMBERLIST_BIND_ADDRESS": gossip,
        "GUBER_MEMBERLIST_KNOWN_NODES": f"127.0.0.1:{first_port + PORTS - 1}", "NO_PROXY": "*"}
    with open(os.path.join(folder, f"gubernator-{number}.log"), "wb") as log:
        process = subprocess.Popen(["setpriv", "--pdeathsig", "KILL", program], stdin=subprocess.DEVNULL, stdout=log, stderr=log,
                                   env={**os.environ, **environment})
    try:
        wait_for(lambda: process.poll() is not None or _listens(int(grpc.split(":")[1])), 30, "Gubernator listens")
        assert process.poll() is None, f"Gubernator ended: see {log.name}"
        yield grpc
    finally:
        process.kill()
        process.wait()


@contextlib.contextmanager
def running(folder, count, first_port):
    """So many nodes, and where each has gRPC, `HOST:PORT`. Takes three ports a node from `first_port` on."""
    program = build()
    with contextlib.ExitStack() as stack:
        yield [stack.enter_context(_node(program, folder, number, first_port)) for number in range(count)]

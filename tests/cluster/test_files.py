"""Clients that take all open files: who is in goes on, peers and gossip too, and no core turns round in vain."""

import os
import resource
import socket
import threading
import time

import pytest

from harness import Cluster, wait_for
from harness.client import long_limit

NOFILE = 400


# What a ZeroMQ client says first: who does not is dropped after two seconds.
GREETING = bytes.fromhex("ff00000000000000017f03014e554c4c") + bytes(48) + \
    b"\x04\x1c\x05READY\x0bSocket-Type\x00\x00\x00\x06DEALER"


class Crowd:
    """Connects again and again, greets, and keeps all that it gets."""

    def __init__(self, port, most, greeting):
        self.address = ("127.0.0.1", port)
        self.most = most
        self.greeting = greeting
        self.sockets = []
        self.ended = threading.Event()
        self.thread = threading.Thread(target=self.run)
        self.thread.start()

    def run(self):
        while not self.ended.is_set():
            if len(self.sockets) == self.most:
                self.ended.wait(0.05)
                continue
            each = socket.socket()
            each.settimeout(0.1)
            try:
                each.connect(self.address)
                each.sendall(self.greeting)
                self.sockets.append(each)
            except OSError:
                each.close()

    def close(self):
        self.ended.set()
        self.thread.join()
        for each in self.sockets:
            each.close()


@pytest.fixture
def crowds():
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (min(hard, 8192), hard))
    found = []
    yield found
    for each in found:
        each.close()
    resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


def cpu_s(node):
    with open(f"/proc/{node.pid}/stat", encoding="ascii") as stat:
        fields = stat.read().rsplit(")", 1)[1].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


# More clients than there are open files, at both ports: nothing stops, and it ends with them.
@pytest.mark.parametrize("greet", [False, True])
def test_clients_that_take_all_open_files_stop_nobody(tmp_path, crowds, greet):
    with Cluster(tmp_path, 3) as cluster:
        full = cluster[0]
        full.prefix = ("prlimit", f"--nofile={NOFILE}:{NOFILE}")
        cluster.start()
        assert full.status()["files"]["max"] == NOFILE and full.status()["files"]["paused"] == 0
        with full.client() as client:
            assert client.check("before", long_limit(5)).allowed
            crowds += [Crowd(full.port, 2 * NOFILE, GREETING if greet else b""),
                       Crowd(full.port + 3, NOFILE, b"")]
            wait_for(lambda: full.status()["files"]["pauses"] > 0, 20, "it lets no more clients in")
            assert "no further client is let in" in full.log()
            before, start = cpu_s(full), time.monotonic()
            for number in range(20):
                assert client.check(f"during-{number}", long_limit(5)).allowed
            wait_for(lambda: time.monotonic() - start > 2, 10, "two seconds passed", 0.1)
            assert (cpu_s(full) - before) / (time.monotonic() - start) < 0.5
            # Its peers and gossip have what they need: another one is taken in, by it as well.
            cluster.add().start()
            cluster.wait_healthy(40)
            assert full.status()["members"]["alive"] == 4
        while crowds:
            crowds.pop().close()
        wait_for(lambda: full.status()["files"]["paused"] == 0, 20, "clients are let in again")
        with full.client() as client:
            assert client.check("after", long_limit(5)).allowed

"""Bytes that somebody made to do harm, on the ports that nodes have for each other.

Noise hardly gets past the first check of a parser. So these are frames that a node really sent, with
bytes changed, cut and doubled, and frames that are right up to what is written in them. A node has
to live, to answer, and to need no more memory for them however long it goes on (promise R9).
"""

import ctypes
import os
import random
import struct
import threading
import time

import msgpack
import zmq

from harness import Limit, wait_for
from harness.client import context, dealer
from harness.ports import take_block
from harness.waiting import scaled

ROUNDS = 3
FRAMES = 12000  # of a round
LARGE_EACH = 400  # one frame in so many is as long as a frame may be
LARGE = (1 << 20) - 200
MEMORY_MAX = 96 << 20  # what libzmq may hold of frames under way, and buffers that are made once
GONE_S = 2
GONE_MIN = 40
GONE_MEMORY_MAX = 128 << 20  # several times what is found; without a bound, as long as it goes on
UNREAD_LEN = 100 << 10
UNREAD_SENT = 3000  # frames of each of four connections, if they are taken
UNREAD_MEMORY_MAX = 4 * 2 * 128 * UNREAD_LEN  # GOSSIP_UNREAD of socket.c, which libzmq takes for half of it at times
GROWTH_MAX = 16 << 20  # from round to round, when all of that is there


def mutated(frame, noise):
    """The frame with some bytes changed, its end cut off, or a piece of it repeated."""
    frame = bytearray(frame)
    for _ in range(noise.choice((1, 1, 1, 2, 4, 16))):
        if frame:
            frame[noise.randrange(len(frame))] = noise.choice((0, 1, 0x7f, 0x80, 0xc1, 0xff, noise.randrange(256)))
    if noise.random() < 0.2:
        del frame[noise.randrange(len(frame) + 1):]
    if noise.random() < 0.2:
        at = noise.randrange(len(frame) + 1)
        frame[at:at] = frame[at // 2:at]
    return bytes(frame)


def flood(endpoint, make, noise):
    """Sends FRAMES frames from several connections, as fast as the node takes them."""
    socks = [dealer(endpoint) for _ in range(4)]
    try:
        for sock in socks:
            assert sock.poll(int(scaled(60) * 1000), zmq.POLLOUT), "no connection"
        for number in range(FRAMES):
            sock = socks[number % len(socks)]
            assert sock.poll(int(scaled(60) * 1000), zmq.POLLOUT), "the node takes nothing more"
            sock.send(make() if number % LARGE_EACH else noise.randbytes(8) + bytes(LARGE))
    finally:
        for sock in socks:
            sock.close()


def largest_mappings(node):
    """What the node needs its memory for, as far as the kernel knows: MiB and where."""
    found = []
    with open(f"/proc/{node.pid}/smaps", encoding="ascii") as smaps:
        for line in smaps:
            words = line.split()
            if not words[0].endswith(":"):
                where = " ".join(words)
            elif words[0] == "Anonymous:":
                found.append((int(words[1]) >> 10, where))
    return sorted(found, reverse=True)[:20]


def wait_memory(node, most):
    """What the node needs when it has read what is under way to it, which is at most so much."""
    def look():
        size = node.anonymous_memory()
        return size if size < most else None
    try:
        return wait_for(look, 20, f"{node} needs less than {most >> 20} MiB")
    except AssertionError as late:
        raise AssertionError(f"{late}: {node.anonymous_memory() >> 20} MiB, {largest_mappings(node)}") from late


def assert_bounded(node, endpoint, make, noise, measured):
    """Rounds of frames leave the node alive, serving, and no bigger than one round did."""
    before = node.anonymous_memory()
    sizes = []
    for _ in range(ROUNDS):
        flood(endpoint, make, noise)
        with node.client(deadline_s=20) as client:
            assert client.check(f"serves-{random.getrandbits(40)}", Limit(5)).allowed
        most = before + MEMORY_MAX if not sizes else sizes[0] + GROWTH_MAX
        sizes.append(wait_memory(node, most))
    assert node.is_running
    measured("memory before and after each round", f"{before >> 20} MiB, {[size >> 20 for size in sizes]}")


def send_and_go(endpoint, size, burst, until, gone):
    """Connections one after the other: each sends a burst that is no message, and closes."""
    noise = bytes(size)
    own = zmq.Context()
    while time.monotonic() < until or (len(gone) < GONE_MIN and time.monotonic() < until + scaled(60)):
        sock = own.socket(zmq.DEALER)
        sock.setsockopt(zmq.LINGER, 200)
        sock.setsockopt(zmq.SNDHWM, 0)
        sock.connect(f"tcp://{endpoint}")
        for _ in range(burst):
            sock.send(noise)
        sock.close()
        gone.append(burst)
    own.destroy(200)


def test_clients_that_send_much_and_go_leave_no_memory_behind(new_cluster, measured):
    """What a client sent stays with libzmq until it is read, also when the client is gone; a node that is
    behind must leave most of it in the clients' own connections. (Of clients that send less than is read
    ahead of each, more stays; node/runtime/README.md tells how much, and that nothing bounds it.)"""
    cluster = new_cluster(1).start()
    node = cluster[0]
    before = node.anonymous_memory()
    until = time.monotonic() + scaled(GONE_S)
    gone = []
    threads = [threading.Thread(target=send_and_go, args=(node.endpoint, 200, 2000, until, gone))
               for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    after = wait_memory(node, before + GONE_MEMORY_MAX)
    with node.client(deadline_s=30) as client:
        assert client.check("serves", Limit(5)).allowed
    measured("memory before and after bursts of 2000 x 200 bytes from clients that go",
             f"{before >> 20} MiB, {after >> 20} MiB after {sum(gone)} from {len(gone)}")
    assert len(gone) >= GONE_MIN
    assert after - before < GONE_MEMORY_MAX


# Gossip: what a member says to a seed, changed in every way; and the messages of joining and of the register.
def test_changed_gossip_harms_nothing(new_cluster, measured):
    noise = random.Random(9)
    block = take_block()
    port = block.first
    seed = context.socket(zmq.ROUTER)
    seed.linger = 0
    seed.bind(f"tcp://127.0.0.1:{port}")
    try:
        node = new_cluster(1, "--bootstrap", "--seed", f"127.0.0.1:{port}").start()[0]
        heard = []

        def listen():
            while seed.poll(0):
                heard.append(seed.recv_multipart()[-1])
            return len(heard) >= 3
        wait_for(listen, 60, "the node asks its seed")
    finally:
        seed.close()
        block.close()
    cluster_id = bytes.fromhex(node.status()["cluster_id"])
    config = msgpack.packb([1, 7, 4096, 3, [5], [[5, 100, [0], "x", ""]], None])
    joins = [[1, kind, cluster_id, 5, "127.0.0.1:1", bytes(16), bytes(16), 4096, 3, config] for kind in range(1, 5)]
    register = [[1, 4 + kind, cluster_id, 5, "127.0.0.1:1", noise.randrange(4), 9, 5, 1, 8, 5, 1, config]
                for kind in range(1, 6)]
    models = [frame for frame in heard if frame] + [b"\xc1" + msgpack.packb(whole) for whole in joins + register]
    assert_bounded(node, node.gossip, lambda: mutated(noise.choice(models), noise), noise, measured)


class Held:
    """One thread of a process stands still, as on a machine that has no time for it; the others go on."""
    SEIZE, INTERRUPT, DETACH, STOPPED = 0x4206, 0x4207, 17, 0x40000000  # __WALL

    def __init__(self, thread):
        self.thread = thread
        self.libc = ctypes.CDLL(None, use_errno=True)
        self.libc.ptrace.argtypes = [ctypes.c_long, ctypes.c_long, ctypes.c_void_p, ctypes.c_void_p]
        self.libc.ptrace.restype = ctypes.c_long

    def ask(self, what):
        if self.libc.ptrace(what, self.thread, None, None) != 0:
            raise OSError(ctypes.get_errno(), f"ptrace {what:#x}")

    def __enter__(self):
        self.ask(self.SEIZE)
        self.ask(self.INTERRUPT)
        os.waitpid(self.thread, self.STOPPED)
        return self

    def __exit__(self, *ignored):
        self.ask(self.DETACH)


# What libzmq has read for a loop that is behind: the rare growth of a node under hostile gossip was this.
def test_gossip_that_nobody_has_read_yet_is_bounded(new_cluster, measured):
    node = new_cluster(1).start()[0]
    before = node.anonymous_memory()
    socks = [dealer(node.gossip) for _ in range(4)]
    frame = bytes(UNREAD_LEN)
    sent = 0
    try:
        for sock in socks:
            assert sock.poll(int(scaled(60) * 1000), zmq.POLLOUT), "no connection"
        with Held(node.pid):
            for sock in socks:
                for _ in range(UNREAD_SENT):
                    if not sock.poll(500, zmq.POLLOUT):
                        break
                    sock.send(frame)
                    sent += 1
            grown = node.anonymous_memory() - before
    finally:
        for sock in socks:
            sock.close(0)
    measured(f"memory more with {sent} frames of {UNREAD_LEN >> 10} KiB sent and none read", f"{grown >> 20} MiB")
    assert sent >= 4 * 128
    assert grown < UNREAD_MEMORY_MAX
    wait_memory(node, before + GROWTH_MAX)
    with node.client(deadline_s=20) as client:
        assert client.check("serves", Limit(5)).allowed


def forged(noise, ids):
    """A frame in the name of a member, whose records are of known types with arbitrary content."""
    records = b""
    for _ in range(noise.randrange(1, 6)):
        body = noise.randbytes(noise.choice((12, 24, 40, 69, 70, 90, 160)))
        vnode = struct.pack("<I", noise.randrange(4096))
        records += bytes([noise.randrange(1, 26)]) + (vnode + body if noise.random() < 0.8 else body)
    whole = [1, noise.choice(ids), 0, noise.randrange(1, 4), records]
    return msgpack.packb(whole + [1] if noise.random() < 0.2 else whole)


# Peers: frames in the name of another member, of every type of record, and those with bytes changed.
def test_forged_frames_of_a_member_harm_no_process(new_cluster, measured):
    noise = random.Random(10)
    cluster = new_cluster(2).start()
    node = cluster[0]
    ids = [int(member["id"], 16) for member in node.members().values()] + [0, 1, (1 << 64) - 1]

    def make():
        frame = forged(noise, ids)
        return frame if noise.random() < 0.6 else mutated(frame, noise)
    before = node.anonymous_memory()
    for _ in range(ROUNDS):
        flood(f"{node.host}:{node.port + 1}", make, noise)
    wait_for(lambda: (node.try_admin("status") or {}).get("node") == node.name, 30, "the node answers")
    assert all(one.is_running for one in cluster)
    grown = wait_memory(node, before + MEMORY_MAX) - before
    measured("memory more after forged frames", f"{grown >> 20} MiB")
    # A process that nobody harms any more finds its way back, whatever it was made to believe.
    for one in cluster:
        one.kill()
    for one in cluster:
        one.start()
    cluster.wait_healthy(30)

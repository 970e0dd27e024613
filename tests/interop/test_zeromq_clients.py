"""Implementations of ZeroMQ beside a node that speaks its protocol without it, and libzmq's own ROUTER as a measure."""

import os
import random
import socket
import struct
import subprocess
import threading

import msgpack
import pytest
import zmq

import kits
from harness import Cluster, Limit, scaled
from harness.client import context, dealer, encode_checks

SECONDS = 90
YEARS = 9 * 365 * 86400 * 10**9
FOLDER = os.path.join(os.path.dirname(os.path.abspath(__file__)), "clients")
ROUNDS = 60
MESSAGES = 40
GREETING = b"\xff" + bytes(8) + b"\x7f\x03%cNULL" + bytes(48)


@pytest.fixture(scope="module")
def node(tmp_path_factory):
    with Cluster(tmp_path_factory.mktemp("zeromq"), 1) as cluster:
        yield cluster.start()[0]


@pytest.fixture(scope="module")
def commands():
    python = kits.pip("zeromq-python", "pyzmq==27.1.0")
    node_modules = kits.npm("zeromq-node", "zeromq@6.5.0")
    with open(os.path.join(FOLDER, "zeromq.js"), encoding="utf-8") as file, \
         open(os.path.join(node_modules, "zeromq.js"), "w", encoding="utf-8") as copy:
        copy.write(file.read())
    with open(os.path.join(FOLDER, "zeromq.go"), encoding="utf-8") as file:
        go = kits.go("zeromq-go", file.read(), "github.com/go-zeromq/zmq4@v0.17.0")
    return {"pyzmq": [os.path.join(python, "bin/python"), os.path.join(FOLDER, "zeromq.py")],
            "zeromq.js": ["node", os.path.join(node_modules, "zeromq.js")],
            "go-zeromq": [go]}


def checks(session, seq, values, cost=1):
    # Of a day's window a token would come back every 86 ms, while other bytes are under way.
    template, encoded = Limit(1000000, YEARS).template(), [Limit.item(value) for value in values]
    return encode_checks(session, seq, 0, 5000, template, encoded, cost=cost)


def used_of(frame):
    """How much each key of a DECISIONS message has used."""
    message = msgpack.unpackb(frame, strict_map_key=False)
    return list(struct.unpack(f"<{message[5]}Q", message[9]))


# From a few bytes to what takes a frame of more than 64 KiB.
@pytest.mark.parametrize("client", ["pyzmq", "zeromq.js", "go-zeromq"])
def test_a_client_of_another_make_is_answered(commands, node, client):
    session = random.getrandbits(60) + 1
    frames = [checks(session, seq, [f"{client}-{number}" for number in range(count)])
              for seq, count in enumerate((1, 2, 30, 4000, 1), 1)]
    done = subprocess.run([*commands[client], str(node.port)], input="\n".join(frame.hex() for frame in frames) + "\n",
                          capture_output=True, text=True, check=False, timeout=scaled(60))
    assert done.returncode == 0, done.stderr
    answers = [used_of(bytes.fromhex(line)) for line in done.stdout.split()]
    assert [len(answer) for answer in answers] == [1, 2, 30, 4000, 1]
    assert [answer[0] for answer in answers] == [1, 2, 3, 4, 5]


# ---- the same bytes to a ROUTER of libzmq's and to the node

class Relay:
    """A ROUTER of libzmq's, whose clients' messages go to the node, each by a socket of its client's own."""

    def __init__(self, endpoint):
        self.endpoint = endpoint
        self.router = context.socket(zmq.ROUTER)
        self.router.linger = 0
        self.port = self.router.bind_to_random_port("tcp://127.0.0.1", 20000, 29999)
        self.ended = threading.Event()
        self.thread = threading.Thread(target=self.run)
        self.thread.start()

    def run(self):
        sockets = {}
        poller = zmq.Poller()
        poller.register(self.router, zmq.POLLIN)
        while not self.ended.is_set():
            for ready, _ in poller.poll(50):
                if ready is self.router:
                    name, frame = self.router.recv_multipart()
                    if name not in sockets:
                        sockets[name] = dealer(self.endpoint)
                        assert sockets[name].poll(scaled(10) * 1000, zmq.POLLOUT)
                        poller.register(sockets[name], zmq.POLLIN)
                    sockets[name].send(frame)
                else:
                    name = next(name for name, each in sockets.items() if each is ready)
                    self.router.send_multipart([name, ready.recv()])
        for each in sockets.values():
            each.close()
        self.router.close()

    def __enter__(self):
        return self

    def __exit__(self, *ignored):
        self.ended.set()
        self.thread.join()


def frame_of(flags, body, noise):
    """Short or long, as a peer likes where both are possible."""
    if len(body) > 255 or noise.random() < 0.2:
        return bytes([flags | 2]) + struct.pack(">Q", len(body)) + body
    return bytes([flags, len(body)]) + body


def beginning(noise):
    """A greeting and a READY, as they may be."""
    properties = [(b"Socket-Type", b"DEALER")]
    if noise.random() < 0.5:
        properties.append((b"Identity", noise.choice((b"", b"me-%d" % noise.getrandbits(40)))))
    if noise.random() < 0.3:
        properties.insert(0, (b"X-Something", noise.randbytes(noise.randrange(300))))
    metadata = b"".join(bytes([len(name)]) + name + struct.pack(">I", len(value)) + value for name, value in properties)
    return GREETING % noise.randrange(2) + frame_of(4, b"\x05READY" + metadata, noise)


def send_pieces(link, data, noise):
    at = 0
    while at < len(data):
        piece = noise.choice((1, 7, 64, 500, 5000, 1 << 20))
        link.sendall(data[at:at + piece])
        at += piece


def read_frame(source):
    """(whether it is a command, its body)"""
    flags = source.read(1)[0]
    length = struct.unpack(">Q", source.read(8))[0] if flags & 2 else source.read(1)[0]
    return flags & 4, source.read(length)


def talk(port, first, stream, answers, noise):
    """Shakes hands, and sends the bytes, all in pieces; the messages that come back, of which there are so many.
    Nothing is sent before the other side is ready: libzmq takes it for a wrong handshake."""
    found = []
    with socket.create_connection(("127.0.0.1", port), scaled(20)) as link:
        source = link.makefile("rb")
        send_pieces(link, first, noise)
        assert source.read(64)[:1] == b"\xff"
        assert read_frame(source)[1].startswith(b"\x05READY")
        send_pieces(link, stream, noise)
        while len(found) < answers:
            command, body = read_frame(source)
            assert not command
            found.append(body)
    return found


def test_the_same_bytes_are_decided_as_behind_a_router_of_libzmq(node):
    noise = random.Random(11)
    with Relay(node.endpoint) as relay:
        for number in range(ROUNDS):
            sizes = [noise.choice((1, 1, 2, 9, 200, 3000)) for _ in range(noise.randrange(1, MESSAGES))]
            costs = [noise.randrange(1, 9) for _ in sizes]
            seen = []
            for port, name in ((node.port, "node"), (relay.port, "libzmq")):
                own = random.Random(number)
                first, stream = beginning(own), b""
                session = own.getrandbits(60) + 1 + (name == "node")
                for seq, (size, cost) in enumerate(zip(sizes, costs), 1):
                    frame = checks(session, seq, [f"{name}-{number}-{each}" for each in range(size)], cost)
                    stream += frame_of(0, frame, own)
                    if own.random() < 0.2:
                        stream += frame_of(4, b"\x0bNobodyKnows" + own.randbytes(own.randrange(40)), own)
                found = talk(port, first, stream, len(sizes), own)
                seen.append([used_of(answer) for answer in found])
            assert seen[0] == seen[1]
            assert [len(each) for each in seen[0]] == sizes

"""Clients that want to end a node, or to keep it from others: the ports that strangers reach.

Each does what once ended or filled a node whose client port was libzmq's, or would hold on to what others
need. A node has to live, to need little memory for them, to answer who asks honestly as before, and to
take in who comes new.
"""

import resource
import socket
import struct
import threading
import time

import pytest
import zmq

from harness import Http, Limit, wait_for
from harness.resp import Resp
from harness.waiting import scaled

GREETING = b"\xff" + bytes(8) + b"\x7f\x03\x01NULL" + bytes(48)
DEALER = b"\x0bSocket-Type" + struct.pack(">I", 6) + b"DEALER"
MEMORY_MAX = 64 << 20
P99_TIMES = 2
P99_LEAST_S = 0.010  # below, the scheduler decides: other tests run beside this one
CHECKS = 400


def ready(metadata=DEALER):
    body = b"\x05READY" + metadata
    return bytes([4, len(body)]) + body


# What libzmq's first sockets count their connections from: glibc's rand(), which nobody seeds.
COUNTED_FROM = (0x6b8b4567, 0xe43c9869, 0xf4b0dc51)


class Crowd:
    """Connections that are held."""

    def __init__(self):
        self.sockets = []

    def __enter__(self):
        return self

    def __exit__(self, *ignored):
        for each in self.sockets:
            each.close()

    def dial(self, port, first=b"", host="127.0.0.1"):
        each = socket.socket()
        each.settimeout(scaled(20))
        each.bind((host, 0))
        each.connect(("127.0.0.1", port))
        if first:
            each.sendall(first)
        self.sockets.append(each)
        return each

    def shake_hands(self, port, identity=b""):
        """A native client that calls itself that. It lets the node speak in between: libzmq breaks off otherwise."""
        each = self.dial(port, GREETING)
        greeting = b""
        while len(greeting) < len(GREETING):
            greeting += each.recv(len(GREETING) - len(greeting))
        each.sendall(ready(DEALER + b"\x08Identity" + struct.pack(">I", len(identity)) + identity))
        assert greeting[:1] == b"\xff" and each.recv(2) == b"\x04\x29"
        return each


def flowing(each, chunk, seconds):
    """Sends the chunk again and again, until the node closes the connection or the time is over; bytes sent."""
    until = time.monotonic() + scaled(seconds)
    sent = 0
    each.settimeout(0.2)
    while time.monotonic() < until:
        try:
            sent += each.send(chunk)
        except TimeoutError:
            continue
        except OSError:
            return sent
    return sent


def p99_of(client, name):
    took = []
    for _ in range(CHECKS):
        began = time.monotonic()
        assert client.check(name, Limit(1000000)).allowed
        took.append(time.monotonic() - began)
    return sorted(took)[CHECKS * 99 // 100]


@pytest.fixture
def many_files():
    before = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (before[1], before[1]))
    yield before[1]
    resource.setrlimit(resource.RLIMIT_NOFILE, before)


@pytest.fixture
def plenty_of_files():
    """More files than most machines give, where this process may have them: a node gives half of its own to clients."""
    before = resource.getrlimit(resource.RLIMIT_NOFILE)
    for wanted in (65536, before[1]):
        try:
            resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, max(wanted, before[1])))
            break
        except (ValueError, OSError):
            continue
    yield resource.getrlimit(resource.RLIMIT_NOFILE)[0]
    resource.setrlimit(resource.RLIMIT_NOFILE, before)


def pings(node):
    """Whether a newcomer is answered. One that comes while all have just said something may be refused."""
    with Resp(f"{node.host}:{node.port + 3}") as newcomer:
        return newcomer.ask("PING") == "PONG"


@pytest.fixture
def attacked(new_cluster, measured):
    """A node, and what is asked of it when the attack is on."""
    node = new_cluster(1).start()[0]
    before = node.anonymous_memory()

    def unharmed(what, memory_max=MEMORY_MAX):
        grown = node.anonymous_memory() - before
        assert node.is_running
        with node.client(deadline_s=scaled(10)) as newcomer:
            assert newcomer.check("newcomer", Limit(1000000)).allowed
        wait_for(lambda: pings(node), 5, "a newcomer has the place of a connection that is quiet")
        measured(f"memory more beside {what}", f"{grown >> 20} MiB")
        assert grown <= memory_max
    node.unharmed = unharmed
    return node


# libzmq's own numbers for connections have this form; who took the one that is next ended the process.
def test_names_that_clients_choose_end_no_node(attacked):
    with Crowd() as crowd:
        for number in range(60):
            for first in COUNTED_FROM:
                name = b"\0" + struct.pack(">I", (first + number) % 2**32)
                crowd.shake_hands(attacked.port, name).sendall(b"\0\x04junk")
            if number % 10 == 9:
                crowd.shake_hands(attacked.port)
        attacked.unharmed("chosen names")


# Each PING is read with messages that fill the queue before it, and its connection is gone by then.
def test_a_ping_behind_messages_that_are_not_read_ends_no_node(attacked):
    for _ in range(5):
        with Crowd() as crowd:
            for _ in range(200):
                each = crowd.shake_hands(attacked.port)
                each.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
            for each in crowd.sockets:
                each.sendall(b"\0\x04junk" * 1200 + b"\x04\x07\x04PING\0\0")
    attacked.unharmed("pings of broken connections")


# A hundred MiB of frames that more are to follow, which libzmq keeps for ever, whatever a message may have.
def test_frames_without_an_end_are_not_kept(attacked):
    with Crowd() as crowd:
        for _ in range(4):
            each = crowd.shake_hands(attacked.port)
            sent = flowing(each, b"\1\0" * 32768, 20)
            assert sent < 8 << 20, "it took that all"
        attacked.unharmed("frames without an end")


def test_a_frame_that_is_announced_and_does_not_come_costs_what_has_come(attacked):
    with Crowd() as crowd:
        for _ in range(1000):
            crowd.dial(attacked.port, GREETING + ready() + b"\2" + struct.pack(">Q", 1 << 20) + bytes(1000))
        attacked.unharmed("a thousand frames that do not come")


def serves_beside(node, crowd, count, port, first):
    """What an honest client notices when so many connections are there that say no more than that."""
    with node.client(deadline_s=scaled(20)) as honest:
        before = min(p99_of(honest, "honest") for _ in range(3))
        for number in range(count):
            crowd.dial(port, first, f"127.0.{1 + number % 3}.{1 + number % 200}")
        beside = min(p99_of(honest, "honest") for _ in range(3))
    assert beside <= max(P99_TIMES * before, P99_LEAST_S), f"p99 {before * 1000:.2f} ms, then {beside * 1000:.2f} ms"


# More than a shard takes of one protocol, and as many as the machine lets this process have.
@pytest.mark.parametrize("kind", ["redis", "native", "http"])
def test_idle_connections_keep_nobody_out(attacked, many_files, measured, kind):
    wanted, port, first = {"redis": (10050, 3, b"PING\r\n"), "native": (19000, 0, GREETING + ready()),
                           "http": (20000, 4, b"GET /livez HTTP/1.1\r\nHost: localhost\r\n\r\n")}[kind]
    count = min(wanted, many_files - 500)
    with Crowd() as crowd:
        serves_beside(attacked, crowd, count, attacked.port + port, first)
        measured(f"{kind} connections that are idle", count)
        attacked.unharmed(f"{count} idle connections")


# Each has begun a request and does not end it: a third of them of each protocol.
def test_two_thousand_that_dawdle_keep_nobody_out(attacked, many_files, measured):
    count = min(2000, many_files - 500) // 2
    with Crowd() as crowd:
        serves_beside(attacked, crowd, count, attacked.port + 4, b"POST /v1/check HTTP/1.1\r\nX: y")
        serves_beside(attacked, crowd, count, attacked.port + 3, b"*2\r\n$4\r\nECHO\r\n$60000\r\nx")
        serves_beside(attacked, crowd, count, attacked.port, GREETING[:20])
        attacked.unharmed(f"{3 * count} that dawdle")


HEAD = b"POST /v1/check HTTP/1.1\r\nHost: localhost\r\nX-Long: " + b"y" * 200
BYTE_S = 0.045  # a head is not complete when its time is over
HEAD_S = 10  # from its first byte, however many follow it


class Dripping:
    """A connection that sends a head byte by byte."""

    def __init__(self, link):
        self.link = link
        self.began = time.monotonic()
        self.sent = 1
        self.heard = b""
        self.ended = None
        link.sendall(HEAD[:1])
        link.setblocking(False)

    def go_on(self):
        """Takes what the node says; else, when it is time for that, says one byte more."""
        now = time.monotonic()
        try:
            self.heard += self.link.recv(4096)
            self.ended = now
        except BlockingIOError:
            if now - self.began > self.sent * BYTE_S:
                self.sent += self.link.send(HEAD[self.sent:self.sent + 1])


# Each byte says that it is alive: the time for a head is not one between two bytes.
@pytest.mark.slow
def test_heads_that_come_byte_by_byte_keep_nobody_out_and_are_cut_off(attacked, many_files, measured):
    count = min(1000, many_files - 500)
    own = {"key": "honest", "rate": "1000000/s"}
    took = []
    with Crowd() as crowd, Http(attacked) as honest:
        crowd_of = [Dripping(crowd.dial(attacked.port + 4)) for _ in range(count)]
        until = time.monotonic() + scaled(2 * HEAD_S)
        while (alive := [each for each in crowd_of if each.ended is None]) and time.monotonic() < until:
            for number, each in enumerate(alive):
                each.go_on()
                if number % 100 == 0:
                    began = time.monotonic()
                    assert honest.post("/v1/check", own).status == 200
                    took.append(time.monotonic() - began)
        assert not alive, f"{len(alive)} of {count} are still there"
        assert all(each.heard.startswith(b"HTTP/1.1 408 ") and each.sent > 100 for each in crowd_of)
        lasted = sorted(each.ended - each.began for each in crowd_of)
        assert HEAD_S <= lasted[0] and lasted[-1] < scaled(HEAD_S + 4)
        p99 = sorted(took)[len(took) * 99 // 100]
        measured("p99 of checks beside heads byte by byte", f"{p99 * 1000:.2f} ms of {len(took)}")
        assert p99 < scaled(0.05)
        figures = attacked.fresh_status()["http"]
        assert figures["expired"] == count and figures["unfinished"] == count
        attacked.unharmed(f"{count} heads byte by byte")


# As many as this machine lets a node have files for, 20,000 at most: each goes on where it was.
def test_connections_are_kept_alive_by_the_ten_thousand(new_cluster, plenty_of_files, measured):
    count = min(20000, plenty_of_files // 2 - 500)
    node = new_cluster(1).start()[0]
    before = node.anonymous_memory()
    asked = b"GET /livez HTTP/1.1\r\nHost: localhost\r\n\r\n"
    with Crowd() as crowd:
        for turn in range(2):
            for number in range(count):
                if turn == 0:
                    crowd.dial(node.port + 4, asked)
                else:
                    crowd.sockets[number].sendall(asked)
            for each in crowd.sockets:
                assert each.recv(4096).startswith(b"HTTP/1.1 200 OK\r\n")
        figures = node.fresh_status()["http"]
        grown = node.anonymous_memory() - before
        measured(f"memory of {count} connections that are kept alive", f"{grown >> 20} MiB")
        assert figures["connections"] == figures["accepted"] == count
        assert figures["idle"] == figures["refused"] == 0 and grown < MEMORY_MAX


def test_a_beginning_that_does_not_end_is_cut_off(attacked):
    with Crowd() as crowd:
        each = crowd.dial(attacked.port, GREETING[:20])
        each.settimeout(scaled(15))
        assert len(each.recv(64)) == 64
        assert each.recv(1) == b""
    assert attacked.status()["clients"]["unfinished"] == 1


def test_floods_of_connections_that_come_and_go_keep_nobody_out(attacked, measured):
    ended = threading.Event()
    came = []

    def come_and_go(port, first):
        while not ended.is_set():
            with Crowd() as crowd:
                try:
                    crowd.dial(port, first)
                except OSError:
                    continue
            came.append(1)
    threads = [threading.Thread(target=come_and_go, args=args)
               for args in ((attacked.port, GREETING + ready()), (attacked.port + 3, b"PING\r\n"))]
    for thread in threads:
        thread.start()
    try:
        with attacked.client(deadline_s=scaled(20)) as honest:
            for _ in range(2000):
                assert honest.check("honest", Limit(1000000)).allowed
    finally:
        ended.set()
        for thread in threads:
            thread.join()
    measured("connections that came and went", len(came))
    attacked.unharmed("connections that come and go")


# A stranger who speaks something else is closed, and told so where the protocol has words for it.
def test_who_speaks_another_protocol_is_closed(attacked):
    for port, first in ((attacked.port, b"GET / HTTP/1.1\r\nHost: x\r\n\r\n"), (attacked.port, b"PING\r\n"),
                        (attacked.port, b"\x16\x03\x01\x02\x00\x01")):
        with Crowd() as crowd:
            each = crowd.dial(port, first)
            found = b""
            while True:
                some = each.recv(4096)
                if not some:
                    break
                found += some
            assert found.startswith(b"\xff")
    assert attacked.status()["clients"]["protocol_errors"] == 3


def test_a_socket_of_another_type_is_refused(attacked):
    with zmq.Context() as context:
        for number, kind in enumerate((zmq.REQ, zmq.SUB, zmq.PUSH), 1):
            with context.socket(kind) as sock:
                sock.linger = 0
                sock.connect(f"tcp://{attacked.endpoint}")
                wait_for(lambda: attacked.status()["clients"]["protocol_errors"] >= number, 20,
                         "it is told that it is no DEALER")
    attacked.unharmed("sockets of other types")

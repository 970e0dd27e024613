"""gRPC by raw frames and by curl: at both ports, for whoever is not a client of it, and at a node that stops."""

import contextlib
import json
import signal
import socket
import struct
import subprocess
import threading

import pytest

from harness import scaled, wait_for
from harness.metrics import Page

PREFACE = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"
CHECK = "/grpc.health.v1.Health/Check"
DATA, HEADERS, RST_STREAM, SETTINGS, PING, GOAWAY, WINDOW_UPDATE = 0, 1, 3, 4, 6, 7, 8
ACK = END_STREAM = 1
END_HEADERS = 4
LAST = 2 ** 31 - 1


def frame(kind, flags=0, stream=0, payload=b""):
    return struct.pack(">I", len(payload))[1:] + bytes((kind, flags)) + struct.pack(">I", stream) + payload


class Raw:
    """A connection of HTTP/2 whose frames are told one by one."""

    def __init__(self, port):
        self.socket = socket.create_connection(("127.0.0.1", port), timeout=scaled(20))
        self.bytes = b""
        self.socket.sendall(PREFACE + frame(SETTINGS))

    def next(self):
        """(type, flags, stream, payload); None at the end."""
        while len(self.bytes) < 9 or len(self.bytes) < 9 + int.from_bytes(self.bytes[:3], "big"):
            piece = self.socket.recv(65536)
            if not piece:
                return None
            self.bytes += piece
        end = 9 + int.from_bytes(self.bytes[:3], "big")
        kind, flags, stream = struct.unpack(">BBI", self.bytes[3:9])
        payload, self.bytes = self.bytes[9:end], self.bytes[end:]
        return kind, flags, stream, payload

    def until_end(self):
        return list(iter(self.next, None))


def literal(index, text):
    """A field of HPACK that enters no table: the name is one of the static table's first fifteen, or number 31."""
    return (bytes((index,)) if index < 15 else bytes((15, index - 15))) + bytes((len(text),)) + text.encode()


def question(stream):
    """A Check of the node."""
    fields = b"\x83\x86" + literal(4, CHECK) + literal(1, "a") + literal(31, "application/grpc")
    return frame(HEADERS, END_HEADERS, stream, fields) + frame(DATA, END_STREAM, stream, bytes(5))


def curl(*arguments, said=b""):
    return subprocess.run(["curl", "-sS", "--http2-prior-knowledge", "--max-time", str(scaled(20)), *arguments],
                          input=said, capture_output=True, timeout=scaled(30), check=True).stdout


def health(address):
    """What curl shows of a Check of the node: head, message, trailers."""
    return curl("-i", "-H", "content-type: application/grpc", "--data-binary", "@-", f"http://{address}{CHECK}",
                said=bytes(5))


def figures(node):
    return node.status()["http"]


@pytest.fixture
def node(single):
    return single[0]


# Both ports answer gRPC and HTTP/1.1, and what was done is counted.
def test_health_is_answered_at_the_ports_of_grpc_and_of_http(node):
    before = figures(node)
    for port in (node.port + 5, node.port + 4):
        said = health(f"127.0.0.1:{port}")
        assert said.startswith(b"HTTP/2 200") and b"content-type: application/grpc" in said
        assert bytes((0, 0, 0, 0, 2, 8, 1)) in said and b"grpc-status: 0" in said
        plain = subprocess.run(["curl", "-sS", f"http://127.0.0.1:{port}/readyz"], capture_output=True, check=True)
        assert json.loads(plain.stdout)["status"] == "ready"
    wait_for(lambda: figures(node)["grpc_calls"] >= before["grpc_calls"] + 2, 10, "both calls to be counted")
    after = figures(node)
    assert after["h2_connections"] == before["h2_connections"] + 2 and after["grpc_faults"] == before["grpc_faults"]


# Prometheus is told of each by method and status, from the start, and of whoever went away.
def test_requests_are_counted_by_method_and_status(new_cluster):
    node = new_cluster(1).start()[0]
    grpc = "tidegate_grpc_requests_total"
    first = Page(node.http)
    methods = {dict(pairs)["method"] for name, pairs in first.series if name == grpc}
    assert CHECK[1:] in methods and "other" in methods and all("." in one for one in methods - {"other"})
    assert first.of(grpc) == 0 and first.of("tidegate_http2_streams_total") == 0
    health(f"127.0.0.1:{node.port + 5}")
    address = f"http://127.0.0.1:{node.port + 5}"
    curl("-H", "content-type: application/grpc", "--data-binary", "@-", f"{address}/a.B/C", said=bytes(5))
    curl(f"{address}/readyz")  # no gRPC
    gone = Raw(node.port + 5)
    gone.socket.sendall(question(1)[:-14] + frame(RST_STREAM, 0, 1, struct.pack(">I", 8)))
    wait_for(lambda: Page(node.http).of("tidegate_http2_resets_total", reason="cancelled") == 1, 10, "it is counted")
    page = Page(node.http)
    assert page.of(grpc, method=CHECK[1:], status="OK") == 1
    assert page.of(grpc, method="other", status="UNIMPLEMENTED") == 1
    assert page.of(grpc) == 2
    assert page.of("tidegate_http2_streams_total") == 4 and page.of("tidegate_http2_connections_total") == 4


# The node's settings are its first frame, with room for a thousand streams and a megabyte ahead, of a stream and of the
# connection. A request that came with the preface, before anything was heard, is answered: head, message, trailers.
def test_a_connection_begins_with_settings_and_windows(node):
    raw = Raw(node.port + 5)
    raw.socket.sendall(question(1))
    kind, flags, stream, payload = raw.next()
    assert (kind, flags, stream) == (SETTINGS, 0, 0)
    told = dict(struct.unpack(">HI", payload[at:at + 6]) for at in range(0, len(payload), 6))
    assert told[3] >= 1024 and told[4] == 2 ** 20 and 8192 <= told[6] <= 16384 and told.get(1, 4096) == 4096
    frames = [raw.next()]
    while frames[-1][0] != HEADERS or not frames[-1][1] & END_STREAM:
        frames.append(raw.next())
    ahead = [struct.unpack(">I", payload)[0] for kind, _, stream, payload in frames if (kind, stream) == (WINDOW_UPDATE, 0)]
    assert 65535 + sum(ahead) >= 2 ** 20
    assert [(kind, flags & END_STREAM) for kind, flags, stream, _ in frames if stream == 1] == [
        (HEADERS, 0), (DATA, 0), (HEADERS, END_STREAM)]
    assert [payload for kind, _, _, payload in frames if kind == DATA] == [bytes((0, 0, 0, 0, 2, 8, 1))]


# What is refused by its head is told when it is whole, or late: one head that ends the stream, and a second later a reset
# without an error.
def test_a_refusal_is_one_frame_and_a_reset_without_an_error(node):
    raw = Raw(node.port + 5)
    fields = b"\x83\x86" + literal(4, "/a.B/C") + literal(1, "a") + literal(31, "application/grpc")
    raw.socket.sendall(frame(HEADERS, END_HEADERS, 1, fields))
    frames = [raw.next()]
    while frames[-1][0] != RST_STREAM:
        frames.append(raw.next())
    assert [(kind, flags) for kind, flags, stream, _ in frames if stream == 1] == [
        (HEADERS, END_HEADERS | END_STREAM), (RST_STREAM, 0)]
    assert frames[-1][3] == bytes(4)  # NO_ERROR


# Who asks whether the node lives is told, each time, and never that this is too often.
def test_pings_are_answered_and_none_is_too_many(node):
    raw = Raw(node.port + 5)
    for number in range(50):
        word = struct.pack(">Q", number)
        raw.socket.sendall(frame(PING, payload=word))
        told = raw.next()
        while told[0] != PING:
            assert told[0] != GOAWAY
            told = raw.next()
        assert told == (PING, ACK, 0, word)
    raw.socket.sendall(question(1))
    assert HEADERS in [raw.next()[0] for _ in range(3)]


# A path of the JSON API is no method: by HTTP/2 it is asked for as gRPC or not at all.
def test_whoever_is_no_client_of_grpc_is_told_by_a_status_of_http(node):
    said = curl("-i", "-o", "-", "-w", "%{http_code}", f"http://127.0.0.1:{node.port + 5}/readyz")
    assert said.startswith(b"HTTP/2 415") and said.endswith(b"415")


# It is told that the end is near, then which stream was the last, and then the connection ends.
def test_a_node_that_stops_ends_its_connections_in_two_steps(new_cluster):
    node = new_cluster(1).start()[0]
    raw = Raw(node.port + 5)
    raw.socket.sendall(frame(PING, payload=b"01234567"))
    seen = [raw.next()]
    while seen[-1][0] != PING:
        seen.append(raw.next())
    node.signal(signal.SIGTERM)
    rest = raw.until_end()
    words = [struct.unpack(">II", payload[:8]) for kind, _, _, payload in rest if kind == GOAWAY]
    assert words == [(LAST, 0), (0, 0)]
    assert node.wait_exit() == 0


# The place for metrics alone has nothing of gRPC.
def test_the_place_for_metrics_has_no_http_2(new_cluster):
    cluster = new_cluster(1)
    node = cluster.nodes[0]
    port = node.port + 9
    node.start("--metrics", f"127.0.0.1:{port}")
    node.wait_ready()
    with socket.create_connection(("127.0.0.1", port), timeout=scaled(20)) as plain:
        plain.sendall(PREFACE + frame(SETTINGS))
        assert plain.recv(4096).startswith(b"HTTP/1.1 505 ")


# Who wants no HTTP is given none at another port, unless it is named.
def test_without_http_there_is_grpc_only_where_it_is_asked_for(new_cluster):
    node = new_cluster(1).nodes[0]
    node.start("--http", "off")
    node.wait_ready()
    with pytest.raises(ConnectionRefusedError):
        socket.create_connection(("127.0.0.1", node.port + 5), timeout=scaled(20))
    node.stop()
    node.start("--http", "off", "--grpc", f"127.0.0.1:{node.port + 5}")
    node.wait_ready()
    assert b"grpc-status: 0" in health(f"127.0.0.1:{node.port + 5}")


# A client that asks and does not read is not read either, and finds every answer when it does.
def test_who_reads_late_finds_every_answer(node):
    raw = Raw(node.port + 5)
    raw.socket.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 1 << 16)  # the kernel's own may hold all of them
    raw.socket.sendall(frame(WINDOW_UPDATE, payload=struct.pack(">I", 1 << 30)))
    raw.socket.setblocking(False)
    count, rest = 0, b""
    for stream in range(1, 2 * 300000, 2):
        rest, count = question(stream), count + 1
        with contextlib.suppress(BlockingIOError):
            rest = rest[raw.socket.send(rest):]
        if rest:
            break  # the node takes no more, as its answers are not taken
    assert rest and count > 1000
    raw.socket.settimeout(scaled(20))
    answered = []
    sender = threading.Thread(target=raw.socket.sendall, args=(rest,))
    sender.start()
    while len(answered) < count:
        kind, flags, stream, _ = raw.next()
        assert kind != GOAWAY
        if kind == HEADERS and flags & END_STREAM:
            answered.append(stream)
    sender.join()
    assert sorted(answered) == list(range(1, 2 * count, 2))


# Frames that ask for nothing end the connection, and nobody else's.
def test_a_flood_of_pings_ends_its_connection(node):
    before = figures(node)["h2_floods"]
    raw = Raw(node.port + 5)
    try:
        for _ in range(3):
            raw.socket.sendall(frame(PING, payload=bytes(8)) * 1000)
        rest = raw.until_end()
    except ConnectionError:
        rest = []
    codes = [struct.unpack(">II", payload[:8])[1] for kind, _, _, payload in rest if kind == GOAWAY]
    assert codes in ([11], [])  # ENHANCE_YOUR_CALM, where it was read in time
    wait_for(lambda: figures(node)["h2_floods"] == before + 1, 10, "the flood to be counted")
    assert b"grpc-status: 0" in health(f"127.0.0.1:{node.port + 5}")

"""Adjacent protocol versions: there is only version 1, so one that is newer is refused cleanly, on every
port, and what version 1 may be extended by is ignored."""

import os
import struct
import time

import msgpack
import pytest
import zmq

from harness import Limit, wait_for
from harness.client import (CHECKS, DECISIONS, ERROR, HELLO, WELCOME, context, dealer, decode_decisions,
                            encode_checks, long_limit)
from harness.waiting import scaled

SESSION = 0x5566778899AABBCC
VERSION = -6


def ask(node, frame, within_s=60):
    """What the node answers to one frame, or None."""
    socket = dealer(node.endpoint)
    try:
        assert socket.poll(int(scaled(60) * 1000), zmq.POLLOUT)
        socket.send(frame)
        if not socket.poll(int(scaled(within_s) * 1000)):
            return None
        return msgpack.unpackb(socket.recv(), strict_map_key=False)
    finally:
        socket.close()


def stranger(port):
    """A socket to a peer or gossip port."""
    socket = context.socket(zmq.DEALER)
    socket.linger = 0
    socket.connect(f"tcp://127.0.0.1:{port}")
    return socket


# A client of another version gets an ERROR that it can read, whatever else is in its frame.
def test_a_client_of_another_version_is_told_so(single):
    for version in (0, 2, 3, 255):
        for rest in ([CHECKS, SESSION, 7, {"new": "layout"}], [HELLO, SESSION], [99, SESSION, b"x"]):
            answer = ask(single[0], msgpack.packb([version, *rest]))
            assert answer is not None and answer[1] == ERROR and answer[2] == SESSION, (version, answer)
            assert answer[4] == VERSION and "version" in answer[5], answer
    hello = ask(single[0], msgpack.packb([1, HELLO, SESSION, 2, 9, "of the future"]))
    assert hello[1] == ERROR and hello[4] == VERSION
    hello = ask(single[0], msgpack.packb([1, HELLO, SESSION, 1, 9, "of both"]))
    assert hello[1] == WELCOME and hello[3] == 1


# What version 1 may be extended by is ignored: elements at the end, and flags without a meaning yet.
def test_further_elements_of_version_1_are_ignored(single):
    limit = long_limit(5)
    frame = msgpack.unpackb(encode_checks(SESSION, 1, 0, 1000, limit.template(), ["grown"]))
    buckets, align = 0, 0
    frame[6] = [[*limit.template(), buckets, align, "further", {"element": [1, 2]}]]
    uses = None
    answer = ask(single[0], msgpack.packb([*frame, uses, "more", [1, 2, 3], None]))
    assert answer[1] == DECISIONS and decode_decisions(answer)[0].used == 1, answer
    frame[3], frame[4] = 2, 0xFFFFFFF0
    answer = ask(single[0], msgpack.packb(frame))
    assert answer[1] == DECISIONS and decode_decisions(answer)[0].used == 2, answer
    hello = ask(single[0], msgpack.packb([1, HELLO, SESSION, 1, 1, "agent", "further", 7]))
    assert hello[1] == WELCOME


# Frames of another version on the ports between nodes are counted or dropped, and change nothing.
@pytest.mark.undisturbed
def test_nodes_ignore_frames_of_another_version(trio):
    node = trio[1]
    key = trio.keys_decided_by(node.name, 1, f"versions-{time.time_ns()}")[0]
    limit = long_limit(10)
    with trio.client() as client:
        assert client.check(key, limit, cost=6).allowed
    before = node.counter("bad_frames")
    term = node.owner(key)["term"]
    ids = [int(member["id"], 16) for member in node.members().values()]
    records = struct.pack("<B", 17) + os.urandom(40)
    peer, gossip = stranger(node.port + 1), stranger(node.port + 2)
    try:
        for version in (0, 2, 7):
            for sender in ids:
                peer.send(msgpack.packb([version, sender, 0, 12345, records]))
                gossip.send(msgpack.packb([version, 1, sender, "x" * 20, records]))
        wait_for(lambda: node.counter("bad_frames") >= before + 9, 20, "they are counted")
    finally:
        peer.close()
        gossip.close()
    trio.wait_healthy()
    assert node.owner(key)["term"] == term
    with trio.client() as client:
        assert client.used(key, limit) == 6


# A peer's frame with elements behind those that are known is read as one without them.
def test_a_peers_frame_may_have_further_elements(trio):
    node = trio[1]
    before = node.counter("bad_frames")
    asked = node.counter("checks")
    peer = stranger(node.port + 1)
    try:
        other = int(trio[0].members()["n1"]["id"], 16)
        peer.send(msgpack.packb([1, other, 0, 12345, b"", 1, 0, -5, 7, "further", [1, 2]]))
        start = time.monotonic()
        wait_for(lambda: time.monotonic() - start > 0.3, 20, "it has been read")
        assert node.counter("bad_frames") == before
    finally:
        peer.close()
    with node.client() as client:
        assert client.check("still", Limit(5)).allowed
    assert node.counter("checks") >= asked
    trio.wait_healthy()

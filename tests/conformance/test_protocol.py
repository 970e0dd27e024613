"""test_protocol.py - the client protocol's vectors, read and written by an independent msgpack.

vectors.txt is also run by tests/unit/test_wire.c and test_identity.c; so a frame on which C and
Python disagree fails on one side. The SipHash here is written from its paper, not shared.
"""

import json
import pathlib
import re

import msgpack
import pytest

PROTOCOL = pathlib.Path(__file__).resolve().parents[2] / "client" / "protocol"


def blocks():
    """All blocks of the vectors file as dictionaries with their name."""
    found = []
    for text in (PROTOCOL / "vectors.txt").read_text().split("\n## ")[1:]:
        name, *lines = text.splitlines()
        fields = dict(line.split(": ", 1) if ": " in line else (line.rstrip(":"), "")
                      for line in lines if line and not line.startswith("#"))
        found.append({"name": name, **fields})
    return found


def tree(value):
    """JSON as in the file to what msgpack shall carry: {"bin": hex} is bytes."""
    if isinstance(value, list):
        return [tree(element) for element in value]
    if isinstance(value, dict):
        if set(value) == {"bin"}:
            return bytes.fromhex(value["bin"])
        return {key: tree(element) for key, element in value.items()}
    return value


def siphash(key, data):
    """SipHash-2-4 with a digest of 64 bits."""
    mask = 2**64 - 1
    k0, k1 = int.from_bytes(key[:8], "little"), int.from_bytes(key[8:], "little")
    v = [k0 ^ 0x736F6D6570736575, k1 ^ 0x646F72616E646F6D,
         k0 ^ 0x6C7967656E657261, k1 ^ 0x7465646279746573]

    def turn(x, n):
        return (x << n | x >> (64 - n)) & mask

    def rounds(count):
        for _ in range(count):
            v[0] = (v[0] + v[1]) & mask
            v[1] = turn(v[1], 13) ^ v[0]
            v[0] = turn(v[0], 32)
            v[2] = (v[2] + v[3]) & mask
            v[3] = turn(v[3], 16) ^ v[2]
            v[0] = (v[0] + v[3]) & mask
            v[3] = turn(v[3], 21) ^ v[0]
            v[2] = (v[2] + v[1]) & mask
            v[1] = turn(v[1], 17) ^ v[2]
            v[2] = turn(v[2], 32)

    padded = data + bytes(-(len(data) + 1) % 8) + bytes([len(data) % 256])
    for at in range(0, len(padded), 8):
        word = int.from_bytes(padded[at:at + 8], "little")
        v[3] ^= word
        rounds(2)
        v[0] ^= word
    v[2] ^= 0xFF
    rounds(4)
    return v[0] ^ v[1] ^ v[2] ^ v[3]


BLOCKS = blocks()
MESSAGES = [block for block in BLOCKS if "value" in block]
IDENTITIES = [block for block in BLOCKS if "identity" in block]


@pytest.mark.parametrize("block", MESSAGES, ids=lambda block: block["name"])
def test_a_frame_decodes_to_its_value(block):
    frame = bytes.fromhex(block["frame"])
    assert msgpack.unpackb(frame, raw=False, strict_map_key=True) == tree(json.loads(block["value"]))


@pytest.mark.parametrize("block", MESSAGES, ids=lambda block: block["name"])
def test_a_value_encodes_to_its_frame(block):
    assert msgpack.packb(tree(json.loads(block["value"])), use_bin_type=True).hex() == block["frame"]


@pytest.mark.parametrize("block", IDENTITIES, ids=lambda block: block["name"])
def test_an_identity_falls_on_its_vnode(block):
    digest = siphash(bytes.fromhex(block["route_key"]), bytes.fromhex(block["identity"]))
    assert digest * int(block["vnodes"]) >> 64 == int(block["vnode"])


def test_siphash_is_that_of_its_paper():
    key, data = bytes(range(16)), bytes(range(15))
    assert siphash(key, data) == 0xA129CA6149BE45E5


def test_every_message_has_a_vector():
    accepted = {json.loads(block["value"])[1] for block in MESSAGES if "error" not in block}
    assert accepted == set(range(1, 11))


def test_every_example_of_the_specification_is_a_vector():
    frames = {block["frame"] for block in MESSAGES}
    examples = re.findall(r"\| `([0-9a-f]{6,})` \|", (PROTOCOL / "PROTOCOL.md").read_text())
    assert len(examples) >= 7
    assert set(examples) <= frames

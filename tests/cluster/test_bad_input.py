"""What nobody should send: each is refused with its code and a sentence, and the node serves on."""

import contextlib
import os
import random
import socket
import struct

import msgpack
import pytest

from harness import Command, Limit, Node, Refused, program
from harness.client import ADMIN, CHECKS, ERROR, GET_RING, HELLO, dealer, encode_checks
from harness.ports import take_block
from harness.waiting import scaled

SESSION = 0x1122334455667788
INVALID, PROTOCOL, VERSION, TOOBIG, UNSUPPORTED = -1, -5, -6, -7, -16
LIMIT = [0, 0, 5, 60_000_000_000, 0]


def checks(template=None, count=1, **other):
    """A CHECKS frame of `count` items of key "a" in which some fields are replaced."""
    fields = {"version": 1, "type": CHECKS, "session": SESSION, "seq": 7, "flags": 0,
              "timeout_ms": 1000, "templates": [template or LIMIT], "n": count,
              "operations": bytes(count), "costs": struct.pack("<Q", 1) * count,
              "template_index": bytes(2 * count), "values": b"\1\0a" * count}
    fields.update(other)
    return msgpack.packb(list(fields.values()))


GOOD = checks()

FRAMES = {
    "an empty frame": (b"", PROTOCOL, "array"),
    "random bytes": (bytes(range(200, 256)) * 3, PROTOCOL, ""),
    "text": (b"GET / HTTP/1.1\r\n\r\n", PROTOCOL, ""),
    "a frame cut short": (GOOD[:-3], PROTOCOL, ""),
    "a frame with bytes behind it": (GOOD + b"\0", PROTOCOL, ""),
    "a map": (msgpack.packb({"version": 1}), PROTOCOL, "array"),
    "an empty array": (msgpack.packb([]), PROTOCOL, ""),
    "another version": (checks(version=2), VERSION, "version"),
    "an unknown type": (checks(type=77), UNSUPPORTED, "type"),
    "a type that only nodes send": (msgpack.packb([1, 6, SESSION, 7]), UNSUPPORTED, "type"),
    "session 0": (checks(session=0), PROTOCOL, "session"),
    "a negative sequence": (checks(seq=-1), PROTOCOL, "seq"),
    "no items": (checks(count=0), PROTOCOL, "n"),
    "4097 items": (checks(count=4097), TOOBIG, "4096"),
    "more items than columns": (checks(n=2), PROTOCOL, "expected"),
    "an operation that is not there": (checks(operations=b"\x0b"), UNSUPPORTED, "operation"),
    "reserved bits of an operation": (checks(operations=b"\x10"), UNSUPPORTED, "operation"),
    "at_most with a hit": (checks(operations=b"\x82"), PROTOCOL, "operation"),
    "a cost above 10^15": (checks(costs=struct.pack("<Q", 10**15 + 1)), PROTOCOL, "cost"),
    "a column of another length": (checks(costs=b"\1\0\0\0"), PROTOCOL, "costs"),
    "a column that is text": (checks(operations="a"), PROTOCOL, "operations"),
    "a template that is not there": (checks(template_index=b"\1\0"), PROTOCOL, "template"),
    "no templates": (checks(templates=[]), PROTOCOL, "templates"),
    "257 templates": (checks(templates=[LIMIT] * 257), PROTOCOL, "256"),
    "a template of another kind": (checks([9, 1]), PROTOCOL, "template"),
    "an unknown algorithm": (checks([0, 99, 5, 60_000_000_000, 0]), INVALID, "algorithm"),
    "a limit of 0": (checks([0, 0, 0, 60_000_000_000, 0]), INVALID, "count"),
    "a window of 0": (checks([0, 0, 5, 0, 0]), INVALID, "window"),
    "a window of 11 years": (checks([0, 0, 5, 11 * 366 * 86400 * 10**9, 0]), INVALID, "window"),
    "a burst where there is none": (checks([0, 1, 5, 60_000_000_000, 9]), INVALID, "burst"),
    "a log of a million entries": (checks([0, 3, 10**6, 60_000_000_000, 0]), INVALID, "65536"),
    "ten events a nanosecond": (checks([0, 0, 10**15, 10**6, 0]), INVALID, ""),
    "values that end too early": (checks(values=b"\5\0a"), PROTOCOL, "values"),
    "values that go on": (checks(values=b"\1\0a\1\0b"), PROTOCOL, "values"),
    "a key of 1025 bytes": (checks(values=struct.pack("<H", 1025) + b"a" * 1025), PROTOCOL, "1024"),
    "the same attribute twice": (checks([1, "ip", "ip"], values=b"\1\0a\1\0b"), PROTOCOL, "distinct"),
    "attributes without a name": (checks([1]), PROTOCOL, ""),
    "no time": (checks(timeout_ms=0), PROTOCOL, "timeout_ms"),
    "explain of 17 items": (checks(count=17, flags=2), TOOBIG, "16"),
    "an ADMIN without arguments": (msgpack.packb([1, ADMIN, SESSION, 7, "status"]), PROTOCOL, ""),
    "a HELLO of versions to come": (msgpack.packb([1, HELLO, SESSION, 2, 3, "x"]), VERSION, ""),
    "a GET_RING without sequence": (msgpack.packb([1, GET_RING, SESSION]), PROTOCOL, ""),
}


def assert_serves(node):
    """The node is there and decides."""
    with node.client() as client:
        assert client.check(f"serves-{random.getrandbits(40)}", Limit(5)).allowed
    assert node.is_running


# Each frame gets one ERROR with the right code and a sentence that names the trouble.
@pytest.mark.parametrize("name", FRAMES)
def test_a_bad_frame_is_refused_with_code_and_sentence(single, name):
    frame, code, word = FRAMES[name]
    sock = dealer(single[0].endpoint)
    try:
        assert sock.poll(int(scaled(60) * 1000), 2)
        sock.send(frame)
        assert sock.poll(int(scaled(60) * 1000)), "no answer"
        answer = msgpack.unpackb(sock.recv())
    finally:
        sock.close()
    assert answer[:2] == [1, ERROR]
    assert answer[4] == code, answer
    assert word in answer[5] and 10 < len(answer[5].encode()) <= 255, answer
    assert_serves(single[0])


# One message is one frame; several at once are no message.
def test_a_message_of_several_frames_is_refused(single):
    sock = dealer(single[0].endpoint)
    try:
        assert sock.poll(int(scaled(60) * 1000), 2)
        sock.send_multipart([b"", GOOD])
        assert sock.poll(int(scaled(60) * 1000)), "no answer"
        assert msgpack.unpackb(sock.recv())[4] == PROTOCOL
    finally:
        sock.close()
    assert_serves(single[0])


# A frame above 1 MiB ends the connection, not the node.
def test_a_frame_above_the_bound_is_dropped_with_its_connection(single):
    sock = dealer(single[0].endpoint)
    try:
        assert sock.poll(int(scaled(60) * 1000), 2)
        sock.send(bytes(3 << 20))
        assert not sock.poll(int(scaled(0.2) * 1000))
    finally:
        sock.close()
    assert_serves(single[0])


# Every port bears bytes that are no ZeroMQ, and ZeroMQ messages that are none of ours.
@pytest.mark.smoke
@pytest.mark.parametrize("port", ["client", "peer", "gossip"])
def test_noise_on_a_port_harms_nothing(single, port):
    node = single[0]
    number = node.port + {"client": 0, "peer": 1, "gossip": 2}[port]
    noise = random.Random(7)
    for size in (1, 10, 64, 1000, 70000):
        with socket.create_connection(("127.0.0.1", number), scaled(60)) as raw, \
                contextlib.suppress(ConnectionError):  # the node may have closed it before all was sent
            raw.sendall(noise.randbytes(size))
    sock = dealer(f"127.0.0.1:{number}")
    try:
        assert sock.poll(int(scaled(60) * 1000), 2)
        for size in (0, 1, 2, 7, 33, 100, 1000, 60000):
            for first in (b"", b"J", b"T", b"\x01", b"\x93", b"\xda"):
                sock.send(first + noise.randbytes(size))
        # Whole frames of ours with one byte changed, which get further than noise does.
        for at in range(len(GOOD)):
            sock.send(GOOD[:at] + bytes([GOOD[at] ^ 1 << at % 8]) + GOOD[at + 1:])
    finally:
        sock.close()
    assert_serves(node)


# An operator's command that is not there, or whose arguments make no sense.
def test_bad_administration_is_refused_with_a_sentence(single):
    node = single[0]
    for command, arguments, word in (("abolish", {}, "status"), ("owner", {}, "owner"),
                                     ("owner", {"key": 5}, "owner"),
                                     ("owner", {"key": "", "attributes": {"user": "ada"}}, "key"),
                                     ("owner", {"attributes": []}, "owner"),
                                     ("rules.validate", {}, "rules.validate"),
                                     ("owner", {"key": "k" * 5000}, "")):
        with pytest.raises(Refused) as refused:
            node.admin(command, arguments)
        assert word in refused.value.text, (command, refused.value)
        assert refused.value.code < 0
    assert_serves(node)


HEAD = "rules:\n  - name: a\n    key: [user]\n"
RULE = HEAD + "    limits: [{rate: 5/h}]\n"
RULES = {
    "empty": ("", "1:1: "),
    "no YAML": ("rules: [\n", ":2:1: "),
    "a rule without a name": ("rules:\n  - key: [user]\n    limits: [{rate: 5/h}]\n", ":2:5: "),
    "a rule without a key": ("rules:\n  - name: a\n    limits: [{rate: 5/h}]\n", ":2:5: "),
    "an unknown field": (HEAD + "    colour: red\n", ":4:5: "),
    "a rate without a unit": (HEAD + "    limits:\n      - {rate: 5}\n", ":5:16: "),
    "an unknown algorithm": (HEAD + "    limits: [{rate: 5/h, algorithm: magic}]\n", "magic"),
    "a burst of a window": (HEAD + "    limits: [{rate: 5/h, algorithm: fixed_window, burst: 7}]\n",
                            "burst"),
    "the same name twice": (RULE + RULE[len("rules:\n"):], ":5:11: "),
    "a throttle rule without limits": (HEAD, ":2:5: "),
    "a bad network": (RULE + "    match: {ip: 10.0.0.0/99}\n", ":5:17: "),
    "a queue over regions": (HEAD + "    limits: [{rate: 5/h, algorithm: leaky_bucket}]\n    scope: global\n",
                             "found global, where regions hold tokens of a limit, with one that gives none"),
    "any over regions": (RULE + "    scope: global\n    consistency: any\n",
                         "found any with scope global"),
    "tokens of a queue": (HEAD + "    limits: [{rate: 5/h, algorithm: leaky_bucket}]\n    consistency: any\n",
                          "leaky_bucket: a token of a lease has no turn in the queue"),
}


# A bad rules file ends --check-config with 2 and the place; the command-line client says the same.
@pytest.mark.parametrize("name", RULES)
def test_a_bad_rules_file_is_refused_with_its_place(single, tmp_path, name):
    text, expected = RULES[name]
    path = tmp_path / "rules.yaml"
    path.write_text(text)
    code, output = run_daemon("--rules", str(path), "--check-config", cwd=tmp_path)
    assert code == 2 and expected in output and str(path) in output, output
    told = Command("rules", "validate", str(path), endpoints=[single[0].endpoint])
    assert told.code == 3 and expected.strip(": ") in told.output + told.error, told
    assert_serves(single[0])


def run_daemon(*arguments, cwd):
    """Runs tidegated to its end; its exit code and what it wrote."""
    node = Node(cwd, "refused", 1)
    node.spawn(command=[program("tidegated"), *arguments])
    try:
        return node.wait_exit(30), node.log()
    finally:
        node.close()


FLAGS = {
    "an unknown flag": (["--colour", "red"], "colour"),
    "a misspelt flag": (["--base-prot", "7000"], "did you mean --base-port?"),
    "a flag without its value": (["--base-port"], "expected PORT"),
    "a word": (["serve"], "expected a flag"),
    "the same flag twice": (["--weight", "1", "--weight", "2"], "once"),
    "a port that is none": (["--base-port", "70000"], "expected a whole number from 1 to 65535"),
    "a size that is none": (["--memory", "lots"], "--memory"),
    "too little memory": (["--memory", "1M"], "--memory"),
    "vnodes not a power of two": (["--vnodes", "1000"], "power of two"),
    "no shards": (["--shards", "0"], "expected a whole number"),
    "an open address": (["--bind", "0.0.0.0"], "--insecure"),
    "a seed without port": (["--seed", "n1"], "HOST:PORT"),
    "ephemeral and rebuild": (["--ephemeral", "--rebuild"], "--rebuild"),
    "a configuration file that is not there": (["--config", "/nonexistent.yaml"], "No such file"),
    "rules that are not there": (["--rules", "/nonexistent.yaml"], "No such file"),
    "a log level that is none": (["--log-level", "loud"], "debug, info, warn or error"),
    "a name with a space": (["--name", "a b"], "--name"),
    "a drain time-out that is none": (["--drain-timeout", "soon"], "--drain-timeout"),
}


# Bad flags end the daemon with 2 and say what was found and what was expected.
@pytest.mark.parametrize("name", FLAGS)
def test_a_bad_flag_ends_the_daemon_with_2_and_a_sentence(tmp_path, name):
    arguments, expected = FLAGS[name]
    code, output = run_daemon(*arguments, cwd=tmp_path)
    assert code == 2 and expected in output, output
    assert os.listdir(tmp_path) == ["refused.log"], "it made something although it was refused"


FILES = {
    "an unknown key": ("base_port: 7700\ncolour: red\n", ":2:1: "),
    "a misspelt key": ("base_prot: 7700\n", "did you mean base_port?"),
    "a bad value": ("name: n1\nbase_port: many\n", ":2:12: "),
    "a list": ("- name\n", ":1:1: "),
    "the same key twice": ("name: a\nname: b\n", ":2:"),
    "a key for flags only": ("check_config: true\n", ":1:1: "),
}


# The configuration file is refused with file, line and column.
@pytest.mark.parametrize("name", FILES)
def test_a_bad_configuration_file_is_refused_with_its_place(tmp_path, name):
    text, expected = FILES[name]
    path = tmp_path / "tidegated.yaml"
    path.write_text(text)
    code, output = run_daemon("--config", str(path), cwd=tmp_path)
    assert code == 2 and expected in output and path.name in output, output


# The other exit codes: data that cannot be used, an address that is taken.
def test_unusable_data_ends_with_3_and_a_taken_address_with_4(tmp_path):
    block = take_block()
    try:
        (tmp_path / "taken-data").write_text("not a folder")
        node = Node(tmp_path, "taken", block.first)
        node.spawn()
        assert node.wait_exit(30) == 3, node.log()
        assert "taken-data" in node.log()
        with socket.create_server(("127.0.0.1", block.first + 12)):
            other = Node(tmp_path, "other", block.first + 10)
            other.spawn()
            assert other.wait_exit(30) == 4, other.log()
            assert f"127.0.0.1:{block.first + 12}" in other.log()
    finally:
        block.close()


COMMANDS = {
    "no command": ([], 64, "usage"),
    "an unknown command": (["abolish"], 64, "abolish"),
    "an unknown flag": (["check", "--colour", "red"], 64, "colour"),
    "a check of nothing": (["check"], 64, ""),
    "a key without a rate": (["check", "--key", "a"], 64, "--rate"),
    "a rate that is none": (["check", "--key", "a", "--rate", "often"], 3, "often"),
    "an attribute without a value": (["check", "phone"], 3, "phone"),
    "attributes and a key": (["check", "ip=1.2.3.4", "--key", "a", "--rate", "5/s"], 64, ""),
    "the same attribute twice": (["check", "ip=1.2.3.4", "ip=1.2.3.5"], 3, "ip"),
    "an unknown algorithm": (["check", "--key", "a", "--rate", "5/s", "--algorithm", "magic"], 3,
                             "magic"),
    "a cost that is none": (["check", "--key", "a", "--rate", "5/s", "--cost", "-1"], 3, "cost"),
    "a burst of a window": (["check", "--key", "a", "--rate", "5/s", "--algorithm",
                             "fixed_window", "--burst", "9"], 3, "burst"),
    "too many attributes": (["check", *(f"a{i}=b" for i in range(33))], 3, "32"),
    "an attribute value too long": (["check", "phone=" + "1" * 1025], 3, "1024"),
    "an attribute name too long": (["check", "p" * 65 + "=1"], 3, "64"),
    "an endpoint that is none": (["-e", "nowhere", "status"], 3, "nowhere"),
    "a rules file that is not there": (["rules", "validate", "/nonexistent.yaml"], 3,
                                       "nonexistent"),
}


# Each value may be as long as a value may be, and all together still have no room in their one
# spelling: that is told, not taken for a fault of the program.
def test_values_that_have_no_room_in_their_one_spelling_are_refused(tmp_path):
    rules = tmp_path / "rules.yaml"
    rules.write_text("attributes: {a: path, b: path, c: path, d: path, e: path}\n"
                     "rules: [{name: r, match: {a: /*, b: /*, c: /*, d: /*, e: /*}, key: [a], "
                     "limits: [{rate: 1/s}]}]\n")
    done = Command("rules", "explain", "--rules", str(rules),
                   *(f"{name}=//{'v' * 1000}" for name in "abcde"), endpoints=["127.0.0.1:9"])
    assert done.code == 3 and "4096 bytes together" in done.error, done


# The command-line client tells wrong usage (64) from invalid input (3).
@pytest.mark.parametrize("name", COMMANDS)
def test_bad_arguments_of_the_client_give_their_exit_status(single, name):
    arguments, code, word = COMMANDS[name]
    endpoints = None if "-e" in arguments else [single[0].endpoint]
    done = Command(*arguments, endpoints=endpoints)
    assert done.code == code and word in done.error, done
    assert_serves(single[0])


# A client that sends a valid frame after bad ones is served on the same connection.
def test_a_connection_survives_its_own_bad_frames(single):
    sock = dealer(single[0].endpoint)
    try:
        assert sock.poll(int(scaled(60) * 1000), 2)
        for frame, code, _ in FRAMES.values():
            sock.send(frame)
            assert sock.poll(int(scaled(60) * 1000))
            assert msgpack.unpackb(sock.recv())[4] == code
        sock.send(encode_checks(SESSION, 9, 0, 1000, LIMIT, ["alive"]))
        assert sock.poll(int(scaled(60) * 1000))
        assert msgpack.unpackb(sock.recv())[1] == 6
    finally:
        sock.close()

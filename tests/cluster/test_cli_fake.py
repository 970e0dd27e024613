"""test_cli_fake.py - the tidegate program against a node written here, in Python, from PROTOCOL.md.

What a user of the program relies on is checked from outside: exit statuses, the exact JSON, tables,
sentences, deadlines. The node counts per key and answers administration from a table; a test
says what it should answer. So every case is exact and none needs a cluster.
"""

import base64
import gzip
import json
import os
import pathlib
import pty
import random
import re
import select
import struct
import subprocess
import threading
import time

import msgpack
import pytest
import yaml
import zmq

ROOT = pathlib.Path(__file__).resolve().parents[2]
BUILD = pathlib.Path(os.environ.get("TIDEGATE_BUILD", str(ROOT / "build"))).resolve()
PROGRAM = str(BUILD / "tidegate")
ALLOWED, DENIED, UNREACHABLE, INVALID, USAGE, UNWRITTEN = 0, 1, 2, 3, 64, 74
NO_SOURCE, NO_VNODE = 0xFFFF, 0xFFFFFFFF

STATUS = {"node": "n1", "node_id": "00000000000000a1", "cluster_id": "00ff", "version": "0.1.0", "healthy": True,
          "reasons": [], "epoch": 3, "stable": True, "vnodes_total": 4096, "replicas": 3, "uptime_ms": 1234,
          "members": {"alive": 3, "suspect": 0, "dead": 0, "left": 0},
          "storage": {"kind": "lmdb", "ok": True, "flush_lag_ms": 12},
          "rules": {"count": 2, "digest": "1e5", "agree": True},
          "shards": [{f"counter_{n:02}": n for n in range(20)}]}
MEMBER = {"name": "n1", "id": "00000000000000a1", "region": "eu", "zone": "a", "state": "alive",
          "client": "127.0.0.1:7600", "peer": "127.0.0.1:7601", "gossip": "127.0.0.1:7602", "incarnation": 1,
          "vnodes": 4096, "a_field_of_tomorrow": [1, {"x": None}]}
OWNER = {"rule": "", "vnode": 7, "epoch": 1, "term": 1, "owner": "n1", "decider": "n2", "replicas": ["n1", "n2"],
         "window": "5/min"}
RING = {"epoch": 3, "stable": True, "vnodes": 4096, "replicas": 3,
        "members": [{"name": "n1", "id": "a1", "zone": "a", "weight": 100, "vnodes": 4096}]}
RULE = {"name": "signup", "priority": 700, "action": "throttle", "key": ["phone"], "limits": ["5/h sliding_log"],
        "enabled": True, "match": "api=/signup"}


class Node(threading.Thread):
    """One ROUTER socket that speaks the client protocol, version 1."""

    def __init__(self):
        super().__init__(daemon=True)
        self.context = zmq.Context()
        self.socket = self.context.socket(zmq.ROUTER)
        self.socket.setsockopt(zmq.LINGER, 0)
        self.port = self.socket.bind_to_random_port("tcp://127.0.0.1")
        self.endpoint = f"tcp://127.0.0.1:{self.port}"
        self.stopping = threading.Event()
        self.used = {}       # key -> tokens taken; each key has its template's burst or count, never refilled
        self.explain = []    # what every item met, for who asks
        self.flags = 0       # of the last CHECKS
        self.checks = []     # (operation, cost, values) of every item that came
        self.replies = {"status": (0, STATUS), "members": (0, [MEMBER]), "ring": (0, RING), "owner": (0, [OWNER]),
                        "rules.list": (0, [RULE]), "rules.validate": (0, {"ok": True, "rules": 1})}
        self.other = (-9, "not found")  # the answer to any other command
        self.asked = []      # (command, arguments)
        self.refusal = None  # (code, text): what every CHECKS gets
        self.silent = False  # let every question wait
        self.until = None    # a condition: what is asked of administration is answered only when it holds

    def run(self):
        waiting = []
        while not self.stopping.is_set():
            if self.socket.poll(20):
                who, frame = self.socket.recv_multipart()
                answer = self.answer(msgpack.unpackb(frame, raw=False, strict_map_key=False, unicode_errors="replace"))
                if answer is not None and answer[1] == 9:
                    waiting.append([who, msgpack.packb(answer)])
                elif answer is not None:
                    self.socket.send_multipart([who, msgpack.packb(answer)])
            if waiting and (self.until is None or self.until()):
                for parts in waiting:
                    self.socket.send_multipart(parts)
                waiting.clear()
        self.socket.close()
        self.context.term()

    def stop(self):
        self.stopping.set()
        self.join()

    def answer(self, message):
        kind, session = message[1], message[2]
        if kind == 1:
            return [1, 2, session, 1, b"c" * 16, 1, "n1", b"k" * 16, 1, 1, 4096, 1 << 20, "fake"]
        if kind == 3:
            return [1, 4, session, message[3], 1, 1, [[1, "n1", [self.endpoint[6:]]]], b"\0\0"]
        if self.silent:
            return None
        if kind == 5:
            if self.refusal is not None:
                return [1, 7, session, message[3], *self.refusal]
            return self.decide(*message[2:])
        if kind == 8:
            self.asked.append((message[4], message[5]))
            code, value = self.replies.get(message[4], self.other)
            return [1, 9, session, message[3], code, value() if callable(value) else value]
        return None

    def decide(self, session, seq, flags, _timeout, templates, n, operations, costs, indexes, values):
        costs, indexes = struct.unpack(f"<{n}Q", costs), struct.unpack(f"<{n}H", indexes)
        rows, at = [], 0
        self.flags = flags
        for i in range(n):
            template, read = templates[indexes[i]], []
            for _ in range(1 if template[0] == 0 else len(template) - 1):
                size, = struct.unpack_from("<H", values, at)
                read.append(values[at + 2:at + 2 + size])
                at += 2 + size
            self.checks.append((operations[i], costs[i], read))
            rows.append(self.count(template, operations[i], costs[i], tuple(read)))
        columns = list(zip(*rows))
        column = lambda which, form: struct.pack(f"<{n}{form}", *columns[which])
        source = ["", "5/min", 200, "", "n1"] if templates[0][0] == 0 else ["signup", "5/h", 429, "SLOW\x1b[2J", "n1"]
        return [1, 6, session, seq, 1, n, column(0, "B"), column(1, "B"), column(2, "Q"), column(3, "Q"), column(4, "Q"),
                column(5, "Q"), column(6, "q"), column(7, "q"), column(8, "q"), struct.pack(f"<{n}H", *[0] * n),
                struct.pack(f"<{n}I", *[NO_VNODE] * n), [source],
                [self.explain] * n if flags & 2 else None]

    def count(self, template, operation, cost, key):
        limit = (template[4] or template[2]) if template[0] == 0 else 5
        used = self.used.get(key, 0)
        kind, at_most = operation & 15, operation & 128
        wanted = min(cost, limit - used) if at_most else cost
        allowed = kind > 1 or (used + wanted <= limit and (wanted > 0 or cost == 0))
        if kind in (0, 2) and allowed:
            used += wanted
        elif kind == 3:
            used = max(0, used - cost)
        elif kind == 4:
            used = 0
        self.used[key] = used
        retry = 0 if allowed else (-1 if cost > limit else 12000)
        return (0 if allowed else 5, int(allowed), limit, used, max(0, limit - used), wanted if allowed else 0,
                used * 12000, retry, 0)


@pytest.fixture
def node():
    started = Node()
    started.start()
    yield started
    started.stop()


def tidegate(*arguments, endpoint=None, environment=None, stdin=""):
    """Runs the program; returns the finished process."""
    variables = {k: v for k, v in os.environ.items() if k != "TIDEGATE_ENDPOINT"}
    variables.update(environment or {})
    where = ["-e", endpoint] if endpoint else []
    return subprocess.run([PROGRAM, *where, *arguments], capture_output=True, text=True, timeout=120, check=False,
                          env=variables, input=stdin)


def lines(done):
    return [json.loads(line) for line in done.stdout.splitlines()]


def test_seven_of_five_are_five_allowed_and_two_denied(node):
    done = tidegate("check", "--key", "a", "--rate", "5/60s", "--repeat", "7", "-o", "json", endpoint=node.endpoint)
    assert done.returncode == DENIED and done.stderr == ""
    assert [d["allowed"] for d in lines(done)] == [True] * 5 + [False] * 2
    assert done.stdout.splitlines()[0] == (
        '{"allowed":true,"outcome":"allow","rule":"","window":"5/min","limit":5,"used":1,"remaining":4,"granted":1,'
        '"reset_after_ms":12000,"retry_after_ms":0,"delay_ms":0,"status":200,"message":"","degraded":false,"node":"n1"}')


def test_a_table_has_one_aligned_line_a_request(node):
    done = tidegate("check", "--key", "a", "--rate", "2/60s", "--repeat", "3", endpoint=node.endpoint)
    header, *rows = done.stdout.splitlines()
    assert done.returncode == DENIED and len(rows) == 3
    assert header.split()[:4] == ["ALLOWED", "OUTCOME", "RULE", "WINDOW"]
    assert [row.split()[0] for row in rows] == ["yes", "yes", "no"]
    for name, word in (("OUTCOME", "deny"), ("NODE", "n1")):
        assert rows[2].index(word) == header.index(name)
    assert "\033" not in done.stdout


def test_what_a_rule_says_cannot_move_the_cursor(node):
    done = tidegate("check", "api=/x", endpoint=node.endpoint)
    assert done.returncode == ALLOWED and "SLOW?[2J" in done.stdout and "\033" not in done.stdout
    assert lines(tidegate("check", "api=/x", "-o", "json", endpoint=node.endpoint))[0]["message"] == "SLOW\033[2J"


def test_yaml_of_several_requests_is_one_sequence(node):
    done = tidegate("check", "--key", "a", "--rate", "5/60s", "--repeat", "2", "-o", "yaml", endpoint=node.endpoint)
    decisions = yaml.safe_load(done.stdout)
    assert [d["used"] for d in decisions] == [1, 2] and decisions[0]["outcome"] == "allow"


def test_operations_costs_and_values_reach_the_node(node):
    for words in (["peek"], ["check", "--cost", "3"], ["check", "--cost", "9", "--at-most"], ["refund", "--cost", "1"],
                  ["hit", "--cost", "7"], ["reset"]):
        done = tidegate(*words, "--key", "a", "--rate", "5/60s", "-o", "json", endpoint=node.endpoint)
        assert done.returncode == ALLOWED, done.stderr
    assert node.checks == [(1, 1, [b"a"]), (0, 3, [b"a"]), (128, 9, [b"a"]), (3, 1, [b"a"]), (2, 7, [b"a"]),
                           (4, 1, [b"a"])]
    tidegate("check", "api=/signup", "phone=a=b", endpoint=node.endpoint)
    assert node.checks[-1] == (0, 1, [b"/signup", b"a=b"])


def test_never_is_said_in_words_and_as_minus_one(node):
    words = ["check", "--key", "a", "--rate", "5/60s", "--cost", "6"]
    assert lines(tidegate(*words, "-o", "json", endpoint=node.endpoint))[0]["retry_after_ms"] == -1
    assert "never" in tidegate(*words, endpoint=node.endpoint).stdout


@pytest.mark.parametrize("code, status", [(-1, INVALID), (-8, UNREACHABLE), (-15, UNREACHABLE), (-16, INVALID)])
def test_a_refusal_by_the_node_has_its_sentence_and_status(node, code, status):
    node.refusal = (code, "the node says no")
    done = tidegate("check", "a=b", "--timeout", "3s", endpoint=node.endpoint)
    assert done.returncode == status and done.stdout == ""
    assert done.stderr.startswith("tidegate: ") and "the node says no" in done.stderr


@pytest.mark.parametrize("arguments", [["check", "a=b", "--repeat", "5"], ["status"], ["owner", "--key", "a"]])
def test_silence_ends_at_the_deadline(node, arguments):
    node.silent = True
    start = time.monotonic()
    done = tidegate(*arguments, "--timeout", "300ms", endpoint=node.endpoint)
    assert done.returncode == UNREACHABLE and done.stdout == ""
    assert re.fullmatch(r"tidegate: .+\n", done.stderr)
    assert 0.25 < time.monotonic() - start < 20


def test_nobody_there_is_said_within_the_default_deadline():
    start = time.monotonic()
    done = tidegate("members", endpoint="tcp://127.0.0.1:1")
    assert done.returncode == UNREACHABLE and "tcp://127.0.0.1:1" in done.stderr
    assert time.monotonic() - start < 20


def test_the_environment_names_the_endpoint_and_the_flag_wins(node):
    there = {"TIDEGATE_ENDPOINT": node.endpoint}
    assert tidegate("members", environment=there).returncode == ALLOWED
    nowhere = {"TIDEGATE_ENDPOINT": "tcp://127.0.0.1:1"}
    assert tidegate("members", endpoint=node.endpoint, environment=nowhere).returncode == ALLOWED


@pytest.mark.parametrize("command, value", [("status", STATUS), ("members", [MEMBER]), ("ring", RING),
                                            ("rules list", [RULE])])
def test_answers_are_printed_field_by_field(node, command, value):
    done = tidegate(*command.split(), "-o", "json", endpoint=node.endpoint)
    assert done.returncode == ALLOWED
    assert done.stdout == json.dumps(value, separators=(",", ":")) + "\n"
    assert yaml.safe_load(tidegate(*command.split(), "-o", "yaml", endpoint=node.endpoint).stdout) == value


def test_owner_gives_one_line_a_limit(node):
    node.replies["owner"] = (0, [OWNER, {**OWNER, "window": "30/d"}])
    done = tidegate("owner", "api=/signup", "phone=1", "-o", "json", endpoint=node.endpoint)
    assert lines(done) == [OWNER, {**OWNER, "window": "30/d"}]
    assert done.stdout.startswith('{"rule":"","vnode":7,"epoch":1,"term":1,"owner":"n1","decider":"n2","replicas":["n1"')
    tidegate("owner", "--key", "a", "--rate", "5/60s", endpoint=node.endpoint)
    assert node.asked == [("owner", {"attributes": {"api": "/signup", "phone": "1"}}), ("owner", {"key": "a"})]


def test_tables_choose_their_columns(node):
    assert re.search(r"^n1 +alive +4096 ", tidegate("members", endpoint=node.endpoint).stdout, re.MULTILINE)
    assert re.search(r"^- +5/min +7 +n1 +n2 +1 +1 +n1,n2$", tidegate("owner", "--key", "a", endpoint=node.endpoint).stdout,
                     re.MULTILINE)
    assert re.search(r"^ +700  signup ", tidegate("rules", "list", endpoint=node.endpoint).stdout, re.MULTILINE)
    status = tidegate("status", endpoint=node.endpoint).stdout
    assert status.startswith("HEALTHY:  3 nodes") and "counter_19" not in status
    assert re.search(r"^nodes +3 alive$", status, re.MULTILINE)
    assert re.search(r"^( +|other +)counter_19 +19$", tidegate("status", "--all", endpoint=node.endpoint).stdout, re.MULTILINE)


def test_an_error_of_administration_is_the_nodes_sentence(node):
    node.replies["members"] = (-15, "this node has not joined a cluster yet")
    done = tidegate("members", endpoint=node.endpoint)
    assert (done.returncode, done.stdout) == (UNREACHABLE, "")
    assert done.stderr == "tidegate: this node has not joined a cluster yet\n"


def test_wait_ends_when_the_cluster_is_healthy(node):
    answers = iter([False, False, True])
    node.replies["status"] = (0, lambda: {**STATUS, "healthy": next(answers), "reasons": ["n2 is not alive"]})
    done = tidegate("status", "--wait", "healthy", "-o", "json", endpoint=node.endpoint)
    assert done.returncode == ALLOWED and done.stderr == ""
    assert len(lines(done)) == 1 and lines(done)[0]["healthy"] is True and len(node.asked) == 3


def test_wait_ends_with_the_reasons_when_time_is_up(node):
    node.replies["status"] = (0, {**STATUS, "healthy": False, "reasons": ["n2 is not alive", "n3 is late"]})
    start = time.monotonic()
    done = tidegate("status", "--wait", "healthy", "--timeout", "3s", "-o", "json", endpoint=node.endpoint)
    assert done.returncode == DENIED and lines(done)[0]["healthy"] is False
    assert "n2 is not alive; n3 is late" in done.stderr
    assert 2.9 < time.monotonic() - start and 3 <= len(node.asked) <= 60


def test_wait_for_nobody_is_unreachable():
    done = tidegate("status", "--wait", "healthy", "--timeout", "300ms", endpoint="tcp://127.0.0.1:1")
    assert (done.returncode, done.stdout) == (UNREACHABLE, "")
    assert "the cluster is not healthy after 300 ms: no node told its status" in done.stderr


def alive(members, **more):
    return {**STATUS, "members": {**STATUS["members"], "alive": members}, **more}


# The first node of a cluster is well by itself before the others have joined it.
def test_wait_for_members_goes_on_while_a_healthy_cluster_has_fewer(node):
    answers = iter([{**STATUS, "members": None}, alive(1), alive(3, healthy=False, reasons=["n3 is not in the ring yet"]),
                    alive(2), alive(4)])
    node.replies["status"] = (0, lambda: next(answers))
    done = tidegate("status", "--wait", "healthy", "--members", "3", "-o", "json", endpoint=node.endpoint)
    assert done.returncode == ALLOWED and done.stderr == ""
    assert [row["members"]["alive"] for row in lines(done)] == [4] and len(node.asked) == 5


def test_wait_for_members_ends_with_how_many_there_are(node):
    node.replies["status"] = (0, alive(2, healthy=False, reasons=["n2 is not in the ring yet"]))
    done = tidegate("status", "--wait", "healthy", "--members", "3", "--timeout", "3s", "-o", "json", endpoint=node.endpoint)
    assert done.returncode == DENIED and lines(done)[0]["members"]["alive"] == 2
    assert done.stderr == ("tidegate: the cluster is not healthy with 3 members after 3000 ms: "
                           "2 alive; n2 is not in the ring yet\n")


def departing(state, left, done):
    return {"node": "n1", "id": "00000000000000a1", "state": state, "done": done, "vnodes_left": left, "epoch": 4}


def test_drain_asks_the_same_node_until_nothing_is_left(node):
    answers = iter([departing("draining", 9, False), departing("draining", 4, False), departing("drained", 0, True)])
    node.replies["drain"] = (0, lambda: next(answers))
    done = tidegate("drain", endpoint=node.endpoint)
    assert done.returncode == ALLOWED and done.stdout.startswith("n1 is drained")
    assert done.stderr == "tidegate: n1: 9 vnodes left\n"
    assert all("@" in question.pop("author") for _, question in node.asked), "the log is told who asks"
    assert node.asked == [("drain", {})] + [("drain", {"id": "00000000000000a1"})] * 2


def test_without_waiting_a_change_is_only_begun(node):
    node.replies["leave"] = (0, departing("leaving", 9, False))
    done = tidegate("leave", "--no-wait", "-o", "json", endpoint=node.endpoint)
    assert done.returncode == ALLOWED and lines(done) == [departing("leaving", 9, False)] and len(node.asked) == 1


def test_a_change_that_takes_too_long_is_said_to_go_on(node):
    node.replies["leave"] = (0, departing("leaving", 9, False))
    done = tidegate("leave", "--timeout", "3s", endpoint=node.endpoint)
    assert (done.returncode, done.stdout) == (DENIED, "") and "it goes on" in done.stderr


def test_draining_several_nodes_at_once_is_refused(node):
    done = tidegate("drain", endpoint=f"{node.endpoint},tcp://127.0.0.1:1")
    assert (done.returncode, done.stdout) == (INVALID, "") and "expected one endpoint" in done.stderr
    assert node.asked == []


def test_a_removal_says_what_it_waits_for_and_what_refuses_it(node):
    answers = iter([False, True])
    node.replies["remove"] = (0, lambda: {"node": "n3", "id": "a3", "state": "", "done": next(answers),
                                          "waits_for": "the ring configuration is changing", "epoch": 4, "lineage": 0})
    done = tidegate("remove", "n3", endpoint=node.endpoint)
    assert (done.returncode, done.stdout) == (ALLOWED, "n3 is out of the ring\n")
    assert done.stderr == "tidegate: n3: the ring configuration is changing\n"
    assert all("@" in question.pop("author") for _, question in node.asked), "the log is told who asks"
    assert node.asked == [("remove", {"node": "n3", "force": False})] * 2
    node.replies["remove"] = (-18, "n3 is alive: ask itself")
    done = tidegate("remove", "n3", endpoint=node.endpoint)
    assert (done.returncode, done.stdout, done.stderr) == (INVALID, "", "tidegate: n3 is alive: ask itself\n")


@pytest.mark.parametrize("frozen, words", [(True, "begins a new lineage"), (False, "the ring is not frozen")])
def test_force_says_what_it_means_before_it_is_done(node, frozen, words):
    node.replies["status"] = (0, {**STATUS, "register": {"voters": ["n1", "n2"], "frozen": frozen}})
    node.replies["remove"] = (0, {"node": "n3", "id": "a3", "done": True})
    done = tidegate("remove", "n3", "--force", endpoint=node.endpoint)
    assert done.returncode == ALLOWED and words in done.stderr
    assert [command for command, _ in node.asked] == ["status", "remove"]


def test_rules_are_validated_by_the_node(node, tmp_path):
    path = tmp_path / "rules.yaml"
    path.write_text("rules: []\n")
    done = tidegate("rules", "validate", str(path), endpoint=node.endpoint)
    assert (done.returncode, done.stdout) == (ALLOWED, f"{path}: ok, 1 rule\n")
    done = tidegate("rules", "validate", "-", endpoint=node.endpoint, stdin="rules: [x]\n")
    assert done.returncode == ALLOWED
    assert node.asked == [("rules.validate", {"text": "rules: []\n"}), ("rules.validate", {"text": "rules: [x]\n"})]


def test_a_bad_rules_file_is_named_with_line_and_column(node, tmp_path):
    path = tmp_path / "rules.yaml"
    path.write_text("rules: [")
    node.replies["rules.validate"] = (0, {"ok": False, "line": 3, "column": 14, "message": "unknown unit 'q'"})
    done = tidegate("rules", "validate", str(path), endpoint=node.endpoint)
    assert (done.returncode, done.stdout) == (INVALID, "")
    assert done.stderr == f"{path}:3:14: unknown unit 'q'\n"
    done = tidegate("rules", "validate", str(tmp_path / "missing"), endpoint=node.endpoint)
    assert done.returncode == INVALID and "No such file" in done.stderr
    path.write_text("rules: [] #" + base64.b64encode(random.Random(1).randbytes(1 << 20)).decode())
    for arguments in (["validate"], ["diff"], ["apply", "--yes"]):
        done = tidegate("rules", *arguments, str(path), endpoint=node.endpoint)
        assert done.returncode == INVALID and f"{path} has {path.stat().st_size} bytes, packed 10" in done.stderr
    done = tidegate("rules", "validate", str(path))
    assert (done.returncode, done.stdout) == (INVALID, "") and "more than the 1036288 that" in done.stderr


# What nobody can mean is told before it is in force: where it is validated, here or by a node, compared and applied.
def test_what_rules_do_not_mean_is_told(node, tmp_path):
    path = tmp_path / "rules.yaml"
    rule = "- {{name: r{}, match: {{api: {}}}, key: [user], limits: [{{rate: 5/h}}]}}\n".format
    path.write_text("rules:\n" + "".join(rule(i, "/pay") for i in range(9)))
    told = f"{path}:10: warning: more than 8 rules with limits can meet on one request as far as their conditions tell, which is an error then: r0, r1, "
    done = tidegate("rules", "validate", str(path))
    assert done.returncode == ALLOWED and done.stderr.startswith(told)
    warnings = lines(tidegate("rules", "validate", str(path), "-o", "json"))[0]["warnings"]
    assert [warning["line"] for warning in warnings] == [10] and "r8; expected at most 8" in warnings[0]["message"]
    node.replies["rules.validate"] = (0, {"ok": True, "rules": 9, "digest": "0", "warnings": [{"line": 4, "message": "hm\x1b"}]})
    done = tidegate("rules", "validate", str(path), endpoint=node.endpoint)
    assert (done.returncode, done.stderr) == (ALLOWED, f"{path}:4: warning: hm?\n")
    node.replies["rules.diff"] = (0, {"ok": True, "version": 4, "base": 3, "same_text": False})
    node.replies["rules.show"] = (-9, "no rules have been applied to this cluster yet")
    assert tidegate("rules", "diff", str(path), endpoint=node.endpoint).stderr.startswith(told)
    path.write_text("rules:\n" + "".join(rule(i, f"/pay-{i}") for i in range(9)))
    assert tidegate("rules", "validate", str(path)).stderr == ""


# A document that is longer than a message is sent and taken as gzip.
def test_a_large_document_goes_packed(node, tmp_path):
    path = tmp_path / "rules.yaml"
    text = "rules: []\n" + "# so much to say\n" * 100000
    path.write_text(text)
    assert tidegate("rules", "validate", str(path), endpoint=node.endpoint).returncode == ALLOWED
    (command, arguments), = node.asked
    assert command == "rules.validate" and list(arguments) == ["packed"]
    assert gzip.decompress(arguments["packed"]).decode() == text
    node.replies["rules.show"] = (0, {"version": 3, "packed": gzip.compress(text.encode()), "author": "ada"})
    assert tidegate("rules", "show", endpoint=node.endpoint).stdout == text
    told = json.loads(tidegate("rules", "show", "-o", "json", endpoint=node.endpoint).stdout)
    assert told == {"version": 3, "text": text, "author": "ada"}
    node.replies["rules.show"] = (0, {"version": 3, "packed": gzip.compress(text.encode())[:-9]})
    done = tidegate("rules", "show", endpoint=node.endpoint)
    assert done.returncode == INVALID and done.stdout == ""


RULES = """\
rules:
  - {name: inside, priority: 9, match: {ip: [10.0.0.0/8]}, action: allow}
  - {name: per-phone, key: [phone], mode: {soft: {exceed: 10%}}, limits: [{rate: 5/h}, {rate: 30/24h, burst: 7}]}
"""


# Without a node named, a file is judged by the program itself, in the same words and shapes.
def test_rules_are_validated_without_a_node(tmp_path):
    path = tmp_path / "rules.yaml"
    path.write_text(RULES)
    done = tidegate("rules", "validate", str(path))
    assert (done.returncode, done.stdout) == (ALLOWED, f"{path}: ok, 2 rules\n")
    assert done.stderr == (f"{path}:3: warning: rule per-phone: soft by 10% of 5/h is less than one: the limit is as "
                           "hard as one without it; expected a larger share, or a larger limit\n")
    done = tidegate("rules", "validate", "-", "-o", "json", stdin=RULES)
    assert lines(done)[0]["ok"] is True and lines(done)[0]["rules"] == 2 and len(lines(done)[0]["digest"]) == 16
    done = tidegate("rules", "validate", "-", stdin='{"api":{"/a":[{"caller":"u","request-count":20,"time":60}]}}')
    assert (done.returncode, done.stdout) == (ALLOWED, "-: ok, 1 rule\n")
    path.write_text(RULES.replace("phone]", "phone, phone]"))
    done = tidegate("rules", "validate", str(path))
    sentence = f'{path}:3:36: key: found attribute "phone" twice; expected it once\n'
    assert (done.returncode, done.stdout, done.stderr) == (INVALID, "", sentence)
    done = tidegate("rules", "validate", str(path), "-o", "json")
    assert done.returncode == INVALID
    assert (lines(done)[0]["ok"], lines(done)[0]["line"], lines(done)[0]["column"]) == (False, 3, 36)


# The zones of a file are known to the program: a good name is taken, a misspelt one refused.
def test_time_zones_are_known_without_a_node():
    rules = "rules: [{{name: r, key: [u], limits: [{{rate: 1/d, algorithm: fixed_window, align: calendar, timezone: {}}}]}}]"
    done = tidegate("rules", "validate", "-", stdin=rules.format("Europe/Berlin"))
    assert (done.returncode, done.stdout) == (ALLOWED, "-: ok, 1 rule\n")
    done = tidegate("rules", "validate", "-", stdin=rules.format("Europe/Berlim"))
    assert done.returncode == INVALID and 'found "Europe/Berlim", which is no time zone' in done.stderr


# Which rules act and why others do not is told from a file, without any node.
def test_rules_are_explained_without_a_node(tmp_path):
    path = tmp_path / "rules.yaml"
    path.write_text(RULES)
    asked = ("rules", "explain", "phone=1", "ip=11.0.0.1", "--rules", str(path))
    done = tidegate(*asked, "-o", "json")
    told = lines(done)[0]
    assert (done.returncode, told["action"], told["allowed"]) == (ALLOWED, "limits", True)
    assert [(limit["rule"], limit["window"], limit["exceed_percent"], limit["key"]) for limit in told["limits"]] == [
        ("per-phone", "5/h", 10, ["phone=1"]), ("per-phone", "30/d", 10, ["phone=1"])]
    assert [(rule["name"], rule["acts"], rule["why"]) for rule in told["rules"]] == [
        ("inside", False, "value"), ("per-phone", True, "acts")]
    assert told["rules"][0]["because"] == 'ip is "11.0.0.1"; expected "10.0.0.0/8"'
    table = tidegate(*asked).stdout
    assert re.search(r"^inside +9 +allow +no +value +ip is", table, re.MULTILINE), table
    path.write_text("rules: nonsense")
    done = tidegate(*asked)
    assert (done.returncode, done.stdout) == (INVALID, "") and f"{path}:1:8: " in done.stderr


# Without a file the node is asked, and what it says is shown as it comes.
def test_rules_are_explained_by_the_node(node):
    node.replies["rules.explain"] = (0, {"action": "block", "rules": [{"name": "r", "acts": True}]})
    done = tidegate("rules", "explain", "phone=1", "-o", "json", endpoint=node.endpoint)
    assert lines(done) == [{"action": "block", "rules": [{"name": "r", "acts": True}]}]
    assert node.asked == [("rules.explain", {"attributes": {"phone": "1"}})]


# A rule is taken out of the document by the command line; what cannot be is refused with its place.
def test_a_rule_is_taken_out_of_the_document_that_the_node_has(node):
    rule = "  - name: {}\n    key: [user]\n    limits: {}\n"
    text = "rules:\n" + rule.format("a", "&l [{rate: 5/h}]") + rule.format("b", "*l")
    node.replies["rules.show"] = (0, {"version": 3, "base": 3, "text": text})
    node.replies["rules.diff"] = (0, {"ok": True, "version": 3, "base": 3, "same_text": False,
                                        "removed_count": 1, "order_changed": True})
    done = tidegate("rules", "delete", "c", "--yes", endpoint=node.endpoint)
    assert done.returncode == 3 and "no rule is called so" in done.stderr
    done = tidegate("rules", "delete", "a", "--yes", endpoint=node.endpoint)
    assert done.returncode == 3 and "line 2" in done.stderr and "take it out yourself" in done.stderr
    node.asked.clear()
    done = tidegate("rules", "delete", "b", "--dry-run", endpoint=node.endpoint)
    assert done.returncode == 0 and "-  - name: b" in done.stdout
    assert "rules: 0 added, 1 removed, 0 changed, order changed, to version 3" in done.stdout
    assert ("rules.diff", {"text": "rules:\n" + rule.format("a", "&l [{rate: 5/h}]")}) in node.asked
    assert {command for command, _ in node.asked} == {"rules.show", "rules.diff"}


EVERYBODY = ["0.0.0.0/0", "::/0", "ip=0.0.0.0/0", "::ffff:0.0.0.0/96", "::/64"]


@pytest.mark.parametrize("everybody", EVERYBODY)
def test_a_block_of_everybody_asks_first(node, everybody):
    node.replies["block"] = (0, {"ok": True, "id": "0" * 32, "state": "done", "version": 5, "changed": True, "message": ""})
    done = tidegate("block", everybody, endpoint=node.endpoint)
    assert done.returncode == USAGE and "--yes" in done.stderr and "everybody" in done.stderr and not node.asked
    for answer, status in ((b"n\n", DENIED), (b"\n", DENIED), (b"y\n", ALLOWED)):
        master, slave = pty.openpty()
        os.write(master, answer)
        done = subprocess.run([PROGRAM, "-e", node.endpoint, "block", everybody], stdin=slave, capture_output=True,
                              text=True, check=False, timeout=120)
        os.close(slave)
        os.close(master)
        assert done.returncode == status and "Block them all? [y/N]" in done.stderr, done
        assert bool(node.asked) == (status == ALLOWED)
    node.asked.clear()
    assert tidegate("block", everybody, "--yes", endpoint=node.endpoint).returncode == ALLOWED
    assert node.asked[-1][1]["what"] == everybody


def test_other_blocks_do_not_ask(node):
    node.replies["block"] = (0, {"ok": True, "id": "0" * 32, "state": "done", "version": 5, "changed": True, "message": ""})
    node.replies["unblock"] = node.replies["block"]
    for words in (["block", "10.0.0.0/8"], ["block", "2001:db8::/32"], ["block", "user=0.0.0.0/0"], ["block", "::/96"],
                  ["unblock", "0.0.0.0/0"], ["block", "--key", "0.0.0.0/0"]):
        assert tidegate(*words, endpoint=node.endpoint).returncode == ALLOWED, words


# What was made of a document is not applied to another one: the edit is based on the version that it was made of, and where
# somebody has changed the rules before they are compared, nothing is asked or shown.
def test_an_edit_does_not_take_back_what_somebody_else_changed(node):
    rule = "  - name: {}\n    key: [user]\n    limits: [{{rate: 5/h}}]\n"
    text = "rules:\n" + rule.format("a") + rule.format("b")
    compared = {"ok": True, "version": 4, "base": 4, "same_text": False, "removed_count": 1}
    node.replies["rules.show"] = (0, {"version": 3, "base": 3, "text": text})
    node.replies["rules.diff"] = (0, compared)
    for words in (("rules", "delete", "b"), ("pools", "set", "p", "--rate", "9/s")):
        node.asked.clear()
        done = tidegate(*words, "--yes", endpoint=node.endpoint)
        assert done.returncode == INVALID and "changed by somebody else meanwhile, to version 4" in done.stderr
        assert [command for command, _ in node.asked] == ["rules.show", "rules.diff"] and done.stdout == ""
    node.replies["rules.diff"] = (0, compared | {"version": 3, "base": 3})
    node.replies["rules.apply"] = (0, {"ok": True, "id": "0" * 32, "state": "done", "version": 5, "changed": True,
                                       "message": ""})
    done = tidegate("rules", "delete", "b", "--yes", endpoint=node.endpoint)
    assert done.returncode == ALLOWED and node.asked[-1][0] == "rules.apply" and node.asked[-1][1]["base"] == 3


# Totals are those of all members that can be asked; who cannot is named, and what is not a total is the first node's.
def test_totals_are_added_up_over_the_members(node):
    def row(user, requests, seen_ms, seen, **more):
        return {"user": user, "tier": "gold", "limits": ["5/h"], "requests_today": requests, "exceeded_today": 0,
                "last_seen_ms": seen_ms, "last_seen": seen, "author": "ada", **more}
    other = Node()
    other.start()
    members = [{**MEMBER, "client": node.endpoint[6:]}, {**MEMBER, "name": "n2", "client": other.endpoint[6:]},
               {**MEMBER, "name": "n3", "state": "dead"}, {**MEMBER, "name": "n4", "state": "left"}]
    node.replies.update({"members": (0, members), "quota.list": (0, [row("ada", 2, 70, "seven"), row("bob", 1, 0, "")])})
    other.replies["quota.list"] = (0, [row("zoe", 9, 9, "nine"), row("ada", 40, 80, "eight", tier="other")])
    done = tidegate("quota", "list", "-o", "json", endpoint=node.endpoint)
    assert lines(done) == [[row("ada", 42, 80, "eight"), row("bob", 1, 0, "")]]
    assert done.stderr == ("tidegate: the totals are without those of 1 of the members, which cannot be asked now: n3\n")
    key = {"id": "k1", "name": "ci", "total": 3, "last_used_ms": 5, "last_used": "five"}
    node.replies["apikey.show"] = (0, key)
    other.replies["apikey.show"] = (-9, "there is no such key")
    done = tidegate("apikey", "show", "ci", "-o", "json", endpoint=node.endpoint)
    assert lines(done) == [{**key, "not_counted": ["n3"]}]
    node.replies["members"] = (0, members[:2])
    other.stop()
    done = tidegate("--timeout", "3s", "apikey", "show", "ci", "-o", "json", endpoint=node.endpoint)
    assert done.returncode == 0 and lines(done) == [{**key, "not_counted": ["n2"]}]
    node.replies["quota.set"] = (0, row("ada", 0, 0, ""))
    done = tidegate("quota", "set", "ada", "--tier", "gold", "--burst", "5", "--dry-run", "-o", "json", endpoint=node.endpoint)
    assert lines(done) == [row("ada", 0, 0, "")]
    assert node.asked[-1] == ("quota.set", {"dry_run": 1, "user": "ada", "tier": "gold", "burst": 5})


# Whatever shape a node's answers have, of whatever release or maker it is, the program ends by itself, in words.
@pytest.mark.parametrize("words", ["status", "status --all", "members", "ring", "owner api=/x", "rules list", "rules show", "rules show x",
                                   "rules history", "rules explain api=/x", "rules delete x --yes", "rules rollback 1 --yes", "pools list",
                                   "quota show ada", "quota list", "quota set ada --burst 5", "apikey show k", "apikey list",
                                   "apikey create --name ci", "blocks", "block user=ada --yes", "regions", "drain n1",
                                   "check api=/x --explain", "status --wait healthy", "pools report p --load 0.5"])
def test_no_shape_of_an_answer_ends_the_program_otherwise_than_in_words(node, words):
    shapes = [None, [], {}, 7, -1, "text", b"bytes", [None], [[]], [{}], [7], {"state": 7}, {"text": None}, {"packed": b"no"},
              {"rules": [[]], "members": [[{}]], "conditions": [7], "nodes": [[]], "regions": 5, "shards": {}},
              {"members": {"alive": "x"}, "handoff": [1], "reasons": [{}], "changes": [5, "x"], "busiest": "no", "warnings": [[[]]]},
              [{"client": 5, "name": None, "state": {}}], {"state": "done", "value": [1, {}]}, {f"f{n}": n for n in range(70000)}]
    for shape in shapes:
        node.replies, node.other = {}, (0, shape)
        done = tidegate("--timeout", "50ms", *words.split(), endpoint=node.endpoint)
        assert done.returncode in (ALLOWED, DENIED, UNREACHABLE, INVALID, USAGE), (shape, done.returncode, done.stderr)
        assert "assertion" not in done.stderr and "runtime error" not in done.stderr


# Members of all regions are asked, but not of one that is out of reach; what is shown of one user has the sums of each region.
def test_totals_are_told_of_each_region(node):
    def row(requests, seen_ms, seen):
        return {"id": "k1", "requests_today": requests, "last_seen_ms": seen_ms, "last_seen": seen}
    others = [Node() for _ in range(3)]
    for other, requests in zip(others, (20, 4, 100)):
        other.start()
        other.replies["apikey.show"] = (0, row(requests, 80 + requests, str(requests)))
    since = "2026-11-22T08:00:00Z"
    members = [{**MEMBER, "client": node.endpoint[6:]},
               *({**MEMBER, "name": f"us{i}", "region": "us", "client": other.endpoint[6:]} for i, other in enumerate(others[:2])),
               {**MEMBER, "name": "us3", "region": "us", "state": "dead"},
               {**MEMBER, "name": "ap1", "region": "ap", "client": others[2].endpoint[6:], "unreachable_since": since}]
    node.replies.update({"members": (0, members), "apikey.show": (0, row(1, 70, "seven"))})
    done = tidegate("apikey", "show", "k1", "-o", "json", endpoint=node.endpoint)

    def region(name, requests, seen_ms, counted, missing, unreachable=""):
        return {"region": name, "requests_today": requests, "last_seen_ms": seen_ms, "members_counted": counted,
                "members_not_counted": missing, "unreachable_since": unreachable}
    assert lines(done) == [{**row(25, 100, "20"), "not_counted": ["us3", "ap1"],
                            "regions": [region("eu", 1, 70, 1, 0), region("us", 24, 100, 2, 1), region("ap", 0, 0, 0, 1, since)]}]
    assert others[2].asked == []
    for other in others:
        other.stop()


# What is out on lease is on many nodes: each of a region's has a part of it, and all that are in reach are asked.
def test_leases_of_regions_are_added_up_over_the_members(node):
    def told(name, held, own):
        rows = [{"name": row, "own": row == own, "held": tokens, "held_keys": tokens and 1} for row, tokens in held.items()]
        return (0, {"node": name, "region": own, "regions": rows, "leases": {"taken": sum(held.values()), "denied": 1}})
    others = [Node() for _ in range(3)]
    for other in others:
        other.start()
    node.replies["regions"] = told("eu1", {"eu": 0, "us": 5, "ap": 1}, "eu")
    others[0].replies["regions"] = told("eu2", {"eu": 0, "us": 20, "ap": 0}, "eu")
    others[1].replies["regions"] = told("us1", {"us": 0, "eu": 300, "ap": 4000}, "us")
    others[2].replies["regions"] = told("ap1", {"ap": 0, "eu": 9, "us": 9}, "ap")
    places = [("eu1", "eu", node), *((name, name[:2], other) for name, other in zip(("eu2", "us1", "ap1"), others))]
    members = [{**MEMBER, "name": name, "region": region, "client": at.endpoint[6:]} for name, region, at in places]
    members[3]["unreachable_since"] = "2026-11-22T08:00:00Z"
    node.replies["members"] = (0, [*members, {**MEMBER, "name": "us2", "region": "us", "client": "127.0.0.1:1"}])
    done = tidegate("--timeout", "3s", "status", "--regions", "-o", "json", endpoint=node.endpoint)

    def row(name, held, held_keys, lent, lent_keys):
        return {"name": name, "own": name == "eu", "held": held, "held_keys": held_keys, "lent": lent, "lent_keys": lent_keys}
    assert lines(done) == [{"node": "eu1", "region": "eu", "leases": {"taken": 26, "denied": 2}, "not_counted": ["us2"],
                            "regions": [row("eu", 0, 0, 0, 0), row("us", 25, 2, 300, 1), row("ap", 1, 1, 0, 0)]}]
    assert others[2].asked == []
    for other in others:
        other.stop()


# A member whose rows are longer gives fewer of them in a message: it is asked for the rest, and nothing of it counts twice, also
# where it knows no "after" and begins anew.
def test_totals_are_those_of_all_rows_that_are_shown(node):
    rows = [{"id": f"k{i}", "owner": "ada", "total": i} for i in range(5)]
    behind = lambda: [row for row in rows if row["id"] > other.asked[-1][1].get("after", "")]
    other = Node()
    other.start()
    node.replies["members"] = (0, [{**MEMBER, "client": node.endpoint[6:]},
                                   {**MEMBER, "name": "n2", "client": other.endpoint[6:]}])
    node.replies["apikey.list"] = (0, rows)
    for parts, sums in ((lambda: behind()[:2], [0, 2, 4, 6, 8]), (lambda: rows[:3], [0, 2, 4, 3, 4]),
                        (lambda: [row for row in behind() if row["id"] != "k4"], [0, 2, 4, 6, 4])):
        other.replies["apikey.list"] = (0, parts)
        done = tidegate("apikey", "list", "--owner", "ada", "-o", "json", endpoint=node.endpoint)
        assert [row["total"] for row in lines(done)[0]] == sums and done.stderr == ""
        assert all(question["owner"] == "ada" for _, question in other.asked)
    other.stop()


def several(count, at, **more):
    """Members of one address: how many are asked at once is how many questions come before the first answer."""
    return [{**MEMBER, "name": f"{more.get('region', 'm')}{i:02}", "client": at.endpoint[6:], **more} for i in range(count)]


@pytest.fixture
def others():
    started = [Node() for _ in range(2)]
    for other in started:
        other.start()
    yield started
    for other in started:
        other.stop()


# Nobody answers before all are asked, also for what is on a second page; what is shown is in the order of the members.
@pytest.mark.parametrize("count", [2, 7])
def test_members_are_asked_at_once(node, others, count):
    keys = [{"id": "k1", "total": 1}, {"id": "k2", "total": 3}]
    node.replies["members"] = (0, several(count, others[0]) + several(1, node, state="dead"))
    node.replies["apikey.list"] = (0, keys)
    others[0].replies["apikey.list"] = (0, lambda: keys[1:] if "after" in others[0].asked[-1][1] else keys[:1])
    others[0].until = lambda: len(others[0].asked) in (count, 2 * count)
    done = tidegate("--timeout", "60s", "apikey", "list", "-o", "json", endpoint=node.endpoint)
    assert [row["total"] for row in lines(done)[0]] == [count, 3 * count] and "1 of the members" in done.stderr
    told = {"node": "n1", "region": "eu", "regions": [{"name": "us", "held": 5, "held_keys": 1}], "leases": {"taken": 2}}
    node.replies["regions"] = others[0].replies["regions"] = (0, told)
    others[0].asked.clear()
    others[0].until = lambda: len(others[0].asked) == count
    done = tidegate("--timeout", "60s", "status", "--regions", "-o", "json", endpoint=node.endpoint)
    assert lines(done)[0]["regions"] == [{"name": "us", "held": 5 * count, "held_keys": count, "lent": 0, "lent_keys": 0}]
    assert lines(done)[0]["leases"] == {"taken": 2 * count} and lines(done)[0]["not_counted"] == []


# Who never answers is named, in the order of members, and does not keep the others from being asked and counted.
def test_a_member_that_never_answers_costs_the_others_nothing(node, others):
    answering, silent = others
    silent.until = lambda: False
    answering.until = lambda: len(silent.asked) == 20
    node.replies["members"] = (0, several(1, answering, region="ap") + several(10, silent, region="eu") +
                               several(1, answering, region="sa") + several(10, silent, region="us"))
    node.replies["apikey.show"] = answering.replies["apikey.show"] = silent.replies["apikey.show"] = (0, {"id": "k", "total": 1})
    done = tidegate("--timeout", "10s", "apikey", "show", "k", "-o", "json", endpoint=node.endpoint)
    assert done.returncode == ALLOWED and "without those of 20 of the members" in done.stderr
    names = [f"eu{i:02}" for i in range(10)] + [f"us{i:02}" for i in range(10)]
    assert lines(done)[0]["total"] == 2 and lines(done)[0]["not_counted"] == names[:16]
    assert [(row["region"], row["members_counted"], row["members_not_counted"]) for row in lines(done)[0]["regions"]] == [
        ("ap", 1, 0), ("eu", 0, 10), ("sa", 1, 0), ("us", 0, 10)]


# However many members there are, no more than 32 are asked at a time; the next one as soon as one is done with.
def test_so_many_members_are_asked_at_once_and_no_more(node, others):
    at_first, quiet = [], []

    def when_no_more_come():
        quiet.append(len(others[0].asked))
        if len(at_first) == 0 and quiet[-1] >= 32 and quiet.count(quiet[-1]) > 20:
            at_first.append(quiet[-1])
        return len(at_first) > 0
    others[0].until = when_no_more_come
    node.replies["members"] = (0, several(40, others[0]))
    node.replies["apikey.show"] = others[0].replies["apikey.show"] = (0, {"id": "k", "total": 1})
    done = tidegate("--timeout", "60s", "apikey", "show", "k", "-o", "json", endpoint=node.endpoint)
    assert lines(done) == [{"id": "k", "total": 40, "not_counted": []}] and done.stderr == ""
    assert at_first == [32] and len(others[0].asked) == 40


# With --explain the request asks for it, and every limit is shown, below its line or in the JSON.
def test_every_limit_is_shown_when_asked_for(node):
    node.explain = [["r", "5/h", 5, 6, 0, False, 100, -1], ["s\x1b", "9/d", 9, 1, 8, True, 50, 0]]
    words = ("check", "--key", "a", "--rate", "5/60s", "--explain")
    told = lines(tidegate(*words, "-o", "json", endpoint=node.endpoint))[0]
    assert told["explain"] == [
        {"rule": "r", "window": "5/h", "limit": 5, "used": 6, "remaining": 0, "allowed": False, "reset_after_ms": 100,
         "retry_after_ms": -1},
        {"rule": "s\x1b", "window": "9/d", "limit": 9, "used": 1, "remaining": 8, "allowed": True, "reset_after_ms": 50,
         "retry_after_ms": 0}]
    assert node.flags & 2
    header, row, inner, *rest = tidegate(*words, endpoint=node.endpoint).stdout.splitlines()
    assert header.startswith("ALLOWED") and row.startswith("yes") and inner.startswith("  RULE")
    assert rest[0].split() == ["r", "5/h", "5", "6", "0", "no", "never", "100ms"] and rest[1].startswith("  s?")
    assert len(rest) == 2 and "POOL" not in inner
    node.explain = [["r", "5/h", 5, 6, 0, True, 100, 0, "api", 37500, 812000, 1], ["s", "9/d", 9, 1, 8, True, 50, 0]]
    inner, *rest = tidegate(*words, endpoint=node.endpoint).stdout.splitlines()[2:]
    assert inner.split()[-4:] == ["POOL", "LEVEL", "GUARANTEED", "BORROWED"]
    assert rest[0].split()[-4:] == ["api", "37.5", "812", "0.001"] and rest[1].split()[-4:] == ["-"] * 4
    node.explain[1] = ["s", "9/d", 9, 1, 8, True, 50, 0, "all", 0, 0, 0, "eu"]
    inner, *rest = tidegate(*words, endpoint=node.endpoint).stdout.splitlines()[2:]
    assert inner.split()[-2:] == ["POOL-SCOPE", "POOL-HOME"]
    assert rest[0].split()[-3:] == ["0.001", "-", "-"] and rest[1].split()[-3:] == ["0", "global", "eu"]
    told = lines(tidegate(*words[:-1], "-o", "json", endpoint=node.endpoint))[0]
    assert "explain" not in told and not node.flags & 2


@pytest.mark.parametrize("arguments, status, words", [
    ([], USAGE, "command is missing"), (["chek"], USAGE, "'chek'"), (["check"], USAGE, "needs attributes"),
    (["check", "a=b", "--explian"], USAGE, "'--explian'"), (["check", "--key", "a"], USAGE, "--rate"),
    (["check", "a"], INVALID, "name=value"), (["check", "--key", "a", "--rate", "5/60q"], INVALID, '"q"'),
    (["members", "-o", "xml"], INVALID, "table, json or yaml"), (["-e", "udp://x", "members"], INVALID, "tcp://")])
def test_a_wrong_command_line_is_explained(arguments, status, words):
    done = tidegate(*arguments)
    assert (done.returncode, done.stdout) == (status, "")
    first, *hint = done.stderr.splitlines()
    assert first.startswith("tidegate: ") and words in first
    assert (len(hint) > 0 and hint[0].startswith("usage: tidegate ")) == (status == USAGE)


def test_help_and_version_need_no_node():
    assert tidegate("help").returncode == ALLOWED
    assert "--at-most" in tidegate("help", "check").stdout
    assert tidegate("check", "--help").stdout == tidegate("help", "check").stdout
    assert json.loads(tidegate("version", "-o", "json").stdout)["version"] in tidegate("--version").stdout


def test_an_output_that_cannot_be_written_is_an_error(node):
    with open("/dev/full", "w", encoding="utf-8") as full:
        done = subprocess.run([PROGRAM, "-e", node.endpoint, "members"], stdout=full, stderr=subprocess.PIPE, check=False,
                              timeout=120)
    assert done.returncode == UNWRITTEN and done.stderr.startswith(b"tidegate: ")


def test_a_terminal_gets_colour_unless_it_is_declined(node):
    for variables, coloured in (({}, True), ({"NO_COLOR": "1"}, False)):
        master, slave = pty.openpty()
        environment = {k: v for k, v in os.environ.items() if k != "NO_COLOR"}
        subprocess.run([PROGRAM, "-e", node.endpoint, "members"], stdout=slave, check=True, timeout=120,
                       env={**environment, **variables})
        assert select.select([master], [], [], 5)[0]
        assert (b"\033[32malive" in os.read(master, 65536)) == coloured
        os.close(slave)
        os.close(master)


def test_watch_shows_it_again_until_it_is_ended(node):
    process = subprocess.Popen([PROGRAM, "-e", node.endpoint, "members", "--watch", "-o", "json"],
                               stdout=subprocess.PIPE, text=True)
    try:
        assert [json.loads(process.stdout.readline()) for _ in range(2)] == [[MEMBER], [MEMBER]]
        assert process.poll() is None
    finally:
        process.terminate()
        process.wait(60)
        process.stdout.close()

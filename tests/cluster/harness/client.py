"""client - the native protocol as client/protocol/PROTOCOL.md specifies it, and nothing shared.

A Client has one session and talks to one endpoint at a time. Who gets no answer in time goes on
to the next endpoint with the same (session, seq) and the RETRY flag, as the specification asks.
Not thread-safe: each thread has its own.
"""

import collections
import dataclasses
import random
import struct
import time

import msgpack
import zmq

from .waiting import scaled, wait_for

HELLO, WELCOME, GET_RING, RING, CHECKS, DECISIONS, ERROR, ADMIN, ADMIN_REPLY, GOODBYE = range(1, 11)
OPERATIONS = {"check": 0, "peek": 1, "hit": 2, "refund": 3, "reset": 4}
ALGORITHMS = {"token_bucket": 0, "fixed_window": 1, "sliding_window": 2, "sliding_log": 3,
              "leaky_bucket": 4, "sliding_buckets": 5, "concurrency": 6}
OUTCOMES = ("allow", "soft_exceeded", "elastic_borrowed", "shadow_denied", "no_rule", "deny",
            "blocked", "busy", "error")
AT_MOST = 0x80
FLAG_RETRY, FLAG_EXPLAIN = 1, 2
ALLOWED, DEGRADED = 1, 2
BUSY, UNAVAILABLE = -8, -15
MS = 1_000_000
S = 1_000_000_000
DAY = 86400 * S
NONE = 65535
REFUSED_S = 0.005
TOLD_S, PATIENCE_S = 1.8, 30  # what a node is given for an answer, and how long one is asked for

context = zmq.Context()
context.setsockopt(zmq.MAX_SOCKETS, 4096)


class Refused(Exception):
    """The node answered ERROR, or an ADMIN_REPLY with a code."""

    def __init__(self, code, text):
        super().__init__(f"{code}: {text}")
        self.code = code
        self.text = text


class Unanswered(Exception):
    """Nobody answered within the deadline."""


@dataclasses.dataclass(frozen=True)
class Limit:
    """An inline limit, as its template."""

    count: int
    window_ns: int = DAY
    algorithm: str = "token_bucket"
    burst: int = 0

    def template(self):
        return [0, ALGORITHMS[self.algorithm], self.count, self.window_ns, self.burst]

    @staticmethod
    def item(key):
        """What is sent for a key."""
        return key


@dataclasses.dataclass(frozen=True)
class RuleLimit:
    """A limit that a rule has: its count, and how a check asks for it."""

    count: int
    plan: str  # the value of the attribute `plan` that the rule matches; the key is a `user`

    @staticmethod
    def template():
        return [1, "plan", "user"]

    def item(self, key):
        return (self.plan, key)


def long_window_h():
    """The hours of a window, counted from the epoch, that does not end during the tests: 24, or a few more."""
    return max((24, 25, 26), key=lambda hours: min(hours * 3600 - time.time() % (hours * 3600), 900))


def long_limit(count, algorithm="token_bucket"):
    """`count` per 24 hours, or per 25 or 26 if a window aligned to the day would end during the test."""
    return Limit(count, long_window_h() * 3600 * S, algorithm)


Decision = collections.namedtuple(
    "Decision", "outcome allowed degraded limit used remaining granted reset_after_ms "
                "retry_after_ms delay_ms vnode rule window status message node")


def as_bytes(text):
    return text.encode() if isinstance(text, str) else text


def encode_checks(session, seq, flags, timeout_ms, template, values, operation="check", cost=1,
                  at_most=False):
    """One CHECKS frame with one template. `values`: for each item a key, or a tuple of values."""
    count = len(values)
    code = OPERATIONS[operation] | (AT_MOST if at_most else 0)
    flat = []
    for item in values:
        for value in item if isinstance(item, tuple) else (item,):
            value = as_bytes(value)
            flat.append(struct.pack("<H", len(value)))
            flat.append(value)
    return msgpack.packb([1, CHECKS, session, seq, flags, timeout_ms, [template], count,
                          bytes([code]) * count, struct.pack("<Q", cost) * count,
                          bytes(2 * count), b"".join(flat)])


def decode_decisions(message):
    """The items of a DECISIONS message."""
    count = message[5]
    outcomes, flags = message[6], message[7]
    limit, used, remaining, granted = (struct.unpack(f"<{count}Q", column)
                                       for column in message[8:12])
    reset, retry, delay = (struct.unpack(f"<{count}q", column) for column in message[12:15])
    source = struct.unpack(f"<{count}H", message[15])
    vnode = struct.unpack(f"<{count}I", message[16])
    sources = message[17]
    return [Decision(OUTCOMES[outcomes[i]], bool(flags[i] & ALLOWED), bool(flags[i] & DEGRADED),
                     limit[i], used[i], remaining[i], granted[i], reset[i], retry[i], delay[i],
                     vnode[i], *(sources[source[i]][:5] if source[i] != NONE
                                 else ("", "", 0, "", "")))
            for i in range(count)]


def dealer(endpoint):
    """A socket to HOST:PORT that keeps nothing for a connection that does not stand."""
    socket = context.socket(zmq.DEALER)
    socket.linger = 0
    socket.immediate = 1
    socket.reconnect_ivl = 10
    socket.reconnect_ivl_max = 50
    socket.sndhwm = 10000
    socket.rcvhwm = 10000
    socket.connect(f"tcp://{endpoint}")
    return socket


class Client:
    """A session with a cluster: checks, and what operators ask."""

    def __init__(self, *endpoints, session=None, attempt_s=0.25, deadline_s=None):
        self.endpoints = list(endpoints)
        self.session = session or random.getrandbits(62) + 1
        self.seq = 0
        self.attempt_s = scaled(attempt_s)
        self.told_s = scaled(deadline_s or TOLD_S)
        self.deadline_s = scaled(deadline_s or PATIENCE_S)
        self.at = 0
        self.sockets = {}
        self.attempts = 0

    def close(self):
        for socket in self.sockets.values():
            socket.close()
        self.sockets = {}

    def __enter__(self):
        return self

    def __exit__(self, *ignored):
        self.close()

    def socket(self):
        endpoint = self.endpoints[self.at % len(self.endpoints)]
        if endpoint not in self.sockets:
            self.sockets[endpoint] = dealer(endpoint)
        return self.sockets[endpoint]

    def next_seq(self):
        self.seq += 1
        return self.seq

    # --- one message at a time -------------------------------------------------------------

    def send_frame(self, frame, within_s=None):
        """Sends to the endpoint of the moment; False if it cannot be reached in time."""
        socket = self.socket()
        ms = int((self.attempt_s if within_s is None else within_s) * 1000)
        if not socket.poll(max(ms, 1), zmq.POLLOUT):
            return False
        try:
            socket.send(frame, zmq.DONTWAIT)
        except zmq.Again:
            return False
        return True

    def receive(self, seq, within_s):
        """The answer to `seq` from the endpoint of the moment, or None."""
        deadline = time.monotonic() + within_s
        socket = self.socket()
        while True:
            left_ms = int((deadline - time.monotonic()) * 1000)
            if not socket.poll(max(left_ms, 0)):
                return None
            answer = msgpack.unpackb(socket.recv(), strict_map_key=False)
            if seq is None or answer[1] == WELCOME or answer[3] == seq:
                return answer
            if time.monotonic() >= deadline:
                return None

    def talk(self, make_frame, seq):
        """Sends what make_frame(flags) gives until someone answers; the decoded answer."""
        start = time.monotonic()
        flags = 0
        last = None
        while time.monotonic() - start < self.deadline_s:
            self.attempts += 1
            if self.send_frame(make_frame(flags)):
                flags = FLAG_RETRY
                answer = self.receive(seq, self.attempt_s)
                if answer is not None and not (answer[1] == ERROR
                                               and answer[4] in (BUSY, UNAVAILABLE)):
                    return answer
                last = answer or last
                if answer is not None:
                    time.sleep(REFUSED_S)  # the pace of who asks again at once
            self.at += 1
        if last is not None:
            return last
        raise Unanswered(f"no answer from {self.endpoints} within {self.deadline_s:g} s")

    # --- checks ----------------------------------------------------------------------------

    def ask(self, values, template, operation="check", cost=1, at_most=False, seq=None, flags=0):
        """Decisions on `values` (keys of an inline Limit, or tuples for attribute names)."""
        seq = seq or self.next_seq()
        if isinstance(template, (Limit, RuleLimit)):
            values = [template.item(value) for value in values]
            template = template.template()
        else:
            template = [1, *template]
        timeout_ms = max(int(self.told_s * 1000), 1)
        answer = self.talk(lambda more: encode_checks(self.session, seq, flags | more, timeout_ms,
                                                      template, values, operation, cost, at_most),
                           seq)
        if answer[1] == ERROR:
            raise Refused(answer[4], answer[5])
        assert answer[1] == DECISIONS, answer
        return decode_decisions(answer)

    def check(self, key, limit, **options):
        """One decision on an inline key."""
        return self.ask([key], limit, **options)[0]

    def peek(self, key, limit, **options):
        return self.ask([key], limit, operation="peek", **options)[0]

    def used(self, key, limit):
        """What is consumed of `key`: told by a peek, which costs nothing."""
        return self.all_used([key], limit)[0]

    def all_used(self, keys, limit):
        """The same of each key, by who decides it: an answer without a decision tells nothing."""
        def decided():
            answers = self.ask(keys, limit, "peek", cost=0)
            return None if any(answer.outcome in ("busy", "error") for answer in answers) else answers
        return [answer.used for answer in wait_for(decided, 60, f"somebody decides {keys[:3]}...")]

    def rules(self, attributes, **options):
        """One decision on attributes, by the cluster's rules."""
        return self.ask([tuple(attributes.values())], list(attributes), **options)[0]

    # --- operators -------------------------------------------------------------------------

    def admin(self, command, arguments=None):
        """The value of an ADMIN_REPLY."""
        seq = self.next_seq()
        frame = msgpack.packb([1, ADMIN, self.session, seq, command, arguments or {}])
        answer = self.talk(lambda more: frame, seq)
        if answer[4] != 0:
            raise Refused(answer[4], answer[5])
        return answer[5]

    def owner(self, key):
        return self.admin("owner", {"key": key})[0]

    def hello(self):
        frame = msgpack.packb([1, HELLO, self.session, 1, 1, "tests"])
        return self.talk(lambda more: frame, None)

    def ring(self):
        seq = self.next_seq()
        frame = msgpack.packb([1, GET_RING, self.session, seq])
        return self.talk(lambda more: frame, seq)

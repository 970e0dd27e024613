"""load - checks from threads, batch after batch, across the death and return of nodes.

Each thread is a client with a session of its own that keeps a few batches in flight at one node.
A batch is one key's, so that its allowed items can be counted by key, by the node that decided
and by the time its answer came. When the node falls silent, or says that another one should be
asked, the batches in flight go on to the next one, with the same seq and the RETRY flag. A batch that was still unanswered at the end is
in `unanswered`: nobody knows whether it was admitted. history.py judges what came of it all.
"""

import collections
import random
import struct
import threading
import time

import msgpack
import zmq

from .client import BUSY, DECISIONS, FLAG_RETRY, UNAVAILABLE, dealer, encode_checks
from .waiting import halts, scaled

# `at` is when the answer came and `sent` when it was first asked for, both monotonic; `tries` counts
# how often, `undecided` the items that were answered busy or error, `degraded` those that no
# majority stood behind; `used` is what the last item told.
Answer = collections.namedtuple("Answer",
                                "at key allowed items undecided node sent tries degraded used")
SILENCE_S = 0.15


class Load:
    """`threads` clients that check `keys` in turn under `limit` until they are stopped.

    Stopped, they wait for what is in flight, and give up after a silence of `last_s`.
    """

    def __init__(self, endpoints, keys, limit, threads=2, batch=16, window=4, pace_s=0.0,
                 last_s=2, silence_s=SILENCE_S):
        self.endpoints = endpoints
        self.keys = keys
        self.limit = limit
        self.batch = batch
        self.window = window
        self.pace_s = pace_s
        self.last_s = last_s
        self.silence_s = silence_s  # then the next endpoint is asked
        self.stopping = threading.Event()
        self.answers = [[] for _ in range(threads)]
        self.unanswered = []  # (sent, key, items, tries)
        self.refusals = []
        self.turned_away = [0] * threads  # retryable refusals: BUSY, UNAVAILABLE
        self.failures = []
        self.threads = [threading.Thread(target=self.guard, args=(number,), daemon=True)
                        for number in range(threads)]

    def __enter__(self):
        for thread in self.threads:
            thread.start()
        return self

    def __exit__(self, *ignored):
        self.stop()

    def stop(self):
        """Ends the threads; answers in flight are waited for."""
        self.stopping.set()
        for thread in self.threads:
            thread.join(scaled(60))
            assert not thread.is_alive(), "a thread of the load does not end"
        assert not self.failures, self.failures

    def guard(self, number):
        try:
            self.run(number)
        except Exception as failure:  # shown by stop(): a thread that ends early must not hide
            self.failures.append(repr(failure))

    def run(self, number):
        session = random.getrandbits(62) + 1
        at = number
        socket = self.connect(at)
        flying = {}
        seq = 0
        heard = time.monotonic()
        try:
            while not self.stopping.is_set() or flying:
                while len(flying) < self.window and not self.stopping.is_set():
                    seq += 1
                    key = self.keys[(seq + number) % len(self.keys)]
                    flying[seq] = [key, time.monotonic(), 1]
                    self.send(socket, session, seq, key, 0)
                answered, sent_on = len(self.answers[number]), self.turned_away[number]
                self.read(socket, flying, number)
                if len(self.answers[number]) > answered:
                    heard = time.monotonic()
                if self.turned_away[number] > sent_on or \
                        time.monotonic() - heard > scaled(self.silence_s):
                    socket.close()
                    if self.stopping.is_set() and time.monotonic() - heard > scaled(self.last_s):
                        return
                    at += 1
                    socket = self.connect(at)
                    for again, flight in flying.items():
                        flight[2] += 1
                        self.send(socket, session, again, flight[0], FLAG_RETRY)
                    if not self.stopping.is_set():
                        heard = time.monotonic()
                if self.pace_s:
                    self.stopping.wait(self.pace_s)
        finally:
            self.unanswered += [(flight[1], flight[0], self.batch, flight[2])
                                for flight in flying.values()]
            socket.close()

    def connect(self, at):
        """A socket to the node whose turn it is, connected unless the node is silent."""
        socket = dealer(self.endpoints[at % len(self.endpoints)])
        socket.poll(int(scaled(self.silence_s) * 1000), zmq.POLLOUT)
        return socket

    def send(self, socket, session, seq, key, flags):
        frame = encode_checks(session, seq, flags, 2000, self.limit.template(),
                              [self.limit.item(key)] * self.batch)
        try:
            socket.send(frame, zmq.DONTWAIT)
        except zmq.Again:
            pass  # not connected, or all it may hold is under way: sent again after the silence

    def read(self, socket, flying, number):
        """Takes what has arrived, if something does within a moment."""
        if not socket.poll(20):
            return
        while True:
            try:
                message = msgpack.unpackb(socket.recv(zmq.DONTWAIT))
            except zmq.Again:
                return
            seq = message[3]
            if message[1] != DECISIONS and message[4] in (BUSY, UNAVAILABLE):
                self.turned_away[number] += 1
                continue
            if message[1] != DECISIONS:
                self.refusals.append(tuple(message[4:6]))
                continue
            if seq not in flying:
                continue
            key, sent, tries = flying.pop(seq)
            allowed = sum(flag & 1 for flag in message[7])
            degraded = sum(flag >> 1 & 1 for flag in message[7])
            undecided = sum(outcome in (7, 8) for outcome in message[6])
            source = struct.unpack_from("<H", message[15])[0]
            node = message[17][source][4] if source < len(message[17]) else ""
            self.answers[number].append(Answer(time.monotonic(), key, allowed, len(message[6]),
                                               undecided, node, sent, tries, degraded,
                                               struct.unpack_from("<Q", message[9],
                                                                  8 * len(message[6]) - 8)[0]))

    # --- what came of it -------------------------------------------------------------------

    def all(self):
        return [answer for answers in self.answers for answer in list(answers)]

    def allowed(self, key=None):
        return sum(answer.allowed for answer in self.all() if key in (None, answer.key))

    def count(self):
        return sum(answer.items for answer in self.all())

    def answered_since(self, moment, keys=None):
        """Whether each of `keys` (or of all) had an answer after that moment of monotonic()."""
        return set(keys or self.keys) <= {answer.key for answer in self.all() if answer.at > moment}

    def pauses(self, start, end, keys=None):
        """The times without an answer (on `keys`) between two moments of monotonic(), the longest first: (seconds, from, to)."""
        times = sorted([start, end] + [answer.at for answer in self.all() if start < answer.at < end
                                       and (keys is None or answer.key in keys)])
        return sorted(((later - earlier, earlier, later) for earlier, later in zip(times, times[1:])), reverse=True)

    def longest_pause_ms(self, start, end, keys=None):
        return self.pauses(start, end, keys)[0][0] * 1000

    def longest_own_pause_ms(self, start, end, keys=None):
        """Without the time in which the machine halted."""
        longest = 0.0
        for pause, earlier, later in self.pauses(start, end, keys):
            if pause <= longest:
                break
            longest = max(longest, pause - sum(halts.between(earlier, later)))
        return longest * 1000

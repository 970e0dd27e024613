"""history - what clients saw, key by key, and whether it is what was promised.

A history is made of answers (load.Answer) and of batches that were never answered. Of the latter
nobody knows whether they were admitted, so everything is known between two bounds:

    admitted <= really admitted <= admitted + uncertain

A batch that was asked for more than once may have been charged more than once, if its decider
died in between: that is allowed (never the reverse), and bounded by the repeated batches.
The checker knows nothing of nodes: a scenario says what it promises, in a Promise.
"""

import collections
import dataclasses
import os
import subprocess

from .node import program

# What no replica had acknowledged when a decider died is no older than this: a decider ships its
# dirty slots every 5 ms, and marks answers degraded when replicas fall behind. What is marked so may be
# older: they were behind for that long.
LAST_MOMENTS_S = 0.025
BEHIND_S = 2.0
# A node asks a second decider when the first one dies, and that may charge again. Such an answer has
# taken longer than this.
ASKED_AGAIN_S = 0.008


def judge_program():
    """Beside the programs under test, or in the release build."""
    for path in (program("tests/judge"), program("release/tests/judge")):
        if os.path.exists(path):
            return path
    raise AssertionError("there is no tests/judge: run make judge")


@dataclasses.dataclass
class KeyHistory:
    """One key: all counts are of items, not of batches."""

    key: str
    limit: int
    admitted: int = 0
    denied: int = 0
    undecided: int = 0   # answered busy or error
    degraded: int = 0
    uncertain: int = 0   # never answered
    repeated: int = 0    # asked for again, each time counted, answered or not

    @property
    def excess(self):
        """Surely admitted beyond the limit."""
        return max(0, self.admitted - self.limit)


@dataclasses.dataclass(frozen=True)
class Promise:
    """What a scenario promises for each key; None promises nothing.

    `excess` and `lost` are numbers, or functions of the key.
    """

    excess: object = 0        # admitted beyond the limit, at most
    lost: object = 0          # admitted but not counted at the end, at most
    twice: object = 0         # charged again by nodes that asked a second decider, at most
    pause_ms: float = None    # the longest time without any answer
    refusals: int = 0         # ERROR messages to clients
    undecided: int = None     # items answered busy or error, all keys together

    def bound(self, name, key):
        value = getattr(self, name)
        return value(key) if callable(value) else value


class History:
    """The answers of one or more loads that ran under one limit."""

    def __init__(self, *loads):
        self.limit = loads[0].limit.count
        self.answers = sorted(answer for load in loads for answer in load.all())
        self.unanswered = [flight for load in loads for flight in load.unanswered]
        self.turned_away = sum(sum(load.turned_away) for load in loads)
        self.refusals = [refusal for load in loads for refusal in load.refusals]
        self.keys = {}
        for load in loads:
            for key in load.keys:
                self.keys[key] = KeyHistory(key, self.limit)
        for answer in self.answers:
            self.take(self.keys[answer.key], answer)
        for _, key, items, tries in self.unanswered:
            self.keys[key].uncertain += items
            self.keys[key].repeated += items * (tries - 1)

    @staticmethod
    def take(key, answer):
        key.admitted += answer.allowed
        key.undecided += answer.undecided
        key.denied += answer.items - answer.allowed - answer.undecided
        key.degraded += answer.degraded
        key.repeated += answer.items * (answer.tries - 1)

    # --- figures -----------------------------------------------------------------------------

    def pause_ms(self, start=None, end=None, keys=None):
        """The longest time between two answers (on `keys`), within [start, end]."""
        times = [answer.at for answer in self.answers if keys is None or answer.key in keys]
        start = times[0] if start is None and times else start
        end = times[-1] if end is None and times else end
        if start is None:
            return 0.0
        times = [start] + [at for at in times if start < at < end] + [end]
        return max(later - earlier for earlier, later in zip(times, times[1:])) * 1000

    def latencies_ms(self):
        """From first asking to the answer, in order."""
        return sorted((answer.at - answer.sent) * 1000 for answer in self.answers)

    def admitted_between(self, start, end, key=None, node=None):
        """Items that were allowed by answers which came in [start, end]."""
        return sum(answer.allowed for answer in self.answers if start <= answer.at <= end
                   and key in (None, answer.key) and node in (None, answer.node))

    def last_moments(self, deaths, moment_s=LAST_MOMENTS_S):
        """Of each key, what dying nodes answered in their last moments.

        `deaths`: (name, from, to): the node died between two moments, because a process of some
        hundred megabytes needs a while to be gone.
        """
        found = collections.Counter()
        for name, start, end in deaths:
            for answer in self.answers:
                since = start - (max(BEHIND_S, moment_s) if answer.degraded else moment_s)
                if answer.node == name and since < answer.at <= end + moment_s:
                    found[answer.key] += answer.allowed
        return found

    def summary(self):
        """One line for a report."""
        total = collections.Counter()
        for key in self.keys.values():
            for name in ("admitted", "denied", "undecided", "degraded", "uncertain", "repeated",
                         "excess"):
                total[name] += getattr(key, name)
        words = ", ".join(f"{name} {count}" for name, count in total.items())
        return f"{len(self.answers)} answers on {len(self.keys)} keys: {words}; " \
               f"refused {len(self.refusals)}, sent on {self.turned_away}; longest pause {self.pause_ms():.0f} ms"

    def linearizable(self):
        """Each key's verdict by judge.c: ok, unknown, or broken at a line; and the text judged.

        Only for loads of one item a batch. An answer that was degraded, busy or an error says
        nothing of what was charged, so it counts as none. Who asked again, the client or the node
        that it asked, gets the first answer with the count of the moment, so that count says
        nothing either.
        """
        lines = []
        for name, key in self.keys.items():
            lines.append(f"key {name} {key.limit}")
            for answer in self.answers:
                if answer.key == name:
                    lines.append(self.operation(answer))
            for sent, unanswered, _, tries in self.unanswered:
                if unanswered == name:
                    lines.append(f"op {sent * 1e9:.0f} - 1 0 - {tries - 1}")
        text = "\n".join(lines) + "\n"
        done = subprocess.run([judge_program()], input=text, capture_output=True, text=True,
                              check=False)
        assert done.returncode in (0, 1, 2), done.stderr
        return dict(line.split(" ", 1) for line in done.stdout.splitlines()), text

    @staticmethod
    def operation(answer):
        assert answer.items == 1, "only single checks can be judged one by one"
        decided = not answer.degraded and not answer.undecided
        returned = f"{answer.at * 1e9:.0f}" if decided else "-"
        again = answer.tries - 1 + (answer.at - answer.sent > ASKED_AGAIN_S)
        used = answer.used if decided and again == 0 else "-"
        return f"op {answer.sent * 1e9:.0f} {returned} 1 {answer.allowed if decided else 0} {used} " \
               f"{again}"

    @staticmethod
    def around(key, text, verdict):
        """The lines of a history about the place where it is broken."""
        at = int(verdict.split()[-1])
        return "\n".join([f"{key} {verdict}:", *text.splitlines()[max(at - 12, 0):at + 8]])

    # --- judgement ---------------------------------------------------------------------------

    def complaints(self, promise, used=None):
        """What breaks `promise`, as sentences. `used`: what each key counts at the end, if asked."""
        found = []
        for name, key in self.keys.items():
            bound = promise.bound("excess", name)
            if bound is not None and key.excess > bound:
                found.append(f"{name}: {key.admitted} admitted of {key.limit}: excess {key.excess}, "
                             f"promised at most {bound}")
            if used is not None:
                found += self.counted(key, used[name], promise.bound("lost", name),
                                      promise.bound("twice", name))
        if promise.pause_ms is not None and self.pause_ms() > promise.pause_ms:
            found.append(f"no answer for {self.pause_ms():.0f} ms, promised {promise.pause_ms:.0f}")
        if len(self.refusals) > promise.refusals:
            found.append(f"{len(self.refusals)} refusals: {self.refusals[:3]}")
        undecided = sum(key.undecided for key in self.keys.values())
        if promise.undecided is not None and undecided > promise.undecided:
            found.append(f"{undecided} items were answered busy or error")
        return found

    @staticmethod
    def counted(key, used, lost_bound, twice_bound):
        """Whether what is counted fits what was admitted."""
        found = []
        lost = min(key.admitted, key.limit) - used
        if lost_bound is not None and lost > lost_bound:
            found.append(f"{key.key}: {key.admitted} admitted, {used} counted: lost {lost}, promised "
                         f"at most {lost_bound}")
        most = key.admitted + key.uncertain + key.repeated
        if twice_bound is not None and used > most + twice_bound:
            found.append(f"{key.key}: {used} counted, but at most {most} were asked for, and "
                         f"{twice_bound} may have been charged again")
        return found

    def check(self, promise, used=None):
        """Fails with every complaint."""
        found = self.complaints(promise, used)
        assert not found, "\n".join([*found, self.summary()])

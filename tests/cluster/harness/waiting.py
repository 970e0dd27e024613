"""waiting - conditions with deadlines; nothing here or above sleeps for a fixed time instead.

Every deadline is multiplied by how many times slower the programs are than a release build: by
TIDEGATE_TIME_FACTOR, or by what their variant is known for. No promise in milliseconds is checked
when that is above 1, because then the machine is not the one that was promised for.

Nor is a machine the one that was promised for while it does not run what is ready to run. So a thread
of this process keeps to a beat, and `halts` knows how much later than due it came, and from the kernel how
long nodes had to wait for a processor: what is promised in
milliseconds is promised without these (Stopwatch.own_ms, promised), and a deadline that is no promise is
so long that only something that never happens misses it.
"""

import collections
import contextlib
import glob
import itertools
import os
import threading
import time

VARIANTS = {"tsan": 12, "asan": 4, "ubsan": 3, "coverage": 2, "debug": 2}
FACTOR = float(os.environ.get("TIDEGATE_TIME_FACTOR") or
               VARIANTS.get(os.path.basename(os.environ.get("TIDEGATE_BUILD", "").rstrip("/")), 1))
POLL_S = 0.005
LEAST_S = 60


def scaled(seconds):
    """The time that programs this slow need for what a release build does in `seconds`."""
    return seconds * FACTOR


def is_slowed():
    """Whether figures promised for a release build mean nothing in this run."""
    return FACTOR > 1


def wait_for(condition, within_s, what, poll_s=POLL_S):
    """Calls `condition` until it gives something true, and returns that.

    After `within_s`, and not before LEAST_S (scaled), it fails with `what` and the last thing the condition gave.
    """
    within_s = max(within_s, LEAST_S)
    deadline = time.monotonic() + scaled(within_s)
    while True:
        found = condition()
        if found:
            return found
        if time.monotonic() >= deadline:
            raise AssertionError(f"not within {scaled(within_s):g} s: {what} (last: {found!r})")
        time.sleep(poll_s)


def waited_by_thread(pid):
    """For how many seconds each thread of a process was ready to run and did not; nothing where that is not told."""
    waited = {}
    for path in glob.iglob(f"/proc/{pid}/task/*/schedstat"):
        with contextlib.suppress(OSError), open(path, encoding="ascii") as file:
            waited[path] = int(file.read().split()[1]) / 1e9
    return waited


class Halts:
    """When, and for how long, this machine did not run what was due: a thread keeps to a beat, and looks at nodes."""

    BEAT_S = 0.005
    SLACK_S = 0.005   # what is no halt, but how sleeping threads are woken
    BEATS_A_LOOK = 20
    KEPT = 20_000

    def __init__(self):
        self.found = collections.deque(maxlen=self.KEPT)  # (end, seconds)
        self.pids = set()                                 # of nodes
        self.waited = {}                                  # by pid, what its threads had waited for a processor
        self.lock = threading.Lock()
        threading.Thread(target=self.beat, daemon=True).start()

    def beat(self):
        for number in itertools.count():
            start = time.monotonic()
            time.sleep(self.BEAT_S)
            end = time.monotonic()
            if end - start > self.BEAT_S + self.SLACK_S:
                self.found.append((end, end - start - self.BEAT_S))
            if number % self.BEATS_A_LOOK == 0:
                self.look()

    def look(self):
        """Finds for how long some thread of each node has waited for a processor since the last look."""
        with self.lock:
            for pid in list(self.pids):
                now, before = waited_by_thread(pid), self.waited.get(pid, {})
                if not now:
                    self.pids.discard(pid)
                    self.waited.pop(pid, None)
                    continue
                self.waited[pid] = now
                longest = max((seconds - before[thread] for thread, seconds in now.items() if thread in before), default=0.0)
                if longest > self.SLACK_S:
                    self.found.append((time.monotonic(), longest))

    def between(self, start, end):
        """The halts in that time, in seconds each."""
        time.sleep(self.BEAT_S + self.SLACK_S)  # one that goes on is found at its end
        self.look()
        return [seconds for at, seconds in list(self.found) if start < at and at - seconds < end]


halts = Halts()


def promised(condition, within_s, what, poll_s=POLL_S):
    """As wait_for, for what is promised within `within_s`: it may take longer by as much as the machine
    halted meanwhile, and is waited for, so that a failure tells how long it took."""
    start = time.monotonic()
    found = wait_for(condition, 5 * within_s + 5, what, poll_s)
    end = time.monotonic()
    halted_s = sum(halts.between(start, end))
    assert end - start <= scaled(within_s) + halted_s, \
        f"{what}: promised within {scaled(within_s):g} s, found after {end - start:.2f} s, of which halted {halted_s:.2f}"
    return found


def within_one(period_s, need_s):
    """Returns when there are `need_s` left of the present minute, hour or day (period_s, UTC): for what
    is counted by these, which begins anew at their end."""
    while period_s - time.time() % period_s < need_s:
        time.sleep(0.1)  # the wall clock's own pace


def steady(look, for_s):
    """A condition that holds once `look` has given the same, and not nothing, for `for_s`."""
    last, since = None, 0.0

    def condition():
        nonlocal last, since
        found = look()
        now = time.monotonic()
        if found != last:
            last, since = found, now
        return found if now - since >= for_s else None
    return condition


class Stopwatch:
    """Milliseconds since it was made."""

    def __init__(self):
        self.start = time.monotonic()

    @property
    def ms(self):
        return (time.monotonic() - self.start) * 1000

    @property
    def own_ms(self):
        """Without the time in which the machine halted."""
        end = time.monotonic()
        return max(0.0, end - self.start - sum(halts.between(self.start, end))) * 1000

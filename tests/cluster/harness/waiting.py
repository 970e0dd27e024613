"""waiting - conditions with deadlines; nothing here or above sleeps for a fixed time instead.

TIDEGATE_TIME_FACTOR says how many times slower the programs are than a release build (thread
sanitizer: 10 or so); every deadline is multiplied by it, and no promise in milliseconds is checked
when it is above 1, because then the machine is not the one that was promised for.
"""

import os
import time

FACTOR = float(os.environ.get("TIDEGATE_TIME_FACTOR") or 1)
POLL_S = 0.005


def scaled(seconds):
    """The time that programs this slow need for what a release build does in `seconds`."""
    return seconds * FACTOR


def is_slowed():
    """Whether figures promised for a release build mean nothing in this run."""
    return FACTOR > 1


def wait_for(condition, within_s, what, poll_s=POLL_S):
    """Calls `condition` until it gives something true, and returns that.

    After `within_s` (scaled) it fails with `what` and the last thing the condition gave.
    """
    deadline = time.monotonic() + scaled(within_s)
    while True:
        found = condition()
        if found:
            return found
        if time.monotonic() >= deadline:
            raise AssertionError(f"not within {scaled(within_s):g} s: {what} (last: {found!r})")
        time.sleep(poll_s)


class Stopwatch:
    """Milliseconds since it was made."""

    def __init__(self):
        self.start = time.monotonic()

    @property
    def ms(self):
        return (time.monotonic() - self.start) * 1000

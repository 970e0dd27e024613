"""waiting - conditions with deadlines; nothing here or above sleeps for a fixed time instead.

Every deadline is multiplied by how many times slower the programs are than a release build: by
TIDEGATE_TIME_FACTOR, or by what their variant is known for. No promise in milliseconds is checked
when that is above 1, because then the machine is not the one that was promised for.
"""

import os
import time

VARIANTS = {"tsan": 12, "asan": 4, "ubsan": 3, "coverage": 2, "debug": 2}
FACTOR = float(os.environ.get("TIDEGATE_TIME_FACTOR") or
               VARIANTS.get(os.path.basename(os.environ.get("TIDEGATE_BUILD", "").rstrip("/")), 1))
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

"""gubernator_judge - random items for a real Gubernator and for Tidegate, and what each may answer to them.

Answers are to be the same. Where they are not, a rule says exactly what both answer; its name is that of a row of the
table in deploy/docs/how-to/moving-from-gubernator.md. A rule after which the two count differently gives up the key.
"""

import collections
import random
import string

NO_BATCHING, GLOBAL, GREGORIAN, RESET, MULTI_REGION, DRAIN = 1, 2, 4, 8, 16, 32
TOKEN, LEAKY = 0, 1
UNDER, OVER = "UNDER_LIMIT", "OVER_LIMIT"
DAY_MS = 86400000
DURATIONS = [10 * DAY_MS, 20 * DAY_MS, 30 * DAY_MS]  # nothing leaks and no window ends while a key is asked
RATIO = 60        # by how much the rate of a leaky bucket may change with limit and duration
OLD_MS = 60000    # nobody asks for a key that is older,
ITEMS_MAX = 25    # or was asked for so often
ROUNDED_MS = 3    # of a moment, as either tells it
KEYS = 40

NEGATIVE = "negative `hits`"
UNUSED = "a window in which nothing is used"
STATUS = "`status` once the limit was reached"
DRAIN_NEW = "`DRAIN_OVER_LIMIT`, the first hits of a key beyond its limit"
LEAKY_NEW = "first hits of a leaky bucket beyond its burst"
RESET_HITS = "`RESET_REMAINING` with `hits`"
RESET_TIME = "`reset_time` of `RESET_REMAINING`"
LOWERED = "a `limit` that is lowered and raised again"
BURST = "another `burst`, or another `limit` without one"
LEAKY_TIME = "`reset_time` of a leaky bucket"
CALENDAR_TIME = "`reset_time` of the calendar"
RULES = {NEGATIVE, UNUSED, STATUS, DRAIN_NEW, LEAKY_NEW, RESET_HITS, RESET_TIME, LOWERED, BURST, LEAKY_TIME, CALENDAR_TIME}


class Key:
    """What both count of a key, as far as they agree on it.

    A key that is GLOBAL stays what it is: Gubernator asks itself for it again a while later, with the fields of before.
    """

    def __init__(self, dice, born_ms, units):
        self.name = "".join(dice.choices(string.ascii_lowercase, k=6))
        self.key = "".join(dice.choices(string.printable, k=dice.choice([1, 12, 40, 90])))
        self.born_ms = born_ms
        self.items = 0
        self.algorithm = dice.choice([TOKEN, TOKEN, LEAKY])
        self.gregorian = dice.random() < 0.2
        self.durations = units if self.gregorian else DURATIONS
        self.limit = dice.randint(1, 20)
        self.burst = dice.choice([0, 0, dice.randint(1, 25)]) if self.algorithm == LEAKY else 0
        self.duration = dice.choice(self.durations)
        if self.gregorian and self.algorithm == LEAKY:
            self.durations = [self.duration]
        self.is_global = dice.random() < 0.15
        self.is_old_kind = True    # of the algorithm that it had first
        self.gone = False          # the rules tell no more of it
        self.fresh()

    def fresh(self):
        """Neither has counted anything."""
        self.left = None           # of what Gubernator has counted, or None
        self.began = {"theirs": None, "ours": None}  # between which two moments the window began
        self.each_ms = None        # in which Tidegate lets a hit leak
        self.over = False          # Gubernator says OVER_LIMIT to whatever asks

    @property
    def room(self):
        return self.burst or self.limit if self.algorithm == LEAKY else self.limit

    def asked_enough(self, now_ms):
        return self.gone or self.items >= ITEMS_MAX or now_ms - self.born_ms > OLD_MS


def _change(dice, key):
    """Now and then, another limit."""
    if dice.random() < 0.08:
        key.limit = dice.randint(1, 20)
    if dice.random() < 0.08:
        key.duration = dice.choice(key.durations)
    if key.burst and dice.random() < 0.05:
        key.burst = dice.randint(1, 25)
    if key.is_old_kind and dice.random() < 0.02:
        key.algorithm, key.is_old_kind, key.burst, key.durations = 1 - key.algorithm, False, 0, [key.duration]


def random_item(dice, key):
    """An item for the key, and what the key was before: (algorithm, limit, room)."""
    before = (key.algorithm, key.limit, key.room)
    if not key.is_global:
        _change(dice, key)
    resets = 0.05 * (not key.is_global and before[0] == key.algorithm)
    behavior = GREGORIAN if key.gregorian else 0
    for flag, chance in ((NO_BATCHING, 0.1), (GLOBAL, 0.5 * key.is_global), (MULTI_REGION, 0.1), (DRAIN, 0.15), (RESET, resets)):
        behavior |= flag if dice.random() < chance else 0
    hits = dice.choice([0, 1, 1, 1, 1, 2, 3, dice.randint(-2, key.limit + 2), dice.randint(1, key.limit + 2)])
    if behavior & RESET and dice.random() < 0.7:
        hits = 0
    return {"name": key.name, "unique_key": key.key, "hits": hits, "limit": key.limit, "duration": key.duration,
            "algorithm": key.algorithm, "behavior": behavior, "burst": key.burst}, before


def same_item(item, dice):
    """Another one of the same key and limit, which takes something."""
    return {**item, "hits": dice.randint(1, 4), "behavior": item["behavior"] & ~RESET}


def wrong_item(dice):
    """An item that neither takes."""
    good = {"name": "wrong", "unique_key": str(dice.random()), "hits": 1, "limit": 5, "duration": DAY_MS}
    return {**good, **dice.choice([{"name": ""}, {"unique_key": ""}, {"name": "", "unique_key": ""},
                                   {"algorithm": dice.randint(2, 9)},
                                   {"behavior": GREGORIAN, "duration": dice.choice([-1, 6, DAY_MS])},
                                   {"behavior": GREGORIAN, "duration": 6, "algorithm": LEAKY}])}


class Judge:
    """Compares answers. `seen` counts rules, and items that were judged."""

    def __init__(self, lengths_ms, ends_ms):
        self.lengths_ms = lengths_ms  # of the units of the calendar,
        self.ends_ms = ends_ms        # and when those end that are now
        self.seen = collections.Counter()

    def rule(self, key, name, gives_up=True):
        self.seen[name] += 1
        key.gone |= gives_up

    def wrong(self, item, theirs, ours):
        assert theirs["error"] and ours["error"], (item, theirs, ours)
        assert ours["error"] == theirs["error"] or item["name"] and item["unique_key"], (theirs, ours)
        self.seen["wrong"] += 1

    def judge(self, key, before, item, theirs, ours, times):
        """`times`: when Gubernator was asked, and had answered; and Tidegate; in ms."""
        told = (item, before, vars(key), theirs, ours, times)
        assert theirs["error"] == ours["error"] == "", told
        assert theirs["limit"] == ours["limit"] == item["limit"], told
        if before[0] != key.algorithm:
            key.fresh()
        key.items += 1
        spans = {"theirs": times[:2], "ours": times[2:]}
        new = key.left is None
        decide, moment = (self.token, self.token_time) if key.algorithm == TOKEN else (self.leaky, self.leaky_time)
        status, left = decide(key, before, item, theirs, spans)
        assert (ours["status"], ours["remaining"]) == (status, left), (status, left, told)
        moment(key, before, item, theirs, ours, spans, new, told)
        self.seen["items"] += 1

    # ---- token buckets

    def token_reset(self, key, item):
        new = key.left is None
        if not new:
            key.fresh()
        elif item["hits"]:
            self.rule(key, RESET_HITS)
        else:
            self.rule(key, RESET_TIME)
        return UNDER, item["limit"]

    def token(self, key, before, item, theirs, spans):
        """(status, remaining) that Tidegate is to answer where Gubernator has answered this."""
        hits, limit, new = item["hits"], item["limit"], key.left is None
        if item["behavior"] & RESET:
            return self.token_reset(key, item)
        used = 0 if new else before[1] - key.left
        left = max(0, limit - used)
        if used > limit:
            self.rule(key, LOWERED)
            assert theirs["remaining"] == max(0, -hits)
            return OVER if hits > 0 else UNDER, max(0, limit - used - min(0, hits))
        if new:
            key.began["theirs"] = spans["theirs"]
        over = hits > left
        key.over |= hits > 0 and left == 0 and not new
        assert theirs["status"] == (OVER if over or key.over else UNDER), (theirs, key.over, over)
        if key.over and not over:
            self.rule(key, STATUS, gives_up=False)
        key.left = theirs["remaining"]
        if new and over and item["behavior"] & DRAIN:
            self.rule(key, DRAIN_NEW)
            assert theirs["remaining"] == limit
            return OVER, 0
        if hits < 0 and left - hits > limit:
            self.rule(key, NEGATIVE)
            assert theirs["remaining"] == left - hits
            key.began["ours"] = None
            return UNDER, limit
        if theirs["remaining"] == limit:
            key.began["ours"] = None
            self.rule(key, UNUSED, gives_up=False)
        elif key.began["ours"] is None:
            key.began["ours"] = spans["ours"]
        return OVER if over else UNDER, theirs["remaining"]

    def token_time(self, key, _before, item, theirs, ours, spans, new, told):
        if item["behavior"] & RESET:
            assert ours["reset_time"] == 0 and (theirs["reset_time"] == 0) != new, told
        elif item["behavior"] & GREGORIAN:
            self.rule(key, CALENDAR_TIME, gives_up=False)
            assert theirs["reset_time"] + 1 == ours["reset_time"] == self.ends_ms[item["duration"]], told
        else:
            for side, answer in (("theirs", theirs), ("ours", ours)):
                first, last = key.began[side] or spans[side]
                slack = ROUNDED_MS + spans[side][1] - spans[side][0]  # Tidegate tells it as a time from now, never early
                assert first - ROUNDED_MS <= answer["reset_time"] - item["duration"] <= last + slack, (side, told)

    # ---- leaky buckets

    def another_burst(self, key, used, item):
        """What was used is owed still, at most one further burst."""
        self.rule(key, BURST)
        used = min(used, 2 * key.room)
        left = max(0, key.room - used)
        if item["hits"] > left:
            return OVER, 0 if item["behavior"] & DRAIN else left
        return UNDER, max(0, key.room - max(0, used + item["hits"]))

    def leaky(self, key, before, item, theirs, spans):
        hits, room, resets = item["hits"], key.room, item["behavior"] & RESET
        new = key.left is None
        used, left = (0, room) if new or resets else (before[2] - key.left, key.left)
        key.left = theirs["remaining"]
        if new:
            key.began["theirs"] = key.began["ours"] = spans["ours"]
        elif before[2] != room and not resets:
            return self.another_burst(key, used, item)
        if resets and hits:
            self.rule(key, RESET_HITS)
            return UNDER, room
        over = hits > left
        assert theirs["status"] == (OVER if over else UNDER)
        if new and over and not item["behavior"] & DRAIN:
            self.rule(key, LEAKY_NEW)
            assert theirs["remaining"] == 0
            return OVER, room
        if hits < 0 and left - hits > room:
            self.rule(key, NEGATIVE)
            assert theirs["remaining"] == left - hits
            return UNDER, room
        return OVER if over else UNDER, theirs["remaining"]

    def leaky_time(self, key, before, item, theirs, ours, spans, new, told):
        if before[2] != key.room and not new:
            return  # what is owed beyond a smaller burst is not told
        length = self.lengths_ms[item["duration"]] if item["behavior"] & GREGORIAN else item["duration"]
        each_ms = length / item["limit"]
        if item["hits"] or new or item["behavior"] & RESET:
            key.each_ms = each_ms  # a look tells of the rate before
        began, ended = spans["ours"]
        late = ours["reset_time"] - ended - (key.room - ours["remaining"]) * key.each_ms
        leaked = (ended - key.began["ours"][0]) * RATIO
        assert began - ended - leaked - ROUNDED_MS <= late <= ROUNDED_MS, (late, told)
        if not key.gregorian and not key.gone and not (item["behavior"] & DRAIN and theirs["status"] == OVER):
            began, ended = spans["theirs"]
            told_by = (item["limit"] - theirs["remaining"]) * int(each_ms)
            assert began - ROUNDED_MS <= theirs["reset_time"] - told_by <= ended + ROUNDED_MS, told
        if key.burst:
            self.rule(key, LEAKY_TIME, gives_up=False)

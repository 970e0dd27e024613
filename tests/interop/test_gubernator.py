"""What asks Gubernator asks Tidegate: its library for Go, its stub for Python, curl; and a real Gubernator beside it, which
is asked the same, and forgets."""

import collections
import contextlib
import datetime
import glob
import hashlib
import http.client
import json
import os
import random
import subprocess
import time

import gubernator
import gubernator_judge as rules
import kits
import pytest
from gubernator_judge import DRAIN, GLOBAL, GREGORIAN, LEAKY, OVER, RESET, TOKEN, UNDER, Judge, Key

from harness import Cluster, scaled, wait_for
from harness.history import LAST_MOMENTS_S
from harness.ports import take_block

SECONDS = 260
HERE = os.path.dirname(os.path.abspath(__file__))
PAGE = os.path.join(HERE, "..", "..", "deploy", "docs", "how-to", "moving-from-gubernator.md")
PYTHON_PACKAGES = ("grpcio==1.85.0", "protobuf==6.33.5", "googleapis-common-protos==1.75.0")
DAY_MS, MINUTE_MS = rules.DAY_MS, 60000
SEEDS, STEPS, BATCH = range(10), 300, 8
FORGETFUL, USED, LIMIT = 300, 7, 10  # so many keys, of each so much
STEADY = 2000
CROWD = "the request has more than 128 different limits; expected this one in another request"
NO_KEY, NO_NAME = "field 'unique_key' cannot be empty", "field 'namespace' cannot be empty"


def source(name):
    with open(os.path.join(HERE, "clients", name), encoding="utf-8") as file:
        return file.read()


def now_ms():
    return time.time() * 1000


# ---- its clients

@pytest.fixture(scope="module")
def golang():
    return kits.go("gubernator-go", source("gubernator.go"), f"{gubernator.MODULE}@{gubernator.VERSION}")


def addresses(nodes):
    return [f"127.0.0.1:{node.port + 5}" for node in nodes]


STEPS_SEEN = ["UNDER_LIMIT 9/10", "UNDER_LIMIT 9/10", "UNDER_LIMIT 3/10", "OVER_LIMIT 3/10", "UNDER_LIMIT 0/10",
              "OVER_LIMIT 0/10", "UNDER_LIMIT 0/10"]  # of 1, 0, 6, 4, 3, 1, 0 hits
DRAINED = ["UNDER_LIMIT 3/10", "OVER_LIMIT 0/10", "UNDER_LIMIT 0/10", "OVER_LIMIT 0/10"]
TWO = ["UNDER_LIMIT 9/10", "UNDER_LIMIT 8/10"]


def test_its_library_for_go_does_what_its_documents_show(golang, trio):
    """Each request goes to any of three nodes."""
    done = subprocess.run([golang, "once", *addresses(trio)], capture_output=True, text=True, check=False, timeout=scaled(90))
    assert done.returncode == 0, done.stderr
    seen = json.loads(done.stdout)
    assert seen["token"] == seen["leaky"] == STEPS_SEEN
    assert seen["global"] == [f"UNDER_LIMIT {left}/10" for left in range(9, -1, -1)] + ["OVER_LIMIT 0/10"] * 2
    assert seen["multi_region"] == seen["no_batching"] == TWO
    assert seen["reset"] == ["UNDER_LIMIT 3/10", "UNDER_LIMIT 10/10", "UNDER_LIMIT 10/10", "UNDER_LIMIT 9/10"]
    assert seen["drain"] == seen["drain_leaky"] == DRAINED
    assert seen["each_its_own"] == seen["all_one"] == {"as asked": 800, NO_KEY: 100, NO_NAME: 100}
    assert seen["limits"] == {"as asked": 128, CROWD: 872}
    assert seen["calendar"] == dict.fromkeys(("minute", "hour", "day", "month", "year"), 1)
    assert seen["token_is_back"] == seen["leaky_is_back"] == ["UNDER_LIMIT 0/10", "UNDER_LIMIT 9/10"]
    assert seen["refused"] == {"large": "OutOfRange: Requests.RateLimits list too large; max size is '1000'",
                               "late": "DeadlineExceeded", "cancelled": "Canceled", "none": "answered"}
    assert seen["health"] == ["healthy, 3 peers, here"] * 3
    assert seen["hash_key"] and seen["has_behavior"] and seen["metadata_owner"] in ("n1", "n2", "n3")


def test_a_limit_stays_one_while_its_library_asks_and_the_decider_is_killed(golang, new_cluster):
    """Over the limit is at most what the dying node said in its last moments, which no replica had."""
    cluster = new_cluster(3).start()
    with subprocess.Popen([golang, "steady", str(STEADY), *addresses(cluster)], stdout=subprocess.PIPE, text=True) as asks:
        try:
            half = json.loads(asks.stdout.readline())
            victim = cluster.node(half["owner"])
            before = time.time()
            victim.kill()
            after = time.time()
            seen = json.loads(asks.stdout.readline())
        finally:
            asks.kill()
    answers = collections.Counter(one["said"] for one in seen)
    unknown = sum(answers.values()) - answers[UNDER] - answers[OVER]
    last = sum(one["said"] == UNDER and before - LAST_MOMENTS_S < one["at"] <= after + LAST_MOMENTS_S for one in seen)
    assert half["at"] < before and seen[-1]["at"] > after
    assert {one["owner"] for one in seen if one["at"] > after + 1 and one["owner"]} <= {n.name for n in cluster.live}
    assert STEADY - unknown <= answers[UNDER] <= STEADY + last, answers
    wait_for(lambda: gate_peers(cluster.live[0]) == 2, 30, "the dead one is no peer any more")


def gate_peers(node):
    with contextlib.closing(http.client.HTTPConnection("127.0.0.1", node.port + 4, timeout=30)) as link:
        link.request("GET", "/v1/HealthCheck")
        return json.loads(link.getresponse().read())["peer_count"]


def test_its_stub_for_python_does_what_its_documents_show(trio):
    """Its package is in no index; its messages and its stub are those of the released module, unchanged."""
    venv = kits.pip("gubernator-python", *PYTHON_PACKAGES)
    done = subprocess.run([os.path.join(venv, "bin/python"), os.path.join(HERE, "clients", "gubernator.py"), *addresses(trio)],
                          env={**os.environ, "PYTHONPATH": os.path.join(gubernator.source(), "python", "gubernator")},
                          capture_output=True, text=True, check=False, timeout=scaled(90))
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout) == {
        "first": ["UNDER_LIMIT 9/10", ["owner"], True], "again": "UNDER_LIMIT 8/10",
        **dict.fromkeys(("TOKEN_BUCKET", "LEAKY_BUCKET"), [f"UNDER_LIMIT {n}/10" for n in (7, 4, 1)] + ["OVER_LIMIT 1/10"]),
        "items": ["UNDER_LIMIT 9/10", NO_NAME, NO_KEY, "OVER_LIMIT 10/10",
                  "field 'algorithm': expected TOKEN_BUCKET or LEAKY_BUCKET", "UNDER_LIMIT 9/10", "UNDER_LIMIT 9/10"],
        "many": "OUT_OF_RANGE: Requests.RateLimits list too large; max size is '1000'",
        "health": [["healthy", "", 3]] * 3, "live": [""] * 3}


README_DATA = """{
    "requests": [
        {
            "name": "requests_per_sec",
            "uniqueKey": "account:12345",
            "hits": "1",
            "limit": "10",
            "duration": "1000"
        }
    ]
}"""


def test_curl_asks_as_its_readme_shows(trio):
    def curl(node, path, *more):
        return json.loads(subprocess.run(["curl", "-sS", f"http://127.0.0.1:{node.port + 4}{path}", *more], check=True,
                                         capture_output=True, text=True, timeout=scaled(30)).stdout)
    for node in trio:
        health = curl(node, "/v1/HealthCheck")
        assert health["status"] == "healthy" and health["peer_count"] == 3
        assert curl(node, "/v1/LiveCheck") == {}
        said = curl(node, "/v1/GetRateLimits", "--header", "Content-Type: application/json", "--data", README_DATA)
        assert set(said) == {"responses"} and len(said["responses"]) == 1
        assert set(said["responses"][0]) == {"status", "limit", "remaining", "reset_time", "error", "metadata"}
        assert said["responses"][0]["status"] == UNDER and said["responses"][0]["limit"] == "10"


# ---- beside a real one

class Link:
    """Asks a node by HTTP, over one connection."""

    def __init__(self, host, port):
        self.connection = http.client.HTTPConnection(host, port, timeout=scaled(30))

    def close(self):
        self.connection.close()

    def ask(self, *items):
        self.connection.request("POST", "/v1/GetRateLimits", json.dumps({"requests": items}), {"Content-Type": "application/json"})
        said = self.connection.getresponse()
        body = said.read()
        assert said.status == 200, body
        return [{**one, **{field: int(one[field]) for field in ("limit", "remaining", "reset_time")}}
                for one in json.loads(body)["responses"]]


@contextlib.contextmanager
def real(folder, count):
    """A real Gubernator of `count` nodes."""
    with contextlib.closing(take_block()) as ports, gubernator.running(folder, count, ports.first) as peers:
        yield peers


@pytest.fixture(scope="module")
def both(tmp_path_factory, single):
    """(Gubernator, Tidegate), of one node each."""
    with real(tmp_path_factory.mktemp("gubernator"), 1) as peers, \
            contextlib.closing(Link(peers[0].host, peers[0].http)) as theirs, \
            contextlib.closing(Link("127.0.0.1", single[0].port + 4)) as ours:
        yield theirs, ours


def calendar():
    """Of each unit that goes on for a while: {its number: its length}, {its number: its end}, in ms."""
    now = datetime.datetime.now(datetime.timezone.utc)
    day = now.replace(hour=0, minute=0, second=0, microsecond=0)
    hour, month = now.replace(minute=0, second=0, microsecond=0), day.replace(day=1)
    year = month.replace(month=1)
    spans = {1: (hour, hour + datetime.timedelta(hours=1)), 2: (day, day + datetime.timedelta(days=1)),
             4: (month, (month + datetime.timedelta(days=32)).replace(day=1)), 5: (year, year.replace(year=year.year + 1))}
    spans = {unit: (start, end) for unit, (start, end) in spans.items() if (end - now).total_seconds() > 2 * rules.OLD_MS / 1000}
    return ({unit: int((end - start).total_seconds() * 1000) for unit, (start, end) in spans.items()},
            {unit: int(end.timestamp() * 1000) for unit, (start, end) in spans.items()})


def table():
    """The subjects of what differs, as the page has them."""
    with open(PAGE, encoding="utf-8") as file:
        rows = file.read().split("## What differs, and why")[1].split("\n## ")[0].splitlines()
    return {row.split(" | ")[0][2:] for row in rows if row.startswith("| ")}


def batch(dice, keys):
    """(key, what it was before, item) for some keys; and for one of them again and again."""
    made = []
    for key in dice.sample(keys, BATCH):
        item, before = rules.random_item(dice, key)
        made.append((key, before, item))
    key, _, item = dice.choice(made)
    again = (key.algorithm, key.limit, key.room)
    return made + [(key, again, rules.same_item(item, dice)) for _ in range(dice.choice([0, 0, 0, 3]))]


# Random items, of one caller, one request after the other: status, limit, remaining and whether there is an error are the
# same; reset_time is as long from when either began as it says. What differs has a rule, and each rule is met.
def test_random_items_are_answered_as_a_real_one_answers_them(both, measured):
    theirs, ours = both
    seen = collections.Counter()
    for seed in SEEDS:
        dice = random.Random(seed)
        lengths_ms, ends_ms = calendar()
        judge, keys = Judge(lengths_ms, ends_ms), []
        for _ in range(STEPS):
            keys = [key for key in keys if not key.asked_enough(now_ms())]
            keys += [Key(dice, now_ms(), list(ends_ms)) for _ in range(rules.KEYS - len(keys))]
            made, wrong = batch(dice, keys), rules.wrong_item(dice)
            asked = [item for _, _, item in made] + [wrong]
            times = [now_ms()]
            said = theirs.ask(*asked)
            times += [now_ms(), now_ms()]
            told = ours.ask(*asked)
            times.append(now_ms())
            for (key, before, item), one, other in zip(made, said, told):
                if not key.gone:
                    judge.judge(key, before, item, one, other, times)
            judge.wrong(wrong, said[-1], told[-1])
        seen += judge.seen
    measured("items that both answered", seen["items"])
    measured("of these by a rule", {name: seen[name] for name in sorted(rules.RULES)})
    assert seen["items"] > len(SEEDS) * STEPS * BATCH * 0.9 and seen["wrong"] == len(SEEDS) * STEPS
    assert [name for name in rules.RULES if not seen[name]] == []


def scene(*steps, **fields):
    """Of one key: (fields, what Gubernator answers, what Tidegate answers), one after the other."""
    return [({"name": "scene", "hits": 0, "limit": 10, "duration": DAY_MS, **fields, **more}, theirs, ours)
            for more, theirs, ours in steps]


AN_HOUR_AGO = {"created_at": int(now_ms()) - 60 * MINUTE_MS, "duration": 30 * MINUTE_MS}
SCENES = {
    rules.NEGATIVE: [scene(({"hits": -3}, "UNDER_LIMIT 13", "UNDER_LIMIT 10")),
                     scene(({"hits": -3}, "UNDER_LIMIT 13", "UNDER_LIMIT 10"), algorithm=LEAKY)],
    rules.STATUS: [scene(({"hits": 1, "limit": 1}, "UNDER_LIMIT 0", "UNDER_LIMIT 0"),
                         ({"hits": 1, "limit": 1}, "OVER_LIMIT 0", "OVER_LIMIT 0"),
                         ({"limit": 1}, "OVER_LIMIT 0", "UNDER_LIMIT 0"),
                         ({"hits": 1, "limit": 5}, "OVER_LIMIT 3", "UNDER_LIMIT 3"))],
    rules.DRAIN_NEW: [scene(({"hits": 11, "behavior": DRAIN}, "OVER_LIMIT 10", "OVER_LIMIT 0"))],
    rules.LEAKY_NEW: [scene(({"hits": 11, "algorithm": LEAKY}, "OVER_LIMIT 0", "OVER_LIMIT 10"))],
    rules.RESET_HITS: [scene(({"hits": 3, "behavior": RESET}, "UNDER_LIMIT 7", "UNDER_LIMIT 10")),
                       scene(({"hits": 3}, "UNDER_LIMIT 7", "UNDER_LIMIT 7"),
                             ({"hits": 3, "behavior": RESET}, "UNDER_LIMIT 7", "UNDER_LIMIT 10"), algorithm=LEAKY)],
    rules.LOWERED: [scene(({"hits": 8}, "UNDER_LIMIT 2", "UNDER_LIMIT 2"), ({"limit": 5}, "UNDER_LIMIT 0", "UNDER_LIMIT 0"),
                          ({}, "UNDER_LIMIT 5", "UNDER_LIMIT 2"))],
    rules.BURST: [scene(({"hits": 8}, "UNDER_LIMIT 2", "UNDER_LIMIT 2"), ({"limit": 20}, "UNDER_LIMIT 20", "UNDER_LIMIT 12"),
                        algorithm=LEAKY),
                  scene(({"hits": 8}, "UNDER_LIMIT 2", "UNDER_LIMIT 2"), ({"burst": 5}, "UNDER_LIMIT 5", "UNDER_LIMIT 0"),
                        algorithm=LEAKY)],
    "another `algorithm`": [scene(({"hits": 10}, "UNDER_LIMIT 0", "UNDER_LIMIT 0"),
                                  ({"hits": 1, "algorithm": LEAKY}, "UNDER_LIMIT 9", "UNDER_LIMIT 9"),
                                  ({"hits": 1}, "UNDER_LIMIT 9", "OVER_LIMIT 0"))],
    "`created_at`": [scene(({"hits": 10, **AN_HOUR_AGO}, "UNDER_LIMIT 0", "UNDER_LIMIT 0"),
                           ({"hits": 1, "duration": 30 * MINUTE_MS}, "UNDER_LIMIT 9", "OVER_LIMIT 0"))],
    "weeks of the calendar": [scene(({"hits": 1, "duration": 3, "behavior": GREGORIAN}, "error", "UNDER_LIMIT 9"))],
    "`limit` 0 or less, also with a burst": [
        scene(({"hits": 1, "limit": 0, "burst": 5}, "UNDER_LIMIT 4", "OVER_LIMIT 0"), algorithm=LEAKY),
        scene(({"hits": 0, "limit": -5}, "OVER_LIMIT -5", "UNDER_LIMIT 0")),
        scene(({"hits": 1, "limit": -5}, "OVER_LIMIT -5", "OVER_LIMIT 0"))],
    "`limit` above 10^15, or 10^9 a second; `duration` above 10 years": [
        scene(({"limit": 2 * 10 ** 15}, f"UNDER_LIMIT {2 * 10 ** 15}", f"UNDER_LIMIT {10 ** 15}"))],
    "a `burst` that drains in more than 73 years": [
        scene(({"hits": 1, "limit": 1, "duration": 365 * DAY_MS, "burst": 100}, "UNDER_LIMIT 99", "error"), algorithm=LEAKY)],
    "an unknown `algorithm`": [scene(({"hits": 1, "algorithm": 7}, "error", "error"))],
}
ELSEWHERE = {  # what one node of each, or a minute, does not show; most of it is in tests/unit and tests/cluster
    "`GLOBAL`", "another `limit` of a `GLOBAL` key", "`MULTI_REGION`", "the death of a node", "a shorter `duration` whose window is over", "leaking",
    "a leaky bucket with `DURATION_IS_GREGORIAN`", "the calendar's time zone", "`reset_time`", "different limits in a request",
    "`duration` 0 or less, not of the calendar", "`owner`", "`HealthCheck`", "errors of HTTP", "`Content-Type` of HTTP",
    "the peers' service `PeersV1`; being a member by its library for Go",
}


def short(answer):
    return "error" if answer["error"] else f"{answer['status']} {answer['remaining']}"


def test_what_differs_is_as_the_table_says_and_stands_in_it(both):
    theirs, ours = both
    for subject, scenes in SCENES.items():
        for number, steps in enumerate(scenes):
            for at, (item, one, other) in enumerate(steps):
                named = {**item, "unique_key": f"{subject} {number}"}
                assert (short(theirs.ask(named)[0]), short(ours.ask(named)[0])) == (one, other), (subject, number, at)
    assert set(SCENES) | rules.RULES | ELSEWHERE == table() - {"subject", "---"}


# A real one asks itself again a while later, with the fields of before: so six hits are there again.
def test_a_changed_limit_of_a_global_key_stays_changed(both):
    theirs, ours = both
    item = {"name": "changed", "unique_key": "key", "hits": 0, "limit": 5, "duration": DAY_MS}
    for link in both:
        said = link.ask({**item, "hits": 1, "behavior": GLOBAL}, {**item, "limit": 20, "hits": 10})
        assert [short(one) for one in said] == ["UNDER_LIMIT 4", "UNDER_LIMIT 9"]
    wait_for(lambda: short(theirs.ask({**item, "limit": 20})[0]) == "UNDER_LIMIT 15", 30, "the limit of before comes back")
    assert short(ours.ask({**item, "limit": 20})[0]) == "UNDER_LIMIT 9"


# A month drains in a month; the real one says that a hit takes longer than there have been people.
def test_a_leaky_bucket_of_a_month_drains_in_a_month(both):
    item = {"name": "month", "unique_key": "key", "hits": 5, "limit": 10, "duration": 4, "behavior": GREGORIAN,
            "algorithm": LEAKY}
    theirs, ours = ([link.ask(item)[0], link.ask(item)[0]][1] for link in both)
    assert short(theirs) == short(ours) == "UNDER_LIMIT 0"
    assert theirs["reset_time"] > now_ms() + 100_000 * 365 * DAY_MS
    assert 27 * DAY_MS < ours["reset_time"] - now_ms() <= 31 * DAY_MS


# Each hit is over the limit before the moment that was told, and under it behind; told within the time of a request.
def test_windows_end_at_the_moments_that_were_told(both):
    for link in both:
        items = [{"name": "ends", "unique_key": f"key-{at}", "hits": 1 + at % 4, "limit": 1 + at % 4, "duration": 500 + 150 * at}
                 for at in range(10)]
        asked = now_ms()
        said = link.ask(*items)
        late = rules.ROUNDED_MS + now_ms() - asked  # by so much it may be told
        ends = {item["unique_key"]: one["reset_time"] for item, one in zip(items, said) if short(one) == "UNDER_LIMIT 0"}
        assert len(ends) == len(items)

        def all_under():
            for item in [one for one in items if one["unique_key"] in ends]:
                begun = now_ms()
                said = short(link.ask(item)[0])
                ended, end = now_ms(), ends[item["unique_key"]]
                assert said == "UNDER_LIMIT 0" and ended >= end - late or said == "OVER_LIMIT 0" and begun <= end + rules.ROUNDED_MS, (
                    said, begun - end, ended - end)
                if said == "UNDER_LIMIT 0":
                    del ends[item["unique_key"]]
            return not ends
        wait_for(all_under, 10, "all windows end")


# A bucket of ten that is full leaks a hit each half second: Tidegate exactly so, the real one when a whole one has leaked
# since it last did.
@pytest.mark.parametrize("lag", [1, 0], ids=["Gubernator", "Tidegate"])
def test_buckets_leak_at_their_rate(both, lag):
    link = both[1 - lag]
    item = {"name": "leaks", "unique_key": "key", "hits": 10, "limit": 10, "duration": 5000, "algorithm": LEAKY}
    asked = now_ms()
    assert short(link.ask(item)[0]) == "UNDER_LIMIT 0"
    full = now_ms()

    def leaked():
        begun = now_ms()
        left = link.ask({**item, "hits": 0})[0]["remaining"]
        least, most = ((moment // 500) for moment in (begun - full - rules.ROUNDED_MS, now_ms() - asked + rules.ROUNDED_MS))
        assert least - lag <= left <= most, (left, least, most)
        return left >= 4
    wait_for(leaked, 10, "four have leaked")


# ---- what a death costs

def forgotten(links, survivors, kill, behavior):
    """(keys of which the survivors know less than was used, hits that they then let through beyond the limits, seconds
    until they answered for all) after a death, if there is one."""
    keys = [hashlib.md5(f"{behavior}-{at}".encode()).hexdigest() for at in range(FORGETFUL)]  # theirs hashes like keys alike
    item = {"name": "forgets", "limit": LIMIT, "duration": DAY_MS, "behavior": behavior}
    for at, key in enumerate(keys):
        assert short(links[at % 3].ask({**item, "unique_key": key, "hits": USED})[0]) == f"UNDER_LIMIT {LIMIT - USED}"
    looks = [{**item, "unique_key": key, "hits": 0} for key in keys]

    def all_know():
        return all(one["remaining"] == LIMIT - USED and not one["error"] for link in links for one in link.ask(*looks))
    wait_for(all_know, 30, "all nodes know what is used")
    kill()
    start = time.monotonic()

    def answered():
        said = [link.ask(*looks) for link in survivors]
        return not any(one["error"] for answers in said for one in answers) and said
    said = wait_for(answered, 120, "the survivors answer for all keys", 0.05)
    seconds = time.monotonic() - start
    less = {item["unique_key"] for answers in said for item, one in zip(looks, answers) if one["remaining"] > LIMIT - USED}
    assert all(one["remaining"] >= LIMIT - USED for answers in said for one in answers)
    through = collections.Counter()
    for _ in range(LIMIT):
        for link in survivors:
            for item, one in zip(looks, link.ask(*[{**item, "hits": 1} for item in looks])):
                assert not one["error"], one
                through[item["unique_key"]] += one["status"] == UNDER
    return len(less), sum(max(0, USED + count - LIMIT) for count in through.values()), seconds


# Of 300 keys 7 of 10 are used, at three nodes; one is killed. What the survivors do not know of can be used again.
@pytest.mark.parametrize("behavior, dies", [(0, True), (GLOBAL, True), (GLOBAL, False)],
                         ids=["BATCHING-one dies", "GLOBAL-one dies", "GLOBAL-none dies"])
def test_a_death_is_forgotten_by_a_real_one_and_costs_nothing_here(tmp_path, new_cluster, measured, behavior, dies):
    cluster = new_cluster(3).start()
    with real(str(tmp_path), 3) as peers, contextlib.ExitStack() as stack:
        def links(hosts):
            return [stack.enter_context(contextlib.closing(Link(host, port))) for host, port in hosts]

        def kill_ours():
            cluster.wait_replicated()
            if dies:
                cluster[2].kill()

        def kill_theirs():
            if dies:
                peers[2].kill()
        theirs = links((peer.host, peer.http) for peer in peers)
        ours = links(("127.0.0.1", node.port + 4) for node in cluster)
        here, beyond, here_s = forgotten(ours, ours[:2], kill_ours, behavior)
        there, beyond_there, there_s = forgotten(theirs, theirs[:2], kill_theirs, behavior)
    measured(f"keys of {FORGETFUL} forgotten: Gubernator, Tidegate", (there, here))
    measured("hits let through beyond the limits: Gubernator, Tidegate", (beyond_there, beyond))
    measured("seconds until all keys were answered: Gubernator, Tidegate", (round(there_s, 2), round(here_s, 2)))
    assert here == beyond == 0
    assert behavior == GLOBAL or FORGETFUL / 10 < there < FORGETFUL * 9 / 10  # what died did count

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
SEEDS, STEPS, BATCH = tuple(range(40)), 100, 8
FORGETFUL, USED, LIMIT = 300, 7, 10
STEADY = 2000
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
    assert seen["limits"] == {"as asked": 1000}
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
            contextlib.closing(Link(peers[0].host, peers[0].http).connection) as theirs, \
            contextlib.closing(Link("127.0.0.1", single[0].port + 4).connection) as ours:
        links = Link(peers[0].host, peers[0].http), Link("127.0.0.1", single[0].port + 4)
        links[0].connection, links[1].connection = theirs, ours
        yield links


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
        rows = file.read().split("## What differs, and why")[1].splitlines()
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
    assert rules.RULES <= table(), rules.RULES - table()

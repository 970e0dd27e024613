"""Checks by JSON over HTTP: what is decided, what is charged, and what a mistake is told."""

import json
import random
import re
import signal
import threading
import time

import pytest

from harness import Cluster, Command, Http, Limit, scaled, wait_for
from harness.http1 import Http as Pipeline
from harness.http1 import check

RULES = """\
pools:
  vector: {rate: 150/s}
rules:
  - {name: per-user, match: {api: /x}, key: [user], limits: [{rate: 5/h}]}
  - {name: paid, match: {api: /paid}, key: [user], limits: [{rate: 1/h}], response: {status: 402, message: "Please \\"pay\\""}}
  - {name: two, match: {api: /two}, key: [user], limits: [{rate: 3/s}, {rate: 100/h}]}
  - {name: met, match: {api: /met}, key: [user], limits: [{rate: 2/h}, {rate: 100/24h}]}
  - {name: whole, match: {api: /met}, key: [api], limits: [{rate: 1000000/h}]}
  - {name: places, match: {api: /places}, key: [user], limits: [{algorithm: concurrency, count: 1, timeout: 60s}]}
  - {name: pooled, match: {api: /pooled}, key: [user], limits: [{rate: 5/s}], mode: {elastic: {pool: vector}}}
"""
ATTEMPTS = 5
NAMES = ["allowed", "outcome", "rule", "window", "limit", "used", "remaining", "granted", "reset_after_ms",
         "retry_after_ms", "delay_ms", "status", "message", "degraded", "node"]


@pytest.fixture(scope="module")
def ruled(tmp_path_factory):
    """Three nodes with these rules."""
    folder = tmp_path_factory.mktemp("api")
    (folder / "rules.yaml").write_text(RULES)
    with Cluster(folder, 3, "--rules", str(folder / "rules.yaml")) as cluster:
        yield cluster.start()


def fresh(name="key"):
    return f"{name}-{random.getrandbits(48):x}"


def test_every_protocol_counts_in_the_same_bucket(ruled):
    """The decision has the names of the command line, in its order, whoever asks and where."""
    key, limit = fresh(), Limit(10, 3600 * 10**9, "token_bucket", 10)
    with Http(ruled[0]) as http, ruled.client(1) as native:
        first = http.post("/v1/check", {"key": key, "rate": "10/h", "cost": 4})
        assert first.status == 200 and list(first.said) == NAMES
        assert native.check(key, limit).remaining == 5
        command = Command("check", "--key", key, "--rate", "10/h", "-o", "json", endpoints=[ruled[2].endpoint])
        assert list(command.rows[0]) == NAMES and command.rows[0]["remaining"] == 4
        assert http.post("/v1/peek", {"key": key, "rate": "10/h"}).said["used"] == 6


def test_rules_decide_and_say_status_and_message(ruled):
    with Http(ruled[0]) as http:
        user = {"api": "/x", "user": fresh("ada")}
        for left in (4, 3, 2, 1, 0):
            said = http.post("/v1/check", {"attributes": user}).said
            assert said["rule"] == "per-user" and said["window"] == "5/h" and said["remaining"] == left
        denied = http.post("/v1/check", {"attributes": user})
        assert denied.status == 429 and denied.said["outcome"] == "deny" and denied.said["message"]
        paid = {"attributes": {"api": "/paid", "user": fresh()}}
        assert http.post("/v1/check", paid).status == 200
        denied = http.post("/v1/check", paid)
        assert denied.status == 402 and denied.said["message"] == 'Please "pay"'
        assert http.post("/v1/check?status=200", paid).status == 200
        assert http.post("/v1/check", {"attributes": {"api": "/none"}}).said["outcome"] == "no_rule"


def test_a_check_tells_all_limits_that_it_has_met(ruled):
    """As the command line's --explain does, field by field, through every node, and it changes no count."""
    user = {"api": "/met", "user": fresh()}
    with Http(ruled[0]) as http, Http(ruled[1]) as other:
        asked = {"attributes": user, "explain": True}
        assert http.post("/v1/check", {"attributes": user, "explain": False}).said.get("explain") is None
        said = other.post("/v1/check", asked).said
        assert [(row["rule"], row["window"], row["used"], row["allowed"]) for row in said["explain"]][:2] == \
            [("met", "2/h", 2, True), ("met", "100/d", 2, True)]
        denied = http.post("/v1/check", asked)
        assert denied.status == 429 and [row["allowed"] for row in denied.said["explain"]] == [False, True, True]
        assert denied.headers["RateLimit"] is not None
        words = [f"{name}={value}" for name, value in user.items()]
        command = Command("check", *words, "--explain", "-o", "json", endpoints=[ruled[2].endpoint])
        alike = ["rule", "window", "limit", "allowed"]
        for mine, theirs in zip(denied.said["explain"], command.rows[0]["explain"], strict=True):
            assert list(mine) == list(theirs) and [mine[name] for name in alike] == [theirs[name] for name in alike]
        assert http.post("/v1/peek", asked).said["explain"][0]["used"] == 2
        own = http.post("/v1/check", {"key": fresh(), "rate": "5/h", "explain": True}).said
        assert len(own["explain"]) == 1 and own["explain"][0]["rule"] == "" and own["explain"][0]["used"] == 1
        pooled = http.post("/v1/check", {"attributes": {"api": "/pooled", "user": fresh()}, "explain": True}).said
        assert pooled["explain"][0]["pool"] == "vector" and pooled["explain"][0]["level"] >= 0
        assert http.post("/v1/check", {"attributes": {"api": "/none"}, "explain": True}).said["explain"] == []


def test_a_check_that_is_explained_keeps_its_place_among_others(ruled):
    """It has a message of its own to the decider, and others before and behind it on its connection."""
    keys = [fresh() for _ in range(3)]
    with Pipeline(ruled[0].http) as http:
        answers = http.pipeline([check(keys[i % 3], "100/h", explain=i % 4 == 1) for i in range(30)])
    said = [json.loads(answer.body) for answer in answers]
    assert [one["used"] for one in said] == [1 + i // 3 for i in range(30)]
    assert ["explain" in one for one in said] == [i % 4 == 1 for i in range(30)]
    assert all(one["explain"][0]["used"] == one["used"] for one in said if "explain" in one)


def test_blocks_are_403(ruled):
    with Http(ruled[1]) as http:
        name = fresh()
        assert Command("block", f"user={name}", endpoints=[ruled[0].endpoint]).code == 0

        def asked():
            return http.post("/v1/check", {"attributes": {"api": "/x", "user": name}})
        wait_for(lambda: asked().status == 403, 10, "the block is known everywhere")
        assert asked().said["outcome"] == "blocked"
        explained = http.post("/v1/check", {"attributes": {"api": "/x", "user": name}, "explain": True})
        assert explained.status == 403 and explained.said["explain"] == []


def test_each_operation_does_what_it_says(ruled):
    with Http(ruled[0]) as http:
        own = {"key": fresh(), "rate": "10/h"}

        def ask(operation, **more):
            return http.post(f"/v1/{operation}", {**own, **more}).said
        assert ask("hit", cost=12)["used"] == 12
        assert ask("peek")["allowed"] is False
        assert ask("refund", cost=4)["used"] == 8
        assert ask("check", cost=5, at_most=True)["granted"] == 2
        assert ask("reset")["used"] == 0
        flights = {"key": fresh(), "rate": "2/h", "algorithm": "concurrency"}
        first = http.post("/v1/lease", flights).said
        assert first["allowed"] and re.fullmatch("[0-9a-f]{16}", first["lease_id"])
        assert http.post("/v1/check", flights).status == 200
        assert http.post("/v1/lease", flights).status == 429
        assert http.post("/v1/renew", {**flights, "lease_id": first["lease_id"]}).status == 200
        assert http.post("/v1/release", {**flights, "lease_id": first["lease_id"]}).said["used"] == 1
        assert http.post("/v1/lease", flights).status == 200


def test_an_estimate_is_reserved_and_settled_by_what_was_used(ruled):
    """Over two rules, through any node; settled is settled, whoever says so again."""
    links = [Http(node) for node in ruled.nodes]
    try:
        for asked in ({"key": fresh(), "rate": "100/h"}, {"attributes": {"api": "/two", "user": fresh()}}):
            def ask(at, operation, asked=asked, **more):
                return links[at].post(f"/v1/{operation}", {**asked, **more})
            cost = 60 if "key" in asked else 3
            held = ask(0, "reserve", cost=cost, ttl="5s")
            assert held.status == 200 and held.said["granted"] == held.said["used"] == cost
            assert held.said["hold_ms"] == 5000 and re.fullmatch("[0-9a-f]{16}", held.said["hold_id"])
            assert "lease_id" not in held.said and held.headers["RateLimit"]
            assert ask(1, "check", cost=cost).status == 429
            hold = held.said["hold_id"]
            for at in (1, 2, 0):
                said = ask(at, "commit", hold_id=hold, actual=1).said
                assert said["granted"] == 1 and said["used"] == 1 and "hold_id" not in said
            assert ask(2, "cancel", hold_id=hold).said["granted"] == 0
            hold = ask(2, "reserve", cost=2).said["hold_id"]
            assert ask(1, "cancel", hold_id=hold).said["granted"] == 2
            assert ask(0, "commit", hold_id=hold, actual=2).said["granted"] == 0
        own = {"key": fresh(), "rate": "100/h"}
        both = links[0].post("/v1/reserve", {"checks": [{**own, "cost": 5, "ttl": "1s"}, {**own, "cost": 99}]})
        assert [("hold_id" in d, d["allowed"]) for d in both.said["decisions"]] == [(True, True), (False, False)]
        again = {"Idempotency_Key": fresh()}
        first = links[0].post("/v1/reserve", {**own, "cost": 7}, **again).said
        assert links[1].post("/v1/reserve", {**own, "cost": 7}, **again).said["hold_id"] == first["hold_id"]
        # what nobody settles comes back by itself, and a commit is a hit then
        wait_for(lambda: links[2].post("/v1/peek", own).said["used"] == 7, 10, "the first one is given back")
        late = both.said["decisions"][0]["hold_id"]
        assert links[1].post("/v1/commit", {**own, "hold_id": late, "actual": 4}).said["used"] == 11
    finally:
        for link in links:
            link.link.close()


def test_the_command_line_reserves_and_settles(ruled):
    who = ["api=/two", f"user={fresh()}"]

    def said(*words, at=0):
        return Command(*words, *who, "-o", "json", endpoints=[ruled[at].endpoint]).rows[0]
    held = said("reserve", "--cost", "3", "--ttl", "5s")
    assert held["allowed"] and held["hold_ms"] == 5000 and held["used"] == 3
    assert Command("check", *who, endpoints=[ruled[1].endpoint]).code == 1
    assert said("commit", "--hold", held["hold_id"], "--actual", "1", at=1)["granted"] == 1
    assert said("commit", "--hold", held["hold_id"], "--actual", "3", at=2)["used"] == 1
    shown = Command("reserve", *who, endpoints=[ruled[2].endpoint])
    hold = shown.output.split()[-1]
    assert shown.output.splitlines()[0].endswith("HOLD") and re.fullmatch("[0-9a-f]{16}", hold)
    assert said("cancel", "--hold", hold)["granted"] == 1


HOLD = {"key": "a", "rate": "1/s", "hold_id": "0123456789abcdef"}
HOLD_MISTAKES = [
    ("reserve", {"key": "a", "rate": "1/s", "ttl": 60}, "ttl: found a number, expected a string"),
    ("reserve", {"key": "a", "rate": "1/s", "ttl": "60"}, 'ttl: found "60", expected for how long, 1s to 1h'),
    ("reserve", {"key": "a", "rate": "1/s", "ttl": "999ms"}, 'ttl: found "999ms", expected for how long, 1s to 1h'),
    ("reserve", {"checks": [{"key": "a", "rate": "1/s", "ttl": "2h"}]},
     'checks[0].ttl: found "2h", expected for how long, 1s to 1h'),
    ("reserve", {"key": "a", "rate": "1/s", "at_most": True}, "at_most: no field of reserve; expected attributes, key, "
                                                              "rate, burst, algorithm, cost, ttl"),
    ("check", {"key": "a", "rate": "1/s", "ttl": "5s"}, "ttl: no field of check; expected "),
    ("commit", HOLD, "found no actual, expected how many tokens were used"),
    ("commit", {"key": "a", "rate": "1/s", "actual": 5}, "found no hold_id, expected that of the decision that reserved"),
    ("commit", {**HOLD, "actual": -1}, "actual: found -1, expected a whole number from 0 to 1000000000000000"),
    ("commit", {**HOLD, "hold_id": "x", "actual": 1}, 'hold_id: found "x", expected the hold_id of a decision, of 16 digits'),
    ("cancel", {"key": "a", "rate": "1/s"}, "found no hold_id, expected that of the decision that reserved"),
    ("cancel", {**HOLD, "actual": 1}, "actual: no field of cancel; expected attributes, key, rate, burst, algorithm, hold_id"),
]


@pytest.mark.parametrize("operation,body,detail", HOLD_MISTAKES, ids=[f"{o} {d[:30]}" for o, _, d in HOLD_MISTAKES])
def test_a_mistake_about_a_reservation_is_told_with_its_place(ruled, operation, body, detail):
    with Http(ruled[0]) as http:
        answer = http.post(f"/v1/{operation}", body)
        assert answer.status == 400 and answer.said["detail"].startswith(detail), answer.said


def test_what_cannot_be_held_is_refused(ruled):
    with Http(ruled[0]) as http:
        for algorithm in ("leaky_bucket", "concurrency"):
            asked = {"key": fresh(), "rate": "5/h", "algorithm": algorithm}
            refused = http.post("/v1/reserve", {**asked, "cost": 2})
            assert refused.status == 400 and refused.said["outcome"] == "error"
            assert refused.said["message"].startswith("reserve: expected limits of which tokens can be held")
            assert http.post("/v1/commit", {**asked, "hold_id": "1", "actual": 2}).status == 400
            assert http.post("/v1/peek", asked).said["used"] == 0


def test_headers_tell_what_is_left_and_when_to_come_again(ruled):
    """By the draft of the IETF; whoever waits as told is let in."""
    own = {"key": fresh(), "rate": "1/2s"}
    with Http(ruled[0]) as http:
        first = http.post("/v1/check", own)
        assert first.headers["RateLimit-Policy"] == '"key";q=1;w=2'
        assert first.headers["RateLimit"] == '"key";r=0;t=2' and first.headers["Retry-After"] is None
        assert first.headers["Cache-Control"] == "no-store"
        denied = http.post("/v1/check", own)
        assert denied.headers["RateLimit"] == f'"key";r=0;t={denied.headers["Retry-After"]}'
        assert denied.headers["Retry-After"] in ("1", "2")
        never = http.post("/v1/check", {**own, "cost": 2})
        assert never.status == 429 and never.headers["Retry-After"] is None
        flights = {"key": fresh(), "rate": "2/h", "algorithm": "concurrency"}
        for status in (200, 200, 429):
            answer = http.post("/v1/lease", flights)
            assert answer.status == status
            assert answer.headers["RateLimit-Policy"] == '"key";q=2;qu="concurrent-requests"'
            assert "t=" not in answer.headers["RateLimit"]
        places = {"attributes": {"api": "/places", "user": fresh()}}
        assert http.post("/v1/check", places).headers["RateLimit"] == '"places";r=0'
        assert http.post("/v1/check", places).headers["RateLimit-Policy"] == '"places";q=1;qu="concurrent-requests"'
        assert http.post("/v1/check", {"attributes": {"api": "/none"}}).headers["RateLimit"] is None
        assert http.post("/v1/check", {"checks": [own]}).headers["RateLimit"] is None


def test_header_fields_are_those_of_the_option(tmp_path):
    """The older fields, whose reset is a time, for those who read these; or none. Each endpoint of
    proxies has the node's, unless it chooses."""
    options = ["--http-headers", "legacy", "--auth", "{nginx: {headers: off}, envoy: {headers: ietf}}"]
    (tmp_path / "rules.yaml").write_text("rules:\n  - {name: all, key: [api], limits: [{rate: 1/h}]}\n")
    with Cluster(tmp_path, 1, "--rules", str(tmp_path / "rules.yaml"), *options) as cluster, \
            Http(cluster.start()[0]) as http:
        for question in (lambda: http.post("/v1/check", {"attributes": {"api": "/a"}}), lambda: http.ask("GET", "/v1/auth")):
            first, then = question(), question()
            assert first.status in (200, 204) and then.status == 429
            assert first.headers["RateLimit"] is None and first.headers["RateLimit-Policy"] is None
            assert first.headers["X-RateLimit-Limit"] == "1" and first.headers["X-RateLimit-Remaining"] == "0"
            wait_s = int(then.headers["Retry-After"])
            assert abs(int(then.headers["X-RateLimit-Reset"]) - time.time() - wait_s) < 10 and wait_s > 3000
        denied = http.ask("GET", "/v1/auth/nginx")
        assert denied.status == 403 and denied.headers["Retry-After"] is not None
        assert denied.headers["X-RateLimit-Limit"] is None and denied.headers["RateLimit"] is None
        assert http.ask("GET", "/v1/auth/envoy/").headers["RateLimit"] is not None


def test_a_list_is_answered_in_its_order(ruled):
    """As many as a message has, of keys that three nodes decide; and each is decided by itself."""
    with Http(ruled[0]) as http:
        key = fresh()
        checks = [{"key": f"{key}-{i % 2048}", "rate": f"{1 + i % 7}/h", "burst": None} for i in range(4096)]
        answer = http.post("/v1/check", {"checks": checks})
        decisions = answer.said["decisions"]
        assert answer.status == 200 and len(decisions) == 4096
        assert [d["limit"] for d in decisions] == [1 + i % 7 for i in range(4096)]
        assert all(d["allowed"] for d in decisions[:2048])
        assert {d["node"] for d in decisions} == {node.name for node in ruled.nodes}


def test_a_mistake_anywhere_charges_nothing(ruled):
    with Http(ruled[0]) as http:
        own = {"key": fresh(), "rate": "5/h"}
        answer = http.post("/v1/check", {"checks": [own, own, {"key": "x", "rate": "5/"}]})
        assert answer.status == 400
        assert answer.headers["Content-Type"] == "application/problem+json"
        assert answer.said["detail"].startswith('checks[2].rate: "5/": ')
        assert http.post("/v1/peek", own).said["used"] == 0


MISTAKES = [
    (b"", "found the end of the body at byte 1, expected an object"),
    (b"[]", "found a list, expected an object"),
    (b"{", "found the end of the body at byte 2, expected a key in quotes"),
    (b'{"key":"a","rate":"1/s"}x', "found 'x' at byte 25, expected the end of the body"),
    ({}, "found neither, expected attributes, or key and rate"),
    ({"key": "a"}, "found no rate, expected attributes, or key and rate"),
    ({"rate": "1/s"}, "found no key, expected attributes, or key and rate"),
    ({"key": "a", "rate": 5}, "rate: found a number, expected a string"),
    ({"key": "a", "rate": "5"}, 'rate: "5": no slash after the count; expected COUNT/[N]UNIT, such as 5/60s'),
    ({"key": "a" * 1025, "rate": "1/s"}, "key: found 1025 bytes, expected at most 1024"),
    ({"key": "a", "rate": "1/s", "cost": -1}, "cost: found -1, expected a whole number from 0 to 1000000000000000"),
    ({"key": "a", "rate": "1/s", "cost": 1.5}, "cost: found a number that is not whole, or not written as JSON has it, "
                                               "at byte 37, expected a whole one"),
    ({"key": "a", "rate": "1/s", "burst": 5, "algorithm": "fixed_window"}, "burst"),
    ({"key": "a", "rate": "1/s", "algorithm": "x"}, 'algorithm: found "x", expected token_bucket, leaky_bucket, '),
    ({"key": "a", "rate": "1/s", "peek": True}, "peek: no field of check; expected attributes, key, rate, burst, "
                                                "algorithm, cost, at_most"),
    ({"key": "a", "rate": "1/s", "explain": 1}, "explain: found a number, expected true or false"),
    ({"checks": [{"key": "a", "rate": "1/s", "explain": True}]},
     "checks[0]: found explain, expected it of a check that is no list's"),
    (b'{"key":"a","key":"b","rate":"1/s"}', "key: found this field twice, expected it once"),
    ({"key": "a", "rate": "1/s", "attributes": {"a": "b"}}, "found attributes beside an own limit, expected one of both"),
    ({"attributes": {}}, "found no attribute, expected at least one"),
    ({"attributes": {"a": []}}, "attributes.a: found a list, expected a string, a whole number, true or false"),
    ({"attributes": {"": "b"}}, "attributes.: found a name of 0 bytes, expected 1 to 64"),
    (b'{"attributes":{"a":"b","a":"c"}}', "attributes.a: found this attribute twice, expected it once"),
    ({"attributes": {f"a{i}": "b" for i in range(33)}}, "attributes.a32: found more than 32 attributes"),
    ({"checks": []}, "checks: found no check, expected 1 to 4096"),
    ({"checks": [{"key": "a", "rate": "1/s"}] * 4097}, "checks[4096]: found more than 4096 checks"),
    ({"checks": [], "cost": 1}, "checks: found no check, expected 1 to 4096"),
    ({"cost": 1, "checks": []}, "checks: found another field beside checks, expected checks alone"),
    (b'{"key":"\xff","rate":"1/s"}', "key: found the byte 0xff at byte 9, expected UTF-8"),
]


@pytest.mark.parametrize("body,detail", MISTAKES, ids=[detail[:40] for _, detail in MISTAKES])
def test_a_mistake_is_told_with_its_place(ruled, body, detail):
    with Http(ruled[0]) as http:
        answer = http.post("/v1/check", body)
        assert answer.status == 400 and answer.said["detail"].startswith(detail), answer.said
        assert http.post("/v1/check", {"key": fresh(), "rate": "1/s"}).status == 200  # the connection goes on


def test_nothing_in_the_address_changes_what_is_charged(ruled):
    with Http(ruled[0]) as http:
        own = {"key": fresh(), "rate": "5/h"}
        for query in ("?cost=0", "?peek=1", "?status=200&cost=0", "?status=201", "?"):
            answer = http.post(f"/v1/check{query}", own)
            assert answer.status == (200 if query == "?" else 400)
        assert http.post("/v1/check", own, X_Tidegate_Cost="0", X_HTTP_Method_Override="PEEK").said["used"] == 2


def test_a_request_that_is_sent_again_is_charged_once(ruled):
    """Through any node, and answered as it was; the same key with another body is another request."""
    links = [Http(node) for node in ruled.nodes]
    own, again = {"key": fresh(), "rate": "100/h"}, f'"{fresh()}"'
    try:
        first = links[0].post("/v1/check", own, Idempotency_Key=again).said
        for link in links:
            said = link.post("/v1/check", own, Idempotency_Key=again).said
            assert said["used"] == first["used"] == 1
        assert links[1].post("/v1/check", {**own, "cost": 2}, Idempotency_Key=again).said["used"] == 3
        assert links[2].post("/v1/hit", own, Idempotency_Key=again).said["used"] == 4
        both = {"checks": [own, {**own, "key": fresh()}]}
        for link in links:
            assert [d["granted"] for d in link.post("/v1/check", both, Idempotency_Key=again).said["decisions"]] == [1, 1]
        assert links[0].post("/v1/peek", own).said["used"] == 5
        assert links[0].post("/v1/check", own, Idempotency_Key="x" * 257).status == 400
    finally:
        for link in links:
            link.link.close()


def test_nobody_waits_for_longer_than_he_says(new_cluster):
    """The decider hangs: whoever waits for 30 ms is told by then, others when a replica decides."""
    cluster = new_cluster(3).start()
    for _ in range(ATTEMPTS):
        own = {"key": fresh(), "rate": "100/h"}
        decider = cluster.decider(own["key"])
        with Http(next(node for node in cluster.nodes if node is not decider)) as http:
            assert http.post("/v1/check", own, X_Request_Timeout="10").said["used"] == 1
            decider.signal(signal.SIGSTOP)
            try:
                began = time.monotonic()
                late = http.post("/v1/check", own, X_Request_Timeout="30ms")
                took_s = time.monotonic() - began
                then = http.post("/v1/check", own, X_Request_Timeout="10")
            finally:
                decider.signal(signal.SIGCONT)
        assert took_s < scaled(0.5) and then.status == 200
        if late.status == 503:
            break
        cluster.wait_healthy()  # a replica had decided by then: this process was not run for a while
    assert late.status == 503 and late.said["outcome"] == "error" and took_s >= 0.03


@pytest.mark.parametrize("time", ["", "0", "61", "60001ms", "999us", "1.5", "-1", "1 s", "soon", "9" * 40])
def test_a_time_that_is_none_is_refused_by_its_name(ruled, time):
    with Http(ruled[0]) as http:
        own = {"key": fresh(), "rate": "5/h"}
        answer = http.post("/v1/check", own, X_Request_Timeout=time)
        assert answer.status == 400 and answer.said["detail"].startswith(f'X-Request-Timeout: found "{time[:24]}"; ')
        assert http.post("/v1/check", own, X_Request_Timeout="60").said["used"] == 1


@pytest.mark.parametrize("field", ["Idempotency-Key", "X-Request-Timeout"])
def test_which_of_two_fields_counts_is_not_guessed(ruled, field):
    own = {"key": fresh(), "rate": "5/h"}
    body = json.dumps(own).encode()
    head = f"POST /v1/check HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n" \
           f"{field}: 1\r\n{field.lower()}: 1\r\nContent-Length: {len(body)}\r\n\r\n"
    with Pipeline(ruled[0].http) as http:
        http.send(head.encode() + body)
        answer = http.read()
        assert answer.status == 400 and json.loads(answer.body)["detail"].startswith(f"{field}: ")
        assert json.loads(http.ask("POST", "/v1/peek", own).body)["used"] == 0


def test_all_nodes_together_admit_exactly_the_limit(ruled):
    own, admitted = {"key": fresh(), "rate": "1000/h"}, []

    def ask(node):
        with Http(node) as http:
            admitted.append(sum(http.post("/v1/check", own).status == 200 for _ in range(500)))
    threads = [threading.Thread(target=ask, args=(ruled.nodes[i % 3],)) for i in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sum(admitted) == 1000

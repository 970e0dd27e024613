"""Envoy's rate limit service by gRPC's own client: what descriptors are answered, on one node and on three, and before
which time."""

import base64
import signal

import grpc
import pytest
from google.protobuf.json_format import MessageToDict
from google.protobuf.struct_pb2 import Struct  # pylint: disable=no-name-in-module

from harness import Http, within_one
from harness.ratelimit import CHECK, OK, OVER, REPORT, RateLimit, descriptor

DAY = 86400
DOMAIN = """\
domain: shop
descriptors:
  - key: user
    rate_limit: {unit: day, requests_per_unit: 3, name: each}
  - key: user
    value: vip
    rate_limit: {unlimited: true}
  - key: trial
    shadow_mode: true
    rate_limit: {unit: day, requests_per_unit: 1}
  - key: quota
    quota_mode: true
    rate_limit: {unit: week, requests_per_unit: 1}
  - key: never
    rate_limit: {unit: year, requests_per_unit: 0}
  - key: other
    rate_limit: {unit: month, requests_per_unit: 9, name: rest, replaces: [{name: each}]}
  - key: busy
    rate_limit: {unit: day, requests_per_unit: 100}
  - key: marked
    rate_limit: {unit: day, requests_per_unit: 1}
    metadata: {mark: first, number: 1.5, list: [yes, null, "a\\u2028\\"\\\\b", {deep: {}}], empty: []}
  - key: tagged
    rate_limit: {unlimited: true}
    metadata: {mark: second, more: {"k\\u00fc": -3}}
"""
TOGETHER = """\
charge: all
rules: []
domains:
- domain: shop
  descriptors:
  - {key: user, rate_limit: {unit: day, requests_per_unit: 3}}
  - {key: ip, rate_limit: {unit: day, requests_per_unit: 5}}
"""
MESSAGES = """\
rules: []
domains:
- domain: shop
  message: come again later
  descriptors:
  - {key: user, rate_limit: {unit: day, requests_per_unit: 1}}
  - {key: login, message: "too many log-ins, \\u00fc", rate_limit: {unit: day, requests_per_unit: 2}}
"""


def told(answer):
    """(code, limit, unit, remaining) of each status."""
    return [(status.code, status.current_limit.requests_per_unit, status.current_limit.unit, status.limit_remaining)
            for status in answer.statuses]


@pytest.fixture
def start(new_cluster, tmp_path):
    def starts(nodes, text=DOMAIN, *options):
        path = tmp_path / "rules.yaml"
        path.write_text(text)
        cluster = new_cluster(nodes, "--rules", str(path), *options).start()
        cluster.wait_replicated()
        within_one(DAY, 60)
        return cluster
    return starts


def test_each_kind_of_limit_has_its_status(start):
    node = start(1)[0]
    with RateLimit(node.port + 5) as client:
        def ask(*descriptors, **how):
            return client.ask("shop", *descriptors, **how)
        ada = descriptor(("user", "ada"))
        for left, code in ((2, OK), (1, OK), (0, OK), (0, OVER)):
            answer = ask(ada)
            assert answer.overall_code == code and told(answer) == [(code, 3, 4, left)], answer
            status = answer.statuses[0]
            assert status.current_limit.name == "each" and 0 < status.duration_until_reset.seconds <= DAY
            assert not status.current_limit.HasField("unit_multiplier")
        assert told(ask(descriptor(("user", "vip")))) == [(OK, 0, 0, 2**32 - 1)]
        assert told(ask(descriptor(("nobody", "x")), descriptor(("user", "x"), ("deeper", "y")))) == [(OK, 0, 0, 0)] * 2
        assert client.ask("unknown", ada).overall_code == OK
        for _ in range(2):
            answer = ask(descriptor(("trial", "x")))
            assert answer.overall_code == OK and told(answer) == [(OK, 1, 4, 0)], answer
        assert ask(descriptor(("never", "x"))).overall_code == OVER
        quota = descriptor(("quota", "x"))
        assert [ask(quota).overall_code for _ in range(2)] == [OK, OVER]
        answer = ask(quota, descriptor(("quota", "y")))  # one quota is left
        assert answer.overall_code == OK and [status.code for status in answer.statuses] == [OVER, OK], answer
        answer = ask(ada, descriptor(("other", "x")))  # it replaces the other one, which is over
        assert answer.overall_code == OK and told(answer) == [(OK, 0, 0, 0), (OK, 9, 5, 8)], answer


def test_hits_are_of_the_descriptor_before_the_request_and_may_be_looks_or_refunds(start):
    node = start(1)[0]
    with RateLimit(node.port + 5) as client:
        def left(*descriptors, **how):
            answer = client.ask("shop", *descriptors, **how)
            return answer.overall_code, [status.limit_remaining for status in answer.statuses]
        busy = descriptor(("busy", "x"))
        assert left(busy, hits=30) == (OK, [70])
        assert left(descriptor(("busy", "x"), hits=5), hits=30) == (OK, [65])
        assert left(descriptor(("busy", "x"), hits=0), hits=30) == (OK, [65])
        assert left(descriptor(("busy", "x"), hits=5, refund=True)) == (OK, [70])
        assert left(busy, hits=71) == (OVER, [0])  # and it counts
        assert left(busy) == (OVER, [0])
        own = descriptor(("busy", "y"), limit=(7, 1, 180))
        answer = client.ask("shop", own)
        limit = answer.statuses[0].current_limit
        assert (limit.requests_per_unit, limit.unit, limit.unit_multiplier.value) == (7, 2, 3)
        assert answer.statuses[0].limit_remaining == 6
        assert left(descriptor(("nobody", "y"), limit=(1, 3))) == (OK, [0])
        look = [left(descriptor(("user", "bob")), method=CHECK) for _ in range(3)]
        assert look == [(OK, [3])] * 3
        report = [left(descriptor(("user", "bob")), method=REPORT) for _ in range(4)]
        assert [code for code, _ in report] == [OK] * 4
        assert left(descriptor(("user", "bob")), method=CHECK) == (OVER, [0])


def test_metadata_of_limits_that_are_kept_to_is_told(start):
    node = start(1)[0]
    with RateLimit(node.port + 5) as client:
        both = [descriptor(("marked", "x")), descriptor(("tagged", "x"))]

        def told(*descriptors):
            said = client.ask("shop", *descriptors).dynamic_metadata
            return MessageToDict(Struct.FromString(said)) if said else None
        first = {"mark": "first", "number": 1.5, "list": [True, None, 'a\u2028"\\b', {"deep": {}}], "empty": []}
        second = {"mark": "second", "more": {"k\u00fc": -3}}
        assert told(*both) == {"domain": "shop", "metadata": {**second, **first}}
        assert told(*both) == {"domain": "shop", "metadata": second}  # the first one is over
        assert told(descriptor(("marked", "x"))) is None
        assert told(descriptor(("busy", "x"))) is None


def test_what_no_service_could_answer_is_refused_with_its_place(start):
    node = start(1)[0]
    with RateLimit(node.port + 5) as client:
        ada = descriptor(("user", "ada"))
        assert client.refusal("", ada) == ("INVALID_ARGUMENT", "domain: found nothing; expected a name")
        assert client.refusal("shop") == ("INVALID_ARGUMENT", "descriptors: found 0; expected 1 to 64")
        assert client.refusal("shop", *[ada] * 65) == ("INVALID_ARGUMENT", "descriptors: found 65; expected 1 to 64")
        code, text = client.refusal("shop", ada, descriptor(("user", "x"), limit=(1, 0)))
        assert code == "INVALID_ARGUMENT" and text.startswith("descriptors[1].limit.unit: found 0; expected 1"), text
        code, text = client.refusal("shop", descriptor(("k" * 300, "x")))
        assert code == "INVALID_ARGUMENT" and text.startswith("descriptors[0].entries[0].key: found 300 bytes"), text
        assert client.ask("shop", ada).statuses[0].limit_remaining == 2  # nothing of that was charged


def test_an_estimate_is_held_until_it_is_known_what_was_used(start):
    cluster = start(3)
    with RateLimit(cluster[0].port + 5) as client, RateLimit(cluster[1].port + 5) as other:
        both = {"domain": "shop", "descriptors": [descriptor(("busy", "ada")), descriptor(("user", "vip"))]}

        def left():
            return client.ask("shop", descriptor(("busy", "ada"), hits=0)).statuses[0].limit_remaining
        held = client.kuadrant("Reserve", amount=60, **both)
        assert held.code == OK and held.reservation_id and left() == 40
        refused = other.kuadrant("Reserve", amount=60, **both)
        assert refused.code == OVER and not refused.reservation_id and left() == 40
        done = other.kuadrant("Commit", reservation_id=held.reservation_id, actual_amount=25, **both)
        assert done.reservation_released and left() == 75
        again = client.kuadrant("Commit", reservation_id=held.reservation_id, actual_amount=25, **both)
        assert again.reservation_released and left() == 75  # settled is settled
        late = client.kuadrant("Commit", reservation_id="1234-1", actual_amount=5, **both)
        assert not late.reservation_released and left() == 70
        free = client.kuadrant("Reserve", amount=5, domain="shop", descriptors=[descriptor(("user", "vip"))])
        assert free.code == OK
        for method, fields, text in (("Reserve", {"amount": 0}, "amount: expected 1"),
                                     ("Commit", {"reservation_id": "x"}, "reservation_id: expected one")):
            with pytest.raises(grpc.RpcError) as error:
                client.kuadrant(method, **fields, **both)
            assert error.value.details().startswith(text), error.value


def test_json_is_answered_as_messages_are(start):
    node = start(1)[0]
    http = Http(node)

    def ask(body, status=200):
        answer = http.post("/json", body)
        assert answer.status == status, answer
        return answer.said

    def user(name, **more):
        return {"domain": "shop", "descriptors": [{"entries": [{"key": "user", "value": name}], **more}]}
    told = ask(user("ada"))
    reset = told["statuses"][0].pop("durationUntilReset")
    assert told == {"overallCode": "OK", "statuses": [{
        "code": "OK", "currentLimit": {"requestsPerUnit": 3, "unit": "DAY", "name": "each"}, "limitRemaining": 2}]}
    assert reset.endswith("s") and 0 < int(reset[:-1]) <= DAY
    assert "limitRemaining" not in ask(user("ada", hitsAddend="2"))["statuses"][0]
    assert ask(user("ada"), 429)["overallCode"] == "OVER_LIMIT"
    assert ask({**user("ada", hits_addend=0), "hitsAddend": 9}, 429)["statuses"][0]["code"] == "OVER_LIMIT"
    limit = {"requests_per_unit": 7, "unit": "MINUTE", "unitMultiplier": "3"}
    told = ask(user("bob", limit=limit))["statuses"][0]
    assert told["currentLimit"] == {"requestsPerUnit": 7, "unit": "MINUTE", "unitMultiplier": 3}, told
    assert ask({"domain": "unknown", "descriptors": [{}]}) == {"overallCode": "OK", "statuses": [{"code": "OK"}]}
    for body, detail in (({"domain": "shop", "descriptors": []}, "descriptors: found 0; expected 1 to 64"),
                         ({"domain": "shop", "nothing": 1}, "nothing: found an unknown field"),
                         (user("x", hitsAddend="-1"), "descriptors[0].hitsAddend: expected a whole number"),
                         (user("x", limit={"unit": "FORTNIGHT"}), "descriptors[0].limit.unit: found another word")):
        assert ask(body, 400)["detail"].startswith(detail)
    health = http.ask("GET", "/healthcheck")
    assert health.status == 200 and health.body == b"OK"


def test_a_proxy_is_told_what_to_say_and_which_fields_to_add(start):
    node = start(1, MESSAGES, "--ratelimit-headers", "draft")[0]
    both = [descriptor(("user", "x")), descriptor(("login", "x"))]
    with RateLimit(node.port + 5) as client:
        def fields(answer):
            return {header.key: header.value for header in answer.response_headers_to_add}
        first, second, third = (client.ask("shop", *both) for _ in range(3))
        assert first.raw_body == b"" and second.raw_body == b"come again later" == third.raw_body
        assert [fields(answer)["RateLimit-Limit"] for answer in (first, second, third)] == ["1", "1", "2"]
        assert fields(first)["RateLimit-Remaining"] == "0" and 0 < int(fields(third)["RateLimit-Reset"]) <= DAY
        assert client.ask("shop", both[1]).raw_body.decode() == "too many log-ins, \u00fc"
        assert not fields(client.ask("other", both[0]))
    answer = Http(node).post("/json", {"domain": "shop", "descriptors": [{"entries": [{"key": "login", "value": "x"}]}]})
    assert base64.b64decode(answer.said["rawBody"]).decode() == "too many log-ins, \u00fc"
    assert [field["key"] for field in answer.said["responseHeadersToAdd"]] == [
        "RateLimit-Limit", "RateLimit-Remaining", "RateLimit-Reset"]
    assert answer.said["responseHeadersToAdd"][1] == {"key": "RateLimit-Remaining", "value": "0"}


def test_together_all_are_charged_or_none(start):
    node = start(1, TOGETHER)[0]
    with RateLimit(node.port + 5) as client:
        both = [descriptor(("user", "ada")), descriptor(("ip", "x"))]
        seen = [told(client.ask("shop", *both)) for _ in range(5)]
        assert [[left for *_, left in statuses] for statuses in seen] == [[2, 4], [1, 3], [0, 2], [0, 2], [0, 2]]
        assert [statuses[0][0] for statuses in seen] == [OK] * 3 + [OVER] * 2
        assert client.ask("shop", descriptor(("ip", "x"))).statuses[0].limit_remaining == 1
        code, text = client.refusal("shop", *[descriptor(("user", str(i))) for i in range(9)])
        assert code == "INVALID_ARGUMENT" and "charge: all" in text, text


def test_three_nodes_have_one_limit(start):
    cluster = start(3)
    clients = [RateLimit(node.port + 5) for node in cluster]
    busy = descriptor(("busy", "all"))
    calls = [clients[i % 3].call("shop", busy, timeout_s=30) for i in range(300)]
    codes = [call.result().overall_code for call in calls]
    assert codes.count(OK) == 100 and codes.count(OVER) == 200, codes
    for client in clients:
        client.channel.close()


def test_an_answer_comes_before_its_time_is_over_though_the_decider_falls_silent(start):
    """Nobody waits for the tenth of a second in which a death is noticed: until then a share is the answer."""
    cluster = start(3)
    asked = cluster[0]
    with RateLimit(asked.port + 5) as client:
        before = asked.counter("stand_ins")
        cluster[1].signal(signal.SIGSTOP)  # a death that no connection tells of
        for number in range(300):
            assert client.ask("shop", descriptor(("busy", f"k{number % 40}")), timeout_s=0.06).overall_code == OK
        assert asked.counter("stand_ins") > before

"""Clients of Gubernator at three nodes, by HTTP and by gRPC: one count, forms of JSON, health, and a decider that dies."""

import collections
import datetime
import json
import random
import struct
import subprocess
import threading
import time

import pytest

from harness import Cluster, Http, scaled, wait_for
from harness.metrics import Page

LIMITS = "/v1/GetRateLimits"
METHOD = "/pb.gubernator.V1/"
GLOBAL, GREGORIAN, MULTI_REGION = 2, 4, 16
FIELDS = ["status", "limit", "remaining", "reset_time", "error", "metadata"]


def item(**fields):
    made = {"name": "logins", "unique_key": f"key-{random.getrandbits(48):x}", "hits": 1, "limit": 10,
            "duration": 3600000}
    return {**made, **fields}


def answers(http, *items):
    said = http.post(LIMITS, {"requests": list(items)})
    assert said.status == 200, said.body
    return said.said["responses"]


def varint(number):
    number &= 2 ** 64 - 1
    out = bytearray()
    while number > 127:
        out.append(number & 127 | 128)
        number >>= 7
    return bytes(out + bytes((number,)))


def field(number, value):
    """A field of protobuf: bytes, or a whole number."""
    if isinstance(value, bytes):
        return varint(number << 3 | 2) + varint(len(value)) + value
    return varint(number << 3) + varint(value)


def message(one):
    """An item as gRPC has it."""
    numbers = {"name": 1, "unique_key": 2, "hits": 3, "limit": 4, "duration": 5, "algorithm": 6, "behavior": 7,
               "burst": 8}
    return field(1, b"".join(field(numbers[name], value.encode() if isinstance(value, str) else value)
                             for name, value in one.items()))


def fields(data):
    """What a message of protobuf has: number and value, in turns."""
    at = 0

    def take():
        nonlocal at
        value = shift = 0
        while True:
            byte = data[at]
            at += 1
            value |= (byte & 127) << shift
            if byte < 128:
                return value
            shift += 7

    while at < len(data):
        key = take()
        value = take()
        if key & 7 == 2:
            value, at = data[at:at + value], at + value
        yield key >> 3, value


def grpc(node, method, body):
    """(messages, status, text) of a call by curl."""
    framed = struct.pack(">BI", 0, len(body)) + body
    done = subprocess.run(["curl", "-sS", "--http2-prior-knowledge", "--max-time", str(scaled(20)), "-H",
                           "content-type: application/grpc", "-H", "te: trailers", "-D", "/dev/stderr",
                           "--data-binary", "@-", f"http://127.0.0.1:{node.port + 5}{METHOD}{method}"],
                          input=framed, capture_output=True, timeout=scaled(30), check=True)
    heads = dict(line.split(": ", 1) for line in done.stderr.decode().splitlines() if ": " in line)
    return done.stdout[5:], int(heads["grpc-status"]), heads.get("grpc-message", "")


def grpc_answers(node, *items):
    body, status, text = grpc(node, "GetRateLimits", b"".join(map(message, items)))
    assert status == 0, text
    return [dict(fields(response)) for _, response in fields(body)]


@pytest.fixture(scope="module")
def three(tmp_path_factory):
    with Cluster(tmp_path_factory.mktemp("gubernator"), 3) as cluster:
        yield cluster.start()


@pytest.fixture(scope="module")
def http(three):
    with Http(three[0]) as link:
        yield link


def test_an_item_that_is_asked_of_all_nodes_at_once_is_one_count(three):
    """By HTTP at all nodes, twelve threads; then gRPC says the same."""
    asked = [item(limit=100, behavior=behavior, algorithm=algorithm)
             for behavior in (0, GLOBAL) for algorithm in ("TOKEN_BUCKET", "LEAKY_BUCKET")]
    under = [0] * len(asked)
    lock = threading.Lock()

    def ask(node):
        with Http(node) as link:
            for _ in range(15):
                for i, one in enumerate(answers(link, *asked)):
                    assert one["error"] == ""
                    with lock:
                        under[i] += one["status"] == "UNDER_LIMIT"

    threads = [threading.Thread(target=ask, args=(three[at % 3],)) for at in range(12)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert under[0] == under[2] == 100
    assert 100 <= under[1] <= 102 and 100 <= under[3] <= 102  # they leak one each 36 s
    for node in three.nodes:
        said = grpc_answers(node, {**asked[0], "hits": 0, "algorithm": 0})[0]
        assert said.get(3, 0) == 0 and said[2] == 100


def test_json_has_all_fields_and_takes_either_spelling(http):
    one = item()
    first = answers(http, one)[0]
    assert list(first) == FIELDS
    assert first["status"] == "UNDER_LIMIT" and first["limit"] == "10" and first["remaining"] == "9"
    assert first["error"] == "" and first["metadata"]["owner"] in ("n1", "n2", "n3")
    reset = int(first["reset_time"]) / 1000
    assert 3500 < reset - time.time() <= 3601
    other = {"uniqueKey": one["unique_key"], "name": one["name"], "hits": "2", "limit": "10", "duration": "3600000",
             "algorithm": 0, "behavior": "NO_BATCHING", "created_at": "1", "metadata": {"a": "b"}, "unknown": [{}]}
    assert answers(http, other)[0]["remaining"] == "7"
    assert answers(http, {**one, "hits": 0})[0]["remaining"] == "7"
    assert answers(http, {**one, "hits": "-4"})[0]["remaining"] == "10"
    assert "multi_region" in answers(http, {**one, "behavior": MULTI_REGION})[0]["metadata"]
    assert http.post(LIMITS, {}).said == {"responses": []}


def test_a_month_ends_with_the_calendar_s_in_utc(http, three):
    one = item(duration=4, behavior=GREGORIAN)
    now = datetime.datetime.now(datetime.timezone.utc)
    end = datetime.datetime(now.year + now.month // 12, now.month % 12 + 1, 1, tzinfo=datetime.timezone.utc)
    assert int(answers(http, one)[0]["reset_time"]) == end.timestamp() * 1000
    for node in three.nodes:
        assert grpc_answers(node, one)[0][4] == end.timestamp() * 1000


def test_what_is_wrong_is_an_item_s_own_error(http, three):
    many = [item(unique_key=f"many-{at}") if at % 3 else item(name="") for at in range(1000)]
    for said in (answers(http, *many), answers(http, *many)):
        assert [bool(one["error"]) for one in said] == [at % 3 == 0 for at in range(1000)]
        assert said[0]["error"] == "field 'namespace' cannot be empty" and said[0]["metadata"] == {}
    said = grpc_answers(three[1], *many)
    assert [5 in one for one in said] == [at % 3 == 0 for at in range(1000)]
    assert {one[3] for one in said if 5 not in one} == {7}


def test_what_is_no_request_is_refused_as_a_whole(http, three):
    many = [item() for _ in range(1001)]
    assert grpc(three[0], "GetRateLimits", b"".join(map(message, many)))[1:] == (
        11, "Requests.RateLimits list too large; max size is '1000'")
    refused = http.post(LIMITS, {"requests": many})
    assert refused.status == 400 and "max size is '1000'" in refused.said["detail"]
    refused = http.post(LIMITS, {"requests": [{}, {"hits": 1.5}]})
    assert refused.status == 400 and refused.said["detail"].startswith("requests[1].hits: ")
    assert grpc(three[0], "GetRateLimits", b"\xff")[1] == 13


def test_a_key_with_a_nul_is_another_key(http, three):
    one = item(limit=1)
    nul = {**one, "unique_key": one["unique_key"] + "\0x"}
    assert grpc_answers(three[0], nul)[0].get(1, 0) == 0
    assert answers(http, one)[0]["status"] == "UNDER_LIMIT"
    assert answers(http, nul)[0]["status"] == "OVER_LIMIT"


def test_health_tells_how_many_members_there_are(http, three):
    said = http.ask("GET", "/v1/HealthCheck").said
    assert said == {"status": "healthy", "message": "", "peer_count": 3,
                    "advertise_address": f"127.0.0.1:{three[0].port + 5}"}
    assert http.ask("GET", "/v1/LiveCheck").said == {}
    body, status, _ = grpc(three[1], "HealthCheck", b"")
    told = dict(fields(body))
    assert status == 0 and told == {1: b"healthy", 3: 3, 4: f"127.0.0.1:{three[1].port + 5}".encode()}
    assert grpc(three[2], "LiveCheck", b"") == (b"", 0, "")


def test_a_global_limit_is_one_when_its_decider_dies(new_cluster):
    """Of 60, 40 are used at all nodes; the survivors let the other 20 through, and no more."""
    cluster = new_cluster(3).start()
    one = item(limit=60, behavior=GLOBAL)
    for at in range(40):
        with Http(cluster[at % 3]) as link:
            said = answers(link, one)[0]
            assert said["status"] == "UNDER_LIMIT" and said["error"] == ""
    victim = next(node for node in cluster.nodes if node.name == said["metadata"]["owner"])
    cluster.wait_replicated()
    rest = [node for node in cluster.nodes if node is not victim]
    victim.kill()
    under = unknown = 0

    def exhausted():
        nonlocal under, unknown
        for node in rest:
            with Http(node) as link:
                got = link.post(LIMITS, {"requests": [one]})
                decision = got.said["responses"][0] if got.status == 200 else {"error": got.body, "status": ""}
            unknown += bool(decision["error"])
            under += not decision["error"] and decision["status"] == "UNDER_LIMIT"
        return not decision["error"] and decision["status"] == "OVER_LIMIT"

    wait_for(exhausted, 30, "the limit to be reached")
    with Http(rest[0]) as link:
        wait_for(lambda: link.ask("GET", "/v1/HealthCheck").said["peer_count"] == 2, 30, "the dead one is no peer any more")
    assert 20 - unknown <= under <= 20, json.dumps({"under": under, "unknown": unknown})


# --- metrics under its names ------------------------------------------------------------------------

CALLS, ERRORS = "gubernator_getratelimit_counter", "gubernator_check_error_counter"
REQUESTS = "gubernator_grpc_request_counts"


def counted(node):
    """What a node tells of its answers under Gubernator's names, but what is 0."""
    page = Page(node.http)
    found = {kind: page.of(CALLS, calltype=kind) for kind in ("local", "forward", "global")}
    found |= {kind: page.of(ERRORS, error=kind)
              for kind in ("Invalid request", "Invalid algorithm", "Request too large", "Timeout", "Busy")}
    found["over"] = page.of("gubernator_over_limit_counter")
    found |= {kind: page.of(REQUESTS, status=kind, method=METHOD + "GetRateLimits") for kind in ("success", "failed")}
    return {kind: count for kind, count in found.items() if count}


def test_items_are_counted_under_its_names_at_the_node_that_was_asked(new_cluster):
    """What the answers say of each item, by gRPC and by HTTP, is what three nodes count, and no more."""
    cluster = new_cluster(3, "--metrics-compat", "gubernator").start()
    expected = {node.name: collections.Counter() for node in cluster}
    for turn, node in enumerate(cluster):
        items = [item() for _ in range(40 + turn)] + [item(behavior=GLOBAL) for _ in range(10)]
        items += [item(hits=11), item(hits=11, behavior=GLOBAL), item(hits=0), item(limit=0)]
        items += [item(name=""), item(unique_key=""), item(algorithm=7)]
        with Http(node) as link:
            said = [(one["metadata"].get("owner"), one["status"] == "OVER_LIMIT") for one in answers(link, *items)]
            assert link.post(LIMITS, {"requests": [item(name="")] * 2}).status == 200
            assert link.post(LIMITS, {"requests": [{}] * 1001}).status == 400
        others = [{**one, "unique_key": one["unique_key"] and one["unique_key"] + "-"} for one in items]
        said += [(dict(fields(one[6]))[2].decode() if 6 in one else None, one.get(1, 0) == 1)
                 for one in grpc_answers(node, *others)]
        assert grpc(node, "GetRateLimits", message(item()) * 1001)[1] == 11
        for one, (owner, over) in zip(items * 2, said):
            kind = "global" if one.get("behavior") == GLOBAL else "local" if owner == node.name else "forward"
            expected[node.name]["over"] += over
            expected[node.name][kind] += owner is not None
        expected[node.name] += collections.Counter({"Invalid request": 2 * 2 + 2, "Invalid algorithm": 2,
                                                    "Request too large": 2, "success": 1, "failed": 1})
        assert sum(expected[node.name][kind] for kind in ("local", "forward", "global")) == 2 * (len(items) - 3)
        assert expected[node.name]["over"] == 2 * 3
    for node in cluster:
        assert min(expected[node.name][kind] for kind in ("local", "forward", "global")) > 0
        wait_for(lambda node=node: sum(counted(node).values()) >= sum(expected[node.name].values()), 20, "the counts")
        assert counted(node) == expected[node.name]
        page = Page(node.http)
        assert page.of("gubernator_cache_size") == page.of("tidegate_keys") > 0
        assert page.of("gubernator_concurrent_checks_counter") == page.of("tidegate_waiting_checks")
        assert page.of(REQUESTS, method=METHOD + "HealthCheck") == 0

"""Who may do what: tokens over HTTP and gRPC, made and revoked on one node of three, and rights of those who show none."""

import socket
import threading
import time

import grpc
import pytest

from harness import Command, Http, scaled, wait_for
from harness.ratelimit import OK, RateLimit, descriptor
from harness.resp import Resp

RULES = """\
rules:
- {name: each, match: {api: /x}, key: [user], limits: [{rate: 1000/d}]}
domains:
- domain: shop
  descriptors:
  - {key: user, rate_limit: {unit: day, requests_per_unit: 1000}}
"""
NOBODY = ("--http-anonymous", "none", "--grpc-anonymous", "none")
CHECK = {"attributes": {"api": "/x", "user": "ada"}}
INLINE = {"key": "ada", "rate": "5/d"}
IN_FORCE_S = 2


def tidegate(node, *arguments):
    return Command(*arguments, endpoints=[node.endpoint])


def token(node, name, roles, *more):
    made = tidegate(node, "token", "create", name, "--role", roles, *more, "-o", "json")
    assert made.code == 0, made
    return made.rows[0]["token"]


def ask(http, shown, path, body=None, method=None):
    """Status and what was said; `shown` is a token, None, or a whole value of Authorization."""
    fields = {} if shown is None else {"Authorization": shown if " " in shown else f"Bearer {shown}"}
    if method is None:
        method = "GET" if body is None else "POST"
    answer = http.ask(method, path, body, **fields)
    return answer.status, answer.said if "json" in answer.headers.get("content-type", "") else None, answer.headers


@pytest.fixture
def start(new_cluster, tmp_path):
    def starts(count, *options):
        path = tmp_path / "rules.yaml"
        path.write_text(RULES)
        cluster = new_cluster(count, "--rules", str(path), *options).start()
        cluster.wait_replicated()
        return cluster
    return starts


def test_each_role_opens_what_it_is_for_and_nothing_else(start):
    node = start(1, *NOBODY)[0]
    http = Http(node)
    asked = {
        "check": ("/v1/check", CHECK), "peek": ("/v1/peek", CHECK), "hit": ("/v1/hit", CHECK), "reset": ("/v1/reset", CHECK),
        "inline": ("/v1/check", INLINE), "descriptors": ("/json", {"domain": "shop", "descriptors": [
            {"entries": [{"key": "user", "value": "a"}]}]}),
        "override": ("/json", {"domain": "shop", "descriptors": [
            {"entries": [{"key": "user", "value": "a"}], "limit": {"requests_per_unit": 5000, "unit": "DAY"}}]}),
        "limits": ("/v1/GetRateLimits", {"requests": [{"name": "a", "unique_key": "b", "hits": 1, "limit": 5, "duration": 1000}]}),
        "metrics": ("/metrics", None), "status": ("/v1/status", None), "events": ("/v1/events", None), "page": ("/", None),
        "blocks": ("/v1/blocks", None), "block": ("/v1/block", {"what": "user=eve", "reason": "x"}),
        "rules": ("/v1/rules", None), "keys": ("/v1/apikeys", None),
        "apply": ("/v1/apikeys", {"owner": "bob"}),
    }
    checks = {"check", "peek", "descriptors"}
    opens = {
        "check": checks, "adjust": checks | {"hit", "reset"}, "inline": checks | {"inline", "override", "limits"},
        "observe": {"metrics", "status", "events", "page", "rules"},
        "operate": {"metrics", "status", "events", "page", "rules", "blocks", "block"},
        "admin": set(asked)}
    for role, open_to in opens.items():
        made = token(node, f"of-{role}", role)
        for name, (path, body) in asked.items():
            status, said, fields = ask(http, made, path, body)
            if name in open_to:
                assert status in (200, 201), (role, name, status, said)
            else:
                assert status == 403 and "has not the role" in said["detail"], (role, name, status, said)
                assert fields["WWW-Authenticate"] == 'Bearer realm="tidegate", error="insufficient_scope"'
    for name, (path, body) in asked.items():
        status, _, fields = ask(http, None, path, body)
        assert status == 401 and "realm=\"tidegate" in fields["WWW-Authenticate"], (name, status)
    for path in ("/livez", "/readyz", "/healthcheck", "/v1/LiveCheck", "/v1/openapi.json"):
        assert http.ask("GET", path).status == 200, path


def test_what_is_refused_charges_nothing(start):
    node = start(1, *NOBODY)[0]
    http = Http(node)
    check, everything = token(node, "c", "check"), token(node, "a", "admin")
    left = ask(http, everything, "/v1/peek", CHECK)[1]["remaining"]
    for shown, path, body in ((check, "/v1/hit", CHECK), (None, "/v1/check", CHECK), (check[:-1] + "x", "/v1/check", CHECK)):
        assert ask(http, shown, path, body)[0] in (401, 403)
    many = [CHECK] * 20 + [INLINE]
    assert ask(http, check, "/v1/check", {"checks": many})[0] == 403
    assert ask(http, everything, "/v1/peek", CHECK)[1]["remaining"] == left
    assert ask(http, check, "/v1/check", CHECK)[1]["remaining"] == left - 1


def test_a_bad_token_says_what_is_wrong_with_it(start):
    node = start(1, "--http-anonymous", "check,adjust,inline,observe")[0]
    http = Http(node)
    good = token(node, "web", "check")
    for shown, sentence in ((good[:-1], "cut or mistyped"), (good[:20] + "b" + good[21:], "cut or mistyped"),
                            ("tgt_", "cut or mistyped")):
        status, said, fields = ask(http, shown, "/v1/check", CHECK)
        assert status == 401 and sentence in said["detail"], said
        assert fields["WWW-Authenticate"] == 'Bearer realm="tidegate", error="invalid_token"'
    assert ask(http, "Bearer eyJhbGciOi", "/v1/check", CHECK)[0] == 200  # it is meant for somebody else
    assert ask(http, "Basic YTpi", "/v1/check", CHECK)[0] == 200
    assert ask(http, None, "/v1/hit", CHECK)[0] == 200
    assert ask(http, good, "/v1/hit", CHECK)[0] == 403  # whoever shows a token has its rights alone
    answer = http.ask("POST", "/v1/check", CHECK, **{"Authorization": "Bearer nothing", "Tidegate-Token": good})
    assert answer.status == 200
    assert http.ask("POST", "/v1/hit", CHECK, **{"Tidegate-Token": good}).status == 403


def test_what_is_made_or_revoked_at_one_node_is_in_force_at_all(start):
    cluster = start(3, *NOBODY)
    https = [Http(node) for node in cluster]
    made = token(cluster[0], "web", "check")
    wait_for(lambda: all(ask(http, made, "/v1/check", CHECK)[0] == 200 for http in https), IN_FORCE_S, "it is known everywhere")
    with RateLimit(cluster[2].port + 5, made) as client:
        assert client.ask("shop", descriptor(("user", "x"))).overall_code == OK
        assert tidegate(cluster[1], "credential", "revoke", "web", "--note", "leaked").code == 0
        begun = time.monotonic()
        wait_for(lambda: all(ask(http, made, "/v1/check", CHECK)[0] == 401 for http in https), IN_FORCE_S, "it is refused everywhere")

        def refused():  # on a connection that was there before
            try:
                client.ask("shop", descriptor(("user", "x")))
                return False
            except grpc.RpcError as error:
                return error.code() == grpc.StatusCode.UNAUTHENTICATED and "was revoked" in error.details()
        wait_for(refused, max(0.1, scaled(IN_FORCE_S) - (time.monotonic() - begun)), "gRPC refuses it")
    row = tidegate(cluster[2], "credential", "show", "web", "-o", "json").rows[0]
    assert (row["state"], row["roles"], row["note"]) == ("revoked", "check", "leaked")
    assert tidegate(cluster[0], "credential", "rotate", "web").code == 3
    assert token(cluster[1], "web", "check") != made  # the name is free for another one
    assert "was revoked" in ask(https[0], made, "/v1/check", CHECK)[1]["detail"]


def test_rules_that_go_back_bring_no_credential_back(start):
    node = start(1, *NOBODY)[0]
    http, admin = Http(node), token(node, "ops", "admin")
    made = token(node, "web", "check")
    version = ask(http, admin, "/v1/rules")[1]["version"]
    assert tidegate(node, "credential", "revoke", "web").code == 0
    assert tidegate(node, "rules", "rollback", str(version), "--yes").code == 0
    assert "was revoked" in ask(http, made, "/v1/check", CHECK)[1]["detail"]
    node.kill()
    node.start()
    node.wait_ready()
    assert "was revoked" in ask(Http(node), made, "/v1/check", CHECK)[1]["detail"]


# Whoever replaces a token has read the record before somebody else revokes it: one of the two is refused.
def test_a_token_that_is_replaced_meanwhile_does_not_undo_a_revocation(start):
    cluster = start(3, *NOBODY)
    for turn in range(8):
        name = f"web-{turn}"
        token(cluster[0], name, "check")
        wait_for(lambda name=name: tidegate(cluster[1], "credential", "show", name).code == 0, IN_FORCE_S, "it is known there")
        rotated = threading.Thread(target=tidegate, args=(cluster[1], "credential", "rotate", name, "--for", "1h"))
        rotated.start()
        for _ in range(5):  # an edit that was overtaken is asked again by people, too
            revoked = tidegate(cluster[0], "credential", "revoke", name)
            if revoked.code == 0:
                break
        rotated.join()
        assert revoked.code == 0, revoked
        wait_for(lambda name=name: all(
            tidegate(node, "credential", "show", name, "-o", "json").rows[0]["state"] == "revoked" for node in cluster),
            IN_FORCE_S, "it stays revoked")


# A stream goes on for hours: it ends when who opened it may no more, however that came about.
@pytest.mark.parametrize("path", ["/v1/events", "/live"])
def test_a_stream_ends_with_the_token_that_opened_it(start, path):
    node = start(1)[0]
    for ends in (("credential", "revoke", "watch"), ("credential", "rotate", "watcher")):
        made = token(node, ends[2], "observe")
        with socket.create_connection((node.host, node.port + 4), timeout=scaled(20)) as link:
            link.sendall(f"GET {path} HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer {made}\r\n"
                         f"Accept: text/event-stream\r\n\r\n".encode())
            assert link.recv(1 << 16).startswith(b"HTTP/1.1 200 OK\r\n")
            assert tidegate(node, *ends).code == 0
            while link.recv(1 << 16):
                pass


def test_grpc_answers_nobody_whom_it_does_not_know(start):
    node = start(1, *NOBODY)[0]
    with RateLimit(node.port + 5) as client:
        for asked in (client.refusal("shop", descriptor(("unknown", "x"))), client.refusal("no such domain", descriptor(("a", "b"))),
                      client.refusal("", descriptor(("a", "b")))):
            assert asked[0] == "UNAUTHENTICATED", asked


def test_nobody_signs_for_another_alone(start):
    cluster = start(3)
    http, made = Http(cluster[1]), token(cluster[0], "robot", "operate")
    wait_for(lambda: ask(http, made, "/v1/status")[0] == 200, IN_FORCE_S, "it is known there")
    assert ask(http, made, "/v1/drain", {"author": "alice"})[0] == 200
    wait_for(lambda: "robot, for alice" in cluster[1].log(), 20, "who asked is told")
    status, said, _ = ask(http, made, "/v1/block", {"what": "user=eve", "reason": "x", "author": "a" * 125})
    assert status == 400 and "author: too long" in said["detail"]


def test_a_replaced_token_is_good_for_as_long_as_was_said(start):
    node = start(1, *NOBODY)[0]
    http = Http(node)
    first = token(node, "web", "check")

    def rotate(*more):
        return tidegate(node, "credential", "rotate", "web", *more, "-o", "json").rows[0]["token"]
    second = rotate("--for", "1h")
    assert first[:16] == second[:16] and first != second
    assert [ask(http, shown, "/v1/check", CHECK)[0] for shown in (first, second)] == [200, 200]
    third = rotate()
    assert [ask(http, shown, "/v1/check", CHECK)[0] for shown in (first, second, third)] == [401, 401, 200]
    fourth = rotate("--for", "1s")
    wait_for(lambda: ask(http, third, "/v1/check", CHECK)[0] == 401, 10, "the overlap is over")
    assert ask(http, fourth, "/v1/check", CHECK)[0] == 200


def test_a_credential_ends_by_time_and_keeps_to_its_networks(start):
    node = start(1, *NOBODY)[0]
    http = Http(node)
    short = token(node, "short", "check", "--for", "1s")
    here = token(node, "here", "check", "--network", "10.0.0.0/8,127.0.0.0/8")
    there = token(node, "there", "check", "--network", "10.0.0.0/8")
    assert ask(http, here, "/v1/check", CHECK)[0] == 200
    status, said, _ = ask(http, there, "/v1/check", CHECK)
    assert status == 401 and "may not be used from this address" in said["detail"]
    wait_for(lambda: "has expired" in (ask(http, short, "/v1/check", CHECK)[1] or {}).get("detail", ""), 10, "it ends")
    for arguments, sentence in ((("web", "--role", "root"), 'found role "root"; expected check, adjust'),
                                (("web", "--role", "node"), "node is none of a token's"),
                                (("web", "--role", "check", "--network", "10.0.0.1/8"), "no bits behind the prefix"),
                                (("here", "--role", "check"), "a credential of this name is there"),
                                (("web", "--role", "check", "--network", ""), "networks: expected"),
                                (("a b", "--role", "check"), "letters, digits"),
                                (("web",), "needs --role")):
        refused = tidegate(node, "token", "create", *arguments)
        assert refused.code != 0 and sentence in refused.error, refused


def test_grpc_knows_tokens_and_their_roles(start):
    node = start(1, *NOBODY)[0]
    made = token(node, "envoy", "check")
    for shown, code, sentence in ((None, "UNAUTHENTICATED", "this needs a token with the role check"),
                                  (made[:-1], "UNAUTHENTICATED", "cut or mistyped")):
        with RateLimit(node.port + 5, shown) as client:
            found, said = client.refusal("shop", descriptor(("user", "x")))
            assert (found, sentence in said) == (code, True), said
    with RateLimit(node.port + 5, made) as client:
        assert client.ask("shop", descriptor(("user", "x"))).statuses[0].limit_remaining == 999
        found, said = client.refusal("shop", descriptor(("user", "x"), refund=True))
        assert found == "PERMISSION_DENIED" and "has not the role adjust" in said
        found, said = client.refusal("shop", descriptor(("user", "x"), limit=(5, 1)))
        assert found == "PERMISSION_DENIED" and "has not the role inline" in said
        assert client.ask("shop", descriptor(("user", "x"))).statuses[0].limit_remaining == 998


def test_redis_clients_show_tokens_by_auth_and_lose_them_when_they_are_revoked(start):
    node = start(1, "--resp-anonymous", "none")[0]
    check, everything = token(node, "web", "check"), token(node, "ops", "admin")
    throttle = ("CL.THROTTLE", "a", 5, 5, 60)

    def said(resp, *words):
        answer = resp.ask(*words)
        return answer if isinstance(answer, list) else answer.decode() if isinstance(answer, bytes) else str(answer)
    with Resp(node.resp) as resp, Resp(node.resp) as other:
        assert said(resp, "PING").startswith("NOAUTH") and said(resp, *throttle).startswith("NOAUTH")
        assert said(resp, "AUTH", "web", everything).startswith("WRONGPASS")
        assert said(resp, "AUTH", check[:-1]).startswith("WRONGPASS")
        assert said(resp, "AUTH", "web", check) == "OK" and said(resp, "ACL", "WHOAMI") == "web"
        assert said(resp, "TG.CHECK", "api", "/x", "user", "ada")[0] == 0
        assert said(resp, *throttle).startswith("NOPERM User web has no permissions to run the 'cl.throttle' command")
        assert said(other, "AUTH", everything) == "OK" and said(other, *throttle)[2] == 5
        assert tidegate(node, "credential", "revoke", "web").code == 0
        wait_for(lambda: str(said(resp, "TG.CHECK", "api", "/x", "user", "ada")).startswith("NOAUTH"), IN_FORCE_S, "it is refused")
        assert said(other, *throttle)[2] == 4


def test_who_made_a_change_is_told_by_the_credential(start):
    node = start(1)[0]
    http, made = Http(node), token(node, "robot", "operate")
    assert ask(http, made, "/v1/block", {"what": "user=eve", "reason": "x", "author": "ada"})[0] == 200
    assert ask(http, made, "/v1/block", {"what": "user=bob", "reason": "x"})[0] == 200
    told = [event["says"] for event in ask(http, made, "/v1/events")[1]["events"]]
    assert any("by robot, for ada" in text for text in told) and any("by robot, http 127.0.0.1" in text for text in told), told

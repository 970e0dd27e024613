"""Operators' calls over HTTP: what the command line does, as JSON, with the token of the node."""

import gzip
import os
import signal
import stat
import threading
from urllib.parse import quote

import pytest

from harness import Cluster, Command, Http, wait_for

ONE = "rules:\n  - {name: one, match: {api: /x}, key: [user], limits: [{rate: 5/h}]}\n"
TWO = "rules:\n  - {name: two, match: {api: /x}, key: [user], limits: [{rate: 7/h}]}\n"
YAML = {"Content_Type": "application/yaml"}


class Operator(Http):
    """A client that has the token of its node."""

    def __init__(self, node):
        super().__init__(node)
        self.token = node.token()

    def ask(self, method, path, body=None, **headers):
        headers.setdefault("Authorization", f"Bearer {self.token}")
        return super().ask(method, path, body, **headers)

    def get(self, path, **headers):
        return self.ask("GET", path, **headers)


@pytest.fixture(scope="module")
def trio(tmp_path_factory):
    with Cluster(tmp_path_factory.mktemp("operators"), 3) as cluster:
        yield cluster.start()


@pytest.fixture
def operator(trio):
    with Operator(trio[0]) as http:
        yield http


def paths_of(node):
    """Method and path of each call that the document says is operators'."""
    with Http(node) as http:
        document = http.ask("GET", "/v1/openapi.json").said
    return [(method, path) for path, methods in document["paths"].items() for method, call in methods.items()
            if "security" in call]


# --- who may ask ------------------------------------------------------------------------------


# Loopback is not trust: a page in a browser of this machine is there, too, and whatever runs as another user.
def test_no_call_of_operators_is_answered_without_the_token(trio):
    calls = paths_of(trio[0])
    assert len(calls) >= 33
    with Http(trio[0]) as http:
        for method, path in calls:
            for said in ({}, {"Authorization": "Bearer " + "a" * 56}, {"Authorization": "Basic " + trio[0].token()},
                         {"Authorization": "Bearer " + trio[1].token()}, {"Authorization": trio[0].token()}):
                answer = http.ask(method.upper(), path.replace("{", "").replace("}", ""), {}, **said)
                assert answer.status == 401, (method, path, said)
                assert answer.headers["WWW-Authenticate"].startswith('Bearer realm="tidegate"')
    figures = trio[0].fresh_status()["http"]
    assert figures["unauthorized"] >= 5 * len(calls)


def test_the_token_is_made_once_for_the_nodes_user_alone(new_cluster):
    node = new_cluster(1).start()[0]
    path = os.path.join(node.data, "admin.cred")
    assert stat.S_IMODE(os.stat(path).st_mode) == 0o600
    token = node.token()
    assert token.startswith("tga_") and len(token) == 56
    assert token not in node.log()
    node.stop()
    node.start()
    assert node.token() == token
    with Operator(node) as http:
        assert http.get("/v1/status").said["node"] == node.name


def test_a_file_without_a_token_ends_the_start_with_a_sentence(new_cluster, tmp_path):
    path = tmp_path / "cred"
    path.write_text("short\n")
    node = new_cluster(1, "--admin-cred", str(path)).nodes[0]
    node.spawn()
    assert node.wait_exit() == 2
    assert "found no token; expected one line of 32 to 256 letters" in node.log() and "short" not in node.log()


def test_a_node_that_keeps_nothing_has_calls_only_by_a_file_that_is_named(new_cluster, tmp_path):
    node = new_cluster(1, "--ephemeral").start()[0]
    with Http(node) as http:
        answer = http.ask("GET", "/v1/status", Authorization="Bearer " + "a" * 56)
    assert answer.status == 401 and "none of Tidegate" in answer.said["detail"]
    other = new_cluster(1, "--ephemeral", "--admin-cred", str(tmp_path / "cred")).start()[0]
    with Http(other) as http:
        token = (tmp_path / "cred").read_text().strip()
        assert http.ask("GET", "/v1/members", Authorization=f"Bearer {token}").status == 200


# --- rules ------------------------------------------------------------------------------------


def test_rules_are_applied_shown_and_taken_back(trio, operator):
    applied = operator.ask("PUT", "/v1/rules", ONE.encode(), **YAML)
    assert applied.status == 200 and applied.said["state"] == "done" and applied.said["changed"]
    shown = operator.get("/v1/rules")
    assert shown.said["text"] == ONE and shown.said["in_force"] and shown.said["author"] == "http 127.0.0.1"
    assert shown.headers["ETag"] == applied.headers["ETag"]
    assert operator.get("/v1/rules", If_None_Match=shown.headers["ETag"]).status == 304
    raw = operator.get("/v1/rules", Accept="application/yaml")
    assert raw.body.decode() == ONE and raw.headers["Content-Type"] == "application/yaml"
    packed = operator.ask("PUT", "/v1/rules", gzip.compress(TWO.encode()), Content_Encoding="gzip", **YAML)
    assert packed.status == 200
    assert [row["name"] for row in operator.get("/v1/rules/list").said["rules"]] == ["two"]
    assert operator.get("/v1/rules/named/two").said["name"] == "two"
    assert operator.get("/v1/rules/named/one").status == 404
    diff = operator.post("/v1/rules/diff", {"text": ONE}).said
    assert diff["added"] == ["one"] and diff["removed"] == ["two"]
    back = operator.post("/v1/rules/rollback", {"version": shown.said["version"], "note": "two was wrong"})
    assert back.status == 200 and back.said["changed"]
    history = operator.get("/v1/rules/history").said["versions"]
    assert history[0]["note"] == "two was wrong" and history[0]["in_force"]
    assert operator.get(f"/v1/rules/versions/{history[1]['version']}").said["text"] == TWO
    # The other nodes and the command line see the same.
    with Operator(trio[2]) as other:
        wait_for(lambda: other.get("/v1/rules").said["text"] == ONE, 10, "the rules of another node")
    wait_for(lambda: Command("rules", "show", endpoints=[trio[1].endpoint]).output == ONE, 10, "and of the third")


def test_who_edits_what_has_changed_meanwhile_is_told_and_changes_nothing(trio, operator):
    first = operator.ask("PUT", "/v1/rules", ONE.encode(), **YAML).headers["ETag"]
    if operator.get("/v1/rules").said["text"] == ONE:  # it may have been so before
        first = operator.get("/v1/rules").headers["ETag"]
    assert operator.ask("PUT", "/v1/rules", TWO.encode(), If_Match=first, **YAML).status == 200
    late = operator.ask("PUT", "/v1/rules", ONE.encode(), If_Match=first, **YAML)
    assert late.status == 412 and late.said["state"] == "conflict" and "changed meanwhile" in late.said["detail"]
    assert operator.ask("PUT", "/v1/rules", ONE.encode(), If_None_Match="*", **YAML).status == 412
    assert operator.get("/v1/rules").said["text"] == TWO
    for tag in ("1", '"x"', 'W/"1"', '"1", "2"', '""', "*"):
        wrong = operator.ask("PUT", "/v1/rules", ONE.encode(), If_Match=tag, **YAML)
        assert wrong.status == 400 and "If-Match" in wrong.said["detail"]


def test_of_many_who_edit_at_once_one_wins_and_the_others_are_told(trio):
    with Operator(trio[0]) as http:
        http.ask("PUT", "/v1/rules", ONE.encode(), **YAML)
        tag = http.get("/v1/rules").headers["ETag"]
    answers = []

    def edit(at):
        with Operator(trio[at % 3]) as http:
            text = TWO.replace("7/h", f"{10 + at}/h").encode()
            answers.append(http.ask("PUT", "/v1/rules", text, If_Match=tag, **YAML).status)

    threads = [threading.Thread(target=edit, args=(at,)) for at in range(9)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(answers) == [200] + [412] * 8


def test_rules_that_do_not_compile_are_told_with_their_places(operator):
    text = "rules:\n  - {name: a, key: [user], limits: [{rate: x}]}\n  - {name: b, kye: [user]}\n"
    answer = operator.ask("PUT", "/v1/rules", text.encode(), **YAML)
    assert answer.status == 400 and answer.headers["Content-Type"] == "application/problem+json"
    assert answer.said["detail"].startswith("rules:2:") and [row["line"] for row in answer.said["errors"]][0] == 2
    judged = operator.post("/v1/rules/validate", {"text": text})
    assert judged.status == 200 and not judged.said["ok"] and judged.said["line"] == 2
    assert operator.post("/v1/rules/validate", {"text": ONE}).said["ok"]


# --- people, blocks and keys ------------------------------------------------------------------


def test_blocks_are_made_listed_and_lifted(trio, operator):
    asked = {"attributes": {"api": "/x", "user": "eve"}}
    assert operator.post("/v1/block", {"what": "user=eve", "reason": "spam", "for": "5m"}).said["state"] == "done"
    rows = [row for row in operator.get("/v1/blocks").said["blocks"] if row["what"] == "user=eve"]
    assert rows[0]["reason"] == "spam" and 0 < rows[0]["left_ms"] <= 300000
    assert operator.post("/v1/check", asked).said["outcome"] == "blocked"
    assert operator.post("/v1/explain", asked).said["blocked"]["what"] == "user=eve"
    assert operator.post("/v1/unblock", {"what": "user=eve"}).said["changed"]
    assert operator.post("/v1/check", asked).said["outcome"] != "blocked"
    assert not operator.post("/v1/unblock", {"what": "user=eve"}).said["changed"]


def test_quotas_are_set_shown_and_forgotten_whatever_the_user_is_called(operator):
    for user in ("ada", "acme/ada", "ada & co", "ü?#"):
        assert operator.post("/v1/quota", {"user": user, "limits": ["7/h", "100/day"], "notes": "n"}).status == 200
        quoted = "".join(f"%{byte:02X}" for byte in user.encode())
        shown = operator.get(f"/v1/quota?user={quoted}")
        assert shown.said["user"] == user and shown.said["limits"] == ["7/h", "100/d"]
        again = operator.post("/v1/quota", {"user": user, "limits": ["9/h"]}, If_Match=shown.headers["ETag"])
        assert again.status == 200
        assert operator.post("/v1/quota", {"user": user, "limits": ["1/h"]},
                             If_Match=shown.headers["ETag"]).status == 412
        assert user in [row["user"] for row in operator.get("/v1/quotas").said["quotas"]]
        assert operator.ask("DELETE", f"/v1/quota?user={quoted}").status == 200
        assert operator.get(f"/v1/quota?user={quoted}").status == 404
    trial = operator.post("/v1/quota", {"user": "bob", "limits": ["5/h"], "dry_run": True})
    assert trial.said["limits"] == ["5/h"] and operator.get("/v1/quota?user=bob").status == 404


def test_an_api_key_is_shown_once_works_and_ends(trio, operator):
    operator.ask("PUT", "/v1/rules", ONE.encode(), **YAML)
    made = operator.post("/v1/apikeys", {"name": "web", "owner": "ada", "limits": ["9/h"]})
    assert made.status == 201 and made.said["key"][4:16] == made.said["key_id"]
    other = operator.post("/v1/apikeys", {"name": "app", "owner": "bob"})
    assert other.said["key"] != made.said["key"]
    asked = {"attributes": {"api": "/x", "api_key": made.said["key"]}}
    with Http(trio[1]) as far:
        wait_for(lambda: far.post("/v1/check", asked).said["outcome"] == "allow", 10, "the key at another node")
        shown = operator.get("/v1/apikeys/web").said
        assert shown["id"] == made.said["key_id"] and made.said["key"] not in str(shown)
        assert operator.ask("POST", "/v1/apikeys/web/revoke").status == 200
        wait_for(lambda: far.post("/v1/check", asked).status == 401, 10, "the end of the key")
    assert operator.post("/v1/apikeys", {"name": "x"}, Idempotency_Key="k").status == 400
    for key in ("web", "app"):
        assert operator.ask("DELETE", f"/v1/apikeys/{key}?force=true").status == 200
    assert operator.get("/v1/apikeys").said["api_keys"] == []


# --- the cluster ------------------------------------------------------------------------------


def test_status_members_ring_and_owner_are_those_of_the_command_line(trio, operator):
    assert operator.get("/v1/status").said["node"] == trio[0].name
    names = [row["name"] for row in Command("members", "-o", "json", endpoints=[trio[0].endpoint]).rows[0]]
    assert [row["name"] for row in operator.get("/v1/members").said["members"]] == names
    assert {row["name"] for row in operator.get("/v1/ring").said["members"]} == set(names)
    owner = operator.post("/v1/owner", {"key": "ada"}).said["owners"][0]
    told = Command("owner", "--key", "ada", "-o", "json", endpoints=[trio[1].endpoint]).rows[0]
    assert owner["decider"] == told["decider"] and owner["vnode"] == told["vnode"]
    assert operator.get("/v1/regions").said["regions"][0]["own"]
    assert operator.get("/v1/pools").said == {"pools": []}


def test_an_edit_is_made_once_however_often_it_is_sent(trio, operator):
    body = {"what": "ip=192.0.2.7", "reason": "r"}
    first = operator.post("/v1/block", body, Idempotency_Key="one").said
    again = operator.post("/v1/block", body, Idempotency_Key="one").said
    assert first["id"] == again["id"] and first["version"] == again["version"]
    with Operator(trio[1]) as other:
        wait_for(lambda: other.get(f"/v1/edits/{first['id']}").status == 200, 10, "the edit at another node")
        assert other.post("/v1/block", body, Idempotency_Key="one").said["version"] == first["version"]
    other_body = operator.post("/v1/block", {**body, "reason": "s"}, Idempotency_Key="one").said
    assert other_body["id"] != first["id"] and other_body["version"] > first["version"]
    assert operator.post("/v1/unblock", {"what": "ip=192.0.2.7"}).status == 200


@pytest.mark.parametrize("method,path,body,said", [
    ("PUT", "/v1/rules", {"txt": "rules: []"}, "txt: no field of this call; expected text, author, note"),
    ("PUT", "/v1/rules", {"text": 5}, "text: found a number"),
    ("POST", "/v1/rules/rollback", {"version": -1}, "version: found -1"),
    ("POST", "/v1/rules/rollback", {"version": 123456}, "no such version"),
    ("POST", "/v1/block", {"what": "user=eve", "for": "5"}, "for: found \"5\", expected a time such as 30s"),
    ("POST", "/v1/quota", {"user": "ada", "limits": ["5/h 6/d"]}, "limits[0]: found"),
    ("POST", "/v1/quota", {"user": "ada", "limits": "5/h"}, "limits: found a string"),
    ("PUT", "/v1/pools/p/load", {"load": 1.5}, "load: found a number"),
    ("POST", "/v1/owner", {"attributes": {"a": []}}, "attributes.a: found"),
    ("POST", "/v1/owner?key=a", {}, "the query: expected none"),
    ("GET", "/v1/members?al=true", None, "found \"al\", expected each once: all, after"),
    ("GET", "/v1/members?all=yes", None, "all: found \"yes\", expected true or false"),
    ("GET", "/v1/members?all=true&all=true", None, "found \"all\" again"),
    ("GET", "/v1/rules/versions/x", None, "version: found \"x\", expected a whole number"),
])
def test_what_is_wrong_is_told_with_its_place(operator, method, path, body, said):
    answer = operator.ask(method, path, body)
    assert answer.status in (400, 404) and said in answer.said["detail"]


def test_an_edit_without_a_majority_is_refused_in_time_and_made_afterwards(new_cluster):
    cluster = new_cluster(3).start()
    with Operator(cluster[0]) as http:
        for node in cluster.nodes[1:]:
            node.signal(signal.SIGSTOP)
        answer = http.post("/v1/block", {"what": "user=eve", "reason": "r"})
        assert answer.status in (503, 504) and answer.said["state"] in ("unavailable", "doubt")
        for node in cluster.nodes[1:]:
            node.signal(signal.SIGCONT)
        wait_for(lambda: http.post("/v1/block", {"what": "user=eve", "reason": "r"}).status == 200, 10,
                 "a majority")


def test_lists_of_any_length_are_read_in_parts(new_cluster):
    """What is made is listed, each once, whatever its number."""
    cluster = new_cluster(1).start()
    rules = "".join(f"  - {{name: r{at}, match: {{api: /{at}}}, key: [user], limits: [{{rate: 5/h}}]}}\n"
                    for at in range(1500))
    lists = {"/v1/quotas": ("quotas", lambda row: row["user"], 500),
             "/v1/blocks": ("blocks", lambda row: f"{row['kind']} {row['what']}", 100),
             "/v1/rules/list": ("rules", lambda row: row["name"], 1500)}
    with Operator(cluster[0]) as http:
        assert http.ask("PUT", "/v1/rules", ("rules:\n" + rules).encode(), **YAML).status == 200
        for at in range(500):
            assert http.post("/v1/quota", {"user": f"user {at}", "limits": ["5/h", "50/d"], "notes": "n"}).status == 200
        for at in range(100):
            assert http.post("/v1/block", {"what": f"192.0.2.{at}", "reason": "r"}).status == 200
        for path, (name, key, count) in lists.items():
            found, answer = [], http.get(path).said[name]
            while answer:
                found += [key(row) for row in answer]
                answer = http.get(path + "?after=" + quote(found[-1])).said[name]
            assert len(found) == len(set(found)) == count, path

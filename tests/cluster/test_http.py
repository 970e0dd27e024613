"""HTTP clients: curl, requests and http.client of Python, and raw sockets, at nodes that do and do not decide."""

import contextlib
import http.client
import itertools
import json
import random
import signal
import socket
import subprocess

import pytest
import requests

from harness import Cluster, Command, Limit, Resp, scaled, wait_for
from harness.http1 import Http, check, request

JSON = {"Content-Type": "application/json"}


@pytest.fixture(scope="module")
def trio(tmp_path_factory):
    with Cluster(tmp_path_factory.mktemp("http"), 3) as cluster:
        yield cluster.start()


def fresh(name):
    """A key that no other test uses, nor this one before."""
    return f"{name}-{random.getrandbits(48):x}"


def curl(*arguments, **options):
    return subprocess.run(["curl", "-sS", "--max-time", str(scaled(60)), *arguments], capture_output=True, text=True,
                          timeout=scaled(90), stdin=subprocess.DEVNULL, **options)


def body_of(key, rate):
    return json.dumps({"key": key, "rate": rate})


# --- programs and libraries -------------------------------------------------------------------


# What a person types is answered, one connection serves several requests, and a denial fails as one.
@pytest.mark.undisturbed
def test_curl_is_a_client(trio):
    base, key = f"http://{trio[0].http}", fresh("curl")
    post = ["-H", "Content-Type: application/json", "-d", body_of(key, "2/h"), f"{base}/v1/check"]
    assert json.loads(curl(*post, check=True).stdout)["allowed"]
    assert json.loads(curl(*post, check=True).stdout)["remaining"] == 0
    denied = curl("-w", "%{http_code}", *post, check=True).stdout
    assert denied.endswith("429") and not json.loads(denied[:-3])["allowed"]
    assert curl("--fail", *post).returncode == 22
    twice = curl("-o", "/dev/null", "-o", "/dev/null", "-w", "%{num_connects}", f"{base}/livez", f"{base}/readyz")
    assert twice.stdout == "10"
    head = curl("--head", f"{base}/livez", check=True).stdout
    assert head.startswith("HTTP/1.1 200 OK\n") and "Content-Length: " in head and "no-store" in head
    assert curl("-0", "-o", "/dev/null", "-w", "%{http_code} %{http_version}", f"{base}/livez").stdout == "200 1.1"


# Bodies that are long, asked for leave, or sent in chunks are the same to the handler.
@pytest.mark.undisturbed
def test_bodies_come_in_every_form_that_curl_sends(trio):
    base, key = f"http://{trio[0].http}/v1/check", fresh("body")
    long_one = json.dumps({"key": key, "rate": "100/h"}) + " " * 100000
    for more in ([], ["-H", "Expect: 100-continue"], ["-H", "Transfer-Encoding: chunked"]):
        words = ["curl", "-sSv", *more, "-H", "Content-Type: application/json", "--data-binary", "@-", base]
        done = subprocess.run(words, input=long_one, capture_output=True, text=True, check=True, timeout=scaled(60))
        assert json.loads(done.stdout)["allowed"]
        assert ("100 Continue" in done.stderr) == any("Expect" in word for word in more)


@pytest.mark.undisturbed
def test_requests_of_python_is_a_client(trio):
    key = fresh("requests")
    with requests.Session() as session:
        answers = [session.post(f"http://{trio[at % 3].http}/v1/check", json={"key": key, "rate": "5/h"})
                   for at in range(6)]
        assert [answer.status_code for answer in answers] == [200] * 5 + [429]
        problem = session.post(f"http://{trio[0].http}/v1/check", data="{")
        assert problem.status_code == 415 and problem.headers["Content-Type"] == "application/problem+json"
        assert problem.json()["status"] == 415 and problem.json()["title"] == "Unsupported Media Type"
        assert session.get(f"http://{trio[0].http}/nothing").status_code == 404


@pytest.mark.undisturbed
def test_http_client_of_python_keeps_its_connection(trio):
    connection = http.client.HTTPConnection(trio[0].host, trio[0].port + 4, timeout=scaled(60))
    with contextlib.closing(connection):
        connection.connect()
        first = connection.sock
        for at in range(100):
            connection.request("POST", "/v1/check", body_of(fresh("client"), "1/h"), JSON)
            answer = connection.getresponse()
            assert answer.status == 200 and json.loads(answer.read())["allowed"], at
        connection.request("HEAD", "/readyz")
        answer = connection.getresponse()
        assert answer.status == 200 and answer.read() == b"" and int(answer.headers["Content-Length"]) > 0
        assert connection.sock is first


# --- what is decided --------------------------------------------------------------------------


# A key is one bucket, whoever asks about it, by whichever protocol and node.
@pytest.mark.undisturbed
def test_all_protocols_share_a_bucket(trio):
    limit, key = Limit(10, 3600 * 10**9, "token_bucket", 10), fresh("shared")
    with Http(trio[0].http) as client, Resp(trio[1].resp) as redis, trio.client(2) as native:
        client.send(check(key, "10/h"))
        assert json.loads(client.read().body)["remaining"] == 9
        assert redis.ask("CL.THROTTLE", key, 9, 10, 3600, 4)[2] == 5
        assert native.check(key, limit, cost=5).remaining == 0
        client.send(check(key, "10/h"))
        assert client.read().status == 429


# A limit of 1,000 admits 1,000, from pipelines through all nodes.
@pytest.mark.undisturbed
def test_pipelines_through_all_nodes_admit_exactly_the_limit(trio):
    key, allowed = fresh("exact"), 0
    with contextlib.ExitStack() as stack:
        clients = [stack.enter_context(Http(node.http)) for node in trio]
        for _ in range(8):
            for client in clients:
                client.send(*[check(key, "1000/h")] * 64)
            allowed += sum(client.read().status == 200 for client in clients for _ in range(64))
    assert allowed == 1000


def numbered(first, count):
    """Requests whose responses show their numbers, on keys of all nodes, with other requests now and then."""
    return [request("GET", f"/{at}") if at % 7 == 0 else check(f"order-{at}", f"{at + 1}/h")
            for at in range(first, first + count)]


# Responses come in the order of requests, though two of three keys are decided elsewhere, later.
@pytest.mark.undisturbed
def test_responses_keep_their_order(trio):
    with Http(trio[0].http) as client:
        for first in range(0, 3000, 500):
            responses = client.pipeline(numbered(first, 500))
            for at, response in enumerate(responses, first):
                assert response.status == (404 if at % 7 == 0 else 200)
                assert at % 7 == 0 or json.loads(response.body)["remaining"] == at, at


# So they do while a node that decides some of them is killed; those may be refused, until its replicas decide.
def test_responses_keep_their_order_when_a_node_dies(new_cluster):
    cluster = new_cluster(3).start()
    with Http(cluster[0].http) as client:
        def refused(first):
            responses = client.pipeline(numbered(first, 200))
            assert all(response.status in ((404,) if at % 7 == 0 else (200, 503, 504))
                       for at, response in enumerate(responses, first))
            assert all(json.loads(response.body)["remaining"] == at
                       for at, response in enumerate(responses, first) if response.status == 200)
            return sum(response.status >= 500 for response in responses)

        firsts = itertools.count(0, 200)
        wait_for(lambda: refused(next(firsts)) == 0, 40, "every check is decided")
        cluster[1].kill()
        wait_for(lambda: refused(next(firsts)) == 0, 40, "every check is decided again")


# However the bytes are cut, a request is the same.
@pytest.mark.undisturbed
def test_a_request_byte_by_byte_is_one(trio):
    with Http(trio[0].http) as client:
        for byte in check(fresh("bytes"), "3/h"):
            client.socket.sendall(bytes([byte]))
        assert json.loads(client.read().body)["remaining"] == 2


# Shards share one port, and a socket of the file system, and ask each other about keys that are not theirs.
def test_shards_share_a_port_and_a_path(new_cluster, tmp_path):
    path = tmp_path / "http.sock"
    node = new_cluster(1, "--http", f"unix:{path}", "--http-name", "limits.example", shards=2).start()[0]
    allowed = 0
    with contextlib.ExitStack() as stack:
        clients = [stack.enter_context(Http(node.http)) for _ in range(16)]
        for client in clients:
            responses = client.pipeline([check(f"key-{at}", "3/h") for at in range(50)])
            allowed += sum(response.status == 200 for response in responses)
    assert allowed == 50 * 3
    wait_for(lambda: node.status()["http"]["checks"] == 16 * 50, 10, "status tells of them")
    by_path = curl("--unix-socket", str(path), "http://limits.example/v1/check", "-H", "Content-Type: application/json",
                   "-d", body_of("key-0", "3/h"), "-w", "%{http_code}", check=True)
    assert by_path.stdout.endswith("429")


# --- who may ask ------------------------------------------------------------------------------


# What a page of another origin can send decides nothing: by its own name for the node, by a form, by a script.
@pytest.mark.undisturbed
def test_a_page_of_another_origin_charges_nothing(trio):
    key, before = fresh("page"), trio[0].fresh_status()["http"]
    body = {"key": key, "rate": "5/h"}
    with Http(trio[0].http) as client:
        for status, headers in ((421, {"host": "rebound.example"}), (403, {"origin": "http://evil.example"}),
                                (403, {"origin": "null"}), (403, {"sec_fetch_site": "cross-site"}),
                                (415, {"content_type": "text/plain"})):
            assert client.ask("POST", "/v1/check", body, **headers).status == status
        assert client.ask("OPTIONS", "/v1/check", origin="http://evil.example").status == 403
        assert client.ask("GET", "/livez", host="rebound.example").status == 200
        own = client.ask("POST", "/v1/check", body, host=trio[0].http, origin=f"http://{trio[0].http}")
        assert json.loads(own.body)["remaining"] == 4
    after = trio[0].fresh_status()["http"]
    grown = {name: after[name] - before[name] for name in ("foreign_hosts", "foreign_origins", "wrong_types")}
    assert grown == {"foreign_hosts": 1, "foreign_origins": 4, "wrong_types": 1}


# --- mistakes ---------------------------------------------------------------------------------


SMUGGLED = b"GET /livez HTTP/1.1\r\nHost: a\r\n\r\n"
MISTAKES = {
    "two lengths": (400, b"POST /v1/check HTTP/1.1\r\nHost: localhost\r\nContent-Length: 0\r\nContent-Length: 33\r\n\r\n"),
    "a length and chunks": (400, b"POST /v1/check HTTP/1.1\r\nHost: localhost\r\nContent-Length: 5\r\n"
                                 b"Transfer-Encoding: chunked\r\n\r\n0\r\n\r\n"),
    "a blank before a colon": (400, b"POST /v1/check HTTP/1.1\r\nHost: localhost\r\nContent-Length : 33\r\n\r\n"),
    "a bare newline": (400, b"GET /livez HTTP/1.1\nHost: localhost\n\n"),
    "two hosts": (400, b"GET /livez HTTP/1.1\r\nHost: localhost\r\nHost: localhost\r\n\r\n"),
    "no host": (400, b"GET /livez HTTP/1.1\r\n\r\n"),
    "a head that is long": (431, b"GET /livez HTTP/1.1\r\nHost: localhost\r\nX: " + b"x" * 16384 + b"\r\n\r\n"),
    "a target that is long": (414, b"GET /" + b"x" * 8192 + b" HTTP/1.1\r\nHost: localhost\r\n\r\n"),
    "a body that is long": (413, b"POST / HTTP/1.1\r\nHost: localhost\r\nContent-Length: 1048577\r\n\r\n"),
    "HTTP/2 that is none": (505, b"PRI * HTTP/2.0\r\n\r\nXX\r\n\r\n"),
    "TLS": (400, b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03"),
}


# The sentence arrives, though more was sent that nobody reads, and what follows is not taken for a request.
@pytest.mark.undisturbed
@pytest.mark.parametrize("name", MISTAKES)
def test_what_is_malformed_ends_the_connection_with_its_status(trio, name):
    status, sent = MISTAKES[name]
    with Http(trio[0].http) as client:
        client.send(SMUGGLED, sent, SMUGGLED, SMUGGLED * 1000)
        first, wrong, *more = client.rest()
        assert (first.status, wrong.status, more) == (200, status, [])
        assert wrong.headers["connection"] == "close"
        assert json.loads(wrong.body)["detail"]


# --- bounds -----------------------------------------------------------------------------------


# Whoever dawdles with a head is told so after ten seconds; who has sent nothing may stay.
@pytest.mark.slow
def test_a_head_that_does_not_end_is_cut_off(new_cluster):
    node = new_cluster(1).start()[0]
    with Http(node.http) as dawdler, Http(node.http) as quiet, Http(node.http) as sender:
        dawdler.send(b"GET /livez HTTP/1.1\r\nX: ")
        sender.send(check("a", "1/h")[:-5])
        response = dawdler.read()
        assert response.status == 408 and dawdler.read() is None
        assert quiet.ask("GET", "/livez").status == 200
        sender.send(check("a", "1/h")[-5:])  # a body has longer
        assert sender.read().status == 200
    figures = node.fresh_status()["http"]
    assert figures["expired"] == 1 and figures["unfinished"] == 1


# A client that asks and never reads costs the node next to nothing meanwhile, and is cut off.
@pytest.mark.slow
def test_a_slow_reader_is_cut_off(trio):
    before = trio[0].anonymous_memory()
    with socket.socket() as raw:
        raw.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 1 << 14)
        raw.connect((trio[0].host, trio[0].port + 4))
        raw.setblocking(False)

        def ended():
            try:
                with contextlib.suppress(BlockingIOError):
                    raw.send(SMUGGLED * 100)
                return False
            except (ConnectionResetError, BrokenPipeError):
                return True
        wait_for(ended, 20, "the node cuts the client off")
    assert trio[0].fresh_status()["http"]["slow_readers"] >= 1
    assert trio[0].anonymous_memory() - before < 8 << 20


# --- the life of a node -----------------------------------------------------------------------


def probe(node, path):
    with contextlib.suppress(OSError), Http(node.http) as client:
        response = client.ask("GET", path)
        return response and response.status


# A node that waits for its seed lives and is not ready; with its cluster it is; leaving it is not any more.
def test_readiness_follows_the_node(new_cluster):
    cluster = new_cluster(2)
    late = cluster[1]
    late.spawn()
    wait_for(lambda: probe(late, "/livez") == 200, 20, "it lives")
    with Http(late.http) as client:
        answer = client.ask("GET", "/readyz")
        assert answer.status == 503 and "retry-after" in answer.headers and json.loads(answer.body)["detail"]
        client.send(check("a", "1/h"))
        assert client.read().status == 503
    cluster[0].start()
    wait_for(lambda: probe(late, "/readyz") == 200, 40, "it is ready")
    cluster.wait_healthy()
    assert Command("drain", endpoints=[late.endpoint]).code == 0
    wait_for(lambda: probe(late, "/readyz") == 503, 20, "it is not ready any more")
    assert (probe(late, "/livez"), probe(cluster[0], "/readyz")) == (200, 200)
    with Http(late.http) as client:
        client.send(check("a", "1/h"))  # it passes on what it is asked
        assert client.read().status == 200


# A node that stops in order answers what it has read, and resets nobody: each request that counted has an answer.
def test_a_node_that_stops_resets_no_client(new_cluster):
    asked = check("stopped", "1000000/365d")
    node = new_cluster(1).start()[0]
    allowed = 0
    with contextlib.ExitStack() as stack:
        clients = [stack.enter_context(Http(node.http)) for _ in range(200)]
        assert {client.ask("GET", "/livez").status for client in clients} == {200}
        node.signal(signal.SIGSTOP)  # so that it has more to read than it can before it stops
        for client in clients:
            client.send(asked * 300)
        node.signal(signal.SIGTERM)
        node.signal(signal.SIGCONT)
        for client in clients:
            responses = client.rest()
            assert {response.status for response in responses} <= {200, 503}
            allowed += sum(response.status == 200 for response in responses)
        assert node.wait_exit() == 0
    node.start()
    with Http(node.http) as client:
        client.send(asked)
        remaining = json.loads(client.read().body)["remaining"]
    assert 0 < allowed == 10**6 - 1 - remaining

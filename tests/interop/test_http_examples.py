"""The services of deploy/examples, as they are, with real nodes behind them."""

import contextlib
import json
import os
import subprocess
import urllib.error
import urllib.request

import pytest
from kits import go, npm

from harness import scaled, wait_for
from harness.ports import take_block

SECONDS = 60
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

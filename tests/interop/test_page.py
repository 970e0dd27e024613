"""The page of a node in a real browser: what it shows, what it may load, and what stays text."""

import json
import os
import re
import subprocess

import pytest
from kits import pip

from harness import Http, scaled, wait_for

SECONDS = 150
HOSTILE = "<img src=x onerror=alert(1)>"
RULES = f"""\
rules:
  - {{name: "{HOSTILE}", match: {{api: /x}}, key: [user], limits: [{{rate: 5/h}}]}}
  - {{name: other, match: {{api: /y}}, key: [user], limits: [{{rate: 5/h}}]}}
"""
PROGRAM = os.path.join(os.path.dirname(os.path.abspath(__file__)), "clients", "see_page.py")
LOOKS = [{"name": f"{width}-{'dark' if dark else 'light'}", "width": width, "dark": dark, "until": "Ten minutes"}
         for width in (1280, 360) for dark in (False, True)]


@pytest.fixture
def trio(new_cluster, tmp_path):
    (tmp_path / "rules.yaml").write_text(RULES)
    return new_cluster(3, "--rules", str(tmp_path / "rules.yaml")).start()


class Browser:
    """Chromium at a node: `for told in Browser(...)`, once for each step."""

    def __init__(self, node, folder, *steps):
        python = os.path.join(pip("playwright", "playwright==1.60.0"), "bin", "python")
        url = f"http://admin:{node.token()}@127.0.0.1:{node.port + 4}"
        self.process = subprocess.Popen([python, PROGRAM, url, str(folder), json.dumps(steps)], text=True,
                                        stdout=subprocess.PIPE, stderr=subprocess.PIPE, stdin=subprocess.DEVNULL)

    def told(self):
        out, errors = self.process.communicate(timeout=scaled(100))
        assert self.process.returncode == 0, errors
        told = [json.loads(line) for line in out.splitlines()]
        for one in told:
            assert one["console"] == [], one["console"]
            assert not one["wide"], "the page is wider than its window"
        return told


def ask_much(node):
    with Http(node) as http:
        for user in range(40):
            for _ in range(1 + 6 * (user == 7)):
                http.post("/v1/check", {"attributes": {"api": "/x", "user": f"u{user}"}})


def periods(node):
    """How many periods of ten seconds had decisions, of all nodes."""
    status = node.admin("status", {"figures": True, "wait": True})
    return sum(rate > 0 for rate in status["history"]["allowed_per_s"])


def test_a_healthy_cluster_is_shown_whatever_its_rules_are_called(trio, tmp_path):
    trio[0].admin("block", {"id": "0" * 31 + "1", "author": HOSTILE, "note": HOSTILE, "what": f"user={HOSTILE}"})
    ask_much(trio[0])
    wait_for(lambda: periods(trio[0]) > 0, 30, "what was decided is history")
    for told in Browser(trio[0], tmp_path, *LOOKS).told():
        assert "HEALTHY: 3 nodes, all answer" in told["text"] and told["title"].startswith("HEALTHY - ")
        assert all(node.name in told["text"] for node in trio.nodes) and "<img" not in told["html"]
        assert HOSTILE in told["text"] and "Who decides" in told["text"] and "settled; in it are" in told["text"]
        assert {url.split("?")[0].split("/", 3)[3] for url in told["loaded"]} <= {"", "live", "favicon.ico"}


def test_a_sick_cluster_is_told_while_somebody_looks_with_what_to_do(trio, tmp_path):
    """The browser is there before the node dies: it is told by the stream, and the page is not loaded again."""
    ask_much(trio[0])
    wait_for(lambda: periods(trio[0]) > 0, 30, "what was decided is history")
    gone = trio[2].name
    browser = Browser(trio[0], tmp_path, {"name": "live", "until": f"begun: {gone} is not alive"})
    wait_for(lambda: trio[0].status()["http"]["streams"] > 0, 30, "somebody looks")
    trio[2].kill()
    told = browser.told()[0]
    assert f"DEGRADED: {gone} is not alive" in told["text"] and told["title"].startswith("DEGRADED - ")
    assert "start it, or tidegate remove it if it is gone" in told["text"]
    assert len([url for url in told["loaded"] if url.endswith("/")]) == 1
    for told in Browser(trio[0], tmp_path, *LOOKS).told():
        assert f"DEGRADED: {gone} is not alive" in told["text"] and '<tr class="ill">' in told["html"]


@pytest.mark.parametrize("script", (True, False))
def test_what_becomes_of_a_request_can_be_asked_with_or_without_a_script(trio, tmp_path, script):
    ask_much(trio[0])
    asks = (("left", "api=/x user=u7", "DENIED now:", "5/h"), ("left", "api=/y user=u7", "ALLOWED now:", "5/h"),
            ("rules", "api=/x user=u7", "every condition holds", 'api is "/x"; expected "/y"'),
            ("owner", f"api=/x\nuser={HOSTILE}", "Who counts and decides", trio[0].name),
            ("left", "api", "not asked:", "expected NAME=VALUE"))
    steps = [{"name": f"ask{number}", "width": 360, "script": script, "until": until,
              "fill": {"see": see, "request": request}} for number, (see, request, until, _) in enumerate(asks)]
    for told, (see, request, until, part) in zip(Browser(trio[0], tmp_path, *steps).told(), asks):
        assert until in told["text"] and part in told["text"] and f"see={see}" in told["at"]
        assert "<img" not in told["html"]
    with Http(trio[0]) as http:
        left = json.loads(http.post("/v1/peek", {"attributes": {"api": "/y", "user": "u7"}}).body)["remaining"]
    assert left == 5, "to ask charges nothing"


def test_it_is_whole_without_javascript(trio, tmp_path):
    """All that it shows is in the answer; a browser without scripts loads it again by itself."""
    ask_much(trio[0])
    wait_for(lambda: periods(trio[0]) > 0, 30, "what was decided is history")
    with Http(trio[0]) as http:
        answer = http.ask("GET", "/", Authorization=f"Bearer {trio[0].token()}")
    shown = answer.body.decode().split("<script>")[0]
    assert answer.status == 200 and "HEALTHY:</b> 3 nodes" in shown and '<noscript><meta http-equiv="refresh"' in shown
    assert all(re.search(f'<td>{node.name}</td><td>alive</td><td class="note"></td><td>[0-9]', shown) for node in trio.nodes)
    assert len(answer.body) < 60000
    told = Browser(trio[0], tmp_path, {"name": "plain", "script": False, "until": "Ten minutes"}).told()[0]
    assert "HEALTHY: 3 nodes" in told["text"]


def test_nobody_sees_it_without_the_token(trio):
    for path in ("/", "/live", "/look?request=user=ada&see=left", "/v1/events"):
        with Http(trio[0]) as http:
            answer = http.ask("GET", path)
            assert answer.status == 401 and answer.headers["WWW-Authenticate"].startswith(("Basic realm=", "Bearer realm="))
            foreign = http.ask("GET", path, Origin="http://evil.example", Authorization=f"Bearer {trio[0].token()}")
            assert foreign.status == 403
            framed = http.ask("GET", path, Sec_Fetch_Site="cross-site", Authorization=f"Bearer {trio[0].token()}")
            assert framed.status == 403

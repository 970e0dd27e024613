"""The page of a node in a real browser: what it shows, what it may load, and what stays text."""

import re
import subprocess

import pytest

from harness import Http, scaled, wait_for

SECONDS = 60
HOSTILE = "<img src=x onerror=alert(1)>"
RULES = f"""\
rules:
  - {{name: "{HOSTILE}", match: {{api: /x}}, key: [user], limits: [{{rate: 5/h}}]}}
"""


@pytest.fixture
def trio(new_cluster, tmp_path):
    (tmp_path / "rules.yaml").write_text(RULES)
    return new_cluster(3, "--rules", str(tmp_path / "rules.yaml")).start()


def browse(node, tmp_path, wait_ms=6000):
    """The page as it stands when its script has looked again, and what the browser has to say of it."""
    url = f"http://admin:{node.token()}@127.0.0.1:{node.port + 4}/"
    done = subprocess.run(["chromium", "--headless", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage",
                           "--enable-logging=stderr", f"--user-data-dir={tmp_path / 'browser'}",
                           f"--virtual-time-budget={wait_ms}", "--dump-dom", url],
                          capture_output=True, text=True, timeout=scaled(60), stdin=subprocess.DEVNULL, check=True)
    return done.stdout, [line for line in done.stderr.splitlines() if "CONSOLE" in line]


def ask_much(node):
    with Http(node) as http:
        for user in range(40):
            http.post("/v1/check", {"attributes": {"api": "/x", "user": f"u{user}"}})


def test_a_healthy_cluster_is_shown_whatever_its_rules_are_called(trio, tmp_path):
    trio[0].admin("block", {"id": "0" * 31 + "1", "author": HOSTILE, "note": HOSTILE, "what": f"user={HOSTILE}"})
    ask_much(trio[0])
    page, console = browse(trio[0], tmp_path)
    assert "HEALTHY:</b> 3 nodes, all answer" in page and console == []
    assert all(f"<td>{node.name}</td>" in page for node in trio.nodes)
    assert "&lt;img src=x onerror=alert(1)&gt;" in page and "<img" not in page
    assert re.search(r'<p id="stale"[^>]* hidden=""', page), "the script has looked again, and was answered"


def test_a_sick_cluster_is_told_with_what_to_do(trio, tmp_path):
    trio[1].kill()
    wait_for(lambda: trio[0].members()[trio[1].name]["state"] == "dead", 30, "the node is known to be dead")
    page, console = browse(trio[0], tmp_path)
    assert f"DEGRADED:</b> {trio[1].name} is not alive" in page and console == []
    assert '<tr class="ill">' in page and "start it, or `tidegate remove` it" in page


def test_it_is_whole_without_javascript(trio):
    """All that it shows is in the answer; a browser without scripts loads it again by itself."""
    with Http(trio[0]) as http:
        answer = http.ask("GET", "/", Authorization=f"Bearer {trio[0].token()}")
    shown = answer.body.decode().split("<script>")[0]
    assert answer.status == 200 and "HEALTHY:</b> 3 nodes" in shown and '<noscript><meta http-equiv="refresh"' in shown
    assert all(f"<td>{node.name}</td>" in shown for node in trio.nodes)


def test_nobody_sees_it_without_the_token(trio):
    with Http(trio[0]) as http:
        answer = http.ask("GET", "/")
        assert answer.status == 401 and answer.headers["WWW-Authenticate"].startswith("Basic realm=")
        foreign = http.ask("GET", "/", Origin="http://evil.example", Authorization=f"Bearer {trio[0].token()}")
        assert foreign.status == 403
        framed = http.ask("GET", "/", Sec_Fetch_Site="cross-site", Authorization=f"Bearer {trio[0].token()}")
        assert framed.status == 403

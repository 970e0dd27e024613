"""Pages of other origins in a real browser on the machine of a node: nothing of them is decided or charged."""

import http.client
import http.server
import os
import queue
import signal
import subprocess
import threading

import pytest

from harness import Http, scaled

SECONDS = 40
KEYS = ("plain", "json", "form", "image", "beacon")
PAGE = """<!doctype html><title>page</title><body>
<iframe name=away></iframe>
<form id=form method=post enctype="text/plain" target=away action="NODE/v1/check">
<input name='{"key":"form","rate":"5/h","x":"' value='"}'></form>
<script>
const told = [], node = "NODE";
const say = (name, text) => told.push(name + ": " + text);
const body = (key) => JSON.stringify({key, rate: "5/h"});
const ask = (name, options) => fetch(node + "/v1/check", {method: "POST", body: body(name), ...options})
  .then((r) => say(name, r.type + " " + r.status), (e) => say(name, "no"));
(async () => {
  await ask("plain", {mode: "no-cors", headers: {"Content-Type": "text/plain"}});
  await ask("json", {headers: {"Content-Type": "application/json"}});
  navigator.sendBeacon(node + "/v1/check", new Blob([body("beacon")], {type: "text/plain"}));
  const image = new Image();
  await new Promise((go) => { image.onload = image.onerror = go; image.src = node + "/v1/auth/default/image"; });
  say("image", "asked");
  for (const [method, path, body] of [["POST", "/v1/block", '{"what":"user=page"}'], ["PUT", "/v1/rules", "rules: []"],
                                      ["POST", "/v1/leave", "{}"], ["GET", "/v1/status"]])
    for (const mode of ["no-cors", "cors"])
      await fetch(node + path, {method, mode, body, headers: {"Authorization": "Bearer guess"}})
        .then((r) => say(path, r.type + " " + r.status), (e) => say(path, "no"));
  document.getElementById("form").submit();
  await new Promise((go) => setTimeout(go, 1000));
  await fetch("/told", {method: "POST", body: told.join("\\n")});
})();
</script>"""
RULES = "rules:\n  - {name: image, match: {api: /image}, key: [api], limits: [{rate: 5/h}]}\n"


class Front(http.server.BaseHTTPRequestHandler):
    """Answers for the page, and passes all else on to the node as it came: a name that was bound anew."""

    protocol_version = "HTTP/1.1"
    page = b""
    node = None
    told = queue.Queue()

    def do_GET(self):
        if self.path not in ("/", "/page"):
            self.pass_on(None)
            return
        self.send_response(200)
        self.send_header("Content-Type", "text/html")
        self.send_header("Content-Length", str(len(Front.page)))
        self.end_headers()
        self.wfile.write(Front.page)

    def do_POST(self):
        body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
        if self.path != "/told":
            self.pass_on(body)
            return
        Front.told.put(body.decode())
        self.send_response(204)
        self.end_headers()

    do_PUT = do_POST

    def do_OPTIONS(self):
        self.pass_on(None)

    def pass_on(self, body):
        link = http.client.HTTPConnection("127.0.0.1", Front.node.port + 4, timeout=scaled(20))
        link.putrequest(self.command, self.path, skip_host=True, skip_accept_encoding=True)
        for name, value in self.headers.items():
            link.putheader(name, value)
        link.endheaders(body)
        answer = link.getresponse()
        text = answer.read()
        self.send_response(answer.status)
        for name, value in answer.getheaders():
            if name.lower() not in ("date", "connection"):
                self.send_header(name, value)
        self.end_headers()
        self.wfile.write(text)

    def log_message(self, *ignored):
        pass


@pytest.fixture(scope="module")
def front():
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Front)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    yield server.server_address[1]
    server.shutdown()


@pytest.fixture
def node(new_cluster, tmp_path):
    (tmp_path / "rules.yaml").write_text(RULES)
    Front.node = new_cluster(1, "--rules", str(tmp_path / "rules.yaml")).start()[0]
    return Front.node


def browse(url, tmp_path, *more):
    """What the page tells when it has tried everything."""
    with open(tmp_path / "browser.log", "wb") as log, \
            subprocess.Popen(["chromium", "--headless", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage",
                              f"--user-data-dir={tmp_path / 'browser'}", "--remote-debugging-port=0", *more, url],
                             stdin=subprocess.DEVNULL, stdout=log, stderr=log, start_new_session=True) as browser:
        try:
            return Front.told.get(timeout=scaled(60))
        finally:
            os.killpg(browser.pid, signal.SIGKILL)


def unchanged(node):
    """Whether nothing was edited."""
    return node.admin("blocks") == [] and len(node.admin("rules.history")) == 1 and node.is_running


def charged(node):
    """How much each of the ways has charged."""
    with Http(node) as asked:
        found = {key: asked.post("/v1/peek", {"key": key, "rate": "5/h"}).said["used"] for key in KEYS if key != "image"}
        found["image"] = asked.post("/v1/peek", {"attributes": {"api": "/image"}}).said["used"]
        return found


def test_a_page_of_another_origin_charges_nothing(node, front, tmp_path):
    Front.page = PAGE.replace("NODE", f"http://127.0.0.1:{node.port + 4}").encode()
    told = browse(f"http://127.0.0.1:{front}/page", tmp_path)
    assert "plain: opaque" in told and "json: no" in told
    assert charged(node) == dict.fromkeys(KEYS, 0)
    assert "/v1/block: no" in told and "200" not in told and unchanged(node)
    assert node.fresh_status()["http"]["foreign_origins"] >= 4


def test_a_name_that_is_bound_anew_charges_nothing(node, front, tmp_path):
    """The page's own origin leads to the node: its Host is not one of the node's names."""
    Front.page = PAGE.replace("NODE", "").encode()
    told = browse(f"http://evil.example:{front}/page", tmp_path, "--host-resolver-rules=MAP evil.example 127.0.0.1")
    assert "plain: basic 421" in told and "json: basic 421" in told
    assert charged(node) == dict.fromkeys(KEYS, 0)
    assert "/v1/block: basic 421" in told and unchanged(node)
    assert node.fresh_status()["http"]["foreign_hosts"] >= 4


def test_a_page_of_the_node_itself_is_heard(node, front, tmp_path):
    """So these tests would see a charge: by JSON that is called so, of its own origin."""
    Front.page = PAGE.replace("NODE", "").encode()
    told = browse(f"http://localhost:{front}/page", tmp_path)
    assert "plain: basic 415" in told and "json: basic 200" in told
    assert charged(node) == {**dict.fromkeys(KEYS, 0), "json": 1, "image": 1}
    assert told.count("basic 401") == 7 and unchanged(node)
    assert node.fresh_status()["http"]["wrong_types"] > 0

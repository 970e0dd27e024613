"""/metrics of real nodes: what is counted is what was asked, once, at the node that was asked; who may read it."""

import contextlib
import http.client
import os
import pathlib
import re
import statistics
import threading
import time

import pytest

from harness import Client, Cluster, Resp, wait_for
from harness.client import long_limit
from harness.http1 import Http, check, request
from harness.metrics import Page

DOCS = pathlib.Path(os.environ.get("TIDEGATE_BUILD", "build")).resolve() / "docs"
HOSTILE = '<img src=x onerror=alert(1)>"} 1\\'
RULES = f"""
rules:
  - {{name: two, match: {{api: /two}}, key: [user], limits: [{{rate: 2/h}}]}}
  - {{name: trial, match: {{api: /trial}}, key: [user], shadow: true, limits: [{{rate: 1/h}}]}}
  - {{name: '{HOSTILE}', match: {{api: /hostile}}, key: [user], limits: [{{rate: 9/h}}]}}
"""
RULES_200 = "rules:\n" + "".join(
    f"  - {{name: rule-number-{i}-of-two-hundred, match: {{api: /v1/{i}}}, key: [user], limits: [{{rate: 100/s}}]}}\n"
    for i in range(200))
DECIDED = "tidegate_rule_decisions_total"


def pages(cluster):
    return [Page(node.http) for node in cluster]


def over_all(cluster, name, **labels):
    return sum(page.of(name, **labels) for page in pages(cluster))


@pytest.fixture(scope="module")
def trio(tmp_path_factory):
    folder = tmp_path_factory.mktemp("metrics")
    (folder / "rules.yaml").write_text(RULES)
    with Cluster(folder, 3, "--rules", str(folder / "rules.yaml")) as cluster:
        yield cluster.start()


def ask_http(node, *bodies):
    with Http(node.http) as http1:
        for body in bodies:
            http1.send(request("POST", "/v1/check", body))
            yield http1.read()


# Each check is counted at the node that was asked, by how it was asked and what it was told, whoever decided it.
def test_checks_are_counted_where_they_were_asked(trio):
    before = pages(trio)
    with trio[0].client() as native, Resp(trio[1].resp) as redis, Http(trio[2].http) as http1:
        for at in range(30):
            native.check(f"native-{at}", long_limit(1))
            native.check(f"native-{at}", long_limit(1))
            redis.ask("CL.THROTTLE", f"redis-{at}", 0, 1, 3600, 1)
            http1.send(check(f"http-{at}", "5/h"))
            assert http1.read().status == 200
    after = pages(trio)
    grown = [[(now.of("tidegate_checks_total", protocol=protocol, outcome=outcome)
               - was.of("tidegate_checks_total", protocol=protocol, outcome=outcome))
              for protocol, outcome in (("native", "allow"), ("native", "deny"), ("redis", "allow"), ("http", "allow"))]
             for was, now in zip(before, after)]
    assert grown == [[30, 30, 0, 0], [0, 0, 30, 0], [0, 0, 0, 30]]
    timed = [now.of("tidegate_check_duration_seconds_count") - was.of("tidegate_check_duration_seconds_count")
             for was, now in zip(before, after)]
    assert timed == [60, 30, 30]
    for page in after:
        assert page.of("tidegate_check_duration_seconds_bucket", le="+Inf") == page.of(
            "tidegate_check_duration_seconds_count")
    assert sum(page.of("tidegate_check_duration_seconds_sum") for page in after) > 0
    # Two thirds of them were decided elsewhere.
    for page, node in zip(after, trio):
        others = {other.name for other in trio} - {node.name}
        assert all(page.of("tidegate_forwarded_checks_total", peer=other) > 0 for other in others)
        assert page.of("tidegate_decisions_total") > 0


# What is answered in parts, as other nodes decide some of it, is counted once all the same.
def test_a_list_that_is_answered_in_parts_is_counted_once(trio):
    before = Page(trio[0].http)
    with Http(trio[0].http) as http1, Resp(trio[0].resp) as redis:
        for turn in range(20):
            http1.send(request("POST", "/v1/check", {"checks": [{"key": f"list-{turn}-{at}", "rate": "9/h"}
                                                                for at in range(50)]}))
            assert http1.read().status == 200
            redis.pipeline([("CL.THROTTLE", f"line-{turn}-{at}", 8, 9, 3600, 1) for at in range(50)])
    after = Page(trio[0].http)
    for protocol in ("http", "redis"):
        assert [after.of(name, protocol=protocol) - before.of(name, protocol=protocol)
                for name in ("tidegate_checks_total", "tidegate_check_duration_seconds_count")] == [1000, 1000]


def test_rules_are_counted_by_name_and_trials_by_what_they_would_deny(trio):
    asked = [{"attributes": {"api": "/two", "user": "u"}}] * 3 + [{"attributes": {"api": "/trial", "user": "u"}}] * 3
    asked += [{"attributes": {"api": "/hostile", "user": "u"}}]
    assert [answer.status for answer in ask_http(trio[1], *asked)] == [200, 200, 429, 200, 200, 200, 200]
    page = Page(trio[1].http)
    assert (page.of(DECIDED, rule="two", outcome="allowed"), page.of(DECIDED, rule="two", outcome="denied")) == (2, 1)
    assert page.of(DECIDED, rule="trial", outcome="would_deny") == 2
    assert page.of(DECIDED, rule="trial", outcome="denied") == 0
    assert page.of(DECIDED, rule=HOSTILE, outcome="allowed") == 1
    assert page.of("tidegate_rules") == 3
    assert page.of(DECIDED, rule="other") == 0


# A change of the rules takes no counts away.
def test_a_rule_keeps_its_count_when_the_rules_change(new_cluster, tmp_path):
    first, second = tmp_path / "first.yaml", tmp_path / "second.yaml"
    rule = "  - {name: %s, match: {api: /%s}, key: [user], limits: [{rate: 9/h}]}\n"
    first.write_text("rules:\n" + rule % ("b", "b"))
    second.write_text("rules:\n" + rule % ("a", "a") + rule % ("b", "b"))
    node = new_cluster(1, "--rules", str(first)).start()[0]
    body = {"attributes": {"api": "/b", "user": "u"}}
    list(ask_http(node, body, body))
    first.write_text(second.read_text())
    node.signal(1)
    wait_for(lambda: Page(node.http).of("tidegate_rules") == 2, 20, "the new rules are in force")
    list(ask_http(node, body))
    page = Page(node.http)
    assert (page.of(DECIDED, rule="a"), page.of(DECIDED, rule="b", outcome="allowed")) == (0, 3)


def test_the_page_has_each_metric_of_the_reference_and_no_other(trio):
    page = Page(trio[0].http)
    told = (DOCS / "reference" / "tidegate-metrics.md").read_text()
    assert page.names() == set(re.findall(r"^- `((?:tidegate|process)_\w+)`: A ", told, re.MULTILINE))
    assert page.type == "text/plain; version=0.0.4; charset=utf-8"
    assert page.of("tidegate_members", state="alive") == 3
    assert page.of("tidegate_register_has_majority") == page.of("tidegate_healthy") == 1
    assert sum(each.of("tidegate_vnodes", role="deciding") for each in pages(trio)) == 4096
    assert page.of("process_resident_memory_bytes") > 1 << 20
    assert page.of("process_cpu_seconds_total") > 0
    assert 10 < page.of("process_open_fds") <= page.of("process_max_fds")
    assert abs(page.of("process_start_time_seconds") - time.time()) < 3600


def test_a_place_for_metrics_has_these_and_the_probes_alone(new_cluster):
    cluster = new_cluster(1)
    place = f"127.0.0.1:{cluster[0].port + 7}"
    cluster[0].arguments += ["--metrics", place, "--http", "off"]
    node = cluster.start()[0]
    assert Page(place).of("tidegate_healthy") == 1
    asked = [request("GET", "/livez"), request("GET", "/readyz"), request("HEAD", "/metrics"), check("k", "1/s"),
             request("GET", "/v1/auth"), request("OPTIONS", "/v1/check"), request("GET", "/v1/openapi.json"),
             request("POST", "/metrics", {}), request("GET", "/metrics", host="rebound.example"),
             request("GET", "/metrics", origin="http://elsewhere.example")]
    with Http(place) as http1:
        found = []
        for each in asked:
            http1.send(each)
            found.append(http1.read(head=each.startswith(b"HEAD")).status)
    assert found == [200, 200, 200, 404, 404, 404, 404, 405, 421, 403]
    assert Page(place).of("tidegate_checks_total") == 0
    assert node.status()["shards"][0]["checks"] == 0


# Of several shards, each counts what it was asked; the page is of all of them.
def test_the_shards_of_a_node_are_one_page(new_cluster):
    cluster = new_cluster(1, shards=3)
    place = f"127.0.0.1:{cluster[0].port + 7}"
    cluster[0].arguments += ["--metrics", place]
    node = cluster.start()[0]
    for endpoint in node.endpoints:
        with Client(endpoint) as client:
            for at in range(20):
                client.check(f"k{at}", long_limit(100))
    # Shards that were not asked for the page leave their figures once a second.
    page = wait_for(lambda: (page := Page(place)).of("tidegate_checks_total", outcome="allow") == 60 and page, 20,
                    "all shards tell")
    assert page.of("tidegate_forwarded_checks_total", peer="n1") == page.of("tidegate_forwarded_checks_total") > 0
    assert page.of("tidegate_keys") == 20
    assert page.of("tidegate_decisions_total") == 60


# A probe is answered at the place for metrics, too, while a node looks for its cluster; metrics are not.
def test_a_node_that_waits_has_probes_and_no_metrics(new_cluster):
    cluster = new_cluster(1)
    place = f"127.0.0.1:{cluster[0].port + 7}"
    cluster[0].arguments += ["--metrics", place, "--seed", f"127.0.0.1:{cluster[0].port + 99}"]
    cluster[0].spawn()
    found = []

    def look():
        with contextlib.suppress(OSError), Http(place) as http1:
            http1.send(request("GET", "/livez"), request("GET", "/metrics"), request("GET", "/readyz"))
            found[:] = [http1.read().status for _ in range(3)]
        return found == [200, 503, 503]
    wait_for(look, 20, "it says that it lives and waits")


# Sixty connections that ask for nothing but pages, ahead of the answers: the node goes on talking to the others.
@pytest.mark.undisturbed
def test_a_flood_of_scrapes_keeps_a_node_from_nothing(new_cluster, tmp_path, measured):
    (tmp_path / "rules.yaml").write_text(RULES_200)
    cluster = new_cluster(3, "--rules", str(tmp_path / "rules.yaml")).start()
    until = time.monotonic() + 5
    answered, complaints = [], set()

    def scrape():
        with Http(cluster[0].http) as http1:
            while time.monotonic() < until:
                http1.send(*[request("GET", "/metrics")] * 8)
                answered.extend(http1.read().status for _ in range(8))
    threads = [threading.Thread(target=scrape) for _ in range(60)]
    for thread in threads:
        thread.start()
    while time.monotonic() < until:
        for node in cluster[1], cluster[2]:
            complaints.update(node.status()["reasons"])
    for thread in threads:
        thread.join()
    measured("pages a second of one node", len(answered) // 5)
    assert set(answered) == {200} and len(answered) > 500
    assert not complaints


@pytest.mark.undisturbed
def test_a_page_of_200_rules_takes_less_than_five_milliseconds(new_cluster, tmp_path, measured):
    (tmp_path / "rules.yaml").write_text(RULES_200)
    cluster = new_cluster(3, "--rules", str(tmp_path / "rules.yaml")).start()
    host, port = cluster[0].http.split(":")
    connection = http.client.HTTPConnection(host, int(port), timeout=20)
    took = []
    for _ in range(200):
        start = time.perf_counter()
        connection.request("GET", "/metrics")
        length = len(connection.getresponse().read())
        took.append((time.perf_counter() - start) * 1000)
    connection.close()
    measured("/metrics of 200 rules, 3 nodes", f"{length >> 10} KiB, median {statistics.median(took):.2f} ms, "
             f"p99 {sorted(took)[-3]:.2f} ms")
    assert length > 50000 and statistics.median(took) <= 5

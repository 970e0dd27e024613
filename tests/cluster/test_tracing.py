"""Traces and metrics that nodes push: what they tell, and that a collector in trouble troubles nobody else."""

import contextlib
import json
import os
import random
import re
import time

import pytest

from harness import Cluster, wait_for
from harness.collector import Collector, attributes_of
from harness.http1 import Http, request
from harness.metrics import Page
from harness.waiting import scaled

TRACES, METRICS = "/v1/traces", "/v1/metrics"
RULES = """
rules:
  - {name: scarce, match: {api: /scarce}, key: [user], limits: [{rate: 1/h}]}
  - {name: wide, match: {api: /wide}, key: [user], limits: [{rate: 1000000/h}]}
"""
MANY = 4000
LINE = re.compile(r"trace_id=(\w{32}) span_id=(\w{16}) (.*)$", re.MULTILINE)


def parent(trace, span="00f067aa0ba902b7", flags="01"):
    return f"00-{trace}-{span}-{flags}"


def new_trace():
    return f"{random.getrandbits(128) | 1:032x}"


def traced(api, user, trace=None, **headers):
    body = {"attributes": {"api": api, "user": user}}
    return request("POST", "/v1/check", body, traceparent=parent(trace or new_trace()), **headers)


def figures(node):
    return node.fresh_status()["telemetry"]


@contextlib.contextmanager
def pushing(folder, count, *arguments, environment=None, endpoint=True):
    """Nodes that push to a collector, and that."""
    os.makedirs(folder, exist_ok=True)
    (folder / "rules.yaml").write_text(RULES)
    cluster = Cluster(folder, count, "--rules", str(folder / "rules.yaml"))
    with cluster, Collector(cluster.block.first + 99) as collector:
        for node in cluster:
            node.arguments += ["--otlp-endpoint", collector.url] if endpoint else []
            node.arguments += arguments
            node.environment = environment(collector) if environment else {}
        yield cluster.start(), collector


def ask_many(node, count, api="/wide"):
    """So many sampled requests, all of which are to be answered."""
    with Http(node.http) as http1:
        for start in range(0, count, 100):
            answers = http1.pipeline([traced(api, f"u{start + at}") for at in range(min(100, count - start))])
            assert {answer.status for answer in answers} == {200}


# ---- what is told --------------------------------------------------------------------------------


def test_a_trace_tells_who_decided_and_why_it_was_denied(tmp_path):
    with pushing(tmp_path, 3, "--otlp-metrics", "off", "--trace-log", "100") as (cluster, collector):
        asked = {}
        for at in range(12):
            with Http(cluster[0].http) as http1:
                for status in (200, 429):
                    trace = new_trace()
                    answer = http1.ask("POST", "/v1/check", {"attributes": {"api": "/scarce", "user": f"private-{at}"}},
                                       traceparent=parent(trace), tracestate="vendor=1")
                    assert answer.status == status
                    asked[trace] = (status, json.loads(answer.body))
        wait_for(lambda: len(collector.spans()) == len(asked), 20, "all spans have come")
        for span in collector.spans():
            status, decision = asked.pop(span["traceId"])
            told = span["attributes"]
            assert (span["parentSpanId"], span["traceState"]) == ("00f067aa0ba902b7", "vendor=1")
            assert (span["name"], span["kind"]) == ("POST /v1/check", 2)
            assert told["http.request.method"] == "POST" and told["url.path"] == told["http.route"] == "/v1/check"
            assert told["http.response.status_code"] == status
            assert told["tidegate.rule"] == "scarce" and told["tidegate.window"] == "1/h"
            assert told["tidegate.outcome"] == decision["outcome"] and told["tidegate.allowed"] == (status == 200)
            assert told["tidegate.decider"] == decision["node"] and told["tidegate.cost"] == 1
            assert told["tidegate.forwarded"] == (decision["node"] != cluster[0].name)
            assert span["status"] == {}
            assert span["resource"]["service.name"] == "tidegate"
            assert span["resource"]["service.instance.id"] == cluster[0].name
        assert not asked
        deciders = {span["attributes"]["tidegate.decider"] for span in collector.spans()}
        assert len(deciders) > 1  # else nothing was forwarded
        lines = LINE.findall(cluster[0].log())
        refused = {span["traceId"] for span in collector.spans() if not span["attributes"]["tidegate.allowed"]}
        assert {trace for trace, _, _ in lines} == refused
        assert all("request refused: POST /v1/check status=429 " in text and "rule=scarce window=1/h" in text
                   for _, _, text in lines)
        # Whose key it was goes nowhere.
        everything = b"".join(body for _, _, body, _ in collector.posts) + cluster[0].log().encode()
        assert b"private-" not in everything
        counted = figures(cluster[0])
        assert (counted["spans_sent"], counted["spans_dropped"], counted["spans_failed"]) == (24, 0, 0)
        assert Page(cluster[0].http).of("tidegate_trace_spans_total", result="sent") == 24


# The log has traces without a collector, in bounded lines, and what is left out is counted.
def test_lines_on_traces_are_bounded_and_have_fields_in_json(tmp_path):
    with pushing(tmp_path, 1, "--trace-log", "5", "--log-format", "json", endpoint=False) as (cluster, collector):
        with Http(cluster[0].http) as http1:
            http1.pipeline([traced("/scarce", "u")])
            start = time.monotonic()
            for _ in range(5):
                assert {answer.status for answer in http1.pipeline([traced("/scarce", "u")] * 100)} == {429}
            seconds = int(time.monotonic() - start) + 2
        wait_for(lambda: sum(figures(cluster[0])[name] for name in ("lines_written", "lines_dropped")) == 500, 20,
                 "each is written or counted")
        lines = [json.loads(line) for line in cluster[0].log().splitlines() if line.startswith("{")]
        lines = [line for line in lines if "trace_id" in line]
        assert 5 <= len(lines) == figures(cluster[0])["lines_written"] <= 5 * seconds
        assert all(re.fullmatch(r"[0-9a-f]{32}", line["trace_id"]) and line["message"].startswith("request refused: ")
                   for line in lines)
        assert not collector.posts
        page = Page(cluster[0].http)
        assert page.of("tidegate_trace_log_lines_total", result="dropped") == 500 - len(lines)


def points(metric):
    kind, = {"sum", "gauge", "histogram"} & set(metric)
    return kind, metric[kind]["dataPoints"]


# What is pushed is what Prometheus is told: the same names, labels and values.
def test_metrics_are_pushed_as_prometheus_reads_them(tmp_path):
    with pushing(tmp_path, 1, "--otlp-traces", "off", "--otlp-interval", "1s") as (cluster, collector):
        ask_many(cluster[0], 300)
        wait_for(lambda: collector.pages() and Page(cluster[0].http).of("tidegate_checks_total", protocol="http") == 300
                 and sum(int(point["asInt"]) for point in points(collector.pages()[-1]["tidegate_checks_total"])[1]) == 300,
                 20, "the requests are in what was pushed")
        first, page, last = collector.pages()[0], Page(cluster[0].http), collector.pages()[-1]
        assert set(last) == page.names()
        times = re.compile("process_|_age_|store_limit|_keys_room|uptime|_requests_|connections|http_responses|lag|clock|memory|offset")
        for name, metric in last.items():
            kind, data = points(metric)
            assert bool(metric[kind].get("isMonotonic")) == name.endswith("_total")
            assert metric[kind].get("aggregationTemporality") == (None if kind == "gauge" else 2)
            for point in data:
                labels = attributes_of(point)
                if kind == "histogram":
                    assert sum(map(int, point["bucketCounts"])) == int(point["count"])
                    assert int(point["count"]) == page.of(f"{name}_count", **labels)
                    assert len(point["bucketCounts"]) == len(point["explicitBounds"]) + 1
                    bounds = dict(zip(point["explicitBounds"], map(int, point["bucketCounts"])))
                    assert min(bounds) > 0 and sorted(bounds) == point["explicitBounds"]
                elif not times.search(name) and "pushes" not in name:
                    number = point["asDouble"] if "asDouble" in point else int(point["asInt"])
                    assert number == page.of(name, **labels), (name, labels)
        start = {point["startTimeUnixNano"] for pushed in (first, last) for metric in pushed.values()
                 for point in points(metric)[1] if "startTimeUnixNano" in point}
        assert len(start) == 1  # they count from the start of the process, always
        assert all(path == METRICS for path, _, _, _ in collector.posts)
        wait_for(lambda: len(collector.posts) >= 4, 20, "they are pushed again and again")
        gaps = [later[3] - sooner[3] for sooner, later in zip(collector.posts, collector.posts[1:])]
        assert min(gaps[1:]) > 0.5  # not more often than asked


def test_the_environment_says_where_to_push(tmp_path):
    def environment(collector):
        return {"OTEL_EXPORTER_OTLP_ENDPOINT": f"{collector.url}/otlp", "OTEL_SERVICE_NAME": "limits",
                "OTEL_EXPORTER_OTLP_HEADERS": "api-key=a%20secret,x=1", "OTEL_RESOURCE_ATTRIBUTES": "team=a%2Cb",
                "OTEL_TRACES_SAMPLER": "always_on", "OTEL_METRICS_EXPORTER": "none",
                "OTEL_EXPORTER_OTLP_TIMEOUT": "nonsense"}
    with pushing(tmp_path, 1, environment=environment, endpoint=False) as (cluster, collector):
        with Http(cluster[0].http) as http1:
            assert http1.ask("POST", "/v1/check", {"key": "k", "rate": "1/h"}).status == 200
            assert http1.ask("GET", "/livez").status == 200  # begins no trace by itself
        wait_for(lambda: collector.posts, 20, "a span has come")
        (path, headers, body, _), = collector.posts
        assert path == "/otlp/v1/traces"
        assert (headers["api-key"], headers["x"], headers["Content-Type"]) == ("a secret", "1", "application/json")
        resource = json.loads(body)["resourceSpans"][0]
        assert attributes_of(resource["resource"])["service.name"] == "limits"
        assert attributes_of(resource["resource"])["team"] == "a,b"
        span, = resource["scopeSpans"][0]["spans"]
        assert "parentSpanId" not in span and int(span["traceId"], 16) and int(span["spanId"], 16)
        log = cluster[0].log()
        assert "OTEL_EXPORTER_OTLP_TIMEOUT is ignored: " in log and "secret" not in log


def test_nothing_is_pushed_unless_it_is_asked_for(tmp_path):
    with pushing(tmp_path, 1, endpoint=False) as (cluster, collector):
        threads = len(os.listdir(f"/proc/{cluster[0].pid}/task"))
        ask_many(cluster[0], 200)
        assert len(os.listdir(f"/proc/{cluster[0].pid}/task")) == threads
        with open(f"/proc/{cluster[0].pid}/task/{cluster[0].pid}/children", encoding="ascii") as children:
            assert children.read() == ""
        assert not collector.posts
        assert set(figures(cluster[0]).values()) == {0}


# ---- who asks ------------------------------------------------------------------------------------

HOSTILE = ["", "-", "00", "00-" + "0" * 32 + "-" + "1" * 16 + "-01", "00-" + "1" * 32 + "-" + "0" * 16 + "-01",
           "ff-" + "1" * 32 + "-" + "1" * 16 + "-01", "00-" + "A" * 32 + "-" + "1" * 16 + "-01",
           "00-" + "1" * 32 + "-" + "1" * 16 + "-01-more", "00-" + "1" * 32 + "-" + "1" * 16 + "-zz",
           "00-" + "%s" * 16 + "-" + "%n" * 8 + "-01", "'\"><script>", "x" * 4000, "00-" + "1" * 32, "\t\t01\t",
           "00-" + "1" * 32 + "-" + "1" * 16 + "-01,00-" + "2" * 32 + "-" + "2" * 16 + "-01"]


def test_whatever_a_request_says_of_its_trace_it_is_answered_as_any_other(tmp_path):
    with pushing(tmp_path, 1, "--otlp-metrics", "off") as (cluster, collector):
        with Http(cluster[0].http) as http1:
            for at, value in enumerate(HOSTILE):
                for state in ("a=1", "x" * 5000, "\"\\,=" * 100):
                    answer = http1.ask("POST", "/v1/check", {"key": f"k{at}", "rate": "3/h"}, traceparent=value, tracestate=state)
                    assert answer.status == 200
            twice = traced("/wide", "u").replace(b"\r\n\r\n", b"\r\nTraceParent: " + parent("1" * 32).encode() + b"\r\n\r\n", 1)
            http1.send(twice)
            assert http1.read().status == 200
            http1.send(traced("/wide", "u", "2" * 32, tracestate="\"<\\" * 50))
            assert http1.read().status == 200
        wait_for(lambda: any(span["traceId"] == "2" * 32 for span in collector.spans()), 20, "the one that is valid has come")
        span, = collector.spans()
        assert span["traceState"] == "\"<\\" * 50


# ---- a collector in trouble ----------------------------------------------------------------------


def settled(node, total):
    """Whether each sampled request is counted as sent, or as lost in one way."""
    counted = figures(node)
    return sum(counted[name] for name in ("spans_sent", "spans_rejected", "spans_failed", "spans_dropped")) == total


@pytest.mark.parametrize("mode", [400, 413, 503, "hang", "huge", "dead"])
def test_a_collector_in_trouble_costs_spans_and_nothing_else(tmp_path, mode):
    with pushing(tmp_path, 1, "--otlp-timeout", "500ms", "--otlp-interval", "1s") as (cluster, collector):
        node = cluster[0]
        ask_many(node, 100)
        wait_for(lambda: figures(node)["spans_sent"] == 100 and figures(node)["pushes_sent"] > 0, 20, "all is well")
        memory = node.anonymous_memory()
        collector.mode = mode
        if mode == "dead":
            collector.close()
        before = figures(node)
        start = time.monotonic()
        ask_many(node, 3 * MANY)
        took_s = time.monotonic() - start
        assert took_s < scaled(20)  # nobody waits for half a second at a time
        assert Page(node.http).of("tidegate_checks_total", protocol="http", outcome="allow") == 100 + 3 * MANY
        lost = "spans_sent" if mode == "huge" else "spans_failed" if mode in (400, 413) else "spans_dropped"
        wait_for(lambda: figures(node)[lost] > before[lost], 60, f"{lost} are counted")
        if mode == "huge":
            wait_for(lambda: len(collector.posts) > 4, 60, "heads and bodies were without end")
            assert 0 < collector.poured < 16 << 20  # what sockets hold, of 64 MiB
        else:
            wait_for(lambda: figures(node)["pushes_failed" if mode in (400, 413) else "pushes_dropped"] > 0, 60,
                     "so are pages of metrics")
            assert re.search(r"warn +traces (are not taken by|do not reach) the collector at ", node.log())
        assert node.anonymous_memory() - memory < 48 << 20
        stop = time.monotonic()
        assert node.stop() == 0
        assert time.monotonic() - stop < scaled(8)  # of which the collector gets two seconds
        collector.ended.set()


def test_a_collector_that_says_when_is_asked_then_and_nothing_is_lost(tmp_path):
    with pushing(tmp_path, 1, "--otlp-metrics", "off") as (cluster, collector):
        collector.mode, collector.headers = 503, {"Retry-After": "3"}
        ask_many(cluster[0], 50)
        wait_for(lambda: collector.posts, 20, "it was asked once")
        first = collector.posts[0]
        collector.mode, collector.headers = 200, {}
        ask_many(cluster[0], 50)
        wait_for(lambda: settled(cluster[0], 100), 20, "all was sent in the end")
        assert figures(cluster[0])["spans_sent"] == 100
        assert collector.posts[1][3] - first[3] >= 2.9
        assert collector.posts[1][2] == first[2]  # the same message again
        assert "traces are taken by the collector" in cluster[0].log()


def test_what_a_collector_does_not_take_is_counted(tmp_path):
    with pushing(tmp_path, 1, "--otlp-metrics", "off") as (cluster, collector):
        collector.answer = json.dumps({"partialSuccess": {"rejectedSpans": "1", "errorMessage": "no"}}).encode()
        ask_many(cluster[0], 20)
        wait_for(lambda: settled(cluster[0], 20), 20, "all are counted")
        assert figures(cluster[0])["spans_rejected"] == len(collector.posts)


# A node that stops sends what it has; so does one whose collector hangs, for two seconds.
def test_the_last_spans_are_sent_before_a_node_ends(tmp_path):
    with pushing(tmp_path, 1, "--otlp-metrics", "off") as (cluster, collector):
        ask_many(cluster[0], 1500)
        assert cluster[0].stop() == 0
        assert len(collector.spans()) == 1500


def test_a_collector_that_hangs_keeps_no_node_from_ending(tmp_path):
    with pushing(tmp_path, 1, "--otlp-timeout", "60s") as (cluster, collector):
        collector.mode = "hang"
        ask_many(cluster[0], 1500)
        wait_for(lambda: TRACES in {path for path, _, _, _ in collector.posts}, 20, "a message is on its way")
        start = time.monotonic()
        assert cluster[0].stop() == 0
        assert 1 < time.monotonic() - start < scaled(8)
        collector.ended.set()


# The spans of a node of several shards come together.
def test_each_shard_tells_its_own_requests(tmp_path):
    (tmp_path / "rules.yaml").write_text(RULES)
    cluster = Cluster(tmp_path, 1, "--rules", str(tmp_path / "rules.yaml"), "--otlp-metrics", "off", shards=2)
    with cluster, Collector(cluster.block.first + 99) as collector:
        cluster[0].arguments += ["--otlp-endpoint", collector.url]
        cluster.start()
        with contextlib.ExitStack() as stack:
            for at in range(16):
                http1 = stack.enter_context(Http(cluster[0].http))
                http1.send(traced("/wide", f"u{at}"))
                assert http1.read().status == 200
        wait_for(lambda: len(collector.spans()) == 16, 20, "all have come")


def test_an_address_that_is_none_keeps_the_node_from_starting(tmp_path):
    with Cluster(tmp_path, 1, "--otlp-endpoint", "collector:4318") as cluster:
        cluster[0].spawn()
        assert cluster[0].wait_exit() == 2
        assert "--otlp-endpoint: found \"collector:4318\"; expected http://HOST:PORT" in cluster[0].log()


def test_a_name_that_is_nowhere_troubles_nobody(tmp_path):
    with pushing(tmp_path, 1, "--otlp-endpoint", "http://nowhere.invalid:4318", endpoint=False) as (cluster, _):
        ask_many(cluster[0], 100)
        wait_for(lambda: "traces do not reach the collector at http://nowhere.invalid" in cluster[0].log(), 30, "it is told")
        assert cluster[0].stop() == 0

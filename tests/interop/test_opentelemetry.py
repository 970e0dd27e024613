"""What nodes push, judged by OpenTelemetry's own schema, and taken by its own collector."""

import base64
import gzip
import json
import os
import pathlib
import re
import subprocess
import urllib.request

import pytest
from kits import go, pip

from harness import Cluster, wait_for
from harness.collector import Collector
from harness.http1 import Http, request
from harness.metrics import Page
from harness.waiting import scaled

SECONDS = 240
VERSION = "v0.165.0"
TRACE = "4bf92f3577b34da6a3ce929d0e0e4736"
PARENT = f"00-{TRACE}-00f067aa0ba902b7-01"
HOSTILE = '<img src=x onerror=alert(1)>"} 1\\'
RULES = f"""
rules:
  - {{name: scarce, match: {{api: /scarce}}, key: [user], limits: [{{rate: 1/h}}]}}
  - {{name: '{HOSTILE}', match: {{api: /hostile}}, key: [user], limits: [{{rate: 1/h}}]}}
"""
# Ids are hexadecimal in OTLP's JSON, and base64 in that of Protocol Buffers; else both are one.
JUDGE = """
import base64, json, sys
from google.protobuf import json_format
from opentelemetry.proto.collector.metrics.v1.metrics_service_pb2 import ExportMetricsServiceRequest
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest

def put_ids(value):
    if isinstance(value, list):
        return [put_ids(item) for item in value]
    if not isinstance(value, dict):
        return value
    return {key: base64.b64encode(bytes.fromhex(item)).decode() if key in ("traceId", "spanId", "parentSpanId")
            else put_ids(item) for key, item in value.items()}

found = []
for path, body in json.load(sys.stdin):
    message = ExportTraceServiceRequest() if path == "/v1/traces" else ExportMetricsServiceRequest()
    json_format.ParseDict(put_ids(json.loads(base64.b64decode(body))), message)
    if path == "/v1/traces":
        found += [[span.trace_id.hex(), span.span_id.hex(), span.parent_span_id.hex(), span.name, span.kind, span.status.code,
                   {item.key: item.value.WhichOneof("value") for item in span.attributes}]
                  for resource in message.resource_spans for scope in resource.scope_spans for span in scope.spans]
    else:
        found += [[metric.name, metric.WhichOneof("data"),
                   len(getattr(metric, metric.WhichOneof("data")).data_points)]
                  for resource in message.resource_metrics for scope in resource.scope_metrics for metric in scope.metrics]
print(json.dumps(found))
"""
PROGRAM = """package main

import (
	"log"

	"github.com/open-telemetry/opentelemetry-collector-contrib/exporter/prometheusexporter"
	"go.opentelemetry.io/collector/component"
	"go.opentelemetry.io/collector/confmap"
	"go.opentelemetry.io/collector/confmap/provider/fileprovider"
	"go.opentelemetry.io/collector/exporter"
	"go.opentelemetry.io/collector/exporter/debugexporter"
	"go.opentelemetry.io/collector/exporter/otlphttpexporter"
	"go.opentelemetry.io/collector/otelcol"
	"go.opentelemetry.io/collector/receiver"
	"go.opentelemetry.io/collector/receiver/otlpreceiver"
	"go.opentelemetry.io/collector/service/telemetry/otelconftelemetry"
)

func components() (otelcol.Factories, error) {
	factories := otelcol.Factories{Telemetry: otelconftelemetry.NewFactory()}
	var err error
	if factories.Receivers, err = otelcol.MakeFactoryMap[receiver.Factory](otlpreceiver.NewFactory()); err != nil {
		return factories, err
	}
	factories.Exporters, err = otelcol.MakeFactoryMap[exporter.Factory](
		debugexporter.NewFactory(), otlphttpexporter.NewFactory(), prometheusexporter.NewFactory())
	return factories, err
}

func main() {
	settings := otelcol.CollectorSettings{
		BuildInfo: component.BuildInfo{Command: "collector", Version: "1"},
		Factories: components,
		ConfigProviderSettings: otelcol.ConfigProviderSettings{ResolverSettings: confmap.ResolverSettings{
			ProviderFactories: []confmap.ProviderFactory{fileprovider.NewFactory()},
			DefaultScheme:     "file",
		}},
	}
	if err := otelcol.NewCommand(settings).Execute(); err != nil {
		log.Fatal(err)
	}
}
"""
CONFIG = """
receivers: {otlp: {protocols: {http: {endpoint: "127.0.0.1:PORT"}}}}
exporters: {debug: {verbosity: detailed, sampling_initial: 1000000}}
service:
  telemetry: {metrics: {level: none}}
  pipelines:
    traces: {receivers: [otlp], exporters: [debug]}
    metrics: {receivers: [otlp], exporters: [debug]}
"""


@pytest.fixture
def node(tmp_path):
    """One node that is not started yet, and a port beside its own."""
    (tmp_path / "rules.yaml").write_text(RULES)
    with Cluster(tmp_path, 1, "--rules", str(tmp_path / "rules.yaml"), "--otlp-interval", "1s") as cluster:
        cluster[0].cluster, cluster[0].beside = cluster, cluster.block.first + 98
        yield cluster[0]


def ask(node):
    """A request of each kind: allowed, refused, several, none, and one that leads nowhere."""
    with Http(node.http) as http1:
        for api in ("/scarce", "/scarce", "/hostile", "/hostile"):
            http1.send(request("POST", "/v1/check", {"attributes": {"api": api, "user": "u"}}, traceparent=PARENT))
            assert http1.read().status in (200, 429)
        checks = {"checks": [{"attributes": {"api": "/scarce", "user": f"l{at % 5}"}} for at in range(9)]}
        assert http1.ask("POST", "/v1/check", checks, traceparent=PARENT, tracestate="a=1").status == 200
        assert http1.ask("POST", "/v1/check", {}, traceparent=PARENT).status == 400
        assert http1.ask("GET", "/nowhere", traceparent=PARENT).status == 404
    return 7


def test_messages_are_those_of_the_schema(node):
    python = os.path.join(pip("otlp", "opentelemetry-proto==1.45.2"), "bin", "python")
    with Collector(node.beside) as collector:
        node.arguments += ["--otlp-endpoint", collector.url]
        node.cluster.start()
        count = ask(node)
        wait_for(lambda: len(collector.spans()) == count and len(collector.pages()) >= 2, 20, "both have come")
        bodies = [(path, base64.b64encode(body).decode()) for path, _, body, _ in collector.posts]
        names = Page(node.http).names()
    judged = subprocess.run([python, "-c", JUDGE], input=json.dumps(bodies), capture_output=True, text=True, check=False,
                            timeout=scaled(60))
    assert judged.returncode == 0, judged.stderr
    spans = [found for found in json.loads(judged.stdout) if len(found) == 7]
    metrics = [found for found in json.loads(judged.stdout) if len(found) == 3]
    assert len(spans) == count and {name for name, _, _ in metrics} == names
    for trace, span, parent, name, kind, status, kinds in spans:
        assert (trace, parent, kind, status) == (TRACE, "00f067aa0ba902b7", 2, 0)
        assert re.fullmatch("[0-9a-f]{16}", span) and name in ("POST /v1/check", "GET")
        assert kinds["http.response.status_code"] == "int_value" and kinds["http.request.method"] == "string_value"
    assert {data for _, data, _ in metrics} == {"sum", "gauge", "histogram"}
    assert sum(points for _, _, points in metrics) > 200


class Real:
    """OpenTelemetry's collector, which writes what it takes."""

    def __init__(self, program, folder, config):
        (folder / "collector.yaml").write_text(config)
        self.log = folder / "collector.log"
        with open(self.log, "wb") as log:
            self.process = subprocess.Popen([program, "--config", str(folder / "collector.yaml")], stdout=log, stderr=log)

    def __enter__(self):
        wait_for(lambda: "Everything is ready" in self.text(), 30, "the collector is ready")
        return self

    def __exit__(self, *ignored):
        self.process.terminate()
        self.process.wait()

    def text(self):
        assert self.process.poll() is None, self.log.read_text()
        return self.log.read_text()


@pytest.fixture(scope="module")
def program():
    parts = ("otelcol", "receiver/otlpreceiver", "exporter/debugexporter", "exporter/otlphttpexporter", "service")
    return go("collector", PROGRAM, *(f"go.opentelemetry.io/collector/{part}@{VERSION}" for part in parts),
              "go.opentelemetry.io/collector/confmap/provider/fileprovider@v1.71.0",
              "github.com/open-telemetry/opentelemetry-collector-contrib/exporter/prometheusexporter@v0.165.1")


# The collector comes late, and takes what has waited.
def test_the_real_collector_takes_traces_and_metrics(program, node, tmp_path):
    node.arguments += ["--otlp-endpoint", f"http://127.0.0.1:{node.beside}"]
    node.cluster.start()
    count = ask(node)
    with Real(program, tmp_path, CONFIG.replace("PORT", str(node.beside))) as collector:
        wait_for(lambda: node.fresh_status()["telemetry"]["spans_sent"] == count, 60, "all spans are sent")
        wait_for(lambda: collector.text().count(f"Trace ID       : {TRACE}") == count, 20, "the collector has them all")
        wait_for(lambda: "-> Name: tidegate_healthy" in collector.text(), 60, "it has metrics, too")
        text = collector.text()
    assert text.count("Parent ID      : 00f067aa0ba902b7") == count
    assert "Kind           : Server" in text and "TraceState     : a=1" in text
    assert f"tidegate.rule: Str({HOSTILE})" in text and "tidegate.outcome: Str(deny)" in text
    assert "service.name: Str(tidegate)" in text
    assert "AggregationTemporality: Cumulative" in text and "IsMonotonic: true" in text
    counted = node.fresh_status()["telemetry"]
    assert counted["spans_rejected"] == counted["spans_dropped"] == counted["spans_failed"] == 0
    assert counted["pushes_sent"] > 0


# The example of the documents: traces go on to whoever shows them, and Prometheus finds the metrics.
def test_the_example_of_a_collector_passes_both_on(program, node, tmp_path):
    config = (pathlib.Path(__file__).resolve().parents[2] / "deploy" / "monitoring" / "collector.yaml").read_text()
    changed = {"0.0.0.0:4318": f"127.0.0.1:{node.beside}", "0.0.0.0:9464": f"127.0.0.1:{node.beside - 1}",
               "http://jaeger:4318": f"http://127.0.0.1:{node.beside + 1}"}
    for old, new in changed.items():
        assert config.count(old) == 1
        config = config.replace(old, new)
    with Collector(node.beside + 1) as jaeger, Real(program, tmp_path, config):
        node.arguments += ["--otlp-endpoint", f"http://127.0.0.1:{node.beside}"]
        node.cluster.start()
        ask(node)
        wait_for(lambda: any(bytes.fromhex(TRACE) in body if headers.get("Content-Encoding") != "gzip"
                             else bytes.fromhex(TRACE) in gzip.decompress(body) for _, headers, body, _ in jaeger.posts),
                 60, "traces have come")
        assert {path for path, _, _, _ in jaeger.posts} == {"/v1/traces"}

        def scraped():
            with urllib.request.urlopen(f"http://127.0.0.1:{node.beside - 1}/metrics", timeout=scaled(20)) as page:
                return page.read().decode()

        healthy = wait_for(lambda: re.search(r"^tidegate_healthy\{(.*)\} 1$", scraped(), re.MULTILINE), 60, "so have metrics")
        assert f'service_instance_id="{node.name}"' in healthy[1]
        names = set(re.findall("^# TYPE (\\S+) ", scraped(), re.MULTILINE))
        # A metric without a point is none there.
        assert Page(node.http).names() - names <= {"tidegate_replication_lag_seconds"}
